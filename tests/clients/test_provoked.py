# SPDX-License-Identifier: MIT
"""Failures provoked for real with unmodified programs, and what is said of them: the table of docs/explain.md.

Programs exchange addresses, numbers and keys as text over TCP. A proxy in between changes what the client is told, and so makes the
mistakes that people make in their own exchange.
"""

import re

from pylib import clients
from pylib.clients import ClientCase, across, expand, which
from test_explain import JSON, explanations

SERVER_PORT = 18516

# argv: a regular expression, and a Python expression of `m`, the match, for what stands in its place; in what the server says, and
# with a third argument also in what the client says.
PROXY = """
import re, socket, sys, threading
listener = socket.create_server(("0.0.0.0", 18515))
client = listener.accept()[0]
server = socket.create_connection(("127.0.0.1", 18516))
def forward(source, target, change):
    while True:
        data = source.recv(65536)
        if not data:
            break
        target.sendall(re.sub(sys.argv[1], lambda m: eval(sys.argv[2]), data.decode()).encode() if change else data)
    target.shutdown(socket.SHUT_WR)
threading.Thread(target=forward, args=(client, server, len(sys.argv) > 3), daemon=True).start()
forward(server, client, True)
"""

GID_OF_SERVER = "0000ffff0a4d0001"


class Provoked(ClientCase):
    def block(self, host, rule):
        """A firewall rule for what comes in."""
        done = host.run("nft", "table inet t { chain c { type filter hook input priority 0; %s; }; }" % rule, privileged=True)
        self.assertEqual(done.code, 0, done)

    def told(self, client, **evidence):
        """What the client was told of the failure with this evidence."""
        result = client.wait(self.TIMEOUT)
        for one in explanations(result.out):
            if all(one.get(name) == value for name, value in evidence.items()):
                return one
        self.fail("%r is not told in:\n%s" % (evidence, result))

    def meet(self, program, server=(), client=(), change=None, server_environment=None):
        """The client, started against a server, or against a proxy that changes what the server says."""
        argv = [which(program), "-d", self.device, "-x" if program.startswith("ib_") else "-g"]
        port = SERVER_PORT if change else clients.TCP_PORT
        peer = self.server.start(*argv, str(self.gids[0]), "-p", str(port), *server, environment=server_environment)
        self.assertTrue(peer.wait_until(lambda process: process.listens(port)), peer.output())
        if change:
            proxy = self.server.start("/usr/bin/python3", "-c", PROXY, *change)
            self.assertTrue(proxy.wait_until(lambda process: process.listens(clients.TCP_PORT)), proxy.output())
        self.peer = peer
        return self.client.start(*argv, str(self.gids[1]), "-p", str(clients.TCP_PORT), *client, self.address, environment=JSON)

    def meet_at(self, gid):
        """ibv_rc_pingpong whose client is told another GID than the server's."""
        return self.meet("ibv_rc_pingpong", change=(GID_OF_SERVER, repr(gid)))


@expand
class NoAnswer(Provoked):
    """RETRY_EXC_ERR, and where the packets went."""

    @across(["veth1500_v4"])
    def test_acknowledgements_are_blocked(self):
        """A firewall at the client: requests arrive, their acknowledgements do not come in."""
        self.block(self.client, "iifname eth0 udp dport 4791 drop")
        # Its server only waits, and can be asked.
        told = self.told(self.meet("ib_write_bw", server=("-n", "5"), client=("-n", "5")), status="RETRY_EXC_ERR",
                         far_verdict="your_peer")
        self.assertGreater(int(told["far_expected_psn"], 16), int(told["psn"], 16))
        self.assertIn("it has taken this request", told["cause"])
        self.assertIn("acknowledgements do not come back", told["cause"])
        self.assertIn("UDP port 4791", told["fix"])
        self.assertNotIn("rq_psn", told["cause"] + told["fix"])
        self.assertEqual(told["side"], "network")

    @across(["veth1500_v4"])
    def test_another_address_of_the_peer(self):
        """Requests arrive there too; the acknowledgements come from the address that the peer's queue pair has."""
        self.server.ip("addr", "add", "10.77.0.3/24", "dev", "eth0")
        told = self.told(self.meet_at("0000ffff0a4d0003"), status="RETRY_EXC_ERR", peer="10.77.0.3")
        self.assertIn("packets of that queue pair come from 10.77.0.1", told["cause"])
        self.assertIn("dgid", told["fix"])
        self.assertEqual(told["stray_source"], "10.77.0.1")

    @across(["veth1500_v4"])
    def test_an_address_that_nobody_has(self):
        """No neighbour answers for it."""
        told = self.told(self.meet_at("0000ffff0a4d0009"), status="RETRY_EXC_ERR", peer="10.77.0.9")
        self.assertEqual(told["reach"], "host_unreachable")
        self.assertIn("no host answers for 10.77.0.9", told["cause"])
        self.assertNotIn("timeout and retry_cnt", told["fix"])

    @across(["veth1500_v4"])
    def test_a_loopback_gid(self):
        """The peer gave the GID of its loopback device, which is another host here."""
        told = self.told(self.meet_at("0000ffff7f000001"), peer="127.0.0.1")
        self.assertIn("127.0.0.1 is a loopback address", told["cause"])
        self.assertIn("roce_lo", told["fix"])

    @across(["veth1500_v4"])
    def test_no_ping_allowed(self):
        """Where this user may not ping, nobody has been pinged."""
        self.block(self.server, "iifname eth0 udp dport 4791 drop")
        self.client.run("sysctl", "-q", "-w", "net.ipv4.ping_group_range=1 0", privileged=True)
        told = self.told(self.meet("ibv_rc_pingpong"), status="RETRY_EXC_ERR")
        self.assertEqual(told["reach"], "silent_unpinged")
        self.assertIn("could not ping", told["cause"])
        self.assertIn("ping_group_range", told["fix"])

    @across(["veth1500_v4"])
    def test_ping_only(self):
        """The same where it may."""
        self.block(self.server, "iifname eth0 udp dport 4791 drop")
        self.client.run("sysctl", "-q", "-w", "net.ipv4.ping_group_range=0 2147483647", privileged=True)
        told = self.told(self.meet("ibv_rc_pingpong"), status="RETRY_EXC_ERR")
        self.assertEqual(told["reach"], "ping_only")

    @across(["veth1500_v4"])
    def test_psns_that_do_not_match(self):
        """The server expects other PSNs than the client sends: here, and only here, sq_psn and rq_psn are spoken of."""
        change = (r"^(\w+:\w+):(\w+):", "m[1] + ':%06x:' % (int(m[2], 16) ^ 0x400000)", "both")
        told = self.told(self.meet("ibv_rc_pingpong", change=change), status="RETRY_EXC_ERR")
        self.assertIn("sq_psn", told["fix"])


@expand
class Refused(Provoked):
    """The peer says no."""

    @across(["veth1500_v4"])
    def test_mtus_that_differ(self):
        """path_mtu 1024 here, 512 there: both numbers."""
        client = self.meet("ibv_rc_pingpong", server=("-m", "512"), client=("-m", "1024"), server_environment=JSON)
        # The server ends with its first failed receive, so that the client may find nobody to ask.
        told = self.told(client, status="REM_INV_REQ_ERR")
        self.assertIn("path_mtu", told["fix"])
        self.assertEqual(told["path_mtu"], 1024)
        told = self.told(self.peer, fault="PACKET_LENGTH")
        self.assertIn("a packet of 1024 bytes", told["cause"])
        self.assertIn("the path_mtu of 512 on this side", told["cause"])

    @across(["veth1500_v4"])
    def test_a_swapped_rkey(self):
        """ntohl forgotten: the key that it becomes when its bytes are swapped names a region there."""
        swap = (r"(\w{4}:\w{4}:\w{6}:\w{6}:)(\w\w)(\w\w)(\w\w)(\w\w):", "m[1] + m[5] + m[4] + m[3] + m[2] + ':'")
        told = self.told(self.meet("ib_write_bw", client=("-n", "5"), server=("-n", "5"), change=swap), status="REM_ACCESS_ERR")
        right = "".join(re.findall("..", told["far_key"][2:])[::-1])
        self.assertIn("swapped it is 0x" + right, told["cause"])
        self.assertEqual(told["far_swapped_key"], "0x" + right)
        self.assertIn("htonl", told["fix"])


@expand
class Connecting(Provoked):
    @across(["veth1500_v4"])
    def test_no_route_to_the_address(self):
        """ADDR_ERROR: which destination, and what helps."""
        told = self.told(self.client.start(which("rping"), "-c", "-a", "198.51.100.1", environment=JSON),
                         event="RDMA_CM_EVENT_ADDR_ERROR")
        self.assertEqual((told["peer"], told["error"]), ("198.51.100.1", "ENETUNREACH"))
        self.assertIn("198.51.100.1", told["cause"])
        self.assertIn("ip route get 198.51.100.1", told["fix"])
