# SPDX-License-Identifier: MIT
"""Unmodified programs on loopback and over veth: RC WRITE by message size against one TCP stream, SEND latency, connections a second, and
the memory of a queue pair."""

import re
import time

from benchlib import BenchFailed
from benchlib.place import Place, stage_program
from benchlib.report import machine, size_name
from benchlib.rows import Row

SIZES = (64, 1024, 4096, 16384, 65536, 262144, 1048576, 8388608)
QUICK_SIZES = (1024, 65536, 1048576)
LATENCY_SIZES = (2, 1024, 4096)
PLACES = {"lo": "loopback", "veth1500": "veth, MTU 1500", "veth9000": "veth, MTU 9000"}
QUEUE_PAIRS = 10000


class Programs(Place):
    def write_bandwidth(self, size, volume):
        """Gb/s of RC WRITE, having moved about `volume` bytes."""
        count = max(200, min(200000, volume // size))
        return self.perftest("ib_write_bw", ["-s", str(size), "-n", str(count), "--report_gbits"])[3]

    def send_latency(self, size, count):
        """Microseconds, one way, typical (the median) as perftest says it."""
        return self.perftest("ib_send_lat", ["-s", str(size), "-n", str(count)])[4]

    def connections(self, count, environment=None):
        """Connections a second: cmtime makes them all at once, and its server goes on for ever."""
        server = self.server.start("/usr/bin/cmtime", "-c", str(count), "-b", self.address, environment=environment)
        limit = time.monotonic() + 10
        try:
            while True:
                result = self.client.run("/usr/bin/cmtime", "-c", str(count), "-s", self.address, timeout=60, environment=environment)
                found = re.search(r"(?m)^connect\s*:\s*([\d.]+)", result.out)
                if result.code == 0 and found:
                    return count / (float(found.group(1)) / 1000)
                # Nothing shows that it listens yet but that it is answered.
                if time.monotonic() > limit or not server.running():
                    raise BenchFailed("%s\n%s" % (result, server.output()))
        finally:
            server.kill()


def sizes(quick):
    return QUICK_SIZES if quick else SIZES


def queue_pairs(host, program):
    """Bytes, microseconds to create and to destroy, per queue pair."""
    result = host.run(program, str(QUEUE_PAIRS), timeout=120)
    if result.code:
        raise BenchFailed(str(result))
    return [float(word) for word in result.out.split()[-3:]]


def rows(network, staged, build, quick, names=PLACES):
    seconds, volume, pings = (1, 1 << 30, 5000) if quick else (2, 4 << 30, 20000)
    found = []
    for name in names:
        # Also on one host: what goes through memory is measured by same_host.py.
        place = Programs(network, name, environment={"VERBENA_WIRE": "rocev2"})
        found.append(Row((name, "tcp"), lambda place=place: place.tcp_bandwidth(seconds), needs=("iperf3",)))
        for size in sizes(quick):
            found.append(Row((name, "write", size), lambda place=place, size=size: place.write_bandwidth(size, volume), "more",
                             ("ib_write_bw",)))
        for size in LATENCY_SIZES:
            found.append(Row((name, "latency", size), lambda place=place, size=size: place.send_latency(size, pings), "less",
                             ("ib_send_lat",)))
        found.append(Row((name, "connections"), lambda place=place: place.connections(1000), "more", ("cmtime",)))
    host, program = network.host(), stage_program(staged, build, "queue_pairs")
    found.append(Row([("queue pair", "bytes"), ("queue pair", "create"), ("queue pair", "destroy")],
                     lambda: queue_pairs(host, program), "less"))
    return found


def table(figures, repeat, quick, names=PLACES):
    """The report as Markdown."""
    lines = [machine(repeat), ""]
    lines.append("| | " + " | ".join(PLACES[name] for name in names) + " |")
    lines.append("|---" * (len(names) + 1) + "|")
    lines.append("| TCP, iperf3, one stream | " + " | ".join("%.1f Gb/s" % figures[(name, "tcp")] for name in names) + " |")
    for size in sizes(quick):
        cells = ["%.1f Gb/s (%.2f ×)" % (figures[(name, "write", size)], figures[(name, "write", size)] / figures[(name, "tcp")])
                 for name in names]
        lines.append("| RC WRITE %s (against TCP) | " % size_name(size) + " | ".join(cells) + " |")
    for size in LATENCY_SIZES:
        lines.append("| RC SEND %s, one way | " % size_name(size)
                     + " | ".join("%.2f µs" % figures[(name, "latency", size)] for name in names) + " |")
    lines.append("| connections a second, cmtime, 1,000 at once | "
                 + " | ".join("{:,.0f}".format(figures[(name, "connections")]) for name in names) + " |")
    lines += ["", "%s RC queue pairs in one process (128 sends, 128 receives): %.1f KiB each, %.1f µs to create, %.1f µs to destroy."
              % ("{:,}".format(QUEUE_PAIRS), figures[("queue pair", "bytes")] / 1024, figures[("queue pair", "create")],
                 figures[("queue pair", "destroy")])]
    return "\n".join(lines)
