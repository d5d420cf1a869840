# SPDX-License-Identifier: MIT
"""The software InfiniBand, and RoCEv1.

  opensm     from its start to SUBNET UP, beside ibsim, which has management packets too and no data
  switch     RC WRITE through one switch process, three hosts: two that have joined, and between them the one with the switches; against
             our RoCEv2 between two hosts. MTU 1500
  cut        a cable under ib_write_bw: how long until its packets pass another switch. It must end as if nothing had been
  hops       the latency through ten switches, all in one process, against one
  RoCEv1     against packet_blaster: bare packet sockets, many frames in a system call or rings, and a CRC for every frame
"""

import re
import time

from benchlib import BenchFailed
from benchlib.place import PORT, stage_program, start_daemon
from benchlib.report import machine
from benchlib.rows import Row
from benchlib.subnet import SIZES, Subnet, topology
from benchlib.wire import against, Wire
from pylib.clients import is_measured, perftest_rows

MIB = 1 << 20
SWITCH_GOAL, HOPS_GOAL, V1_GOAL = 0.4, 1.2, 0.8
HOPS = 10
CUT_GOAL, CUT_PATIENCE = 2, 60
RING = 'Switch 4 "S1"\n[1] "A"[1]\n[3] "S2"[4]\n[4] "S3"[3]\nSwitch 4 "S2"\n[1] "B"[1]\n[3] "S3"[4]\nSwitch 4 "S3"\nCa 1 "A"\nCa 1 "B"\n'


def chain(switches):
    """A at one end of a chain of switches, B at the other."""
    lines = []
    for number in range(1, switches + 1):
        lines.append('Switch 4 "S%d"' % number)
        if number == 1:
            lines.append('[1] "A"[1]')
        if number == switches:
            lines.append('[2] "B"[1]')
        if number < switches:
            lines.append('[3] "S%d"[4]' % (number + 1))
    return "\n".join(lines + ['Ca 1 "A"', 'Ca 1 "B"', ""])


class Switched:
    """Two hosts that have joined a fabric, and the host with its switches, which routes the programs' own TCP connections as well."""

    def __init__(self, network, staged, mtu):
        self.network, self.verbena = network, staged.verbena
        self.middle = network.host()
        self.ends = [self.join(number, mtu) for number in (1, 2)]
        self.middle.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", privileged=True)
        self.running = None

    def join(self, number, mtu):
        host = self.network.host()
        self.middle.ip("link", "add", "eth%d" % number, "mtu", str(mtu), "type", "veth", "peer", "name", "eth0", "mtu", str(mtu),
                       "netns", host.name)
        self.middle.ip("addr", "add", "10.78.%d.1/24" % number, "dev", "eth%d" % number)
        self.middle.ip("link", "set", "eth%d" % number, "up")
        host.ip("addr", "add", "10.78.%d.2/24" % number, "dev", "eth0")
        host.ip("link", "set", "eth0", "up")
        host.ip("route", "add", "default", "via", "10.78.%d.1" % number)
        start_daemon(host)
        return host

    def stop(self):
        for process in reversed(self.running or []):
            process.kill()
        self.running = None

    def start(self, wanted):
        """A subnet, up, in the place of the one before."""
        self.stop()
        subnet = Subnet(self.middle, self.verbena)
        self.running = [subnet.up(subnet.write("topology", wanted))]
        for number, host in enumerate(self.ends, 1):
            host.run(self.verbena, "fabric", "leave")
            joined = host.run(self.verbena, "fabric", "join", "10.78.%d.1" % number, "--as", " AB"[number])
            if joined.code:
                raise BenchFailed(str(joined))
        manager = Subnet(self.ends[0], self.verbena)
        process, is_up = manager.opensm()
        self.running.append(process)
        manager.wait(process, is_up)

    def perftest(self, switches, tool, options):
        """The first row of numbers that the tool prints."""
        self.start(chain(switches))
        base = ["/usr/bin/" + tool, "-F", "-d", "vib0", *options]
        try:
            server = self.ends[0].start(*base)
            if not server.wait_until(lambda process: process.listens(PORT)):
                raise BenchFailed(str(server.wait(0)))
            result = self.ends[1].run(*base, "10.78.1.2", timeout=60)
            said = server.wait(10 if result.code == 0 else 1)
            rows = list(filter(is_measured, perftest_rows(result.out)))
            if result.code or not rows:
                raise BenchFailed("%s\n%s" % (result, said))
            return rows[0]
        finally:
            self.stop()


    def passed(self, lid):
        """How many packets two ports of a switch have received and sent."""
        told = [self.ends[0].run("/usr/sbin/perfquery", "-x", lid, str(port)).out for port in (3, 4)]
        return sum(int(number) for text in told for number in re.findall(r"Port(?:Rcv|Xmit)Pkts:\.+(\d+)", text))

    def until(self, is_so):
        begun = time.monotonic()
        while not is_so():
            if time.monotonic() > begun + CUT_PATIENCE:
                raise BenchFailed("nothing passes")
        return time.monotonic() - begun

    def cut(self):
        """Seconds from the cut on."""
        self.start(RING)
        base = ["/usr/bin/ib_write_bw", "-F", "-d", "vib0", "-D", "10"]
        try:
            lids = dict(re.findall(r'"(S\d)".* lid (\d+)', self.ends[0].run("/usr/sbin/ibswitches").out))
            server = self.ends[0].start(*base)
            if not server.wait_until(lambda process: process.listens(PORT)):
                raise BenchFailed(str(server.wait(0)))
            client = self.ends[1].start(*base, "10.78.1.2")
            direct, other = self.passed(lids["S1"]), self.passed(lids["S3"])
            self.until(lambda: self.passed(lids["S1"]) > direct + 10000)
            self.middle.run(self.verbena, "fabric", "cut", "S1:3")
            seconds = self.until(lambda: self.passed(lids["S3"]) > other + 1000)
            ended = [process.wait(CUT_PATIENCE) for process in (client, server)]
            if any(result.code for result in ended) or not perftest_rows(ended[0].out):
                raise BenchFailed("\n".join(str(result) for result in ended))
            return seconds
        finally:
            self.stop()


class FirstVersion(Wire):
    """RoCEv1 between two hosts: each verbenad may make packet sockets, programs may not."""

    def ready(self, host):
        start_daemon(host, "net_raw")

    def bandwidth(self, tool, size, options, volume):
        # They were found where each address has one entry. Here it has two: v1, then v2.
        before, self.gids = self.gids, [2 * index for index in self.gids]
        try:
            return super().bandwidth(tool, size, options, volume)
        finally:
            self.gids = before

    def mac(self):
        return self.server.ip("-br", "link", "show", "dev", "eth0").split()[2]

    def packet_blast(self, program, kind, seconds):
        """Gb/s."""
        server = self.server.start(program, kind, "receive", "eth0", privileged=True)
        if not server.wait_until(lambda process: "ready" in process.output()):
            raise BenchFailed(str(server.wait(0)))
        result = self.client.run(program, kind, "send", "eth0", self.mac(), str(seconds), timeout=60, privileged=True)
        said = server.wait(15)
        if result.code or said.code:
            raise BenchFailed("%s\n%s" % (result, said))
        words = said.out.split()
        return float(words[-3]) * 8 / float(words[-2]) / 1e9


def rows(network, staged, build, quick):
    volume, seconds, rounds = (1 << 28, 0.5, 2000) if quick else (1 << 30, 1, 10000)
    blaster = stage_program(staged, build, "packet_blaster")
    place, switched = Wire(network, "veth1500"), Switched(network, staged, 1500)
    first = FirstVersion(network, "veth1500", {"VERBENA_ROCE": "v1,v2"})
    subnet = Subnet(network.host(), staged.verbena)
    start_daemon(subnet.host)
    found = []
    for key, _, spines, leaves, hosts, _, _ in SIZES:
        file = subnet.write(key, topology(spines, leaves, hosts))
        found += [Row("opensm " + key, lambda file=file: subnet.ours(file), "less", ("opensm",)),
                  Row("ibsim " + key, lambda file=file: subnet.ibsims(file), None, ("opensm", "ibsim"))]
    count = str(max(200, volume // MIB))
    return found + [
        Row("RoCEv2 WRITE 1 MiB", lambda: place.bandwidth("ib_write_bw", MIB, [], volume), "more", ("ib_write_bw",)),
        Row("switched WRITE 1 MiB", lambda: switched.perftest(1, "ib_write_bw", ["-s", str(MIB), "-n", count, "--report_gbits"])[3],
            "more", ("ib_write_bw", "opensm")),
        Row("cut", switched.cut, "less", ("ib_write_bw", "opensm")),
        Row("one hop", lambda: switched.perftest(1, "ib_send_lat", ["-s", "8", "-n", str(rounds)])[4], "less", ("ib_send_lat", "opensm")),
        Row("ten hops", lambda: switched.perftest(HOPS, "ib_send_lat", ["-s", "8", "-n", str(rounds)])[4], "less",
            ("ib_send_lat", "opensm")),
        Row("packets", lambda: first.packet_blast(blaster, "sendmmsg", seconds)),
        Row("rings", lambda: first.packet_blast(blaster, "ring", seconds)),
        Row("RoCEv1 WRITE 64 KiB", lambda: first.bandwidth("ib_write_bw", 65536, [], volume), "more", ("ib_write_bw",)),
    ]


def table(results, repeat, quick):
    """The report as Markdown."""
    lines = [machine(repeat), "", "| software InfiniBand and RoCEv1 | | against | goal | |", "|---|---|---|---|---|"]
    for key, words, _, _, _, limit, factor in SIZES:
        ours, theirs = results["opensm " + key], results["ibsim " + key]
        lines.append("| ibsim: opensm to SUBNET UP, %s | %.2f s | | | |" % (words, theirs))
        ratio, met = ours / theirs, ours < limit and not (factor and ours > factor * theirs)
        lines.append("| opensm to SUBNET UP, %s | %.2f s | %.2f × ibsim | < %d s%s | %s |" % (
            words, ours, ratio, limit, ", ≤ %.2f" % factor if factor else "", "met" if met else "**missed**"))
    lines.append("| RoCEv2, RC WRITE 1 MiB, two hosts | %.1f Gb/s | | | |" % results["RoCEv2 WRITE 1 MiB"])
    switched = results["switched WRITE 1 MiB"]
    lines.append("| RC WRITE 1 MiB through one switch process, three hosts | %.1f Gb/s | %s"
                 % (switched, against(switched, results["RoCEv2 WRITE 1 MiB"], "RoCEv2", SWITCH_GOAL)))
    lines.append("| a cable is cut under `ib_write_bw -D 10`: until its packets pass another switch | %.2f s | | < %d s | %s |"
                 % (results["cut"], CUT_GOAL, "met" if results["cut"] < CUT_GOAL else "**missed**"))
    lines.append("| SEND 8 B through one switch, one way | %.2f µs | | | |" % results["one hop"])
    lines.append("| SEND 8 B through ten switches, one way | %.2f µs | %s"
                 % (results["ten hops"], against(results["ten hops"], results["one hop"], "one switch", HOPS_GOAL, at_most=True)))
    lines.append("| bare packet sockets, 64 frames at once, CRC-32 (`packet_blaster sendmmsg`) | %.2f Gb/s | | | |" % results["packets"])
    lines.append("| the same by rings (`packet_blaster ring`) | %.2f Gb/s | %.2f × the blaster | | |"
                 % (results["rings"], results["rings"] / results["packets"]))
    v1, bare = results["RoCEv1 WRITE 64 KiB"], max(results["packets"], results["rings"])
    lines.append("| RoCEv1, RC WRITE 64 KiB, MTU 1500 | %.2f Gb/s | %s" % (v1, against(v1, bare, "the faster of both", V1_GOAL)))
    return "\n".join(lines)
