# SPDX-License-Identifier: MIT
"""Raw packet queue pairs and flow steering: perftest's raw_ethernet_* between two hosts.

The programs are an ordinary user's with CAP_NET_RAW and nothing else, as in a network namespace of that user's own.
"""

import json
import os

from pylib import clients
from pylib.clients import ClientCase, across, expand, perftest_rows, which

COUNT = 300  # frames: as many fit into the smallest socket buffer that Linux gives by default


@expand
class RawEthernet(ClientCase):
    def words(self):
        if os.environ.get("VERBENA_TEST_INSIDE"):
            return []
        return ["setpriv", "--reuid=%d" % self.network.uid, "--regid=%d" % self.network.uid, "--clear-groups",
                "--inh-caps=-all,+net_raw", "--ambient-caps=-all,+net_raw", "--bounding-set=-all,+net_raw"]

    def mac(self, host):
        return json.loads(host.ip("-j", "link", "show", "eth0"))[0]["address"]

    def start(self, host, peer, program, role, *more):
        return host.start(*self.words(), which(program), "-d", self.device, "--" + role, "-B", self.mac(host), "-E", self.mac(peer), *more,
                          privileged=True)

    def is_ready(self, process):
        """Its queue pair takes frames: what comes before it asks for them waits."""
        if not process.running():
            self.fail("the server has ended:\n%s" % process.wait(0))
        told = self.server.run(clients.staged.verbena, "res", "qp", "--json").out
        return any(row["type"] == "RAW_PACKET" and row["state"] in ("RTR", "RTS")
                   for entry in json.loads(told[told.index("["):]) for row in entry["qps"])

    def meet(self, program, *more, server_more=(), client_more=()):
        server = self.start(self.server, self.client, program, "server", *more, *server_more)
        self.until(lambda: self.is_ready(server), server.output)
        client = self.start(self.client, self.server, program, "client", *more, *client_more)
        ended = client.wait(self.TIMEOUT)
        received = server.wait(self.TIMEOUT if ended.code == 0 else 2)
        self.assertEqual((ended.code, received.code), (0, 0), "client:\n%s\n\nserver:\n%s" % (ended, received))
        return perftest_rows(received.out), perftest_rows(ended.out)

    def count(self, host, name):
        return json.loads(host.ip("-j", "-s", "link", "show", "eth0"))[0]["stats64"]["rx"][name]

    @across(["veth1500_v4", "veth9000_v4"])
    def test_bandwidth(self):
        """Each frame that was sent is received, by a rule of its Ethernet address."""
        before = self.count(self.server, "packets")
        received, sent = self.meet("raw_ethernet_bw", "-n", str(COUNT), "-s", "1024")
        for rows in (received, sent):
            self.assertEqual([row[:2] for row in rows], [[1024, COUNT]])
        # The size that perftest speaks of has the four bytes of a checksum that is the adapter's.
        self.assertGreaterEqual(self.count(self.server, "packets") - before, COUNT)

    @across(["veth1500_v4"])
    def test_rules_of_all_layers(self):
        four = ["-J", "10.77.0.1", "-j", "10.77.0.2"]
        six = ["--raw_ipv6", "-J", "fd77::1", "-j", "fd77::2"]
        ports = ["-K", "5000", "-k", "6000"]
        for rule in (four, four + ports, four + ports + ["--tcp"], six, six + ports):
            received, sent = self.meet("raw_ethernet_bw", "-n", str(COUNT), "-s", "200", *rule)
            self.assertEqual([row[:2] for row in received + sent], [[200, COUNT]] * 2, rule)

    @across(["veth1500_v4"])
    def test_several_flows(self):
        received, sent = self.meet("raw_ethernet_bw", "-n", str(COUNT), "-s", "200", "-J", "10.77.0.1", "-j", "10.77.0.2",
                                   "-K", "5000", "-k", "6000", "--flows", "4")
        self.assertEqual([row[1] for row in received + sent], [COUNT] * 2)

    @across(["veth1500_v4"])
    def test_promiscuous_and_sniffer(self):
        """Room for what the hosts say of themselves, too: a report of multicast groups (MLD) is longer than 100 bytes, and may come."""
        for mode in ("--promiscuous", "--sniffer"):
            received, _ = self.meet("raw_ethernet_bw", "-n", str(COUNT), "-s", "1024", server_more=[mode])
            self.assertEqual(received[0][1], COUNT)

    @across(["veth1500_v4"])
    def test_latency(self):
        for rows in self.meet("raw_ethernet_lat", "-n", "50", "-s", "64"):
            self.assertEqual([row[:2] for row in rows], [[64, 50]])

    @across(["veth1500_v4"])
    def test_latency_of_bursts(self):
        """With packet pacing, without which perftest does not run it. It polls for 16 completions, with room for a burst."""
        pacing = ["--rate_limit_type=PP", "--rate_limit=100", "--rate_units=M", "--burst_size=16", "-Q", "1"]
        _, sent = self.meet("raw_ethernet_burst_lat", "-n", "100", "-s", "64", *pacing)
        self.assertIn([64, 100], [row[:2] for row in sent])

    @across(["veth1500_v4"])
    def test_rules_are_made_and_destroyed(self):
        """raw_ethernet_fs_rate times how long a rule takes: as many as it was asked for."""
        process = self.start(self.server, self.client, "raw_ethernet_fs_rate", "server", "-n", "500", "-J", "10.77.0.1", "-j", "10.77.0.2",
                             "-K", "1000", "-k", "2000")
        ended = process.wait(self.TIMEOUT)
        self.assertEqual(ended.code, 0, ended)

    @across(["veth1500_v4"])
    def test_without_capability(self):
        """Refused, and told what is missing."""
        told = self.client.run(clients.staged.verbena, "run", "--explain", which("raw_ethernet_bw"), "-d", self.device, "--client",
                               "-n", "10", "-B", self.mac(self.client), "-E", self.mac(self.server))
        self.assertNotEqual(told.code, 0, told)
        self.assertIn("EPERM", told.out)
        self.assertIn("CAP_NET_RAW", told.out)
