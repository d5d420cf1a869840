# SPDX-License-Identifier: MIT
"""What grows with the number of queue pairs, threads, regions and bytes, and what does not.

Two ways: through memory (two processes on one host) and over the wire (two hosts, veth, MTU 1500).
"""

import json
import os
import statistics
import sys

from benchlib import BenchFailed, ROOT, svg
from benchlib.place import Place, stage_program
from benchlib.report import machine, size_name
from pylib import hosts

WAYS = (("memory", "lo", {"VERBENA_WIRE": "auto"}), ("wire", "veth1500", {"VERBENA_WIRE": "rocev2"}))
QPS = (1, 4, 16, 64, 256, 1024)
THREADS = (1, 2, 4, 8)
ROUNDS = 3                          # at least: one of them may have met with somebody else's work
PORT = 18521
PICTURE = os.path.join(ROOT, "docs", "images", "growth.svg")


def threads_that_fit():
    return [threads for threads in THREADS if threads <= len(os.sched_getaffinity(0))]


class Way:
    def __init__(self, network, programs, name, place, environment):
        self.name, self.program, self.own_ends = name, programs["many_queue_pairs"], programs["own_ends"]
        self.place = Place(network, place, environment, pinned=True)

    def many(self, operation, size, qps, threads, seconds, wait=False):
        """(seconds, messages, CPU seconds of client and server, bytes per connection, switches of the server)"""
        place = self.place
        out = place.exchange([self.program, "serve", place.device, str(place.gids[0])],
                             [self.program, place.address, place.device, str(place.gids[1]), operation, str(size), str(qps),
                              str(threads), str(seconds)] + (["wait"] if wait else []), PORT, free=threads > 1)
        return [float(word) for word in out.split()[-6:]]

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

    def cpu(self, seconds):
        """CPU seconds per GB, initiator and target: WRITEs of 64 KiB, both sleep when there is nothing to do."""
        row = self.many("write", 65536, 1, 1, seconds, wait=True)
        return row[2] / row[1] / 65536 * 1e9, row[3] / row[1] / 65536 * 1e9

    def tcp_cpu(self, seconds):
        out = self.place.exchange(["iperf3", "-s", "-1"], ["iperf3", "-c", self.place.address, "-t", str(seconds), "-J"], 5201)
        end = json.loads(out)["end"]
        gigabytes = end["sum_received"]["bytes"] / 1e9
        return [end["cpu_utilization_percent"][side] / 100 * end["sum_sent"]["seconds"] / gigabytes
                for side in ("host_total", "remote_total")]


def measure_way(way, note, seconds):
    name = way.name
    for qps in QPS:
        note((name, "cost", qps), way.cost(qps, seconds))
        note((name, "bandwidth", qps), way.bandwidth(qps, seconds))
    for threads in THREADS:
        note((name, "rate", threads), way.rate(threads, seconds))
    for threads in threads_that_fit():
        note((name, "own", threads), way.rate_of_own(threads, seconds))
    for side, value in zip(("initiator", "target"), way.cpu(seconds)):
        note((name, "cpu", side), value)
    for side, value in zip(("initiator", "target"), way.tcp_cpu(1)):
        note((name, "tcp_cpu", side), value)
    note((name, "connection"), way.many("send", 64, 1024, 1, 0.1)[4])
    idle = way.many("idle", 64, 16, 1, 2)
    note((name, "idle_cpu"), (idle[2] + idle[3]) / idle[0])
    note((name, "idle_switches"), idle[5] / idle[0])


def measure_objects(staged, build, note):
    with hosts.Network(staged, niceness=-20) as network:
        host = network.host()
        for program in ("queue_pairs", "regions"):
            result = host.run(stage_program(staged, build, program), "10000", timeout=120)
            if result.code:
                raise BenchFailed(str(result))
            lines = [line.split() for line in result.out.strip().splitlines()]
            first = next(i for i, line in enumerate(lines) if line[0] == "10000")
            for key, word in zip(("bytes", "create", "destroy"), lines[first][1:]):
                note((program, key), float(word))
            for size, microseconds in lines[first + 1:]:
                note(("register", int(size)), float(microseconds))


def measure(staged, build, repeat, seconds):
    figures = {}

    def note(key, value):
        figures.setdefault(key, []).append(value)
    programs = {name: stage_program(staged, build, name) for name in ("many_queue_pairs", "own_ends")}
    with hosts.Network(staged, niceness=-20) as network:
        ways = [Way(network, programs, *way) for way in WAYS]
        for _ in range(repeat):
            for way in ways:
                measure_way(way, note, seconds)
                print("  growth, %s: a SEND costs %.2f us with one queue pair, %.2f us with %d"
                      % (way.name, figures[(way.name, "cost", 1)][-1], figures[(way.name, "cost", QPS[-1])][-1], QPS[-1]),
                      file=sys.stderr)
            measure_objects(staged, build, note)
    return {key: statistics.median(values) for key, values in figures.items()}


def table(figures, repeat):
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
    sizes = sorted(key[1] for key in figures if key[0] == "register")
    lines += ["", "`ibv_reg_mr` by size: " + ", ".join("%s %.2f µs" % (size_name(size), figures[("register", size)]) for size in sizes) + "."]
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
