# SPDX-License-Identifier: MIT
"""VERBENA_EXPLAIN with unmodified programs on two hosts: the far side is another process, another daemon, or gone."""

import json
import os
import signal

from pylib import clients
from pylib.clients import ClientCase, across, expand, which

# Has UDP port 4791, and never says a word there; plays ibv_rc_pingpong's part on TCP, so that somebody sends to it.
SILENT = """
import socket, sys
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind(("0.0.0.0", 4791))
listener = socket.create_server(("0.0.0.0", 18515))
peer = listener.accept()[0]
words = peer.recv(100).decode().split(":")
peer.sendall((":".join((words[0], "123456", words[2], "00000000000000000000ffff" + socket.inet_aton(sys.argv[1]).hex()))
              + "\\0").encode().ljust(55, b"\\0"))
while True:
    sink.recv(65536)
"""

JSON = {"VERBENA_EXPLAIN": "1", "VERBENA_EXPLAIN_FORMAT": "json"}


def explanations(out):
    return [json.loads(line) for line in out.splitlines() if line.startswith('{"explain"')]


@expand
class Explain(ClientCase):
    def explained(self, out, **evidence):
        """The explanation in which all of the evidence holds."""
        told = explanations(out)
        for one in told:
            if all(one.get(name) == value for name, value in evidence.items()):
                return one
        self.fail("%r is not explained in:\n%s" % (evidence, out))

    def write_without_end(self):
        """A server, and a client that always has writes under way."""
        base = [which("ib_write_bw"), "-d", self.device, "-F", "-D", "300", "-x"]
        server = self.server.start(*base, str(self.gids[0]))
        self.assertTrue(server.wait_until(lambda process: process.listens(clients.TCP_PORT)), "no server")
        client = self.client.start(*base, str(self.gids[1]), self.address, environment=JSON)
        # It prints nothing until the end; its counters tell when it writes.
        self.until(lambda: self.sent(client) > 1000 or not client.running(), "writes are under way")
        self.assertTrue(client.running(), client.output())
        return client

    def sent(self, process):
        told = self.client.run(clients.staged.verbena, "stat", "--json", "--pid", str(process.pid)).out
        return sum(row["counters"]["sent_pkts"] for row in json.loads(told[told.index("["):]))

    @across(["veth1500_v4", "veth1500_v6"])
    def test_peer_killed(self):
        """Another process keeps the port open: the peer's verbenad says that this one is gone."""
        self.server.start(which("rping"), "-s", "-a", "0.0.0.0", "-p", "7999")
        client = self.write_without_end()
        self.server.signal_all("ib_write_bw")
        told = self.explained(client.wait(self.TIMEOUT).out, status="RETRY_EXC_ERR", fault="RETRY_EXCEEDED", side="peer")
        self.assertEqual((told["reach"], told["far_verdict"]), ("answered", "no_process"))
        self.assertEqual((told["opcode"], told["retry_cnt"]), ("RDMA_WRITE", 7))
        self.assertGreater(told["tries"], 0)
        self.assertGreater(told["waited_us"], 400000)

    @across(["veth1500_v4", "veth1500_v6"])
    def test_peer_stopped(self):
        """It lives and does not run: the peer's verbenad says so."""
        client = self.write_without_end()
        self.server.signal_all("ib_write_bw", signal.SIGSTOP)
        told = self.explained(client.wait(self.TIMEOUT).out, status="RETRY_EXC_ERR", fault="RETRY_EXCEEDED", side="peer")
        self.assertEqual((told["reach"], told["far_verdict"]), ("answered", "stopped"))

    def hide_process(self):
        """The server's process hears no packet any more, as if it were without a processor; its verbenad does."""
        rule = "table inet t { chain c { type filter hook input priority 0; udp dport 4791 @th,104,24 != 1 drop; }; }"
        self.assertEqual(self.server.run("nft", rule, privileged=True).code, 0)

    def timeouts(self, process):
        told = self.client.run(clients.staged.verbena, "stat", "--json", "--pid", str(process.pid)).out
        return sum(row["counters"]["local_ack_timeout_err"] for row in json.loads(told[told.index("["):])) if "[" in told else 0

    @across(["veth1500_v4", "veth1500_v6"])
    def test_peer_without_a_processor(self):
        """It lives, says its verbenad, but does not answer: waited for beyond timeout 14 and retry_cnt 7, which are over after at most 50
        timeouts, and it goes on when the peer does."""
        client = self.write_without_end()
        self.hide_process()
        self.until(lambda: self.timeouts(client) >= 60 or not client.running(), "it asks again and again")
        self.assertTrue(client.running(), client.output())
        self.server.run("nft", "flush", "ruleset", privileged=True)
        before = self.sent(client)
        self.until(lambda: self.sent(client) > before + 1000 or not client.running(), "it writes again")
        self.assertTrue(client.running(), client.output())
        client.kill()

    @across(["veth1500_v4"])
    def test_peer_that_stays_without_a_processor(self):
        """Ten seconds longer than the program asked for, and not for ever."""
        client = self.write_without_end()
        self.hide_process()
        told = self.explained(client.wait(self.TIMEOUT).out, status="RETRY_EXC_ERR", fault="RETRY_EXCEEDED", side="peer")
        self.assertEqual((told["reach"], told["far_verdict"]), ("answered", "lives"))
        self.assertGreater(told["waited_us"], 4 << 20)
        self.assertLess(told["waited_us"], 13000000)

    @across(["veth1500_v4", "veth1500_v6"])
    def test_nothing_listens(self):
        """Not even a verbenad is left: the host says that nobody has UDP port 4791."""
        client = self.write_without_end()
        self.server.signal_all()
        told = self.explained(client.wait(self.TIMEOUT).out, status="RETRY_EXC_ERR", side="network")
        self.assertEqual(told["reach"], "port_refused")
        self.assertEqual(told["peer"], "10.77.0.1" if "." in told["peer"] else "fd77::1")

    @across(["veth1500_v4"])
    def test_host_cut_off(self):
        """The link is down: nobody answers at all."""
        client = self.write_without_end()
        self.server.ip("link", "set", "eth0", "down")
        told = self.explained(client.wait(self.TIMEOUT).out, status="RETRY_EXC_ERR", fault="RETRY_EXCEEDED")
        self.assertIn(told["reach"], ("silent", "host_unreachable", "no_route"))

    @across(["veth1500_v4"])
    def test_only_ping(self):
        """A firewall, or something else on the port: the host answers ping, UDP port 4791 does not."""
        self.client.run("sh", "-c", "echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range", privileged=True)
        server = self.server.start("/usr/bin/python3", "-c", SILENT, self.address)
        self.assertTrue(server.wait_until(lambda process: process.listens(18515)), server.output())
        result = self.client.run(which("ibv_rc_pingpong"), "-d", self.device, "-g", str(self.gids[1]), self.address, environment=JSON,
                                 timeout=self.TIMEOUT)
        told = self.explained(result.out, status="RETRY_EXC_ERR", fault="RETRY_EXCEEDED", side="network")
        self.assertEqual((told["reach"], told["peer"], told["peer_qpn"]), ("ping_only", self.address, "0x123456"))

    @across(["veth1500_v4"])
    def test_no_way_to_the_address(self):
        """ADDR_ERROR: the routing table knows no way."""
        result = self.client.run(which("rping"), "-c", "-a", "198.51.100.1", environment=JSON)
        told = self.explained(result.out, explain="connection", event="RDMA_CM_EVENT_ADDR_ERROR")
        self.assertEqual(told["error"], "ENETUNREACH")

    @across(["veth1500_v4", "lo_v4"])
    def test_nobody_listens_for_connections(self):
        """REJ with reason 8, and where to."""
        other = self.server.start(which("rping"), "-s", "-a", "0.0.0.0", "-p", "7999")
        self.until_listening(other)
        result = self.client.run(which("rping"), "-c", "-a", self.address, "-p", "7111", environment=JSON)
        told = self.explained(result.out, explain="connection", event="RDMA_CM_EVENT_REJECTED")
        self.assertEqual((told["reason"], told["peer"], told["port"], told["side"]), (8, self.address, 7111, "peer"))

    @across(["veth1500_v4"])
    def test_clean_end(self):
        """Nothing failed, nothing is said; receives that were left over are spoken of on demand."""
        for more, said in (({}, False), ({"VERBENA_EXPLAIN_ALL": "1"}, True)):
            server = self.server.start(which("rping"), "-s", "-a", self.address, "-C", "3", environment={**JSON, **more})
            self.until_listening(server)
            client = self.client.run(which("rping"), "-c", "-a", self.address, "-C", "3", environment={**JSON, **more})
            self.assertEqual(client.code, 0, client)
            for out in (client.out, server.wait(self.TIMEOUT).out):
                self.assertEqual(bool(explanations(out)), said, out)

    @across(["veth1500_v4"])
    def test_refused_verb(self):
        """ibv_rc_pingpong -m 4096 where the port carries 1024: which attribute, and both numbers. In words, by --explain."""
        base = [which("ibv_rc_pingpong"), "-d", self.device, "-g"]
        server = self.server.start(*base, str(self.gids[0]))
        self.assertTrue(server.wait_until(lambda process: process.listens(clients.TCP_PORT)), "no server")
        result = self.client.run(clients.staged.verbena, "run", "--explain", *base, str(self.gids[1]), "-m", "4096",
                                 self.address)
        self.assertIn("path_mtu is 4096 bytes, the port's active_mtu is 1024", result.out)
        self.assertIn("attribute=path_mtu value=4096 limit=1024", result.out)

    @across(["lo_v4"])
    def test_file(self):
        """--explain=FILE appends; a program that does nothing wrong is not spoken of."""
        path = os.path.join(self.network.home, "explained")
        good = self.client.run(clients.staged.verbena, "run", "--explain=" + path, which("ibv_devinfo"))
        self.assertEqual(good.code, 0, good)
        self.assertEqual(os.path.getsize(path) if os.path.exists(path) else 0, 0)
        bad = self.client.run(clients.staged.verbena, "run", "--explain=" + path, which("rping"), "-c", "-a", "127.0.0.1")
        self.assertNotIn("cause:", bad.out)
        with open(path) as file:
            self.assertIn("nobody listens", file.read())
