# SPDX-License-Identifier: MIT
"""Sockets by RDMA against TCP: rstream (librdmacm's rsockets; its own option makes it use TCP) and iperf3 under `verbena run --sockets`,
between two hosts joined by veth and on one host; and what bare UDP sockets carry of a stream between two hosts (udp_blaster stream)."""

import json
import re
import time

from benchlib import BenchFailed
from benchlib.place import IPERF_PORT, stage_program
from benchlib.report import machine
from benchlib.rows import Row
from benchlib.wire import Wire

# How it is said, bandwidth and latency of rsockets against TCP.
PLACES = {"veth1500": ("veth, MTU 1500", 0.8, 1.0), "lo": ("one host", 1.5, 1.0)}
BULK, SHORT = 65536, 64


class Sockets(Wire):
    def __init__(self, network, name, verbena):
        super().__init__(network, name)
        self.verbena = verbena

    def rstream(self, size, iterations, count, tcp):
        """Gb/s and microseconds of a transfer."""
        options = ["-S", str(size), "-I", str(iterations), "-C", str(count), *(["-T", "s"] if tcp else [])]
        server = self.server.start("/usr/bin/rstream", "-b", self.address, *options)
        limit = time.monotonic() + 10
        try:
            while True:
                result = self.client.run("/usr/bin/rstream", "-s", self.address, *options, timeout=60)
                found = re.search(r"(?m)s\s+([\d.]+)\s+([\d.]+)\s*$", result.out)
                if result.code == 0 and found:
                    return [float(word) for word in found.groups()]
                # Nothing shows that it listens yet but that it is answered.
                if time.monotonic() > limit or not server.running():
                    raise BenchFailed("%s\n%s" % (result, server.output()))
        finally:
            server.kill()

    def iperf_by_rdma(self, seconds):
        """Gb/s."""
        wrap = [self.verbena, "run", "--sockets"]
        out = self.exchange([*wrap, "iperf3", "-s", "-1"], [*wrap, "iperf3", "-c", self.address, "-t", str(seconds), "-J"], IPERF_PORT)
        return json.loads(out[out.index("{"):])["end"]["sum_received"]["bits_per_second"] / 1e9


def rows(network, staged, build, quick):
    seconds, iterations, pings = (1, 100, 5000) if quick else (2, 300, 20000)
    blaster, found = stage_program(staged, build, "udp_blaster"), []
    for name in PLACES:
        place = Sockets(network, name, staged.verbena)

        def bulk(tcp, place=place):
            return place.rstream(BULK, iterations, 100, tcp)[0]

        def latency(tcp, place=place):
            return place.rstream(SHORT, pings, 1, tcp)[1]
        if name != "lo":
            found.append(Row((name, "bare stream"), lambda place=place: place.blast(blaster, "stream", seconds / 2)[1] * 8 / 1e9))
        found += [
            Row((name, "iperf3 tcp"), lambda place=place: place.tcp_bandwidth(seconds), needs=("iperf3",)),
            Row((name, "iperf3"), lambda place=place: place.iperf_by_rdma(seconds), "more", ("iperf3",)),
            Row((name, "rstream tcp"), lambda bulk=bulk: bulk(True), needs=("rstream",)),
            Row((name, "rstream"), lambda bulk=bulk: bulk(False), "more", ("rstream",)),
            Row((name, "latency tcp"), lambda latency=latency: latency(True), needs=("rstream",)),
            Row((name, "latency"), lambda latency=latency: latency(False), "less", ("rstream",)),
        ]
    return found


def cells(figure, tcp, goal, at_most=False):
    ratio = figure / tcp
    met = ratio <= goal if at_most else ratio >= goal
    return "%.2f × | %s %.1f | %s |" % (ratio, "≤" if at_most else "≥", goal, "met" if met else "**missed**")


def table(figures, repeat, quick):
    """The report as Markdown."""
    lines = [machine(repeat), "", "| | by RDMA | TCP | ratio | goal | |", "|---|---|---|---|---|---|"]
    for name, (words, bulk, latency) in PLACES.items():
        for key, title in (("iperf3", "iperf3 under `verbena run --sockets`"), ("rstream", "rstream, 64 KiB at a time")):
            tcp, ours = figures[(name, key + " tcp")], figures[(name, key)]
            lines.append("| %s, %s | %.1f Gb/s | %.1f Gb/s | %s" % (title, words, ours, tcp, cells(ours, tcp, bulk)))
        if name != "lo":
            bare, tcp = figures[(name, "bare stream")], figures[(name, "iperf3 tcp")]
            lines.append("| bare UDP with GSO, GRO, CRC-32 and a stream's copies (`udp_blaster stream`), %s | %.1f Gb/s | %.1f Gb/s | %.2f × | | |"
                         % (words, bare, tcp, bare / tcp))
        tcp, ours = figures[(name, "latency tcp")], figures[(name, "latency")]
        lines.append("| rstream, 64 B, one way, %s | %.2f µs | %.2f µs | %s" % (words, ours, tcp, cells(ours, tcp, latency, True)))
    return "\n".join(lines)
