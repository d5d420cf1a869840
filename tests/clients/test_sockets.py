# SPDX-License-Identifier: MIT
"""`verbena run --sockets`: programs that know TCP and nothing else, whose bytes go by RDMA. docs/sockets.md"""

import hashlib
import os
import re
import shutil
import tempfile

from pylib import clients
from pylib.clients import PLACES, ClientCase, across, add, expand

PROGRAM = os.path.join(os.path.dirname(os.path.realpath(__file__)), "programs", "echo.py")
PORT = 7000
# How the server waits for its connections, and where that is tried between two hosts, too.
ONE_HOST = ("lo_v4",)
BOTH = ("lo_v4", "veth1500_v4")
WAYS = {
    "blocking": ("lo_v4", "lo_v6", "veth1500_v4", "veth1500_v6"), "epoll": BOTH, "epoll_edge": BOTH, "epoll_once": ONE_HOST,
    "epoll_again": BOTH, "poll": ONE_HOST, "select": ONE_HOST, "dup": ONE_HOST, "fork": BOTH, "prefork": ONE_HOST,
}


class SocketsCase(ClientCase):
    def setUp(self):
        super().setUp()
        self.network.environment["LD_LIBRARY_PATH"] = ""
        self.folder = tempfile.mkdtemp(prefix="verbena-sockets-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        os.chmod(self.folder, 0o777)
        self.program = shutil.copy(PROGRAM, self.folder)
        os.chmod(self.program, 0o755)
        self.report = os.path.join(self.folder, "report")
        self.network.environment["VERBENA_SOCKETS_REPORT"] = self.report

    def settle(self, place):
        super().settle(place)
        self.peer = PLACES[place]["gids"][0]

    def sockets(self, *argv, ports=None):
        return (clients.staged.verbena, "run", "--sockets" + ("=" + ports if ports else ""), *argv)

    def serve(self, *argv, port=PORT):
        server = self.server.start(*argv)
        self.assertTrue(server.wait_until(lambda process: process.listens(port)), server.output())
        return server

    def see(self, host, *argv):
        result = host.run(*argv)
        self.assertEqual(result.code, 0, result)
        return result.out

    def bytes_by_rdma(self, program):
        """What connections of this program that have ended sent and received by RDMA."""
        with open(self.report) as report:
            rows = re.findall(r"^%s \d+ (\w+) sent=(\d+) received=(\d+)$" % re.escape(program), report.read(), re.M)
        return [(int(sent), int(received)) for _, sent, received in rows]

    def ask(self, how, *more, wrap=None):
        wrap = wrap or self.sockets
        self.assertIn("all came back", self.see(self.client, *wrap("python3", self.program, "ask", self.peer, str(PORT), how, *more)))


class Servers(SocketsCase):
    def echo(self, way):
        server = self.serve(*self.sockets("python3", self.program, "serve", way, self.peer, str(PORT)))
        # Twice: the second finds a server that has had one before.
        for how in ("rdma", "many" if way.startswith(("epoll", "poll", "select")) else "rdma"):
            self.ask(how)
        self.assertTrue(server.running(), server.output())


for way, places in WAYS.items():
    for place in places:
        add(Servers, "test_%s__%s" % (way, place), place, Servers.echo, way)


@expand
class Others(SocketsCase):
    def serve_echo(self, wrap, way="blocking"):
        return self.serve(*wrap("python3", self.program, "serve", way, self.peer, str(PORT)))

    @across(BOTH)
    def test_server_without(self):
        """A server that runs as ever."""
        self.serve_echo(lambda *argv: argv)
        self.ask("tcp")

    @across(BOTH)
    def test_client_without(self):
        self.serve_echo(self.sockets)
        self.ask("tcp", wrap=lambda *argv: argv)

    @across(BOTH)
    def test_by_iwarp(self):
        """An rsocket by iWARP would listen on a port of TCP's, which the connection itself has."""
        def by_iwarp(*argv):
            return [clients.staged.verbena, "run", "--iwarp", "--sockets", *argv]
        self.serve_echo(by_iwarp)
        self.ask("tcp", wrap=by_iwarp)

    @across(ONE_HOST)
    def test_program_started_for_a_connection(self):
        self.serve_echo(self.sockets, "exec")
        self.ask("tcp")

    @across(BOTH)
    def test_client_starts_a_program(self):
        """Its child shares its memory until exec (vfork), and closes descriptors."""
        self.serve_echo(self.sockets)
        self.ask("spawn")

    @across(ONE_HOST)
    def test_ports_left_out(self):
        self.serve_echo(self.sockets)
        for ports in ("!%d" % PORT, "1-%d,9000" % (PORT - 1)):
            self.ask("tcp", wrap=lambda *argv, ports=ports: self.sockets(*argv, ports=ports))
        self.ask("rdma", wrap=lambda *argv: self.sockets(*argv, ports="9000,%d" % PORT))

    @across(ONE_HOST)
    def test_ports_that_are_none(self):
        for ports in ("http", "70000", "1-", "", "1,,2"):
            result = self.client.run(clients.staged.verbena, "run", "--sockets=" + ports, "true")
            self.assertEqual(result.code, 2, result)
            self.assertIn("ports are listed as", result.out)

    @across(BOTH)
    def test_bytes_that_begin_a_token(self):
        """The server holds such a byte back until it knows; a client that sleeps meanwhile is told that it is to write the token."""
        self.serve_echo(self.sockets, "epoll_edge")
        self.ask("single")

    @across(BOTH)
    def test_sendfile(self):
        path = os.path.join(self.folder, "file")
        with open(path, "wb") as file:
            file.write(os.urandom(1 << 20))
        os.chmod(path, 0o644)
        self.serve(*self.sockets("python3", self.program, "serve", "file", self.peer, str(PORT), path))
        self.ask("file", path)


@expand
class Programs(SocketsCase):
    """Of the distribution."""

    def make_file(self, name, length):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(os.urandom(length))
        os.chmod(path, 0o644)
        return path

    def assert_same(self, one, other):
        digests = [hashlib.sha256(open(path, "rb").read()).hexdigest() for path in (one, other)]
        self.assertEqual(digests[0], digests[1])

    @across(BOTH)
    def test_netcat(self):
        source, target = self.make_file("source", 96 << 20), os.path.join(self.folder, "target")
        server = self.serve("sh", "-c", "%s run --sockets nc.traditional -l -p %d -s %s > %s" %
                            (clients.staged.verbena, PORT, self.peer, target))
        self.see(self.client, "sh", "-c", "%s run --sockets nc.traditional -q 0 %s %d < %s" % (clients.staged.verbena, self.peer, PORT, source))
        ended = server.wait(self.TIMEOUT)
        self.assertEqual(ended.code, 0, ended)
        self.assert_same(source, target)
        self.assertGreater(max(sent for sent, _ in self.bytes_by_rdma("nc.traditional")), 1 << 20)

    @across(BOTH)
    def test_http(self):
        """Python's server, and a client of the same library."""
        source, target = self.make_file("source", 96 << 20), os.path.join(self.folder, "target")
        self.serve(*self.sockets("python3", "-m", "http.server", str(PORT), "--bind", self.peer, "-d", self.folder))
        self.see(self.client, *self.sockets("python3", "-c", "import sys, urllib.request as u; u.urlretrieve(*sys.argv[1:])",
                                            "http://%s:%d/source" % (self.peer, PORT), target))
        self.assert_same(source, target)
        self.assertGreater(max(received for _, received in self.bytes_by_rdma("python3")), 1 << 20)

    def iperf3(self, *options):
        server = self.serve(*self.sockets("iperf3", "-s", "-1", "-B", self.peer, "-p", str(PORT)))
        out = self.see(self.client, *self.sockets("iperf3", "-c", self.peer, "-p", str(PORT), "-t", "2", *options))
        ended = server.wait(self.TIMEOUT)
        self.assertEqual(ended.code, 0, ended)
        self.assertRegex(out, r"[\d.]+ [KMGT]?bits/sec.*receiver")
        return sum(max(row) for row in self.bytes_by_rdma("iperf3"))

    @across(BOTH)
    def test_iperf3(self):
        self.assertGreater(self.iperf3(), 1 << 20)

    @across(ONE_HOST)
    def test_iperf3_both_ways(self):
        self.assertGreater(self.iperf3("--bidir", "-P", "3"), 1 << 20)

    @across(BOTH)
    def test_peer_killed(self):
        """Whoever waits for a peer that is killed learns it."""
        server = self.serve(*self.sockets("python3", self.program, "serve", "blocking", self.peer, str(PORT)))
        client = self.client.start(*self.sockets("python3", "-c", """
import sys
sys.path.insert(0, sys.argv[1])
import echo, socket
connection = socket.create_connection((sys.argv[2], int(sys.argv[3])))
echo.settle(connection, "rdma")
print("settled", flush=True)
try:
    print("end", connection.recv(1))
except OSError as problem:
    print("end", problem)
""", self.folder, self.peer, str(PORT)))
        self.assertTrue(client.wait_until(lambda process: "settled" in process.output()), client.output())
        server.kill()
        ended = client.wait(self.TIMEOUT)
        self.assertFalse(ended.timed_out, ended)
        self.assertIn("end", ended.out)

    @across(ONE_HOST)
    def test_peer_killed_before_the_end(self):
        """Who closes waits until what it has sent has arrived; not for a peer that is gone, whose silence it would take long to believe."""
        server = self.serve(*self.sockets("python3", self.program, "serve", "blocking", self.peer, str(PORT)))
        client = self.client.start(*self.sockets("python3", "-c", """
import sys
sys.path.insert(0, sys.argv[1])
import echo, os, signal, socket
connection = socket.create_connection((sys.argv[2], int(sys.argv[3])))
echo.settle(connection, "rdma")
os.kill(int(sys.argv[4]), signal.SIGSTOP)
connection.sendall(b"x" * 1000)
print("closing", flush=True)
connection.close()
print("closed", flush=True)
""", self.folder, self.peer, str(PORT), str(server.pid)))
        self.assertTrue(client.wait_until(lambda process: "closing" in process.output()), client.output())
        server.kill()
        # The transport gives up after 18 seconds.
        ended = client.wait(12)
        self.assertFalse(ended.timed_out, ended)
        self.assertIn("closed", ended.out)
