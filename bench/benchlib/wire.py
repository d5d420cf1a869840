# SPDX-License-Identifier: MIT
"""Between two hosts joined by veth at MTU 1500: RC, UC and UD against bare UDP sockets of the same machine in the same run.

  bulk       against udp_blaster bulk: UDP_SEGMENT, UDP_GRO and a CRC for every packet, and nothing else; beside iperf3, and beside
             udp_blaster write, read and large, which send what a WRITE of 64 KiB must send, and what READs of 64 KiB and 8 MiB must
  buffers    the same where nobody has raised net.core.rmem_max (default_buffers.so)
  latency    against udp_pingpong: the same datagram, and nothing computed; and against UCX over TCP
  asleep     both sides sleep until the message has come
  UD 64 B    against udp_blaster small: sendmmsg and recvmmsg of 64 datagrams
  CPU        seconds of both sides for each GB, beside iperf3's
  loss       1 % of the packets of either side (VERBENA_FAULTS), against the same at full speed
"""

import math
import re

from benchlib import BenchFailed
from benchlib.cpu import Cpu
from benchlib.place import Place, stage_program
from benchlib.report import machine
from benchlib.rows import Row

MIB = 1 << 20

# name, tool, size, further options, peer (None: no ratio)
BULK = (
    ("RC WRITE 64 KiB", "ib_write_bw", 65536, [], "blaster"),
    ("RC WRITE 1 MiB", "ib_write_bw", MIB, [], "blaster"),
    ("RC WRITE 8 MiB", "ib_write_bw", 8 * MIB, [], "blaster"),
    ("RC READ 64 KiB", "ib_read_bw", 65536, [], "blaster"),
    ("RC READ 1 MiB", "ib_read_bw", MIB, [], "blaster"),
    ("RC READ 8 MiB", "ib_read_bw", 8 * MIB, [], "blaster"),
    ("RC SEND 64 KiB", "ib_send_bw", 65536, [], "blaster"),
    ("RC SEND 1 MiB", "ib_send_bw", MIB, [], "blaster"),
    ("RC SEND 8 MiB", "ib_send_bw", 8 * MIB, [], "blaster"),
    ("RC WRITE 64 KiB, both directions", "ib_write_bw", 65536, ["-b"], None),
    ("RC WRITE 1 KiB", "ib_write_bw", 1024, [], None),
    ("UC WRITE 64 KiB", "ib_write_bw", 65536, ["-c", "UC"], None),
    ("UC SEND 64 KiB", "ib_send_bw", 65536, ["-c", "UC"], None),
    ("UD SEND 1 KiB", "ib_send_bw", 1024, ["-c", "UD"], None),
)
# Measured again with the socket buffers that an ordinary user gets by default.
SMALL_BUFFERS = tuple(row for row in BULK if row[0] in ("RC WRITE 64 KiB", "RC WRITE 1 MiB", "RC READ 1 MiB", "RC SEND 1 MiB"))
UCX_PORT, EVENTS_PORT = 13337, 18533
# How programs wait for a completion channel, as event_pingpong names it, and what that is.
SLEEPERS = {"call": "`ibv_get_cq_event`", "poll": "`poll` of the channel, under `verbena run`", "epoll": "`epoll_wait`, under `verbena run`"}
# What the ratios are meant to be.
BULK_GOAL, LOSS_GOAL, LATENCY_GOAL, UCX_GOAL, SMALL_GOAL, WRITE_GOAL = 0.85, 0.5, 1.15, 1.0, 0.8, 1.2
LOSSY = tuple(row for row in BULK if row[0] in ("RC WRITE 64 KiB", "RC WRITE 1 MiB", "RC READ 64 KiB", "RC READ 1 MiB"))


class Wire(Place):
    def bare(self, program, server_words, client_words):
        """What the server and the client of a pair of bare programs said; the server says "ready" first."""
        server = self.server.start(program, *server_words)
        if not server.wait_until(lambda process: "ready" in process.output()):
            raise BenchFailed(str(server.wait(0)))
        result = self.client.run(program, *client_words, timeout=60)
        said = server.wait(15)
        if result.code or said.code:
            raise BenchFailed("%s\n%s" % (result, said))
        return said.out.split(), result.out.split()

    def blast(self, program, kind, seconds):
        """(datagrams, bytes) a second."""
        said, _ = self.bare(program, [kind, "receive"], [kind, "send", self.address, str(seconds)])
        datagrams, size, taken = float(said[-4]), float(said[-3]), float(said[-2])
        return datagrams / taken, size / taken

    def ping(self, program, kind, rounds):
        return float(self.bare(program, [kind, "serve"], [kind, self.address, str(rounds)])[1][-1])

    def asleep(self, program, how, rounds):
        """Microseconds, one way, where both sides sleep."""
        start = [self.verbena, "run", program, how]
        server, client = [[self.device, str(gid)] for gid in self.gids]
        return float(self.exchange(start + ["serve"] + server, start + [self.address] + client + [str(rounds)], EVENTS_PORT).split()[-2])

    def bandwidth(self, tool, size, options, volume):
        count = max(200, min(500000, volume // size))
        return self.perftest(tool, ["-s", str(size), "-n", str(count), "--report_gbits", *options])[3]

    def ucx_latency(self, rounds):
        """Microseconds, one way, of UCX's tagged messages over TCP."""
        environment = {"UCX_TLS": "tcp", "UCX_WARN_UNUSED_ENV_VARS": "n"}
        before, self.environment = self.environment, environment
        try:
            out = self.exchange(["/usr/bin/ucx_perftest", "-p", str(UCX_PORT)],
                                ["/usr/bin/ucx_perftest", self.address, "-p", str(UCX_PORT), "-t", "tag_lat", "-s", "8",
                                 "-n", str(rounds), "-w", str(rounds // 10), "-f"], UCX_PORT)
        finally:
            self.environment = before
        row = re.search(r"(?m)^(?:Final:)?\s*\d+((?:\s+[\d.]+){7})\s*$", out)
        if not row:
            raise BenchFailed(out)
        return float(row.group(1).split()[0])

    def bandwidth_with(self, environment, tool, size, options, volume):
        self.environment = environment
        try:
            return self.bandwidth(tool, size, options, volume)
        finally:
            self.environment = None


def rows(network, staged, build, quick):
    volume, seconds, rounds = (1 << 30, 0.5, 5000) if quick else (4 << 30, 1, 20000)
    blaster, pingpong = stage_program(staged, build, "udp_blaster"), stage_program(staged, build, "udp_pingpong")
    small_buffers = {"LD_PRELOAD": stage_program(staged, build, "default_buffers.so")}
    place, events = Wire(network, "veth1500"), stage_program(staged, build, "event_pingpong")
    place.verbena = staged.verbena
    cpu = Cpu(Place(network, "veth1500", {"VERBENA_WIRE": "rocev2"}, pinned=True), stage_program(staged, build, "many_queue_pairs"))
    # Each side's threads share one processor, the engine thread with a program that looks at its memory.
    shared = Place(network, "veth1500", pinned=True)

    def average(tool):
        return Row("%s shared" % tool, lambda: shared.perftest(tool, ["-s", "8", "-n", str(rounds)])[5], "less", (tool,))

    def bulk(key, environment, row):
        _, tool, size, options, _ = row
        return Row(key, lambda: place.bandwidth_with(environment, tool, size, options, volume), "more", (tool,))
    found = [
        Row("tcp", lambda: place.tcp_bandwidth(1), needs=("iperf3",)),
        Row("blaster", lambda: place.blast(blaster, "bulk", seconds)[1] * 8 / 1e9),
        Row("two runs", lambda: place.blast(blaster, "write", seconds)[1] * 8 / 1e9),
        Row("bare READ", lambda: place.blast(blaster, "read", seconds)[1] * 8 / 1e9),
        Row("bare 8 MiB", lambda: place.blast(blaster, "large", seconds)[1] * 8 / 1e9),
    ]
    found += [bulk(row[0], None, row) for row in BULK]
    found += [bulk("small " + row[0], small_buffers, row) for row in SMALL_BUFFERS]
    found += [bulk("lossy " + row[0], {"VERBENA_FAULTS": "loss=1%,seed=7"}, row) for row in LOSSY]
    found += [
        Row("pingpong", lambda: place.ping(pingpong, "bare", rounds)),
        Row("needs of a SEND", lambda: place.ping(pingpong, "send", rounds)),
        Row("SEND 8 B", lambda: place.perftest("ib_send_lat", ["-s", "8", "-n", str(rounds)])[4], "less", ("ib_send_lat",)),
        Row("WRITE 8 B", lambda: place.perftest("ib_write_lat", ["-s", "8", "-n", str(rounds)])[4], "less", ("ib_write_lat",)),
        average("ib_send_lat"), average("ib_write_lat"),
        *[Row("asleep " + how, lambda how=how: place.asleep(events, how, rounds), "less") for how in SLEEPERS],
        Row("UCX", lambda: place.ucx_latency(rounds), needs=("ucx_perftest",)),
        Row("small blaster", lambda: place.blast(blaster, "small", seconds)[0] / 1e6),
        Row("UD 64 B", lambda: place.perftest("ib_send_bw", ["-c", "UD", "-s", "64", "-n", "300000"])[4], "more", ("ib_send_bw",)),
        Row(["tcp cpu sender", "tcp cpu receiver"], lambda: cpu.tcp(seconds), needs=("iperf3",)),
        Row(["WRITE cpu initiator", "WRITE cpu target"], lambda: cpu.write(seconds), "less"),
    ]
    return found


def against(ours, peer, words, goal, at_most=False):
    """The last three cells of a row: ratio, goal, whether it is met."""
    ratio = ours / peer
    if math.isnan(ratio):
        return "nan | %s %.2f | |" % ("≤" if at_most else "≥", goal)
    met = ratio <= goal if at_most else ratio >= goal
    return "%.2f × %s | %s %.2f | %s |" % (ratio, words, "≤" if at_most else "≥", goal, "met" if met else "**missed**")


def table(results, repeat, quick):
    """The report as Markdown."""
    def bulk(name, value):
        return "| %s | %.1f Gb/s | %s" % (name, value, against(value, results["blaster"], "the blaster", BULK_GOAL))

    lines = [machine(repeat), "", "| veth, MTU 1500, one queue pair | | against | goal | |", "|---|---|---|---|---|"]
    lines.append("| TCP, iperf3, one stream | %.1f Gb/s | | | |" % results["tcp"])
    lines.append("| bare UDP with GSO, GRO and CRC-32 (`udp_blaster bulk`) | %.1f Gb/s | %.2f × TCP | | |"
                 % (results["blaster"], results["blaster"] / results["tcp"]))
    lines.append("| the same in the two runs that a WRITE of 64 KiB needs (`udp_blaster write`) | %.1f Gb/s | %.2f × the blaster | | |"
                 % (results["two runs"], results["two runs"] / results["blaster"]))
    lines.append("| the same in the packets of a READ's response, copied from their places (`udp_blaster read`) | %.1f Gb/s | %.2f × the blaster | | |"
                 % (results["bare READ"], results["bare READ"] / results["blaster"]))
    lines.append("| that from and to 8 MiB of memory (`udp_blaster large`) | %.1f Gb/s | %.2f × the blaster | | |"
                 % (results["bare 8 MiB"], results["bare 8 MiB"] / results["blaster"]))
    for name, _, _, _, peer in BULK:
        lines.append(bulk(name, results[name]) if peer else "| %s | %.1f Gb/s | | | |" % (name, results[name]))
    for name, _, _, _, _ in SMALL_BUFFERS:
        lines.append(bulk(name + ", rmem_max 212,992", results["small " + name]))
    for name, _, _, _, _ in LOSSY:
        lossy = results["lossy " + name]
        lines.append("| %s, 1 %% lost | %.1f Gb/s | %s" % (name, lossy, against(lossy, results[name], "without loss", LOSS_GOAL)))
    lines.append("| bare UDP ping-pong, both poll (`udp_pingpong bare`), one way | %.2f µs | | | |" % results["pingpong"])
    lines.append("| the same with what a SEND cannot do without (`udp_pingpong send`) | %.2f µs | %.2f × the ping-pong | | |"
                 % (results["needs of a SEND"], results["needs of a SEND"] / results["pingpong"]))
    lines.append("| UCX over TCP, tagged message of 8 B, one way | %.2f µs | | | |" % results["UCX"])
    latency = results["SEND 8 B"]
    lines.append("| RC SEND 8 B, one way | %.2f µs | %s"
                 % (latency, against(latency, results["pingpong"], "the ping-pong", LATENCY_GOAL, at_most=True)))
    lines.append("| the same | %.2f µs | %s" % (latency, against(latency, results["UCX"], "UCX over TCP", UCX_GOAL, at_most=True)))
    lines.append("| RC WRITE 8 B, one way (`ib_write_lat`) | %.2f µs | %s"
                 % (results["WRITE 8 B"], against(results["WRITE 8 B"], latency, "the SEND", WRITE_GOAL, at_most=True)))
    send, write = results["ib_send_lat shared"], results["ib_write_lat shared"]
    lines.append("| the same on average, each program with all its threads on one processor (`taskset`); the SEND %.2f µs | %.2f µs | %s"
                 % (send, write, against(write, send, "the SEND", WRITE_GOAL, at_most=True)))
    for how, name in SLEEPERS.items():
        lines.append("| RC SEND 8 B, one way, both sleep in %s (`event_pingpong`) | %.2f µs | | | |" % (name, results["asleep " + how]))
    lines.append("| bare sendmmsg, 64 datagrams at once (`udp_blaster small`) | %.2f million/s | | | |" % results["small blaster"])
    lines.append("| UD SEND 64 B | %.2f million/s | %s"
                 % (results["UD 64 B"], against(results["UD 64 B"], results["small blaster"], "the blaster", SMALL_GOAL)))
    for side, peer in (("initiator", "sender"), ("target", "receiver")):
        lines.append("| CPU of the %s per GB, RC WRITE 64 KiB, both sleep when idle | %.3f s | %.2f × TCP's %s, %.3f s | | |"
                     % (side, results["WRITE cpu " + side], results["WRITE cpu " + side] / results["tcp cpu " + peer], peer,
                        results["tcp cpu " + peer]))
    return "\n".join(lines)
