# SPDX-License-Identifier: MIT
"""The same programs on iWARP devices: RDMA by TCP. VERBENA_TRANSPORT is all that differs."""

import json
import re
import signal
import time

import test_rdmacm as cm
from pylib import clients
from pylib.clients import PLACES, TCP_PORT, across, add, expand, perftest_rows, which

IWARP = {"VERBENA_TRANSPORT": "iwarp"}
IPV4_PLACES = ("lo_v4", "veth1500_v4")
MAIN_PLACES = IPV4_PLACES + ("veth1500_v6",)

PAIRS = {
    "rping": ("rping", "-s -a {address} -C 50 -V -S 60000", "rping", "-c -a {address} -C 50 -V -S 60000"),
    "ucmatose": ("ucmatose", "-b {address} -c 40 -C 10 -S 10000", "ucmatose", "-s {address} -c 40 -C 10 -S 10000"),
    "rdma_server": ("rdma_server", "-s {address}", "rdma_client", "-s {address}"),
}
CMTIME = ("-b {address} -c 50", "-s {address} -c 50")
PERFTEST = {
    "send_bw": "ib_send_bw -s 4096 -n 500",
    # With two queue pairs perftest hangs now and then: its credits, which it has for iWARP alone, go by the receive's number, not by the
    # queue pair's (run_iter_bw_server, 4.5-0.17), and one that is given more than it has sent waits for ever.
    "send_shared_queue": "ib_send_bw --use-srq -s 4096 -n 300",
    "write_inline": "ib_write_lat -I 64 -s 64 -n 300",
    "write_bw": "ib_write_bw -s 65536 -n 500",
    "read_bw": "ib_read_bw -s 65536 -n 200",
    "send_lat": "ib_send_lat -n 300",
    "write_lat": "ib_write_lat -n 300",
    "read_lat": "ib_read_lat -n 300",
    "write_bw_both_ways": "ib_write_bw -b -q 2 -s 65536 -n 300",
}
# What users may choose, each with something to say: with and without CRC, FPDUs of a segment and long ones, who speaks first.
SETTINGS = ("crc=on,fpdu=large", "crc=off,fpdu=large", "crc=on,fpdu=segment", "crc=off,fpdu=segment", "p2p=on", "first=strict")


class IwarpCase(cm.ConnectionCase):
    def settle(self, place):
        where = PLACES[place]
        self.place = place
        self.network.environment.update(IWARP)
        if where["mtu"] is None:
            self.server = self.client = self.network.host()
            self.device = "iwarp_lo"
        else:
            self.server, self.client = self.network.pair(where["mtu"])
            self.device = "iwarp_eth0"
        self.peer = where["gids"][0]
        self.address = where["address"]
        self.prepare()


class Programs(IwarpCase):
    def pair(self, server, server_options, client, client_options):
        self.meet([which(server), *server_options.format(address=self.peer).split()],
                  [which(client), *client_options.format(address=self.peer).split()])

    def cmtime(self):
        """Its server waits for more when the client has all it came for."""
        server = self.server.start(which("cmtime"), *CMTIME[0].format(address=self.peer).split())
        self.until_listening(server)
        client = self.client.run(which("cmtime"), *CMTIME[1].format(address=self.peer).split(), timeout=self.TIMEOUT)
        self.assertEqual(client.code, 0, "%s\n%s" % (client, server.output()))
        self.assertRegex(client.out, r"(?m)^connect\s*:")
        server.kill()

    def perftest(self, command, settings=""):
        self.network.environment["VERBENA_IWARP"] = settings
        words = command.split()
        base = [which(words[0]), "-F", "-d", self.device, *words[1:], "-R"]
        _, out = self.meet(base, base + [self.peer])
        self.assertTrue(perftest_rows(out), out)

    def with_settings(self, settings):
        self.network.environment["VERBENA_IWARP"] = settings
        self.pair(*PAIRS["rping"])


for name, arguments in PAIRS.items():
    for place in MAIN_PLACES:
        add(Programs, "test_%s__%s" % (name, place), place, Programs.pair, *arguments)
# By default with CRC between hosts, and without within one; and the other way round.
for name, command in PERFTEST.items():
    for place, other in zip(IPV4_PLACES, ("crc=on", "crc=off")):
        add(Programs, "test_perftest_%s__%s" % (name, place), place, Programs.perftest, command)
        if name.endswith("_bw"):
            case = "test_perftest_%s_%s__%s" % (name, other.replace("=", "_"), place)
            add(Programs, case, place, Programs.perftest, command, other)
for place in MAIN_PLACES:
    add(Programs, "test_cmtime__%s" % place, place, Programs.cmtime)
for settings in SETTINGS:
    add(Programs, "test_rping_%s__veth1500_v4" % re.sub(r"\W", "_", settings), "veth1500_v4", Programs.with_settings, settings)


@expand
class Many(IwarpCase):
    @across(["veth1500_v4"])
    def test_rping_with_20_clients(self):
        server = self.server.start(which("rping"), "-s", "-P", "-a", self.peer)
        self.assertEqual(self.until_served(server, *self.ping()).code, 0)
        clients = [self.client.start(*self.ping(20)) for _ in range(20)]
        for client in clients:
            result = client.wait(self.TIMEOUT)
            self.assertEqual(result.code, 0, "%s\n\nserver:\n%s" % (result, server.output()))
        self.assertTrue(server.running(), server.output())
        server.kill()

    @across(["lo_v4"])
    def test_cmtime(self):
        server = self.server.start(which("cmtime"), "-c", "300", "-b", self.peer)
        client = self.until_served(server, which("cmtime"), "-c", "300", "-s", self.peer)
        server.kill()
        self.assertEqual(client.code, 0, client)
        for step in ("connect", "disconnect", "destroy"):
            self.assertRegex(client.out, r"(?m)^%s *: +[\d.]+" % step)


@expand
class Ends(IwarpCase):
    AT_ONCE = cm.Ends.AT_ONCE

    ping_until_killed = cm.Ends.ping_until_killed
    outlive_the_daemons = cm.Ends.outlive_the_daemons

    @across(["veth1500_v4"])
    def test_server_killed(self):
        server, client = self.ping_until_killed()
        server.kill()
        result = client.wait(self.AT_ONCE)
        self.assertFalse(result.timed_out, result)
        self.assertRegex(result.out, "DISCONNECT|cq completion failed")

    @across(["veth1500_v4"])
    def test_client_killed(self):
        server, client = self.ping_until_killed()
        client.kill()
        result = server.wait(self.AT_ONCE)
        self.assertFalse(result.timed_out, result)
        self.assertIn("DISCONNECT", result.out)

    @across(["veth1500_v4"])
    def test_daemon_killed(self):
        """Connections are none of its business: they go on, and new ones are made."""
        self.outlive_the_daemons()

    @across(["veth1500_v4"])
    def test_nobody_listens(self):
        started = time.monotonic()
        result = self.client.run(which("ucmatose"), "-s", self.peer, "-p", "7999")
        self.assertNotEqual(result.code, 0)
        self.assertIn("RDMA_CM_EVENT_REJECTED, error: -111", result.out)
        self.assertLess(time.monotonic() - started, self.AT_ONCE)


@expand
class SameHost(IwarpCase):
    """WRITEs and READs past the stream (docs/same-host.md). Of rping the server has both, and the client SENDs only."""
    AT_ONCE = cm.Ends.AT_ONCE
    ENOUGH = 500         # work requests, when both had all the time they need

    def pairs(self, process):
        told = self.client.run(clients.staged.verbena, "res", "--pid", str(process.pid), "--json").out
        return [qp for row in json.loads(told[told.index("["):]) for qp in row.get("qps", []) if qp["state"] == "RTS"]

    def ways(self, *processes):
        return [qp["way"] for process in processes for qp in self.pairs(process)]

    def start(self, server=None, client=None):
        """Both, when they have exchanged something."""
        server = self.server.start(which("rping"), "-s", "-V", "-a", self.peer, environment=server)
        self.until_listening(server)
        client = self.client.start(*self.ping(10000000), "-V", environment=client)
        self.until(lambda: any(qp["sends_done"] > self.ENOUGH for qp in self.pairs(server)), client.output)
        return server, client

    def start_through_memory(self):
        both = self.start()
        self.until(lambda: self.ways(*both) == ["memory"] * 2, lambda: self.ways(*both))
        return both

    @across(["lo_v4", "lo_v6"])
    def test_through_memory(self):
        """`res`, `top` and `stat` say so, with what the stream's engine counts."""
        server, client = self.start_through_memory()
        self.assertIn("memory", self.client.run(clients.staged.verbena, "res", "--pid", str(client.pid)).out)
        top = json.loads(self.client.run(clients.staged.verbena, "top", "--json").out)
        self.assertEqual({qp["way"] for qp in top["qps"]}, {"memory"})
        before = self.pairs(server)[0]
        self.until(lambda: self.pairs(server)[0]["sends_done"] > before["sends_done"] + self.ENOUGH, client.output)
        self.assertNotIn("sends_record", before)
        for process in (client, server):
            process.kill()

    @across(["lo_v4"])
    def test_asked_for_the_wire(self):
        """By either side."""
        wire = {"VERBENA_WIRE": "rocev2"}
        for environments in ({"server": wire}, {"client": wire}):
            both = self.start(**environments)
            self.assertEqual(self.ways(*both), ["iwarp"] * 2)
            for process in reversed(both):
                process.kill()
                process.wait(self.TIMEOUT)

    @across(["lo_v4"])
    def test_server_killed(self):
        server, client = self.start_through_memory()
        server.kill()
        result = client.wait(self.AT_ONCE)
        self.assertFalse(result.timed_out, result)
        self.assertRegex(result.out, "DISCONNECT|cq completion failed")

    @across(["lo_v4"])
    def test_client_killed(self):
        server, client = self.start_through_memory()
        client.kill()
        result = server.wait(self.AT_ONCE)
        self.assertFalse(result.timed_out, result)
        self.assertRegex(result.out, "DISCONNECT|cq completion failed")

    @across(["lo_v4"])
    def test_daemon_killed(self):
        """What has met goes on; what comes meets by the next daemon."""
        server, client = self.start_through_memory()
        self.server.signal_all("verbenad")
        # The next daemon knows of nobody until they have found it.
        self.until(lambda: self.pairs(server), client.output)
        before = self.pairs(server)[0]["sends_done"]
        self.until(lambda: self.pairs(server)[0]["sends_done"] > before + self.ENOUGH, client.output)
        self.assertEqual(self.ways(server, client), ["memory"] * 2)
        for process in (client, server):
            process.kill()
            process.wait(self.TIMEOUT)
        for process in self.start_through_memory():
            process.kill()


@expand
class Shown(IwarpCase):
    def ids(self, host, process=None):
        whose = ("--pid", str(process.pid)) if process else ()
        told = host.run(clients.staged.verbena, "res", "cm_id", "--json", *whose).out
        return [row for process in json.loads(told[told.index("["):]) for row in process["cm_ids"]]

    def states(self, host):
        return {row["state"] for row in self.ids(host)}

    @across(["veth1500_v4"])
    def test_a_listener_listens(self):
        """Of one address, and of all; and to a daemon that took the other's place."""
        for address in (self.peer, "0.0.0.0"):
            server = self.server.start(which("rping"), "-s", "-P", "-a", address)
            self.until(lambda: self.states(self.server) == {"LISTENING"}, lambda: self.states(self.server))
            self.server.signal_all("verbenad")
            self.until(lambda: self.states(self.server) == {"LISTENING"}, lambda: self.states(self.server))
            self.assertEqual(self.until_served(server, *self.ping()).code, 0)
            server.kill()
            server.wait(self.TIMEOUT)

    @across(["veth1500_v4", "veth1500_v6"])
    def test_connections_are_established(self):
        """At both ends, and to a daemon that took the other's place; over when one of them is."""
        server = self.server.start(which("rping"), "-s", "-P", "-a", self.peer)
        self.until_listening(server)
        client = self.client.start(*self.ping(10000000))

        def connection(host, process):
            ids = [row for row in self.ids(host, process) if row["state"] != "LISTENING"]
            return [(row["state"], row["device"], row["peer_address"]) for row in ids]
        for _ in range(2):
            self.until(lambda: connection(self.client, client) == [("ESTABLISHED", self.device, self.peer)],
                       lambda: connection(self.client, client))
            self.until(lambda: [row[:2] for row in connection(self.server, server)] == [("ESTABLISHED", self.device)],
                       lambda: connection(self.server, server))
            ends = [[row for row in self.ids(*side) if row["state"] != "LISTENING"][0]
                    for side in ((self.client, client), (self.server, server))]
            self.assertEqual((ends[0]["local_port"], ends[0]["peer_port"]), (ends[1]["peer_port"], ends[1]["local_port"]))
            self.assertTrue(ends[0]["local_qpn"] and ends[1]["local_qpn"])
            for host in {self.server, self.client}:
                host.signal_all("verbenad")
        client.kill()
        self.until(lambda: self.states(self.server) == {"LISTENING"}, lambda: self.states(self.server))
        server.kill()

    @across(["veth1500_v4", "veth1500_v6"])
    def test_a_queue_pair_has_its_peer(self):
        server = self.server.start(which("rping"), "-s", "-P", "-a", self.peer)
        self.until_listening(server)
        client = self.client.start(*self.ping(10000000))

        def peer():
            told = self.client.run(clients.staged.verbena, "res", "--pid", str(client.pid), "--json").out
            return [qp["peer_address"] for process in json.loads(told[told.index("["):]) for qp in process.get("qps", [])]
        self.until(lambda: peer() == [self.peer], peer)
        client.kill()
        server.kill()

    @across(["veth1500_v4"])
    def test_no_shape(self):
        """Not silently another device's."""
        told = self.client.run(clients.staged.verbena, "shape", self.device, "--rate", "1g")
        self.assertEqual(told.code, 1, told)
        self.assertIn("goes by TCP", told.out)
        self.assertIn("No device is shaped.", self.client.run(clients.staged.verbena, "shape").out)


@expand
class WithoutUdp(IwarpCase):
    """Another program has UDP port 4791: RoCE cannot be had there, and iWARP needs it for nothing."""

    def take_port(self, host):
        host.signal_all(number=signal.SIGTERM)
        self.until(lambda: not host.pids(), "the daemon has left")
        thief = host.start("python3", "-u", "-c", "import socket, time\n"
                           "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 4791))\nprint('bound'); time.sleep(600)")
        self.assertTrue(thief.wait_until(lambda process: "bound" in process.output()), thief.output())

    @across(["veth1500_v4"])
    def test_port_taken(self):
        for host in (self.server, self.client):
            self.take_port(host)
        for transport, address in (("iwarp", self.peer), ("iwarp,roce", self.peer), ("roce,iwarp", "0.0.0.0")):
            self.network.environment["VERBENA_TRANSPORT"] = transport
            server = self.server.start(which("rping"), "-s", "-P", "-a", address)
            self.network.environment["VERBENA_TRANSPORT"] = transport.replace("roce,iwarp", "iwarp,roce")
            client = self.until_served(server, *self.ping())
            self.assertEqual(client.code, 0, "%s: %s" % (transport, client))
            self.server.signal_all("verbenad")
            self.assertEqual(self.until_served(server, *self.ping()).code, 0, "a new daemon")
            server.kill()
            server.wait(self.TIMEOUT)
        told = self.client.run(which("ibv_devinfo"), "-d", "roce_eth0", environment={"VERBENA_TRANSPORT": "roce,iwarp"})
        self.assertNotEqual(told.code, 0, told)
        self.assertIn("UDP port 4791", told.out)

    @across(["veth1500_v4"])
    def test_no_socket_of_it(self):
        """Nor is it opened, by the program or by verbenad, where only iWARP is used."""
        self.server.signal_all(number=signal.SIGTERM)
        self.until(lambda: not self.server.pids(), "the daemon has left")
        server = self.server.start(which("rping"), "-s", "-P", "-a", self.peer)
        self.assertEqual(self.until_served(server, *self.ping()).code, 0)
        self.assertNotIn(":4791", self.server.run("ss", "-uln").out)
        server.kill()


@expand
class Device(IwarpCase):
    """What a soft RNIC says of itself (tests/vectors/siw), and where it shows."""

    SAID = {"transport": "iWARP (1)", "max_qp_wr": "32768", "max_sge": "30", "max_sge_rd": "1", "max_qp_rd_atom": "128",
            "max_ah": "0", "atomic_cap": "ATOMIC_NONE (0)", "max_mcast_grp": "0", "max_pkeys": "0", "state": "PORT_ACTIVE (4)",
            "active_mtu": "1024 (3)", "link_layer": "Ethernet", "max_msg_sz": "0x80000000", "port_cap_flags": "0x00090000",
            "max_vl_num": "invalid value (0)", "pkey_tbl_len": "0", "gid_tbl_len": "1"}

    @across(["veth1500_v4"])
    def test_what_it_says(self):
        told = self.client.run(which("ibv_devinfo"), "-v", "-d", self.device).out
        for name, value in self.SAID.items():
            self.assertRegex(told, r"\b%s:\s+%s\n" % (name, re.escape(value)))
        for absent in ("GID[", "phys_state"):
            self.assertNotIn(absent, told)

    @across(["veth1500_v4"])
    def test_where_it_shows(self):
        """Not unless it is asked for: programs take the first device, and connect it as one of RoCE."""
        verbena = clients.staged.verbena
        for transport in ("iwarp", "roce", "roce,iwarp", "iwarp,roce"):
            told = self.client.run(which("ibv_devinfo"), environment={"VERBENA_TRANSPORT": transport}).out
            self.assertEqual(re.findall(r"hca_id:\s+(\w+)_eth0", told), transport.split(","))
        told = self.client.run(verbena, "run", "--iwarp", which("ibv_devinfo"), "-d", self.device,
                               environment={"VERBENA_TRANSPORT": "roce"}).out
        self.assertIn("hca_id:\tiwarp_eth0", told)
        self.assertRegex(self.client.run(verbena, "devices").out, r"(?m)^iwarp_eth0\s+interface eth0")
        self.assertRegex(self.client.run(verbena, "doctor").out, r"(?m)^ok +device eth0 .*iwarp_eth0")

    @across(["veth1500_v4"])
    def test_traffic_shows(self):
        server = self.server.start(which("rping"), "-s", "-P", "-a", self.peer)
        self.until_listening(server)
        client = self.client.start(*self.ping(10000000))

        def counted():
            told = self.client.run(clients.staged.verbena, "stat", "--json").out
            return [process["devices"] for process in json.loads(told[told.index("["):] if "[" in told else "[]")
                    if process["pid"] == client.pid]

        def shown():
            told = json.loads(self.client.run(clients.staged.verbena, "top", "--json").out)
            return [qp for qp in told["qps"] if qp["device"] == self.device and qp["pid"] == client.pid]
        self.until(lambda: self.device in json.dumps(counted()), counted)
        self.until(lambda: len(shown()) == 1, shown)
        client.kill()
        server.kill()


@expand
class Explained(IwarpCase):
    def explained_ping(self, address, port):
        return self.client.run(clients.staged.verbena, "run", "--explain", which("rping"), "-c", "-a", address, "-p", str(port),
                               "-C", "1", timeout=self.TIMEOUT)

    def refused(self, address, port):
        told = self.explained_ping(address, port)
        self.assertNotEqual(told.code, 0, told)
        return told.out

    @across(["veth1500_v4"])
    def test_what_is_no_server_of_ours(self):
        """Nobody listens; somebody answers who does not speak MPA; somebody closes."""
        self.assertIn("nobody listens on TCP port 9999 of %s" % self.peer, self.refused(self.peer, 9999))
        other = self.server.start("python3", "-u", "-c", """import socket, time
s = socket.create_server(('', 7174))
print('bound')
for answer in (b'HTTP/1.1 400 Bad Request' + bytes(40), b'MPA ID Rep Frame' + bytes([0x10, 9, 0, 4, 0, 0, 0, 0]), b''):
  c, _ = s.accept(); c.recv(24, socket.MSG_WAITALL); c.sendall(answer); c.close()
time.sleep(600)""")
        self.assertTrue(other.wait_until(lambda process: "bound" in process.output()), other.output())
        for sentence in ("is no reply of MPA", "is no reply of MPA", "without a reply of MPA"):
            self.assertIn(sentence, self.refused(self.peer, 7174))
        other.kill()

    @across(["lo_v4"])
    def test_not_by_a_connection(self):
        """perftest without -R leads queue pairs to RTS itself, which is no way here: it is told of the one there is. So is who wants datagrams."""
        run = [clients.staged.verbena, "run", "--explain", which("ib_send_bw"), "-d", self.device]
        server = self.server.start(*run)
        self.assertTrue(server.wait_until(lambda process: process.listens(18515)), "no server")
        client = self.client.run(*run, self.peer, timeout=self.TIMEOUT)
        self.assertNotEqual(client.code, 0, client)
        for sentence in ("only a connection leads a queue pair of this device to RTS", "rdma_connect and rdma_accept", "perftest: -R"):
            self.assertIn(sentence, client.out)
        server.wait(self.TIMEOUT)
        told = self.client.run(clients.staged.verbena, "run", "--explain", which("ibv_ud_pingpong"), "-d", self.device, "-g", "0", timeout=self.TIMEOUT)
        self.assertIn("UD queue pairs are not supported: RC is.", told.out)

    @across(["veth1500_v4"])
    def test_no_receive(self):
        """A server that sends two messages, to a client with one receive: the client says what was missing, its TERMINATE tells the server."""
        run = [clients.staged.verbena, "run", "--explain", which("ucmatose")]
        server = self.server.start(*run, "-b", self.peer, "-C", "2")
        self.until_listening(server)
        client = self.client.run(*run, "-s", self.peer, "-C", "1", timeout=self.TIMEOUT)
        told = server.wait(self.TIMEOUT)
        for sentence in ("a message waited five seconds for a receive, and none was posted", "Post receives before the peer sends",
                         "The peer was told: TERMINATE 1/2/02 (DDP: untagged buffer error: "):
            self.assertIn(sentence, client.out)
        for sentence in ("the peer ended the stream with TERMINATE 1/2/02 (DDP: untagged buffer error: ",
                         "Post receives on the peer before sending to it"):
            self.assertIn(sentence, told.out)

    @across(["veth1500_v4"])
    def test_the_other_ends_it(self):
        """What a peer may do once it is connected, and what a program of ours then says: it resets the connection, finds fault, or its CRC
        is wrong."""
        self.network.environment["VERBENA_IWARP"] = "crc=off"
        zero = bytes(4)
        terminate = b"\x00\x16\x41\x47" + zero + b"\x00\x00\x00\x02\x00\x00\x00\x01" + zero
        write = b"\x00\x0e\xc1\x40\x00\x00\x00\x01" + bytes(8)
        cases = (("", b"", "TCP's connection was reset"),
                 ("", terminate + b"\x11\x02\x00\x00" + zero, "TERMINATE 1/1/02 (DDP: tagged buffer error: "),
                 ("crc", write + b"\xba\xad\xf0\x0d", "the CRC of an FPDU of "))
        for crc, said, sentence in cases:
            with self.subTest(sentence=sentence):
                other = self.server.start("python3", "-u", "-c", """import socket, struct, sys, time
s = socket.create_server(('', 7174))
print('bound')
c, _ = s.accept()
request = c.recv(24, socket.MSG_WAITALL)
c.sendall(b'MPA ID Rep Frame' + bytes([0x50 if sys.argv[1] else 0x10, 2, 0, 4, 0, 1, 0, 1]) + bytes.fromhex(sys.argv[2]))
c.recv(1)
c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', not sys.argv[2], 0))
c.shutdown(socket.SHUT_WR) if sys.argv[2] else c.close()
while sys.argv[2] and c.recv(4096): pass""", crc, said.hex())
                self.assertTrue(other.wait_until(lambda process: "bound" in process.output()), other.output())
                self.assertIn(sentence, self.explained_ping(self.peer, 7174).out)
                other.wait(self.TIMEOUT)


@expand
class Mixed(IwarpCase):
    @across(["veth1500_v4"])
    def test_a_wildcard_serves_both_kinds_at_once(self):
        """One server; its clients come by RoCE and by iWARP."""
        both = {"VERBENA_TRANSPORT": "roce,iwarp"}
        server = self.server.start(which("rping"), "-s", "-P", "-a", "0.0.0.0", environment=both)
        for transport in ("iwarp", "roce", "iwarp", "roce"):
            self.network.environment["VERBENA_TRANSPORT"] = transport
            client = self.until_served(server, *self.ping())
            self.assertEqual(client.code, 0, "%s: %s" % (transport, client))
        clients = [self.client.start(*self.ping(50), environment={"VERBENA_TRANSPORT": transport})
                   for transport in ("iwarp", "roce") * 3]
        for client in clients:
            result = client.wait(self.TIMEOUT)
            self.assertEqual(result.code, 0, result)
        server.kill()


@expand
class PortTaken(IwarpCase):
    """Another socket of the system, often the program's own, listens where a program would."""

    THIEF = "import socket, time\ns = socket.create_server(('', 7174))\nprint('bound'); time.sleep(600)"

    @across(["veth1500_v4"])
    def test_what_can_still_be_had(self):
        thief = self.server.start("python3", "-u", "-c", self.THIEF)
        self.assertTrue(thief.wait_until(lambda process: "bound" in process.output()), thief.output())
        for address in (self.peer, "0.0.0.0"):
            told = self.server.run(which("rping"), "-s", "-a", address, timeout=self.TIMEOUT)
            self.assertNotEqual(told.code, 0, told)
            self.assertIn("Address already in use", told.out)
        server = self.server.start(which("rping"), "-s", "-P", "-a", "0.0.0.0", environment={"VERBENA_TRANSPORT": "roce,iwarp"})
        self.network.environment["VERBENA_TRANSPORT"] = "roce"
        self.assertEqual(self.until_served(server, *self.ping()).code, 0)
        server.kill()
        thief.kill()


class Fio(IwarpCase, cm.Fio):
    """The same cases by iWARP: between hosts with CRC, within one without."""


@expand
class Erdma(IwarpCase):
    """Under the profile of Alibaba's adapter a program meets its limits before it meets the cloud: RC alone, no shared receive queue, six
    elements to send and one to receive, connections by librdmacm."""

    def prepare(self):
        self.network.environment["VERBENA_PROFILE"] = "erdma"

    def refused(self, argv, sentence):
        told = self.client.run(clients.staged.verbena, "run", "--explain", *argv, timeout=self.TIMEOUT)
        self.assertNotEqual(told.code, 0, told)
        for said in (sentence, "So says the profile erdma (VERBENA_PROFILE)."):
            self.assertIn(said, told.out)

    @across(["veth1500_v4"])
    def test_what_it_can(self):
        self.meet([which("rping"), "-s", "-a", self.peer, "-C", "20", "-V"], [which("rping"), "-c", "-a", self.peer, "-C", "20", "-V"])
        base = [which("ib_write_bw"), "-F", "-d", self.device, "-s", "65536", "-n", "100", "-R"]
        _, out = self.meet(base, base + [self.peer])
        self.assertTrue(perftest_rows(out), out)

    @across(["lo_v4"])
    def test_what_it_says(self):
        told = self.client.run(which("ibv_devinfo"), "-v", "-d", self.device)
        for name, value in {"transport": "iWARP (1)", "max_qp": "1023", "max_qp_wr": "8192", "max_sge": "1", "max_srq": "0",
                            "atomic_cap": "ATOMIC_NONE (0)"}.items():
            self.assertRegex(told.out, r"\b%s:\s+%s\n" % (name, re.escape(value)))

    @across(["lo_v4"])
    def test_what_it_cannot(self):
        self.refused([which("ibv_ud_pingpong"), "-d", self.device, "-g", "0"], "UD queue pairs are not supported: RC is.")
        self.refused([which("ibv_srq_pingpong"), "-d", self.device, "-g", "0"], "max_srq is 1, at most 0 is possible.")

    @across(["lo_v4"])
    def test_not_by_modify(self):
        """Who connects by ibv_modify_qp gets no further than its connection."""
        server = self.server.start(which("ibv_rc_pingpong"), "-d", self.device, "-g", "0")
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), "no server")
        client = self.client.run(which("ibv_rc_pingpong"), "-d", self.device, "-g", "0", self.address, timeout=self.TIMEOUT)
        server.kill()
        self.assertNotEqual(client.code, 0, client)
        self.assertRegex(client.out + server.output(), "Failed to modify QP to RT")
