# SPDX-License-Identifier: MIT
"""UCX by its own test program, between two hosts, with nothing said about devices."""

import re

from pylib.applications import ApplicationCase
from pylib.clients import across, expand, which

PORT = 13337


@expand
class Ucx(ApplicationCase):
    def measure(self, transports, test, size, count, wrap):
        environment = {"UCX_TLS": transports, "UCX_WARN_UNUSED_ENV_VARS": "n"}
        server = self.server.start(*wrap(which("ucx_perftest"), "-p", str(PORT)), environment=environment)
        if not server.wait_until(lambda process: process.listens(PORT)):
            self.fail("the server does not listen:\n%s" % server.wait(0))
        out = self.see(self.client, *wrap(which("ucx_perftest"), self.address, "-p", str(PORT), "-t", test, "-s", str(size), "-n",
                                          str(count), "-w", str(count // 10), "-f"), environment=environment)
        server.wait(self.TIMEOUT)
        self.assertNotRegex(out, "ERROR|WARN")
        # Median and mean, both in microseconds; bandwidth, mean of the last part and of all; messages likewise.
        numbers = [float(word) for word in re.findall(r"^(?:Final:)?\s*[\d.]+(?:\s+[\d.]+)+$", out, re.M)[-1].replace("Final:", "").split()]
        return {"median": numbers[1], "mean": numbers[3], "bandwidth": numbers[5]}

    def both(self, what, transports):
        for test, size, count, figure, unit in (("tag_lat", 8, 2000, "median", "us"), ("tag_bw", 1 << 20, 300, "bandwidth", "MB/s"),
                                                ("ucp_put_lat", 8, 2000, "median", "us")):
            ours = self.measure(transports + ",self", test, size, count, self.verbena)[figure]
            theirs = self.measure("tcp,self", test, size, count, lambda *argv: argv)[figure]
            self.figure("UCX", "%s, %s %d B" % (what, test, size), unit, ours, theirs, "TCP")

    @across(["veth1500_v4"])
    def test_reliable(self):
        """rc_verbs, with ud_verbs to bring connections up, as UCX does it."""
        self.both("RC", "rc")

    @across(["veth1500_v4"])
    def test_datagrams(self):
        self.both("UD", "ud_verbs")

    @across(["veth1500_v4"])
    def test_profiles(self):
        """UCX asks a device for what it can do, and takes it at its word."""
        for profile in self.PROFILES:
            for transports in ("rc", "ud_verbs"):
                for test, size in (("tag_lat", 8), ("tag_bw", 1 << 16)):
                    figures = self.measure(transports + ",self", test, size, 200, self.under(profile))
                    self.assertGreater(figures["median"], 0, (profile, transports, test))
