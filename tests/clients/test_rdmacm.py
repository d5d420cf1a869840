# SPDX-License-Identifier: MIT
"""The programs of rdmacm-utils, perftest -R and fio's rdma engine: connection management as unmodified programs use it."""

import os
import re
import struct
import tempfile
import time

from pylib.clients import PLACES, ClientCase, across, add, expand, perftest_rows, which

MAIN_PLACES = ("lo_v4", "lo_v6", "veth1500_v4", "veth1500_v6")
IPV4_PLACES = ("lo_v4", "veth1500_v4")
THREE_PLACES = ("lo_v4", "veth1500_v4", "veth1500_v6")

# program: (options of the server, of the client), {address} being the server's
PAIRS = {
    "rping": ("rping", "-s -a {address} -C 100 -v", "rping", "-c -a {address} -C 100 -v"),
    "rping_validated": ("rping", "-s -a {address} -C 50 -V -S 60000", "rping", "-c -a {address} -C 50 -V -S 60000"),
    "ucmatose": ("ucmatose", "-b {address} -c 100", "ucmatose", "-s {address} -c 100"),
    "ucmatose_sizes": ("ucmatose", "-b {address} -c 3 -C 50 -S 10000", "ucmatose", "-s {address} -c 3 -C 50 -S 10000"),
    "udaddy": ("udaddy", "-b {address} -c 5", "udaddy", "-s {address} -c 5"),
    "rdma_server": ("rdma_server", "-s {address}", "rdma_client", "-s {address}"),
    "rdma_xserver": ("rdma_xserver", "-c r", "rdma_xclient", "-s {address} -c r"),
    "rdma_xserver_xrc": ("rdma_xserver", "-c x", "rdma_xclient", "-s {address} -c x"),
}
EXPLAIN = {"VERBENA_EXPLAIN": "1"}
PERFTEST = {
    "write_bw": "ib_write_bw -s 65536 -n 500",
    "read_bw": "ib_read_bw -s 65536 -n 100",
    "send_lat": "ib_send_lat -n 500",
    "send_bw_4_qps": "ib_send_bw -q 4 -n 300",
    "send_bw_ud": "ib_send_bw -c UD -s 1000 -n 500",
    "exchange_only": "ib_write_lat -z -n 200",
}


class ConnectionCase(ClientCase):
    # Nobody outside sees when an id listens: a refused client asks again.
    LISTEN_TIMEOUT = 20

    def settle(self, place):
        self.place = place
        super().settle(place)
        self.peer = PLACES[place]["gids"][0]

    def until_served(self, server, *client_argv, wanted=""):
        """Run the client until it has found the server listening; `wanted` in its output says so where its exit code does not."""
        limit = time.monotonic() + self.LISTEN_TIMEOUT
        while True:
            client = self.client.run(*client_argv, timeout=self.TIMEOUT)
            if ((client.code == 0 and re.search(wanted, client.out)) or client.timed_out or not server.running() or
                    time.monotonic() > limit):
                return client
            time.sleep(0.05)

    def meet(self, server_argv, client_argv):
        """Both must succeed. Returns their outputs."""
        server = self.server.start(*server_argv)
        client = self.until_served(server, *client_argv)
        served = server.wait(self.TIMEOUT if client.code == 0 else 2)
        if client.code or served.code:
            self.fail("client:\n%s\n\nserver:\n%s" % (client, served))
        return served.out, client.out

    def ping(self, count=5):
        return [which("rping"), "-c", "-a", self.peer, "-C", str(count), "-v"]


class Programs(ConnectionCase):
    def pair(self, server, server_options, client, client_options):
        self.meet([which(server), *server_options.format(address=self.peer).split()],
                  [which(client), *client_options.format(address=self.peer).split()])

    def perftest(self, command):
        words = command.split()
        base = [which(words[0]), "-F", "-d", self.device, *words[1:], *([] if "-z" in words else ["-R"])]
        for out in self.meet(base, base + [self.peer]):
            self.assertTrue(perftest_rows(out), out)


for name, (server, server_options, client, client_options) in PAIRS.items():
    for place in MAIN_PLACES:
        add(Programs, "test_%s__%s" % (name, place), place, Programs.pair, server, server_options, client, client_options)
for name, command in PERFTEST.items():
    for place in IPV4_PLACES:
        add(Programs, "test_perftest_%s__%s" % (name, place), place, Programs.perftest, command)


def castagnoli_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
        table.append(value)
    return table


CASTAGNOLI = castagnoli_table()


def crc32c(data):
    """As fio computes it: without the inversion at the end."""
    value = 0xffffffff
    for byte in data:
        value = value >> 8 ^ CASTAGNOLI[(value ^ byte) & 0xff]
    return value


@expand
class Fio(ConnectionCase):
    """fio's rdma engine knows IPv4 only. It calls itself unidirectional, so fio never has it read back what it wrote: what
    can be verified is what arrives, where fio notices the arrival. That is the receiver of sends. For the other verbs
    nobody at the passive side (write) or at the active side (read) looks: there the buffers are files, which we read."""
    BLOCK, DEPTH, SIZE = 65536, 16, "16m"

    def setUp(self):
        if which("fio") is None:
            self.skipTest("fio is not installed")
        super().setUp()
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-fio-")
        os.chmod(self.folder.name, 0o777)
        self.addCleanup(self.folder.cleanup)

    def buffers(self, name, blocks):
        """A file that fio will use as its buffers (its mem=mmapshared): one block for each request under way."""
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(b"".join(blocks))
        os.chmod(path, 0o666)
        return path

    def blocks_of(self, path):
        with open(path, "rb") as file:
            return [file.read(self.BLOCK) for _ in range(self.DEPTH)]

    def argv(self, *options):
        # The same name and with it the same seeds on both sides.
        return [which("fio"), "--name=both", "--ioengine=rdma", "--port=7000", "--bs=%d" % self.BLOCK, "--size=" + self.SIZE,
                "--iodepth=%d" % self.DEPTH, "--verify_state_save=0", *options]

    def client_argv(self, verb, *options):
        return self.argv("--rw=write", "--hostname=" + self.peer, "--verb=" + verb, *options)

    def fio(self, verb, server_options, client_options):
        """It asks for no retry where the receiver is not ready and gives it half a second: on a busy machine, once more. (Nor
        does it end then.)"""
        limit = time.monotonic() + self.TIMEOUT
        while True:
            server = self.server.start(*self.argv("--rw=read", *server_options))
            while True:
                client = self.client.start(*self.client_argv(verb, *client_options))
                client.wait_until(lambda process: "RNR retry" in process.output(), self.TIMEOUT)
                if client.running() or "WRITE: bw=" in client.output() or not server.running() or time.monotonic() > limit:
                    break
            served = server.wait(self.TIMEOUT if "WRITE: bw=" in client.output() else 2)
            told = client.wait(0)
            if "RNR retry" not in told.out or time.monotonic() > limit:
                return told, served

    def assert_moved(self, client, served):
        self.assertRegex(client.out, r"WRITE: bw=.* io=16.0MiB", served)
        self.assertEqual((client.code, served.code), (0, 0), "%s\n\n%s" % (client, served))

    # All receives wait before the first block is sent.
    RECEIVER = ("--iodepth=256", "--verify=crc32c")

    @across(IPV4_PLACES)
    def test_send(self):
        """Each block carries a checksum of its random bytes, its place and its seed; the receiver knows what to expect."""
        client, served = self.fio("send", self.RECEIVER, ["--verify=crc32c", "--do_verify=0"])
        self.assert_moved(client, served)
        self.assertRegex(served.out, r"READ: bw=.* io=16.0MiB")

    @across(["lo_v4"])
    def test_send_of_something_else(self):
        """The receiver does look: blocks without a checksum are refused."""
        server = self.server.start(*self.argv("--rw=read", *self.RECEIVER))
        limit = time.monotonic() + self.LISTEN_TIMEOUT
        while server.running() and time.monotonic() < limit:
            # Left alone by its server, this engine waits for ever.
            client = self.client.start(*self.client_argv("send"))
            server.wait_until(lambda _: not client.running())
            client.kill()
        served = server.wait(0)
        self.assertFalse(served.timed_out, "%s\n\n%s" % (served, client.output()))
        self.assertNotEqual(served.code, 0, served)
        self.assertIn("verify: bad magic header", served.out)

    def assert_written(self, blocks):
        """Each is whole: a header with the checksum of the rest, and no two are the same."""
        for block in blocks:
            magic, kind, length = struct.unpack_from("=HHI", block)
            offset, = struct.unpack_from("=Q", block, 16)
            header_sum, data_sum = struct.unpack_from("=II", block, 36)
            self.assertEqual((magic, kind, length), (0xacca, 5, self.BLOCK))
            self.assertEqual(offset % self.BLOCK, 0)
            self.assertEqual(crc32c(block[:36]), header_sum)
            self.assertEqual(crc32c(block[44:]), data_sum)
        self.assertEqual(len(set(blocks)), len(blocks))

    @across(IPV4_PLACES)
    def test_write(self):
        """Blocks with checksums land in buffers that the server never looks at: we do."""
        path = self.buffers("server", [bytes(self.BLOCK)] * (self.DEPTH + 1))
        self.assert_moved(*self.fio("write", ["--mem=mmapshared:" + path], ["--verify=crc32c", "--do_verify=0"]))
        blocks = self.blocks_of(path)
        self.assert_written(blocks)
        for at in (20, 60000):
            spoilt = bytearray(blocks[3])
            spoilt[at] ^= 1
            with self.assertRaises(AssertionError):
                self.assert_written([bytes(spoilt)])

    @across(IPV4_PLACES)
    def test_read(self):
        """What the client read is what the server had, block by block."""
        had = [os.urandom(self.BLOCK) for _ in range(self.DEPTH)]
        server = self.buffers("server", had + [bytes(self.BLOCK)])
        client = self.buffers("client", [bytes(self.BLOCK)] * (self.DEPTH + 1))
        self.assert_moved(*self.fio("read", ["--mem=mmapshared:" + server], ["--mem=mmapshared:" + client]))
        self.assertEqual(self.blocks_of(server), had)
        read = self.blocks_of(client)
        self.assertEqual([index for index, block in enumerate(read) if block not in had], [])
        self.assertGreater(len(set(read)), 1)


@expand
class Many(ConnectionCase):
    @across(THREE_PLACES)
    def test_rping_with_32_clients(self):
        server = self.server.start(which("rping"), "-s", "-P", "-a", self.peer)
        self.assertEqual(self.until_served(server, *self.ping()).code, 0)
        clients = [self.client.start(*self.ping(20)) for _ in range(32)]
        for client in clients:
            result = client.wait(self.TIMEOUT)
            self.assertEqual(result.code, 0, "%s\n\nserver:\n%s" % (result, server.output()))
        self.assertTrue(server.running(), server.output())
        server.kill()

    @across(THREE_PLACES)
    def test_cmtime(self):
        """A thousand connections, made and ended; its server goes on for ever."""
        server = self.server.start(which("cmtime"), "-c", "1000", "-b", self.peer)
        client = self.until_served(server, which("cmtime"), "-c", "1000", "-s", self.peer)
        server.kill()
        self.assertEqual(client.code, 0, client)
        for step in ("resolve addr", "connect", "disconnect", "destroy"):
            self.assertRegex(client.out, r"(?m)^(cm )?%s[ a-z]*:? +[\d.]+" % step)


@expand
class Ends(ConnectionCase):
    # DREQ goes out as soon as the daemon sees the process gone: how soon is asked in virtual time (unit/connect/crash). Here only
    # that it does, on a machine that may be busy.
    AT_ONCE = 20
    SOON = 30  # of the 77 seconds that a REQ is repeated

    def ping_until_killed(self):
        """A server and a client that would go on for an hour."""
        server = self.server.start(which("rping"), "-s", "-a", self.peer)
        limit = time.monotonic() + self.LISTEN_TIMEOUT
        while True:
            client = self.client.start(*self.ping(10000000))
            if client.wait_until(lambda process: "rdma-ping-20:" in process.output()):
                return server, client
            self.assertLess(time.monotonic(), limit, client.output())
            client.kill()

    @across(IPV4_PLACES)
    def test_server_killed(self):
        server, client = self.ping_until_killed()
        server.kill()
        result = client.wait(self.AT_ONCE)
        self.assertFalse(result.timed_out, result)

    @across(THREE_PLACES)
    def test_server_killed_with_many_clients(self):
        """Each of them is told."""
        server = self.server.start(which("rping"), "-s", "-P", "-a", self.peer)
        self.assertEqual(self.until_served(server, *self.ping()).code, 0)
        clients = [self.client.start(*self.ping(10000000)) for _ in range(8)]
        for client in clients:
            self.assertTrue(client.wait_until(lambda process: "rdma-ping-20:" in process.output()), client.output()[-500:])
        server.kill()
        killed = time.monotonic()
        for client in clients:
            result = client.wait(max(0, killed + self.AT_ONCE - time.monotonic()))
            self.assertFalse(result.timed_out, result.out[-500:])
            self.assertRegex(result.out, "DISCONNECT|cq completion failed")

    @across(IPV4_PLACES)
    def test_client_killed(self):
        server, client = self.ping_until_killed()
        client.kill()
        result = server.wait(self.AT_ONCE)
        self.assertFalse(result.timed_out, result)
        self.assertIn("DISCONNECT", result.out)

    @across(["veth1500_v4"])
    def test_interface_removed(self):
        """Both programs hear that their device is gone, instead of waiting for a peer that cannot be reached."""
        server, client = self.ping_until_killed()
        self.server.ip("link", "del", "eth0")  # both ends of it
        for program in (server, client):
            result = program.wait(self.AT_ONCE)
            self.assertFalse(result.timed_out, result.out[-500:])
            self.assertIn("cma detected device removal", result.out)

    def outlive_the_daemons(self):
        """Server and client of a connection that goes on without them, and beside which new ones are made."""
        server = self.server.start(which("rping"), "-s", "-P", "-a", self.peer)
        self.assertEqual(self.until_served(server, *self.ping()).code, 0)
        client = self.client.start(*self.ping(10000000))
        self.assertTrue(client.wait_until(lambda process: "rdma-ping-20:" in process.output()), client.output())
        for host in {self.server, self.client}:
            host.signal_all("verbenad")
        seen = len(client.output())
        self.assertTrue(client.wait_until(lambda process: len(process.output()) > seen + 1000), client.output()[-200:])
        self.assertEqual(self.until_served(server, *self.ping()).code, 0)
        return server, client

    @across(IPV4_PLACES)
    def test_daemon_killed(self):
        """Data goes on, new connections are made, the end of the old one is told."""
        server, client = self.outlive_the_daemons()
        told = server.output().count("DISCONNECT")
        client.kill()
        self.assertTrue(server.wait_until(lambda process: process.output().count("DISCONNECT") > told), server.output())
        server.kill()

    @across(IPV4_PLACES)
    def test_nobody_listens(self):
        server = self.server.start(which("rping"), "-s", "-P", "-a", self.peer)
        self.assertEqual(self.until_served(server, *self.ping()).code, 0)
        started = time.monotonic()
        result = self.client.run(which("ucmatose"), "-s", self.peer, "-p", "7999")
        self.assertLess(time.monotonic() - started, self.AT_ONCE)
        self.assertRegex(result.out, r"RDMA_CM_EVENT_REJECTED, error: 8")

    @across(["veth1500_v4", "veth1500_v6"])
    def test_port_closed(self):
        """A host without RDMA says so: nobody waits for the REQ to be sent sixteen times."""
        self.server.signal_all("verbenad")
        self.until(lambda: not self.server.pids_of("verbenad"), "no verbenad there")
        started = time.monotonic()
        result = self.client.run(which("ucmatose"), "-s", self.peer, environment=EXPLAIN)
        self.assertLess(time.monotonic() - started, self.SOON)
        self.assertRegex(result.out, r"RDMA_CM_EVENT_UNREACHABLE, error: -111")
        self.assertIn("nothing listens on its UDP port 4791", result.out)

    @across(["veth1500_v4", "veth1500_v6"])
    def test_host_down(self):
        """Nobody has the address: told within the time the program gives rdma_resolve_addr, two seconds."""
        nobody = self.peer[:-1] + "9"
        started = time.monotonic()
        result = self.client.run(which("ucmatose"), "-s", nobody, environment=EXPLAIN)
        self.assertLess(time.monotonic() - started, self.SOON)
        self.assertRegex(result.out, r"RDMA_CM_EVENT_ADDR_ERROR, error: -110")
        self.assertIn(nobody, result.out)
        self.assertIn("nobody answers for it", result.out)

    @across(["lo_v4"])
    def test_no_route(self):
        result = self.client.run(which("ucmatose"), "-s", "192.0.2.1")
        self.assertTrue(re.search(r"RDMA_CM_EVENT_ADDR_ERROR, error: -101", result.out), result)


@expand
class Groups(ConnectionCase):
    GROUPS = {"v4": "239.77.0.9", "v6": "ff15::99"}

    @across(["veth1500_v4", "veth1500_v6"])
    def test_mckey(self):
        """Another process of its host and one of another host hear what a process says."""
        group = self.GROUPS[self.place[-2:]]
        options = ["-m", group, "-C", "5", "-S", "300"]
        here, there = PLACES[self.place]["gids"]
        receivers = []
        for host, address in ((self.server, here), (self.client, there)):
            receivers.append(host.start(which("mckey"), "-b", address, *options))
            self.until(lambda: group in host.ip("maddr", "show", "dev", "eth0"), receivers[-1].output)
        sent = self.server.run(which("mckey"), "-b", here, *options, "-s", timeout=self.TIMEOUT)
        self.assertEqual(sent.code, 0, sent)
        for receiver in receivers:
            result = receiver.wait(self.TIMEOUT)
            self.assertEqual(result.code, 0, result)
            self.assertIn("data transfers complete", result.out)
