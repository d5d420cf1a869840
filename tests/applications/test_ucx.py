# SPDX-License-Identifier: MIT
"""UCX by its own test program and by one that compares what arrives, with nothing said about devices."""

from pylib.applications import ApplicationCase
from pylib.clients import across, expand
from pylib.workloads import ucx
from pylib.workloads.ground import plain

PORT = 13338


@expand
class Ucx(ApplicationCase):
    def both(self, what, transports):
        for test, size, count, figure, unit in (("tag_lat", 8, 2000, "median", "us"), ("tag_bw", 1 << 20, 300, "bandwidth", "MB/s"),
                                                ("ucp_put_lat", 8, 2000, "median", "us")):
            ours = ucx.measure(self, transports + ",self", test, size, count, self.verbena)[figure]
            theirs = ucx.measure(self, "tcp,self", test, size, count, plain)[figure]
            self.figure("UCX", "%s, %s %d B, %s" % (what, test, size, self.where()), unit, ours, theirs, "TCP")

    @across(["lo_v4", "veth1500_v4"])
    def test_reliable(self):
        """rc_verbs, with ud_verbs to bring connections up, as UCX does it."""
        self.both("RC", "rc")

    @across(["lo_v4", "veth1500_v4"])
    def test_datagrams(self):
        self.both("UD", "ud_verbs")

    @across(["lo_v4", "veth1500_v4"])
    def test_contents(self):
        """Tagged messages of 1 byte to 4 MiB, eager and by rendezvous, there and back."""
        program = self.compile("gcc", "ucx_check.c", "-lucp", "-lucs")
        for transports in ("rc,self", "ud_verbs,self"):
            environment = {"UCX_TLS": transports}
            server = self.serve(*self.verbena(program, str(PORT)), port=PORT, environment=environment)
            out = self.see(self.client, *self.verbena(program, str(PORT), self.address), environment=environment)
            self.assertIn("24 messages compared", out)
            result = server.wait(self.TIMEOUT)
            self.assertEqual(result.code, 0, result)

    @across(["veth1500_v4"])
    def test_profiles(self):
        """UCX asks a device for what it can do, and takes it at its word."""
        for profile in self.PROFILES:
            for transports in ("rc", "ud_verbs"):
                for test, size in (("tag_lat", 8), ("tag_bw", 1 << 16)):
                    figures = ucx.measure(self, transports + ",self", test, size, 200, self.under(profile))
                    self.assertGreater(figures["median"], 0, (profile, transports, test))
