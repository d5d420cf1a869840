# SPDX-License-Identifier: MIT
"""iWARP between two hosts joined by veth at MTU 1500, against TCP of the same machine in the same run.

  bulk       against iperf3, one stream; beside tcp_blaster, which gives a socket what WRITEs must give it, and does nothing else
  latency    against UCX over TCP; beside tcp_pingpong: the same bytes, and nothing computed
  connect    cmtime, against the same by RoCE
  memory     of a connection that is idle, beside its queue pair (idle_connections)
"""

from benchlib import BenchFailed
from benchlib.place import PORT, stage_program
from benchlib.programs import Programs
from benchlib.report import machine
from benchlib.rows import Row
from benchlib.wire import against, Wire
from pylib.clients import is_measured, perftest_rows

MIB = 1 << 20
IDLE = 1000

# name, tool, size, CRC, goal against iperf3, bare program beside it
BULK = (
    ("WRITE 64 KiB", "ib_write_bw", 65536, False, 0.9, "blaster"),
    ("WRITE 1 MiB", "ib_write_bw", MIB, False, 0.9, "blaster"),
    ("READ 64 KiB", "ib_read_bw", 65536, False, 0.85, "blaster"),
    ("READ 1 MiB", "ib_read_bw", MIB, False, 0.85, "blaster"),
    ("WRITE 64 KiB, CRC", "ib_write_bw", 65536, True, 0.8, "crc blaster"),
    ("WRITE 1 MiB, CRC", "ib_write_bw", MIB, True, 0.8, "crc blaster"),
)
UCX_GOAL, CONNECT_GOAL, IDLE_GOAL = 1.0, 0.7, 2048


def settings(crc):
    return {"VERBENA_TRANSPORT": "iwarp", "VERBENA_IWARP": "crc=on" if crc else "crc=off"}


class Iwarp(Wire):
    def stream(self, tool, options, crc=False):
        """The first row of numbers that the tool prints."""
        base = ["/usr/bin/" + tool, "-F", "-R", "-d", "iwarp_eth0", *options]
        before, self.environment = self.environment, settings(crc)
        try:
            rows = list(filter(is_measured, perftest_rows(self.exchange(base, base + [self.address], PORT))))
        finally:
            self.environment = before
        if not rows:
            raise BenchFailed("%s printed no figures" % tool)
        return rows[0]

    def stream_bandwidth(self, tool, size, crc, volume):
        count = max(200, min(500000, volume // size))
        return self.stream(tool, ["-s", str(size), "-n", str(count), "--report_gbits"], crc)[3]

    def idle_bytes(self, program):
        server = self.server.start(program, "serve", self.address, environment=settings(False))
        try:
            if not server.wait_until(lambda process: "ready" in process.output()):
                raise BenchFailed(str(server.wait(0)))
            result = self.client.run(program, self.address, str(IDLE), timeout=60, environment=settings(False))
        finally:
            server.kill()
        if result.code:
            raise BenchFailed("%s\n%s" % (result, server.output()))
        return float(result.out.split()[-1])

    def tcp_blast(self, program, kind, seconds):
        """Gb/s."""
        said, _ = self.bare(program, [kind, "receive"], [kind, "send", self.address, str(seconds)])
        return float(said[-3]) / float(said[-2]) * 8 / 1e9

    def tcp_ping(self, program, rounds):
        return float(self.bare(program, ["serve"], [self.address, str(rounds)])[1][-1])

    connections = Programs.connections


def rows(network, staged, build, quick):
    volume, seconds, rounds = (1 << 30, 0.5, 5000) if quick else (4 << 30, 1, 20000)
    blaster, pingpong, idle = (stage_program(staged, build, name) for name in ("tcp_blaster", "tcp_pingpong", "idle_connections"))
    place = Iwarp(network, "veth1500")

    def bulk(row):
        name, tool, size, crc, _, _ = row
        return Row(name, lambda: place.stream_bandwidth(tool, size, crc, volume), "more", (tool,))
    found = [
        Row("tcp", lambda: place.tcp_bandwidth(1), needs=("iperf3",)),
        Row("blaster", lambda: place.tcp_blast(blaster, "bulk", seconds)),
        Row("crc blaster", lambda: place.tcp_blast(blaster, "crc", seconds)),
    ]
    found += [bulk(row) for row in BULK]
    found += [
        Row("pingpong", lambda: place.tcp_ping(pingpong, rounds)),
        Row("SEND 8 B", lambda: place.stream("ib_send_lat", ["-s", "8", "-n", str(rounds)])[4], "less", ("ib_send_lat",)),
        Row("UCX", lambda: place.ucx_latency(rounds), needs=("ucx_perftest",)),
        Row("RoCE connections", lambda: place.connections(1000), needs=("cmtime",)),
        Row("connections", lambda: place.connections(1000, settings(False)), "more", ("cmtime",)),
        Row("idle", lambda: place.idle_bytes(idle), "less"),
    ]
    return found


def table(results, repeat, quick):
    """The report as Markdown."""
    lines = [machine(repeat), "", "| iWARP, veth, MTU 1500, one queue pair | | against | goal | |", "|---|---|---|---|---|"]
    lines.append("| TCP, iperf3, one stream | %.1f Gb/s | | | |" % results["tcp"])
    for key, words in (("blaster", "bare TCP in frames of 32 KiB, to and from their places (`tcp_blaster bulk`)"),
                       ("crc blaster", "the same with CRC-32C, copied on either side (`tcp_blaster crc`)")):
        lines.append("| %s | %.1f Gb/s | %.2f × TCP | | |" % (words, results[key], results[key] / results["tcp"]))
    for name, _, _, crc, goal, beside in BULK:
        cells = against(results[name], results["tcp"], "TCP, %.2f × %s" % (results[name] / results[beside], "the blaster"), goal)
        lines.append("| %s%s | %.1f Gb/s | %s" % (name, "" if crc else ", no CRC", results[name], cells))
    lines.append("| bare TCP ping-pong, both poll (`tcp_pingpong`), one way | %.2f µs | | | |" % results["pingpong"])
    lines.append("| UCX over TCP, tagged message of 8 B, one way | %.2f µs | | | |" % results["UCX"])
    lines.append("| SEND 8 B, one way | %.2f µs | %s" % (results["SEND 8 B"], against(
        results["SEND 8 B"], results["UCX"], "UCX over TCP, %.2f × the ping-pong" % (results["SEND 8 B"] / results["pingpong"]), UCX_GOAL,
        at_most=True)))
    lines.append("| connections a second, cmtime, 1,000 at once | {:,.0f} | %s".format(results["connections"])
                 % against(results["connections"], results["RoCE connections"], "RoCE", CONNECT_GOAL))
    lines.append("| memory of an idle connection beside its queue pair | %.0f B | | ≤ %d | %s |"
                 % (results["idle"], IDLE_GOAL, "met" if results["idle"] <= IDLE_GOAL else "**missed**"))
    return "\n".join(lines)
