# SPDX-License-Identifier: MIT
"""What is tried between the two sides.

A case has a server's and a client's command line; words in braces stand for the side's own device, GID index and
operation program, and {server} and {client} for the addresses of both. Every case is run twice: with Verbena as the
client and with the kernel as the client. Counts are small: the guest is emulated, a thousand times slower than an adapter.
A case is tried once, so it must not depend on chance: who leaves first knows that the other is done, and what a program of the kernel
loses by itself is not counted against us.
"""

import os
import re
import signal
import tempfile
import time

from pylib import capture, pcapng

from .sides import CM, PLACES, ROCE_BRIDGE, Group

PINGPONG_PORT = 18515
PERFTEST_PORT = 18515
RPING_PORT = 7174
UCMATOSE_PORT = 7471
LIMIT = 120                             # seconds; under loss rxe waits half a second for each packet lost


class Failed(Exception):
    pass


class Case:
    build = None                        # of siw, if it is meant

    def __init__(self, name, server, client, listens, family=4, wanted=None, mtu=1500, disturbance=None, directions=("verbena", "kernel"),
                 endless=False):
        self.name, self.server, self.client, self.listens, self.family = name, server, client, listens, family
        self.wanted, self.mtu, self.disturbance, self.directions = wanted, mtu, disturbance, directions
        self.endless = endless

    def line(self, template, side, server, client):
        words = {"gid": side.gid(self.family)} if "{gid}" in template else {}
        return template.format(device=side.device, operation=side.operation,
                               server=server.addresses[self.family], client=client.addresses[self.family],
                               me=side.addresses[self.family], server4=server.addresses[4], **words)

    def run(self, server, client):
        serving = server.start(self.line(self.server, server, server, client), self.listens)
        if not serving.wait_until_listening():
            raise Failed("the server does not listen:\n%s" % serving.wait(0))
        asking = client.start(self.line(self.client, client, server, client))
        asked = asking.wait(LIMIT)
        if self.endless and asked.code == 0:
            server.kill(serving)
            return figure(asked.out)
        served = serving.wait(LIMIT if asked.code == 0 else 5)
        self.judge(server, client, served, asked)
        return figure(asked.out)

    def judge(self, server, client, served, asked):
        both = "client (%s):\n%s\n\nserver (%s):\n%s" % (client.name, asked, server.name, served)
        if asked.code or served.code:
            raise Failed(both)
        for out in (asked.out, served.out):
            if re.search(r"invalid data|data mismatch|completion failed|Bad wc|Failed status", out):
                raise Failed(both)
        if self.wanted and not re.search(self.wanted, asked.out + served.out):
            raise Failed("there is no `%s' in:\n%s" % (self.wanted, both))


def figure(out):
    """A word on how it went, for the table."""
    pace = re.search(r"([\d.]+) usec/iter", out)
    if pace:
        return "%.1f ms an iteration" % (float(pace.group(1)) / 1000)
    row = re.search(r"^[ \t]*(\d+)[ \t]+\d+[ \t]+[\d.]+[ \t]+([\d.]+)[ \t]+[\d.]+[ \t]*$", out, re.M)
    if row:
        return "%s MB/s at %s bytes" % (row.group(2), row.group(1))
    state = re.search(r"^client: (status \d+ \(.*?\))", out, re.M)
    return state.group(1) if state else ""


def pingpongs():
    rows = [("rc", "4 KiB", "-s 4096 -n 100 -c", 4), ("rc", "events", "-s 4096 -n 50 -e", 4),
            ("rc", "IPv6", "-s 4096 -n 50 -c", 6), ("rc", "1 byte", "-s 1 -n 50 -c", 4), ("rc", "1 MiB", "-s 1048576 -n 5 -c", 4),
            ("rc", "odd size", "-s 5001 -n 20 -c", 4)]
    rows += [("rc", "MTU %d" % mtu, "-s 5000 -n 20 -c -m %d" % mtu, 4) for mtu in (256, 512, 1024)]
    rows += [("uc", "4 KiB", "-s 4096 -n 50 -c", 4), ("uc", "IPv6", "-s 4096 -n 50 -c", 6),
             ("uc", "MTU 256", "-s 1000 -n 20 -c -m 256", 4), ("ud", "1 KiB", "-s 1024 -n 50 -c", 4),
             ("ud", "IPv6", "-s 1024 -n 50 -c", 6), ("ud", "1 byte", "-s 1 -n 20 -c", 4),
             ("srq", "4 KiB", "-s 4096 -n 100 -c", 4), ("srq", "IPv6", "-s 4096 -n 100 -c", 6),
             ("srq", "events", "-s 4096 -n 100 -e", 4)]
    for transport, what, options, family in rows:
        tool = "ibv_%s_pingpong" % transport
        common = "%s -d {device} -g {gid} %s" % (tool, options)
        yield Case("%s, %s" % (tool, what), common, common + " {server4}", PINGPONG_PORT, family)
    for mtu in (2048, 4096):
        common = "ibv_rc_pingpong -d {device} -g {gid} -s 20000 -n 20 -c -m %d" % mtu
        yield Case("ibv_rc_pingpong, MTU %d" % mtu, common, common + " {server4}", PINGPONG_PORT, mtu=9000)


def perftests():
    sizes = ((1, 50), (64, 50), (1024, 50), (4097, 30), (65536, 20), (1048576, 5))
    rows = []
    for tool in ("send", "write", "read"):
        rows += [("ib_%s_bw" % tool, "RC, %d bytes" % size, "-s %d -n %d" % (size, count), 4) for size, count in sizes]
        rows += [("ib_%s_bw" % tool, "RC, MTU %d" % mtu, "-s 20000 -n 10 -m %d" % mtu, 4) for mtu in (256, 512, 1024)]
        rows += [("ib_%s_bw" % tool, "RC, bidirectional", "-s 16384 -n 20 -b", 4),
                 ("ib_%s_bw" % tool, "RC, 4 QPs", "-s 16384 -n 10 -q 4", 4),
                 ("ib_%s_bw" % tool, "RC, IPv6", "-s 16384 -n 20", 6),
                 ("ib_%s_lat" % tool, "RC", "-s 64 -n 50", 4), ("ib_%s_lat" % tool, "RC, 16 KiB", "-s 16384 -n 20", 4)]
    for tool in ("send", "write"):
        rows += [("ib_%s_bw" % tool, "UC", "-s 4096 -n 10 -c UC", 4), ("ib_%s_lat" % tool, "UC", "-s 64 -n 50 -c UC", 4),
                 ("ib_%s_bw" % tool, "UC, IPv6", "-s 1024 -n 10 -c UC", 6)]
    rows += [("ib_send_bw", "UD", "-s 1024 -n 20 -c UD", 4), ("ib_send_bw", "UD, IPv6", "-s 512 -n 20 -c UD", 6),
             ("ib_send_lat", "UD", "-s 64 -n 50 -c UD", 4), ("ib_send_bw", "RC, shared receive", "-s 4096 -n 20 -q 2 --use-srq", 4),
             ("ib_send_bw", "RC, events", "-s 4096 -n 20 -e", 4)]
    for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
        rows += [("ib_atomic_bw", kind, "-n 30 -A " + kind, 4), ("ib_atomic_lat", kind, "-n 30 -A " + kind, 4)]
    rows += [("ib_atomic_bw", "4 QPs", "-n 10 -q 4", 4), ("ib_atomic_bw", "IPv6", "-n 20", 6)]
    for tool, what, options, family in rows:
        yield perftest(tool, what, options, family)
    for mtu in (2048, 4096):
        for tool in ("send", "write", "read"):
            yield perftest("ib_%s_bw" % tool, "RC, MTU %d" % mtu, "-s 100000 -n 10 -m %d" % mtu, 4, mtu=9000)
    for size in (2048, 65536):
        yield Segments(size)
    for tool in ("send", "write", "read"):
        common = "ib_%s_bw -d {device} -F -R -s 16384 -n 20" % tool
        yield Case("ib_%s_bw -R" % tool, common, common + " {server}", CM)


def perftest(tool, what, options, family, **more):
    # A timeout (-u) of a second instead of 67 ms: what is judged is not how quick an emulated guest is.
    common = "%s -d {device} -x {gid} -F -u 18 %s" % (tool, options)
    return Case("%s, %s" % (tool, what), common, common + " {server4}", PERFTEST_PORT, family, **more)


class Segments(Case):
    """What the kernel of our host splits (GSO) carries the ICRC of the identification that each segment gets: some number, and those after
    it. The guest takes it, or drops it without a word; here the wire is looked at as well."""

    def __init__(self, size):
        common = "ib_write_bw -d {device} -x {gid} -F -s %d -n 20" % size
        super().__init__("ib_write_bw, segments of %d bytes" % size, common, common + " {server4}", PERFTEST_PORT, directions=("verbena",))

    def run(self, server, client):
        with tempfile.TemporaryDirectory(prefix="verbena-interop-") as folder:
            path = os.path.join(folder, "wire.pcap")
            sniffer = sniff(client, "r1", path, "udp dst port 4791 and src host " + client.addresses[4])
            super().run(server, client)
            stop(sniffer)
            count, _, wrong = capture.judge(path)
            identifications = {frame[18] << 8 | frame[19] for frame in capture.frames(path)}
        if wrong:
            raise Failed("%d of %d packets have a wrong ICRC:\n%s" % (len(wrong), count, "\n".join(wrong[:10])))
        # Each send begins one beyond the one before it: all in one piece, though it may pass 65,535.
        first = [i for i in identifications if (i - 1) % 65536 not in identifications]
        if len(first) != 1 or len(identifications) < 2:
            raise Failed("identifications: %s" % sorted(identifications))
        return "%d packets, %d identifications from %d on, every ICRC right" % (count, len(identifications), first[0])


def connections():
    for family in (4, 6):
        suffix = ", IPv%d" % family
        yield Case("rping" + suffix, "rping -s -a {server} -C 10 -v -V", "rping -c -a {server} -C 10 -v -V", CM, family,
                   wanted="ping data: rdma-ping-9")
        yield Case("udaddy" + suffix, "udaddy -b {server} -C 5 -S 200", "udaddy -s {server} -b {client} -C 5 -S 200", CM, family)
        yield Case("ucmatose" + suffix, "ucmatose -b {server} -c 5 -C 5 -S 200", "ucmatose -s {server} -b {client} -c 5 -C 5 -S 200",
                   CM, family)
        yield Case("rdma_client" + suffix, "rdma_server -s {server}", "rdma_client -s {server}", CM, family)
    yield Case("rping, 64 KiB", "rping -s -a {server} -C 3 -S 65000 -V", "rping -c -a {server} -C 3 -S 65000 -V", CM)
    yield Case("ucmatose, 40 connections", "ucmatose -b {server} -c 40 -C 2 -S 64", "ucmatose -s {server} -c 40 -C 2 -S 64", CM)
    yield Case("ucmatose, ids migrate", "ucmatose -b {server} -c 3 -C 2 -m", "ucmatose -s {server} -c 3 -C 2 -m", CM)
    yield Case("cmtime", "cmtime -b {server} -c 10", "cmtime -s {server} -c 10", CM, endless=True)
    yield Case("rstream", "rstream -b {server} -S 1024 -C 20 -I 1", "rstream -s {server} -S 1024 -C 20 -I 1", CM)
    yield Case("riostream", "riostream -b {server} -S 1024 -C 20 -I 1", "riostream -s {server} -S 1024 -C 20 -I 1", CM)
    yield Multicast()
    yield NoListener()
    yield KilledPeer("the server is killed", "server")
    yield KilledPeer("the client is killed", "client")


class Multicast(Case):
    """mckey. As a sender it asks for no completions and destroys its queue pair as soon as it has posted: rxe then drops what has not left,
    all of it at times. So with the kernel as sender it is counted: what arrived at our interface must have been delivered, all of it,
    whether the receiver got as many as it waits for or not. It is told to send many, so that some leave."""
    GROUP, MANY = "233.252.0.1", 100

    def __init__(self):
        super().__init__("mckey", "mckey -m %s -b {server} -C %d -S 200" % (self.GROUP, self.MANY),
                         "mckey -m %s -b {client} -C %d -S 200 -s" % (self.GROUP, self.MANY), Group(self.GROUP))

    def run(self, server, client):
        if server.name == "kernel":
            return super().run(server, client)
        with tempfile.TemporaryDirectory(prefix="verbena-interop-") as folder:
            os.chmod(folder, 0o777)
            return self.count(server, client, os.path.join(folder, "wire.pcap"), os.path.join(folder, "ours.pcapng"))

    def count(self, server, client, wire, ours):
        sniffer = sniff(server, ROCE_BRIDGE, wire, "udp dst port 4791 and dst host " + self.GROUP)
        receiving = server.start(self.line(self.server, server, server, client), self.listens, {"VERBENA_CAPTURE": ours})
        if not receiving.wait_until_listening():
            raise Failed("the receiver has not joined:\n%s" % receiving.wait(0))
        sent = client.start(self.line(self.client, client, server, client)).wait(LIMIT)
        if sent.code:
            raise Failed("the sender:\n%s" % sent)
        # The sender has gone, its queue pair too: nothing more comes, but tcpdump and our program may still be at it.
        limit, last, arrived, delivered = time.monotonic() + LIMIT / 2, None, 0, 0
        while time.monotonic() < limit and (arrived != delivered or last != (arrived, delivered)):
            last = arrived, delivered
            time.sleep(1)
            arrived, delivered = sum(1 for _ in capture.frames(wire)), pcapng.receives(ours)
        stop(sniffer)
        received = receiving.wait(LIMIT if arrived == self.MANY else 0)
        if delivered != arrived or arrived == 0 or (arrived == self.MANY and received.code):
            raise Failed("%d posted, %d arrived at our interface, %d delivered\n%s" % (self.MANY, arrived, delivered, received))
        return "of %d posted %d left, all delivered" % (self.MANY, arrived)


def sniff(side, interface, path, expression):
    sniffer = side.host.start("tcpdump", "-i", interface, "-U", "--immediate-mode", "-B", "32768", "-Z", "root", "-w", path, expression,
                              privileged=True)
    if not sniffer.wait_until(lambda process: "listening on" in process.output()):
        raise Failed("tcpdump: %s" % sniffer.output())
    return sniffer


def stop(sniffer):
    sniffer.signal(signal.SIGINT)
    sniffer.wait(10)


class NoListener(Case):
    """Rejected at once with reason 8, invalid service ID."""

    def __init__(self):
        super().__init__("rping, nobody listens", None, "rping -c -a {server} -p 9999 -C 1", None)

    def run(self, server, client):
        # Somebody must be there to say no: where no program uses RDMA, Verbena has no port open.
        other = server.start("rping -s -a %s -p 9998" % server.addresses[4], CM)
        if not other.wait_until_listening():
            raise Failed("the other server does not listen:\n%s" % other.wait(0))
        asked = client.start(self.line(self.client, client, server, client)).wait(LIMIT)
        if asked.code == 0 or not re.search(r"REJECTED, error 8", asked.out):
            raise Failed("no rejection with reason 8:\n%s" % asked)
        return "rejected, reason 8, after %.1f s" % asked.seconds


class KilledPeer(Case):
    """kill -9 in the middle of a long rping: the other side is told, and ends."""

    def __init__(self, what, victim):
        super().__init__("rping, " + what, "rping -s -a {server} -C 100000", "rping -c -a {server} -C 100000 -v", CM)
        self.victim = victim

    def run(self, server, client):
        serving = server.start(self.line(self.server, server, server, client), CM)
        if not serving.wait_until_listening():
            raise Failed("the server does not listen:\n%s" % serving.wait(0))
        asking = client.start(self.line(self.client, client, server, client))
        if not asking.wait_for_output("rdma-ping-2"):
            raise Failed("no traffic:\n%s\n%s" % (asking.wait(0), serving.wait(0)))
        killed, survivor = (serving, asking) if self.victim == "server" else (asking, serving)
        killed.side.kill(killed)
        began = time.monotonic()
        left = survivor.wait(20)
        took = time.monotonic() - began
        if left.timed_out:
            raise Failed("the survivor still waits:\n%s" % left)
        return "the other side knows after %.1f s" % took


# What the client sees, where the two answer differently: docs/interop.md says why.
SUCCESS, REMOTE_INVALID_REQUEST, REMOTE_ACCESS, REMOTE_OPERATION = 0, 9, 10, 11
DIFFERENT = {"toolong": {"verbena": REMOTE_OPERATION, "kernel": REMOTE_INVALID_REQUEST},
             "sendinv": {"verbena": SUCCESS, "kernel": REMOTE_ACCESS}}
OPERATIONS = ("send0", "send1", "send5", "sendimm", "sendsol", "write0", "write3", "writeimm", "read0", "read7", "readbig",
              "fadd", "cas", "rnr", "badkeyw", "badkeyr", "badkeya", "boundw", "boundr", "noperm", "reject", "pdata", "lazy", "bulk", "pingpong")


def operations():
    for name in OPERATIONS:
        yield Case("operation %s" % name, "{operation} -s {server} %s" % name, "{operation} -c {server} %s" % name, CM)
    for name, statuses in DIFFERENT.items():
        for client, status in statuses.items():
            yield Case("operation " + name, "{operation} -s {server} " + name, "{operation} -c {server} %s %d" % (name, status), CM,
                       directions=(client,))
    yield Case("operation bulk, IPv6", "{operation} -s {server} bulk", "{operation} -c {server} bulk", CM, 6)
    yield Case("operation bulk, MTU 9000", "{operation} -s {server} bulk", "{operation} -c {server} bulk", CM, mtu=9000)


DISTURBANCES = (("1 % loss", "loss 1%"), ("5 % loss", "loss 5%"), ("reordering", "delay 3ms reorder 99%"), ("duplication", "duplicate 5%"))


def disturbed():
    """netem in the guest, on what leaves it (roce) or on what arrives (ifb0). Not with ibv_rc_pingpong, which says no goodbye: when its last
    acknowledgement is lost, its sender has gone and rxe repeats for ever."""
    for what, netem in DISTURBANCES:
        for side, device in (("from", "roce"), ("to", "ifb0")):
            suffix = ", %s %s the kernel" % (what, side)
            yield Case("operation bulk" + suffix, "{operation} -s {server} bulk", "{operation} -c {server} bulk", CM,
                       disturbance=(device, netem))
            yield Case("operation pingpong" + suffix, "{operation} -s {server} pingpong", "{operation} -c {server} pingpong", CM,
                       disturbance=(device, netem))
            # Several messages of several packets are under way at once.
            if "loss" in netem:
                yield perftest("ib_send_bw", "RC, 4 KiB" + suffix, "-s 4096 -n 100", 4, disturbance=(device, netem))
                yield perftest("ib_write_bw", "RC, 100 KiB" + suffix, "-s 102400 -n 5", 4, disturbance=(device, netem))
        yield Case("rping, %s from the kernel" % what, "rping -s -a {server} -C 20 -V", "rping -c -a {server} -C 20 -V", CM,
                   disturbance=("roce", netem))


class Stream(Case):
    """By iWARP: the kernel's siw, in one of its builds, and our settings (VERBENA_IWARP)."""

    def __init__(self, name, server, client, listens=CM, family=4, settings="", build="plain", **more):
        super().__init__(name + (", " + settings if settings else "") + (", siw with " + build if build != "plain" else ""),
                         server, client, listens, family, **more)
        self.settings, self.build = settings, build

    def line(self, template, side, server, client):
        ours = "env VERBENA_IWARP=%s " % self.settings if self.settings and side.name == "verbena" else ""
        return ours + super().line(template, side, server, client)


def rpings(what="rping", size=100, **more):
    ping = "rping -%s -a {server} -C 10 -V -S %d"
    return Stream(what, ping % ("s", size), ping % ("c", size), RPING_PORT, **more)


def ucmatoses(count, **more):
    # Of 40 the guest has no memory for the completion queues.
    common = "-c %d -C 5 -S 1000" % count
    return Stream("ucmatose, %d connections" % count, "ucmatose -b {server} " + common, "ucmatose -s {server} " + common,
                  UCMATOSE_PORT, **more)


def perftest_streams(tool, what, options, **more):
    common = "ib_%s -d {device} -F -R %s" % (tool, options)
    return Stream("ib_%s -R%s" % (tool, ", " + what if what else ""), common, common + " {server}", PERFTEST_PORT, **more)


# By iWARP, what the client sees (ibv_wc_status; -1: posting fails), Verbena as client and the kernel as client. A SEND or WRITE has
# completed when TCP has it, before the peer refuses it; but siw may fail one that it has sent and not yet counted when the refusal comes.
# Of a READ that is refused siw flushes its own; we say what the peer said. What has no message in RDMAP cannot be posted on either side.
GONE = "0,2,5"
FINE = ("send0", "send1", "send5", "sendsol", "write0", "write3", "read0", "read7", "readbig", "bulk", "pingpong", "lazy", "reject", "pdata0",
        "pdata", "pdata251")
STREAM_OPERATIONS = {
    **{name: (0, 0) for name in FINE}, **{name: (-1, -1) for name in ("sendimm", "writeimm", "fadd", "cas")},
    **{name: (0, GONE) for name in ("badkeyw", "boundw", "noperm", "toolong", "sendinv")}, **{name: (10, 5) for name in ("badkeyr", "boundr")},
    "rnr": (None, 0),                   # siw ends the connection where no receive is posted
}
OF_EACH_BUILD = ("send5", "readbig", "bulk", "reject", "pdata251", "lazy", "badkeyr")


def stream_operations(names=tuple(STREAM_OPERATIONS), **more):
    for name in names:
        for client, status in zip(("verbena", "kernel"), STREAM_OPERATIONS[name]):
            if status is not None:
                yield Stream("operation " + name, "{operation} -s {server} " + name, "{operation} -c {server} %s %s" % (name, status),
                             directions=(client,), wanted="private data not today" if name == "reject" else None, **more)


class ManyPings(Stream):
    """Clients at once, to one server that stays: ours. In the emulated guest rping keeps one request at hand, and loses it when another
    comes before it has looked ("rdma_create_qp: Invalid argument", with three at once)."""

    def __init__(self, count):
        one = "rping -c -a {server} -C 5 -V"
        many = "p=; for i in $(seq %d); do %s & p=\"$p $!\"; done; r=0; for i in $p; do wait $i || r=1; done; exit $r" % (count, one)
        super().__init__("rping, %d at once" % count, "rping -s -P -a {server}", "sh -c '%s'" % many, RPING_PORT, endless=True,
                         directions=("kernel",))


class KilledStream(Stream):
    def __init__(self, what, victim, **more):
        super().__init__("rping, " + what, "rping -s -a {server} -C 100000", "rping -c -a {server} -C 100000 -v", RPING_PORT, **more)
        self.victim = victim

    run = KilledPeer.run


class EveryKind(Stream):
    """One listener on all addresses serves clients of RoCE and of iWARP at once."""

    def __init__(self):
        ping = "rping -c -a %s -C 10 -V"
        first, second = (ping % PLACES[kind]["ours"][4] for kind in ("roce", "iwarp"))
        super().__init__("rping, clients of RoCE and of iWARP at once", "env VERBENA_TRANSPORT=roce,iwarp rping -s -P -a 0.0.0.0",
                         "sh -c '%s & a=$!; %s & b=$!; wait $a && wait $b'" % (first, second), CM, directions=("kernel",), endless=True)


def streams():
    for settings in ("", "crc=off", "crc=on,fpdu=segment", "crc=off,fpdu=large"):
        yield rpings("rping, 60000 bytes", 60000, settings=settings)
    yield rpings("rping, IPv6", family=6)
    yield rpings(settings="p2p=on")
    yield ManyPings(20)
    for count in (2, 10):
        yield ucmatoses(count)
    yield Stream("rdma_client", "rdma_server -s {server}", "rdma_client -s {server}", UCMATOSE_PORT)
    yield Stream("cmtime", "cmtime -b {server} -c 10", "cmtime -s {server} -c 10", endless=True)
    for program in ("rstream", "riostream"):
        yield Stream(program, program + " -b {server} -S 1024 -C 20 -I 1", program + " -s {server} -S 1024 -C 20 -I 1")
    for tool in ("send", "write", "read"):
        for size, count in ((1, 50), (64, 50), (4097, 30), (65536, 20), (1048576, 5)):
            yield perftest_streams(tool + "_bw", "%d bytes" % size, "-s %d -n %d" % (size, count))
        yield perftest_streams(tool + "_bw", "16384 bytes", "-s 16384 -n 20", settings="crc=off")
        yield perftest_streams(tool + "_lat", "", "-s 64 -n 50")
    yield from stream_operations()
    yield from stream_operations(("bulk", "readbig"), settings="crc=off")
    yield from stream_operations(("bulk", "pingpong"), family=6)
    yield KilledStream("the server is killed", "server")
    yield KilledStream("the client is killed", "client")
    yield EveryKind()
    # With siw's own choices turned round. Last, as a build stays loaded.
    for build in ("crc", "p2p"):
        yield rpings("rping, 60000 bytes", 60000, build=build)
        yield ucmatoses(2, build=build)
        yield from stream_operations(OF_EACH_BUILD, build=build)
    yield perftest_streams("write_bw", "65536 bytes", "-s 65536 -n 20", build="crc")
    yield perftest_streams("read_bw", "65536 bytes", "-s 65536 -n 20", build="crc")
    yield KilledStream("the server is killed", "server", build="p2p")


IWARP_GROUPS = (("stream", streams),)
GROUPS = (("pingpong", pingpongs), ("perftest", perftests), ("connection", connections), ("operation", operations),
          ("disturbed", disturbed))
QUICK = ("ibv_rc_pingpong, 4 KiB", "ibv_rc_pingpong, IPv6", "ibv_uc_pingpong, 4 KiB", "ibv_ud_pingpong, 1 KiB", "ib_write_bw, RC, 65536 bytes",
         "ib_read_bw, RC, 65536 bytes", "ib_atomic_bw, FETCH_AND_ADD", "rping, IPv4", "rping, IPv6", "udaddy, IPv4", "rdma_client, IPv4",
         "rping, nobody listens", "operation badkeyw", "operation toolong", "operation bulk", "operation bulk, 1 % loss from the kernel",
         # By iWARP.
         "rping, 60000 bytes", "rping, 60000 bytes, crc=on,fpdu=segment", "rping, p2p=on", "ucmatose, 2 connections", "rdma_client",
         "cmtime",
         "ib_send_bw -R, 65536 bytes", "ib_write_lat -R", "ib_read_bw -R, 65536 bytes", "rping, 60000 bytes, siw with crc",
         "rping, 60000 bytes, siw with p2p")
