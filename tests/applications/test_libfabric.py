# SPDX-License-Identifier: MIT
"""libfabric's provider `verbs` by its own fi_pingpong, which compares what arrives (-c)."""

import re

from pylib.applications import ApplicationCase
from pylib.clients import across, expand, which
from pylib.workloads.ground import plain

PORT = 47592


@expand
class Libfabric(ApplicationCase):
    def pace(self, provider, endpoint, size, count, wrap, more=()):
        """Microseconds one way."""
        words = ("-p", provider, "-e", endpoint, "-c", "-S", str(size), "-I", str(count), *more)
        server = self.serve(*wrap(which("fi_pingpong"), *words), port=PORT)
        client, server = self.client.run(*wrap(which("fi_pingpong"), *words, self.address)), server.wait(self.TIMEOUT)
        # Behind the last round one of the two is the first to leave, and the other may say so of its receives.
        for result in (client, server):
            if not (result.code and "Work Request Flushed" in result.out):
                self.assertEqual(result.code, 0, result)
        # bytes, sent, acknowledged, volume, time, MB/s, us per transfer, transfers per us
        row = re.search(r"^\S+ +%d +=%d +\S+ +\S+ +\S+ +([\d.]+) +\S+$" % (count, count), client.out, re.M)
        self.assertTrue(row, client)
        return float(row.group(1))

    def settle(self, place):
        """libfabric lists no connected endpoints of loopback: on one host the address is another interface's."""
        super().settle("veth1500_v4" if place == "lo_v4" else place)
        if place == "lo_v4":
            self.client = self.server

    @across(["lo_v4", "veth1500_v4"])
    def test_pingpong(self):
        for endpoint, ours, theirs in (("msg", "verbs", "tcp"), ("rdm", "verbs;ofi_rxm", "tcp;ofi_rxm")):
            for size, count in ((8, 999), (1 << 20, 50)):
                self.figure("libfabric", "%s, %d B one way, %s" % (endpoint, size, self.where()), "us",
                            self.pace(ours, endpoint, size, count, self.verbena), self.pace(theirs, endpoint, size, count, plain), "TCP")

    @across(["lo_v4", "veth1500_v4"])
    def test_datagrams(self):
        """A datagram has to fit the path MTU. Beside UDP, which is what libfabric has for them elsewhere."""
        ours = self.pace("verbs", "dgram", 1024, 200, self.verbena, ("-d", self.device + "-dgram"))
        self.figure("libfabric", "dgram, 1024 B one way, %s" % self.where(), "us", ours, self.pace("udp", "dgram", 1024, 200, plain), "UDP")

    @across(["veth1500_v4"])
    def test_profiles(self):
        for profile, endpoint, provider in (("mlx5", "msg", "verbs"), ("mlx5", "rdm", "verbs;ofi_rxm"), ("rxe", "msg", "verbs")):
            self.assertGreater(self.pace(provider, endpoint, 4096, 50, self.under(profile)), 0, (profile, endpoint))

    @across(["veth1500_v4"])
    def test_what_soft_roce_is_too_small_for(self):
        """ofi_rxm wants completion queues larger than Soft-RoCE's: the profile shows it, and says why."""
        words = self.under("rxe")(which("fi_pingpong"), "-p", "verbs;ofi_rxm", "-e", "rdm", "-I", "50")
        server = self.serve(*words, port=PORT, environment={"VERBENA_EXPLAIN": "1"})
        self.assertNotEqual(self.client.run(*words, self.address).code, 0)
        result = server.wait(self.TIMEOUT)
        self.assertNotEqual(result.code, 0, result)
        self.assertRegex(result.out, r"cqe is \d+, at most 32767 is possible. So says the profile rxe")
