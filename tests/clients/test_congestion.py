# SPDX-License-Identifier: MIT
"""Congestion control on sockets: VERBENA_CONTROL gives a queue pair a rate that it keeps to, and that marked packets cut."""

import time

from pylib.clients import WIRE, across, expand
from test_observe import Looking

RATE = 200 * 1000 * 1000


@expand
class Control(Looking):
    def paced(self, control):
        """A client that writes at a rate, and what `verbena res` says of its queue pair."""
        _, client = self.write_bw(environment={**WIRE, "VERBENA_CONTROL": control, "VERBENA_LOG": "warn"})
        self.until(lambda: (self.of(client) or {"qps": [{"state": ""}]})["qps"][0]["state"] == "RTS", "the client is in RTS")
        return client

    def qp(self, client):
        return self.of(client)["qps"][0]

    @across(["veth1500_v4"])
    def test_rate(self):
        """No more leaves than the rate allows, however fast the machine is: counted in PSNs, over a time that is surely not too short."""
        client = self.paced("dcqcn@200M")
        self.until(lambda: self.qp(client)["sends_done"] > 100, "it writes")
        began = time.monotonic()
        first = self.qp(client)
        self.until(lambda: self.qp(client)["sends_done"] - first["sends_done"] > 1000, "and goes on")
        last = self.qp(client)
        took = time.monotonic() - began
        self.assertEqual((last["control"], last["rate_bits"]), ("dcqcn", RATE))
        packets = (last["sq_psn"] - first["sq_psn"]) % (1 << 24)
        # And what may leave at once: a run of 64, and 50 us at the rate.
        self.assertLess(packets * 8 * 1024, RATE * took + 70 * 8 * 1024)
        self.assertIn("dcqcn 0.20 Gb/s", self.verbena("res").out)

    def counted(self, host, name):
        return sum(row["counters"][name] for row in self.told("stat", host=host))

    @across(["veth1500_v4"])
    def test_marks_cut_the_rate(self):
        """The server's host marks all that comes in as a congested switch would: CNPs go back, and are obeyed. How low the rate is when it is
        looked at depends on how often a busy machine lets the server say so."""
        client = self.paced("dcqcn:paper@200M")
        self.assertEqual((self.qp(client)["rate_bits"], self.counted(self.client, "rp_cnp_handled")), (RATE, 0))
        done = self.server.run("nft", "table inet t { chain c { type filter hook prerouting priority 0; udp dport 4791 ip ecn set ce; }; }",
                               privileged=True)
        self.assertEqual(done.code, 0, done)
        self.until(lambda: self.counted(self.client, "rp_cnp_handled") > 0, "a CNP is obeyed")
        self.assertGreater(self.counted(self.server, "np_cnp_sent"), 0)
        self.until(lambda: self.qp(client)["rate_bits"] < RATE, "the rate falls")

    @across(["veth1500_v4"])
    def test_of_a_device(self):
        """A device that is named obeys its own."""
        client = self.paced(f"roce_other=timely,{self.device}=dcqcn@200M,window")
        self.assertEqual(self.qp(client)["control"], "dcqcn")

    @across(["veth1500_v4"])
    def test_unknown(self):
        """A name that is none is told, with those that are, and the window serves."""
        client = self.paced("dqcqn")
        row = self.qp(client)
        self.assertEqual((row["control"], row["rate_bits"]), ("window", None))
        self.assertIn("VERBENA_CONTROL=dqcqn: known are window, dcqcn", client.output())
