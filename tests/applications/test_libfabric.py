# SPDX-License-Identifier: MIT
"""libfabric's provider `verbs` by its own fi_pingpong, which compares what arrives (-c)."""

from pylib.applications import ApplicationCase
from pylib.clients import across, expand, which

PORT = 47592


@expand
class Libfabric(ApplicationCase):
    def pace(self, provider, endpoint, size, count, wrap):
        """Microseconds one way."""
        words = ("-p", provider, "-e", endpoint, "-c", "-S", str(size), "-I", str(count))
        server = self.server.start(*wrap(which("fi_pingpong"), *words))
        if not server.wait_until(lambda process: process.listens(PORT)):
            self.fail("the server does not listen:\n%s" % server.wait(0))
        out = self.see(self.client, *wrap(which("fi_pingpong"), *words, self.address))
        result = server.wait(self.TIMEOUT)
        self.assertEqual(result.code, 0, result)
        row = out.strip().splitlines()[-1].split()
        # bytes, sent, acknowledged, volume, time, MB/s, us per transfer, transfers per us
        self.assertEqual(row[2], "=%d" % count, out)
        return float(row[6])

    @across(["veth1500_v4"])
    def test_pingpong(self):
        for endpoint, ours, theirs in (("msg", "verbs", "tcp"), ("rdm", "verbs;ofi_rxm", "tcp;ofi_rxm")):
            for size, count in ((8, 999), (1 << 20, 50)):
                self.figure("libfabric", "%s, %d B one way" % (endpoint, size), "us", self.pace(ours, endpoint, size, count, self.verbena),
                            self.pace(theirs, endpoint, size, count, lambda *argv: argv), "TCP")

    @across(["veth1500_v4"])
    def test_profiles(self):
        for profile, endpoint, provider in (("mlx5", "msg", "verbs"), ("mlx5", "rdm", "verbs;ofi_rxm"), ("rxe", "msg", "verbs")):
            self.assertGreater(self.pace(provider, endpoint, 4096, 50, self.under(profile)), 0, (profile, endpoint))

    @across(["veth1500_v4"])
    def test_what_soft_roce_is_too_small_for(self):
        """ofi_rxm wants completion queues larger than Soft-RoCE's: the profile shows it, and says why."""
        words = self.under("rxe")(which("fi_pingpong"), "-p", "verbs;ofi_rxm", "-e", "rdm", "-I", "50")
        server = self.server.start(*words, environment={"VERBENA_EXPLAIN": "1"})
        if not server.wait_until(lambda process: process.listens(PORT)):
            self.fail("the server does not listen:\n%s" % server.wait(0))
        self.assertNotEqual(self.client.run(*words, self.address).code, 0)
        result = server.wait(self.TIMEOUT)
        self.assertNotEqual(result.code, 0, result)
        self.assertRegex(result.out, r"cqe is \d+, at most 32767 is possible. So says the profile rxe")
