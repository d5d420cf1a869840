# SPDX-License-Identifier: MIT
"""rsockets: the programs of rdmacm-utils that use them, and TCP programs that librspreload.so makes use them."""

import glob
import hashlib
import os
import re
import tempfile
import time

from pylib import clients
from pylib.clients import PLACES, ClientCase, add, expand, across, which
from pylib.hosts import PATIENCE

MAIN_PLACES = ("lo_v4", "lo_v6", "veth1500_v4", "veth1500_v6")

# Of RC WRITEs.
LAST_WITH_IMMEDIATE, ONLY, ONLY_WITH_IMMEDIATE = 0x09, 0x0a, 0x0b

# name: options of both sides
RSTREAM = {
    "small": "-S 64 -C 2000 -T v",
    "middle": "-S 5000 -C 300 -T v",
    "large": "-S 300000 -C 20 -T v",
    "blocking": "-S 100000 -C 50 -T b -T v",
    "polling": "-S 5000 -C 300 -T a -T v",
    "nonblocking": "-S 5000 -C 300 -T n -T v",
    "tiny_buffers": "-S 20000 -C 20 -B 2048 -T v",
    "no_inline": "-S 40 -C 500 -i 0 -T v",
    "keep_alive": "-S 1000 -C 100 -k 1 -T b",
    "fork": "-S 1000 -C 100 -T f",
}
RIOSTREAM = {
    "small": "-S 64 -C 500 -T v",
    "large": "-S 100000 -C 30 -T v",
    "blocking": "-S 5000 -C 100 -T b -T v",
}


def preload():
    found = glob.glob("/usr/lib/*/rsocket/librspreload.so")
    return found[0] if found else None


class RsocketCase(ClientCase):
    # A refused client may ask again: nobody outside sees when an rsocket listens.
    LISTEN_TIMEOUT = PATIENCE

    def peer(self):
        """The server's address, of the family of this case."""
        return PLACES[self.place]["gids"][0]

    def settle(self, place):
        self.place = place
        super().settle(place)

    def meet(self, server_argv, client_argv, environment=None, server_ends=True):
        """Run the client until it has found the server listening; both must succeed. Returns their outputs."""
        server = self.server.start(*server_argv, environment=environment)
        limit = time.monotonic() + self.LISTEN_TIMEOUT
        while True:
            client = self.client.run(*client_argv, environment=environment, timeout=self.TIMEOUT)
            if client.code == 0 or client.timed_out or not server.running() or time.monotonic() > limit:
                break
            time.sleep(0.05)
        if not server_ends:
            self.assertTrue(server.running(), server.output())
            server.kill()
            self.assertEqual(client.code, 0, client)
            return server.output(), client.out
        served = server.wait(self.TIMEOUT if client.code == 0 else 2)
        if client.code or served.code:
            self.fail("client:\n%s\n\nserver:\n%s" % (client, served))
        return served.out, client.out


class Streams(RsocketCase):
    def streams(self, program, options):
        address = self.peer()
        words = options.split() + (["-f", "ipv6"] if ":" in address else [])
        for out in self.meet([which(program), "-b", address, *words], [which(program), "-s", address, *words]):
            self.assertRegex(out, r"(?m)^custom ")
            self.assertNotIn("verification failed", out)


for name, options in RSTREAM.items():
    for place in MAIN_PLACES:
        add(Streams, "test_rstream__%s__%s" % (name, place), place, Streams.streams, "rstream", options)
for name, options in RIOSTREAM.items():
    for place in MAIN_PLACES:
        add(Streams, "test_riostream__%s__%s" % (name, place), place, Streams.streams, "riostream", options)


@expand
class Packets(RsocketCase):
    @across(["veth1500_v4", "veth1500_v6"])
    def test_long_messages(self):
        """They are cut so that their ends are packets of their own (rdmacm/rsocket/stream_cut.h): none ends by a LAST with immediate data."""
        folder = tempfile.TemporaryDirectory(prefix="verbena-capture-")
        os.chmod(folder.name, 0o777)
        self.addCleanup(folder.cleanup)
        path, address = os.path.join(folder.name, "x.pcapng"), self.peer()
        words = [which("rstream"), "-S", "65536", "-I", "40", "-C", "1", "-T", "v", *(["-f", "ipv6"] if ":" in address else [])]
        self.meet([*words, "-b", address], [clients.staged.verbena, "run", "--capture", path, *words, "-s", address])
        shown = self.client.run(which("tshark"), "-n", "-r", path, "-Y", "infiniband", "-T", "fields", "-e", "infiniband.bth.opcode",
                                "-e", "udp.length", environment={"HOME": folder.name})
        rows = [tuple(int(word, 0) for word in line.split()) for line in shown.out.splitlines() if re.match(r"\d+\s+\d+$", line)]
        lengths = {wanted: [length for opcode, length in rows if opcode == wanted] for wanted in (LAST_WITH_IMMEDIATE, ONLY, ONLY_WITH_IMMEDIATE)}
        self.assertEqual(lengths[LAST_WITH_IMMEDIATE], [], shown)
        # Each as long as those of a WRITE of one packet.
        self.assertGreaterEqual(lengths[ONLY_WITH_IMMEDIATE].count(max(lengths[ONLY])), 40, shown)


class CopyCase(RsocketCase):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-copy-")
        os.chmod(self.folder.name, 0o777)
        self.addCleanup(self.folder.cleanup)
        self.source = os.path.join(self.folder.name, "source")
        self.target = os.path.join(self.folder.name, "target")

    def make_source(self, length):
        with open(self.source, "wb") as file:
            file.write(os.urandom(1 << 20) * (length >> 20))
        os.chmod(self.source, 0o644)

    def assert_copied(self):
        digests = [hashlib.sha256(open(path, "rb").read()).hexdigest() for path in (self.source, self.target)]
        self.assertEqual(digests[0], digests[1])


@expand
class Copies(CopyCase):
    @across(["lo_v4", "veth1500_v4"])
    def test_rcopy(self):
        self.make_source(20 << 20)
        self.meet([which("rcopy")], [which("rcopy"), self.source, "%s:%s" % (self.peer(), self.target)], server_ends=False)
        self.assert_copied()

    @across(["lo_v4", "veth1500_v4"])
    def test_netcat(self):
        """100 MB through traditional netcat, whose sockets are rsockets and who takes no descriptor above 15."""
        self.make_source(100 << 20)
        address = self.peer()
        self.meet(["sh", "-c", "nc.traditional -l -p 7000 -s %s > %s" % (address, self.target)],
                  ["sh", "-c", "nc.traditional -q 0 %s 7000 < %s" % (address, self.source)],
                  environment={"LD_PRELOAD": preload()})
        self.assert_copied()

    @across(["lo_v4", "veth1500_v4"])
    def test_netcat_says_little(self):
        """Who writes a line and leaves may be gone before the other side has noticed that he came."""
        with open(self.source, "wb") as file:
            file.write(b"a line\n")
        os.chmod(self.source, 0o644)
        for port in range(7001, 7011):
            self.meet(["sh", "-c", "nc.traditional -l -p %d -s %s > %s" % (port, self.peer(), self.target)],
                      ["sh", "-c", "nc.traditional -q 0 %s %d < %s" % (self.peer(), port, self.source)],
                      environment={"LD_PRELOAD": preload()})
            self.assert_copied()

    @across(["lo_v4", "veth1500_v4"])
    def test_netcat_killed(self):
        """A peer that is killed is gone: nobody has to write to learn it."""
        address = self.peer()
        environment = {"LD_PRELOAD": preload()}
        server = self.server.start("nc.traditional", "-l", "-p", "7000", "-s", address, environment=environment)
        limit = time.monotonic() + self.LISTEN_TIMEOUT
        while True:
            client = self.client.start("sh", "-c", "sleep 600 | exec nc.traditional -v %s 7000" % address, environment=environment)
            client.wait_until(lambda process: re.search(r"7000 .*(open|refused)", process.output()))
            if " open" in client.output():
                break
            self.assertLess(time.monotonic(), limit, client.output())
            client.kill()
        client.kill()
        served = server.wait(self.TIMEOUT)
        self.assertFalse(served.timed_out, served)


@expand
class Preloaded(RsocketCase):
    def iperf3(self, *options):
        address = self.peer()
        _, out = self.meet(["iperf3", "-s", "-1", "-B", address], ["iperf3", "-c", address, "-t", "1", *options],
                           environment={"LD_PRELOAD": preload()})
        moved = re.findall(r"([\d.]+) ([KMGT]?)bits/sec.*receiver", out)
        self.assertTrue(moved, out)
        self.assertGreater(float(moved[-1][0]), 0, out)

    @across(MAIN_PLACES)
    def test_iperf3(self):
        self.iperf3()

    @across(["lo_v4"])
    def test_iperf3_reverse(self):
        self.iperf3("-R")

    @across(["lo_v4"])
    def test_iperf3_parallel(self):
        self.iperf3("-P", "4")


@expand
class Datagrams(RsocketCase):
    def ask(self, address, size):
        """udpong takes an answer that comes late for the one to the next question, and then waits for ever: ask again."""
        for _ in range(5):
            result = self.client.run(which("udpong"), "-s", address, "-C", "300", "-S", size, timeout=20)
            if result.code == 0:
                break
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out, r"(?m)^custom ")

    @across(MAIN_PLACES)
    def test_udpong(self):
        address = self.peer()
        server = self.server.start(which("udpong"), "-b", address)
        for size in ("16", "1000", "1500"):
            self.ask(address, size)
        self.assertTrue(server.running(), server.output())


@expand
class Stopped(ClientCase):
    """One side's process is stopped. With TCP its kernel would go on to acknowledge; here nobody does."""

    @across(["lo_v4", "veth1500_v4"])
    def test_that_goes_on(self):
        """Nothing is lost."""
        program = ["python3", clients.staged.script("stopped.py")]
        server = self.server.start(*program, "serve", self.address)
        client = self.client.start(*program, "connect", self.address, str(server.pid))
        ended = client.wait(self.TIMEOUT)
        self.assertEqual((ended.code, ended.out), (0, "sent 1000\nechoed 1000\n"), ended)
        self.assertIn("got 1000\n", server.wait(self.TIMEOUT).out)
