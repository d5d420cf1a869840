# SPDX-License-Identifier: MIT
"""What grows with the number of queue pairs, threads, regions and bytes, and what does not.

Two ways: through memory (two processes on one host) and over the wire (two hosts, veth, MTU 1500).
"""

import os

from benchlib import BenchFailed, ROOT, svg
from benchlib.cpu import Cpu
from benchlib.place import Place, stage_program
from benchlib.report import machine, size_name
from benchlib.rows import Row

WAYS = (("memory", "lo", {"VERBENA_WIRE": "auto"}), ("wire", "veth1500", {"VERBENA_WIRE": "rocev2"}))
QPS = (1, 4, 16, 64, 256, 1024)
THREADS = (1, 2, 4, 8)
REGISTERED = tuple(4096 << (3 * step) for step in range(7))  # bytes, as bench/regions.c has them
SECONDS = 0.5                       # of each measurement
PICTURE = os.path.join(ROOT, "docs", "images", "growth.svg")


def threads_that_fit():
    return [threads for threads in THREADS if threads <= len(os.sched_getaffinity(0))]


class Way(Cpu):
    def __init__(self, network, programs, name, place, environment):
        super().__init__(Place(network, place, environment, pinned=True), programs["many_queue_pairs"])
        self.name, self.own_ends = name, programs["own_ends"]

    def cost(self, qps, seconds):
        """Microseconds per message: SENDs of 64 bytes."""
        row = self.many("send", 64, qps, 1, seconds)
        return row[0] / row[1] * 1e6

    def bandwidth(self, qps, seconds):
        """GB/s: WRITEs of 64 KiB."""
        row = self.many("write", 65536, qps, 1, seconds)
        return row[1] * 65536 / row[0] / 1e9

    def rate(self, threads, seconds):
        """Messages a second, all threads together: SENDs of 64 bytes."""
        row = self.many("send", 64, 1, threads, seconds)
        return row[1] / row[0]

    def rate_of_own(self, threads, seconds):
        """The same where each thread has both ends and a processor of its own."""
        place = self.place
        result = place.client.run(self.own_ends, place.device, str(place.gids[1]), "send", "64", str(threads), str(seconds),
                                  timeout=60, environment=place.environment)
        if result.code:
            raise BenchFailed(str(result))
        row = [float(word) for word in result.out.split()[-2:]]
        return row[1] / row[0]

    def memory(self):
        """Bytes of a connection, of 1,024 that were used."""
        return self.many("send", 64, 1024, 1, 0.1)[4]

    def idle(self):
        """Share of a processor that both sides use, and times a second that one is switched to, with 16 connections and nothing to do."""
        row = self.many("idle", 64, 16, 1, 2)
        return (row[2] + row[3]) / row[0], row[5] / row[0]

    def rows(self):
        name = self.name
        found = []
        for qps in QPS:
            found.append(Row((name, "cost", qps), lambda qps=qps: self.cost(qps, SECONDS), "less"))
            found.append(Row((name, "bandwidth", qps), lambda qps=qps: self.bandwidth(qps, SECONDS), "more"))
        found += [Row((name, "rate", threads), lambda threads=threads: self.rate(threads, SECONDS), "more") for threads in THREADS]
        found += [Row((name, "own", threads), lambda threads=threads: self.rate_of_own(threads, SECONDS), "more")
                  for threads in threads_that_fit()]
        found += [
            Row([(name, "cpu", "initiator"), (name, "cpu", "target")], lambda: self.write(SECONDS), "less"),
            Row([(name, "tcp_cpu", "initiator"), (name, "tcp_cpu", "target")], lambda: self.tcp(1), needs=("iperf3",)),
            Row((name, "connection"), self.memory, "less"),
            Row([(name, "idle_cpu"), (name, "idle_switches")], self.idle, "less"),
        ]
        return found


def objects(host, program):
    """What 10,000 of something cost: bytes, microseconds to create and to destroy; for regions also to register by size."""
    result = host.run(program, "10000", timeout=120)
    if result.code:
        raise BenchFailed(str(result))
    lines = [line.split() for line in result.out.strip().splitlines()]
    first = next(i for i, line in enumerate(lines) if line[0] == "10000")
    return [float(word) for word in lines[first][1:]] + [float(microseconds) for _, microseconds in lines[first + 1:]]


def rows(network, staged, build, quick):
    programs = {name: stage_program(staged, build, name) for name in ("many_queue_pairs", "own_ends", "queue_pairs", "regions")}
    found = [row for way in WAYS for row in Way(network, programs, *way).rows()]
    host = network.host()
    for program, more in (("queue_pairs", []), ("regions", [("register", size) for size in REGISTERED])):
        found.append(Row([(program, key) for key in ("bytes", "create", "destroy")] + more,
                         lambda program=program: objects(host, programs[program]), "less"))
    return found


def table(figures, repeat, quick):
    names = [way[0] for way in WAYS]
    lines = ["Growth: " + machine(repeat), "", "| | through memory | over the wire (veth, MTU 1500) |", "|---|---|---|"]

    def row(words, cells):
        lines.append("| %s | %s |" % (words, " | ".join(cells)))
    for qps in QPS:
        row("SEND 64 B, %s queue pair%s" % ("{:,}".format(qps), "s in turn" if qps > 1 else ""),
            ["%.2f µs each (%.2f ×)" % (figures[(name, "cost", qps)], figures[(name, "cost", qps)] / figures[(name, "cost", 1)])
             for name in names])
    for qps in QPS:
        row("WRITE 64 KiB, %s queue pair%s" % ("{:,}".format(qps), "s in turn" if qps > 1 else ""),
            ["%.1f GB/s" % figures[(name, "bandwidth", qps)] for name in names])
    for threads in THREADS:
        row("SEND 64 B, %d threads at each end, each with its own queues" % threads if threads > 1 else "SEND 64 B, 1 thread at each end",
            ["%.2f M/s" % (figures[(name, "rate", threads)] / 1e6) for name in names])
    for threads in threads_that_fit():
        row("SEND 64 B, %d thread%s with both ends and a processor each" % (threads, "s" if threads > 1 else ""),
            ["%.2f M/s" % (figures[(name, "own", threads)] / 1e6) for name in names])
    row("memory of a connection (1,024 of them, used)", ["%.1f KiB" % (figures[(name, "connection")] / 1024) for name in names])
    for side in ("initiator", "target"):
        row("CPU of the %s per GB written (TCP, iperf3)" % side,
            ["%.3f s (%.3f s)" % (figures[(name, "cpu", side)], figures[(name, "tcp_cpu", side)]) for name in names])
    row("idle, 16 connections: CPU of both, wake-ups of one",
        ["%.2f %%, %.1f a second" % (100 * figures[(name, "idle_cpu")], figures[(name, "idle_switches")]) for name in names])
    lines += ["", "| 10,000 of | memory each | to create | to destroy |", "|---|---|---|---|"]
    for program, words in (("queue_pairs", "RC queue pairs (128 sends, 128 receives)"), ("regions", "memory regions")):
        lines.append("| %s | %.2f KiB | %.2f µs | %.2f µs |" % (words, figures[(program, "bytes")] / 1024, figures[(program, "create")],
                                                            figures[(program, "destroy")]))
    lines += ["", "`ibv_reg_mr` by size: " + ", ".join("%s %.2f µs" % (size_name(size), figures[("register", size)]) for size in REGISTERED) + "."]
    return "\n".join(lines)


def draw(figures, path=PICTURE):
    # Both ways in one chart, of which one is ten times as fast: as they grow, each against itself. The table has the figures.
    cost = svg.Chart("cost of a SEND, 64 bytes (1: one queue pair)", "queue pairs, in turn", QPS)
    bandwidth = svg.Chart("GB/s, WRITEs of 64 KiB", "queue pairs, in turn", QPS)
    rate = svg.Chart("SENDs a second, 64 bytes (1: one thread)", "threads, each with its own queue pair", THREADS)
    for name, words in (("memory", "through memory"), ("wire", "over the wire")):
        cost.add(words, [figures[(name, "cost", qps)] / figures[(name, "cost", QPS[0])] for qps in QPS])
        bandwidth.add(words, [figures[(name, "bandwidth", qps)] for qps in QPS])
        rate.add(words, [figures[(name, "rate", threads)] / figures[(name, "rate", THREADS[0])] for threads in THREADS])
    svg.write(path, [cost, bandwidth, rate])


def missed(figures):
    """What should not grow and does: a list of sentences."""
    found = []
    for name, _, _ in WAYS:
        ratio = figures[(name, "cost", QPS[-1])] / figures[(name, "cost", 1)]
        if ratio >= 2:
            found.append("a message costs %.2f times as much with %d queue pairs as with one (%s)" % (ratio, QPS[-1], name))
    # Up to 1 MiB pages are brought in, which costs a little for each; beyond that nothing depends on the size.
    if figures[("register", 1 << 30)] > 2 * figures[("register", 2 << 20)]:
        found.append("ibv_reg_mr takes longer for more bytes")
    return found
