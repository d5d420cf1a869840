# SPDX-License-Identifier: MIT
"""Two processes on one host, through memory: what our verbs do against what the machine and other software can do.

Each row of the table sets a figure of ours beside a figure of a peer that was measured in the same round, and says which ratio is the
goal. Peers: bench/memory_peers.c (no protocol at all) and UCX over shared memory, as Debian builds it.
"""

import math
import re

from benchlib import BenchFailed
from benchlib.place import Place, stage_program
from benchlib.report import machine
from benchlib.rows import Row

MIB = 1 << 20
UCX_PORT = 13337
OUR_PORT = 18520

# (key, words, ours, peer, factor by which the peer's figure is multiplied, True: ours must not be above it; False: not below)
GOALS = (
    ("WRITE latency, 8 B", "write_lat", "process_vm_writev hand-over", "raw_copy_lat", 1.3, True),
    ("WRITE latency, 8 B, memfd", "memfd_lat", "cache line hand-over", "line_lat", 2.0, True),
    ("WRITE latency, 8 B, ibv_alloc_dm", "dm_lat", "cache line hand-over", "line_lat", 2.0, True),
    ("SEND latency, 8 B, inline (`shared_region`)", "talk_lat", "UCX tag_lat", "ucx_lat", 1.5, True),
    ("SEND latency, 8 B (`ib_send_lat`, which does without inline)", "send_lat", "UCX tag_lat", "ucx_lat", 1.5, True),
    ("SEND latency, 8 B, XRC (`ib_send_lat -c XRC`)", "xrc_lat", "RC", "send_lat", None, True),
    ("SEND latency, 8 B, UD (`ib_send_lat -c UD`)", "datagram_lat", "RC", "send_lat", None, True),
    ("WRITE bandwidth, 1 MiB (`shared_region`)", "beside_write_bw", "process_vm_writev, the same pages", "beside_raw_write_bw", 0.95, False),
    ("READ bandwidth, 1 MiB (`shared_region`)", "beside_read_bw", "process_vm_readv, the same pages", "beside_raw_read_bw", 0.95, False),
    ("WRITE bandwidth, 1 MiB (`ib_write_bw`)", "write_bw", "process_vm_writev, other pages", "raw_write_bw", None, False),
    ("READ bandwidth, 1 MiB (`ib_read_bw`)", "read_bw", "process_vm_readv, other pages", "raw_read_bw", None, False),
    ("WRITE bandwidth, 1 MiB, memfd", "memfd_write_bw", "memcpy", "memcpy_bw", 0.9, False),
    ("READ bandwidth, 1 MiB, memfd", "memfd_read_bw", "memcpy", "memcpy_bw", 0.9, False),
    ("SEND bandwidth, 1 MiB", "send_bw", "UCX tag_bw", "ucx_bw", 1.0, False),
    ("SEND messages/s, 8 B", "send_rate", "UCX tag_bw", "ucx_rate", 0.7, False),
    ("WRITE messages/s, 8 B, memfd", "memfd_rate", "UCX tag_bw", "ucx_rate", 0.7, False),
    ("WRITE messages/s, 8 B", "write_rate", "process_vm_writev, one after the other", "raw_rate", None, False),
)


class SameHost:
    """One host with both programs on it. Latencies in ns, bandwidths in GB/s, rates in messages a second."""

    def __init__(self, network, staged, build, quick):
        network.own_tmp()    # ib_send_lat -c XRC names its domain by a file there
        self.place = Place(network, "lo", environment={"VERBENA_WIRE": "auto"}, pinned=True)
        self.host = self.place.client
        self.peers = stage_program(staged, build, "memory_peers")
        self.region = stage_program(staged, build, "shared_region")
        self.few = quick

    def count(self, many):
        return many // 5 if self.few else many

    # ---- peers ----

    def peer(self, *words):
        result = self.host.run(self.peers, *map(str, words))
        if result.code:
            raise BenchFailed(str(result))
        return float(result.out)

    def ucx(self, test, size, count):
        """(50th percentile in us, MB/s overall, messages/s overall)"""
        environment = {"UCX_TLS": "posix,cma", "UCX_WARN_UNUSED_ENV_VARS": "n"}
        server = self.host.start(*self.place.pins[0], "/usr/bin/ucx_perftest", "-p", str(UCX_PORT), environment=environment)
        if not server.wait_until(lambda process: process.listens(UCX_PORT)):
            raise BenchFailed(str(server.wait(0)))
        result = self.host.run(*self.place.pins[1], "/usr/bin/ucx_perftest", "127.0.0.1", "-p", str(UCX_PORT), "-t", test, "-s",
                               str(size), "-n", str(count), "-w", str(count // 10), "-f", timeout=60, environment=environment)
        server.wait(10 if result.code == 0 else 1)
        row = re.search(r"(?m)^(?:Final:)?\s*\d+((?:\s+[\d.]+){7})\s*$", result.out)
        if result.code or not row:
            raise BenchFailed(str(result))
        numbers = [float(word) for word in row.group(1).split()]
        return numbers[0], numbers[4], numbers[6]

    # ---- ours ----

    def perftest_latency(self, tool, *options):
        return self.place.perftest(tool, ["-s", "8", "-I", "64", "-n", str(self.count(100000)), *options])[4] * 1000

    def xrc_latency(self):
        return self.perftest_latency("ib_send_lat", "-c", "XRC")

    def perftest_bandwidth(self, tool, size=MIB, count=10000, *options):
        return self.place.perftest(tool, ["-s", str(size), "-n", str(self.count(count)), "--report_gbits", *options])[3] / 8

    def perftest_rate(self, tool, *options):
        return self.place.perftest(tool, ["-s", "8", "-n", str(self.count(1000000)), "--report_gbits", *options])[4] * 1e6

    def shared(self, memory, test, size, count):
        """The numbers that shared_region prints."""
        place = self.place
        base = [place.device, str(place.gids[0]), memory]
        out = place.exchange([self.region, "serve", *base],
                             [self.region, place.address, *base, test, str(size), str(self.count(count))], OUR_PORT)
        return [float(word) for word in out.split()[-2:]]

    # ---- what is measured, a peer beside each of ours ----

    def rows(self):
        return [
            Row("write_lat", lambda: self.perftest_latency("ib_write_lat"), "less", ("ib_write_lat",)),
            Row("raw_copy_lat", lambda: self.peer("copy", self.count(200000))),
            Row("memfd_lat", lambda: self.shared("memfd", "latency", 8, 200000)[0], "less"),
            Row("line_lat", lambda: self.peer("line", self.count(1000000))),
            Row("dm_lat", lambda: self.shared("dm", "latency", 8, 200000)[0], "less"),
            Row("send_lat", lambda: self.perftest_latency("ib_send_lat"), "less", ("ib_send_lat",)),
            Row("xrc_lat", self.xrc_latency, "less", ("ib_send_lat",)),
            Row("datagram_lat", lambda: self.perftest_latency("ib_send_lat", "-c", "UD"), "less", ("ib_send_lat",)),
            Row("talk_lat", lambda: self.shared("private", "talk", 8, 200000)[0], "less"),
            Row("ucx_lat", lambda: self.ucx("tag_lat", 8, self.count(500000))[0] * 1000, needs=("ucx_perftest",)),
            Row("write_bw", lambda: self.perftest_bandwidth("ib_write_bw"), "more", ("ib_write_bw",)),
            Row("raw_write_bw", lambda: self.peer("writev", MIB, self.count(10000) * MIB)),
            Row("read_bw", lambda: self.perftest_bandwidth("ib_read_bw"), "more", ("ib_read_bw",)),
            Row("raw_read_bw", lambda: self.peer("readv", MIB, self.count(10000) * MIB)),
            Row(["beside_write_bw", "beside_raw_write_bw"], lambda: self.shared("private", "write-beside", MIB, 10000), ["more", None]),
            Row(["beside_read_bw", "beside_raw_read_bw"], lambda: self.shared("private", "read-beside", MIB, 10000), ["more", None]),
            Row("memfd_write_bw", lambda: self.shared("memfd", "write", MIB, 20000)[0], "more"),
            Row("memcpy_bw", lambda: self.peer("memcpy", MIB, 2 * self.count(10000) * MIB)),
            Row("memfd_read_bw", lambda: self.shared("memfd", "read", MIB, 20000)[0], "more"),
            Row("send_bw", lambda: self.perftest_bandwidth("ib_send_bw"), "more", ("ib_send_bw",)),
            Row("datagram_bw", lambda: self.perftest_bandwidth("ib_send_bw", 4096, 1000000, "-c", "UD"), "more", ("ib_send_bw",)),
            Row("ucx_bw", lambda: self.ucx("tag_bw", MIB, self.count(10000))[1] * MIB / 1e9, needs=("ucx_perftest",)),
            Row("send_rate", lambda: self.perftest_rate("ib_send_bw"), "more", ("ib_send_bw",)),
            Row("datagram_rate", lambda: self.perftest_rate("ib_send_bw", "-c", "UD"), "more", ("ib_send_bw",)),
            Row("ucx_rate", lambda: self.ucx("tag_bw", 8, self.count(5000000))[2], needs=("ucx_perftest",)),
            Row("memfd_rate", lambda: self.shared("memfd", "write", 8, 5000000)[1], "more"),
            Row("write_rate", lambda: self.perftest_rate("ib_write_bw"), "more", ("ib_write_bw",)),
            Row("raw_rate", lambda: 1e9 / self.peer("rate", self.count(1000000))),
            Row("target_cpu", lambda: self.shared("private", "idle", 65536, 200000)[-1], "less"),
        ]


def rows(network, staged, build, quick):
    return SameHost(network, staged, build, quick).rows()


def figure(key, value):
    if key.endswith("_lat"):
        return "%.2f µs" % (value / 1000)
    if key.endswith("_bw"):
        return "%.1f GB/s" % value
    return "%.2f M/s" % (value / 1e6)


def goals(figures):
    """(words, ours, peer's words, peer's, ratio, goal, met); the last two are None where there is no goal."""
    for words, ours, peer_words, peer, factor, at_most in GOALS:
        ratio = figures[ours] / figures[peer]
        met = None if factor is None or math.isnan(ratio) else ratio <= factor if at_most else ratio >= factor
        goal = None if factor is None else "%s %.2f" % ("≤" if at_most else "≥", factor)
        yield words, figure(ours, figures[ours]), peer_words, figure(peer, figures[peer]), ratio, goal, met


def table(figures, repeat, quick):
    lines = ["Two processes, one host: " + machine(repeat), "",
             "| figure | ours | peer | peer's | ratio | goal | |", "|---|---|---|---|---|---|---|"]
    for words, ours, peer_words, peer, ratio, goal, met in goals(figures):
        lines.append("| %s | %s | %s | %s | %.2f × | %s | %s |"
                     % (words, ours, peer_words, peer, ratio, goal or "", "" if met is None else "met" if met else "**missed**"))
    lines += ["", "The target of a stream of 64 KiB WRITEs used %.2f %% of one processor." % (100 * figures["target_cpu"])]
    return "\n".join(lines)
