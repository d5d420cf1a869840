# SPDX-License-Identifier: MIT
"""Programs that people run, under `verbena run`, each beside the same program without it: over TCP, or through its own shared memory.

Two hosts joined by veth at MTU 1500, and one host. How the programs are started is tests/pylib/workloads, which the tests use, too.
"""

from benchlib.place import Place
from benchlib.report import machine
from benchlib.rows import Row
from benchlib.wire import against
from pylib.workloads import ceph, mpi, qemu, sockets, ucx
from pylib.workloads.ground import Ground, plain, prepare

MIB = 1 << 20
PAGE = "applications.md"
BY_UCX_TCP = "tcp,self"

# key, unit, what stands beside it, goal, whether it is the most that may be
GOALS = (
    ("UCX tag_lat 8 B, two hosts", "µs", "TCP", 0.9, True),
    ("UCX tag_bw 1 MiB, two hosts", "MB/s", "TCP", 1.0, False),
    ("Open MPI 8 B, two hosts", "µs", "TCP", 0.9, True),
    ("Open MPI 1 MiB, two hosts", "MB/s", "TCP", 1.0, False),
    ("Open MPI 8 B, one host", "µs", "shared memory", 3.0, True),
    ("Open MPI 1 MiB, one host", "MB/s", "shared memory", 0.7, False),
    ("iperf3, two hosts", "Mb/s", "TCP", 0.7, False),
    ("iperf3, one host", "Mb/s", "TCP", 1.0, False),
    ("redis-benchmark GET 1 client, two hosts", "/s", "TCP", 0.7, False),
    ("redis-benchmark GET 50 clients, two hosts", "/s", "TCP", 0.7, False),
    ("redis-benchmark GET 1 client, one host", "/s", "TCP", 1.0, False),
    ("redis-benchmark GET 50 clients, one host", "/s", "TCP", 1.0, False),
    ("QEMU migration, two hosts", "MB/s", "TCP", 0.8, False),
    ("rados bench write 4 KiB, two hosts", "MB/s", "TCP", 0.8, False),
    ("rados bench write 1 MiB, two hosts", "MB/s", "TCP", 0.8, False),
)


class Spot(Ground, Place):
    """A place as the programs' tests have it: `verbena run` does everything."""

    def __init__(self, network, name):
        self.network = network
        prepare(network)
        super().__init__(network, name)
        self.programs, self.mpi, self.image = sockets.Sockets(self), mpi.OpenMpi(self), None

    def ready(self, host):
        host.start(*self.verbena("/usr/bin/ibv_asyncwatch", "-d", self.device))

    def migrate(self, kind, wrap, size):
        """MB/s"""
        if self.image is None:
            self.image = qemu.Migration(self, size)
        return size / 1e6 / self.image.move(kind, wrap)

    def rados(self, messenger, wrap, seconds):
        """MB/s of writes of 4 KiB and of 1 MiB. A cluster of its own each time: two would take each other's processors."""
        cluster = ceph.Cluster(self, messenger, wrap, ceph.SLEEPS_AT_ONCE if messenger == "async+rdma" else "")
        try:
            # The disk is memory: the first pass over it measures how quickly the kernel clears pages.
            cluster.write_rate(MIB, seconds)
            return [cluster.write_rate(size, seconds) for size in (4096, MIB)]
        finally:
            cluster.stop()


def both(keys, measure, better, needs):
    """Two rows, with Verbena and without, to be measured one after the other; `measure` has True or False and returns a figure for each key."""
    keys = keys if isinstance(keys, list) else [keys]
    return [Row([(key, "Verbena") for key in keys], lambda: measure(True), better, needs),
            Row([(key, "beside") for key in keys], lambda: measure(False), None, needs)]


def ucx_rows(spot, quick):
    def measure(ours, test, size, count, figure):
        return ucx.measure(spot, "rc,self" if ours else BY_UCX_TCP, test, size, count, spot.verbena if ours else plain)[figure]
    counts = (5000, 500) if quick else (50000, 3000)
    return (both("UCX tag_lat 8 B, two hosts", lambda ours: measure(ours, "tag_lat", 8, counts[0], "median"), "less", ucx.NEEDS) +
            both("UCX tag_bw 1 MiB, two hosts", lambda ours: measure(ours, "tag_bw", MIB, counts[1], "bandwidth"), "more", ucx.NEEDS))


def mpi_rows(spot, theirs):
    def measure(ours):
        return mpi.pace(spot.mpi.run(spot.verbena, *spot.mpi.UCX) if ours else spot.mpi.run(plain, *theirs))
    return both(["Open MPI 8 B, " + spot.where(), "Open MPI 1 MiB, " + spot.where()], measure, ["less", "more"], mpi.NEEDS)


def socket_rows(spot, quick):
    def measure(ours, serve, rate):
        return spot.programs.rate(serve, rate, spot.sockets if ours else plain)
    programs, found = spot.programs, []
    found += both("iperf3, " + spot.where(), lambda ours: measure(ours, programs.iperf3, programs.iperf3_rate), "more", ("iperf3",))
    for clients, count in ((1, 5000 if quick else 20000), (50, 20000 if quick else 100000)):
        def redis(ours, clients=clients, count=count):
            return measure(ours, programs.redis, lambda wrap: programs.redis_rate(wrap, count, "-c", str(clients)))
        found += both("redis-benchmark GET %d client%s, %s" % (clients, "s" if clients > 1 else "", spot.where()), redis, "more",
                      ("redis-server", "redis-benchmark"))
    return found


def rows(network, staged, build, quick):
    pair, host = Spot(network, "veth1500"), Spot(network, "lo")
    size, seconds = (64 * MIB, 1) if quick else (512 * MIB, 5)
    found = ucx_rows(pair, quick) + mpi_rows(pair, pair.mpi.TCP) + mpi_rows(host, host.mpi.SHARED_MEMORY)
    found += socket_rows(pair, quick) + socket_rows(host, quick)
    found += both("QEMU migration, two hosts", lambda ours: pair.migrate(
        "rdma" if ours else "tcp", pair.verbena if ours else plain, size), "more", qemu.NEEDS)
    found += both(["rados bench write 4 KiB, two hosts", "rados bench write 1 MiB, two hosts"], lambda ours: pair.rados(
        "async+rdma" if ours else "async+posix", pair.verbena if ours else plain, seconds), "more", ceph.NEEDS)
    return found


def table(results, repeat, quick):
    """The report as Markdown."""
    lines = [machine(repeat), "", "| veth, MTU 1500, or one host | Verbena | beside it | | goal | |", "|---|---|---|---|---|---|"]
    for key, unit, beside, goal, at_most in GOALS:
        ours, theirs = results[(key, "Verbena")], results[(key, "beside")]
        lines.append("| %s | %s %s | %s %s | %s" % (key, "%.4g" % ours, unit, "%.4g" % theirs, unit, against(ours, theirs, beside, goal, at_most)))
    return "\n".join(lines)
