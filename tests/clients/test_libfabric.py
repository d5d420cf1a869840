# SPDX-License-Identifier: MIT
"""libfabric's verbs provider: which endpoints it finds without being told an address, and data over each kind of them."""

import re

from pylib.clients import ClientCase, across, expand, which

CONTROL_PORT = 47592
# What fi_pingpong by rxm may end with when all is done. The peer's disconnect may be read before the completion of the own last send is polled:
# libfabric 1.17 destroys the queue pair then, whose completions go with it, as on an adapter, and reports the send as flushed by itself.
CANCELED = 125
# what fi_pingpong calls it: (provider, type of endpoint, bytes: a datagram has to fit the path MTU, the device)
KINDS = {"msg": ("verbs", "msg", "4096", []), "rxm": ("verbs;ofi_rxm", "rdm", "4096", []),
         "dgram": ("verbs", "dgram", "1024", ["-d", "roce_eth0-dgram"])}


@expand
class Libfabric(ClientCase):
    @across(["veth1500_v4"])
    def test_endpoints_are_found(self):
        out = self.server.run(which("fi_info"), "-p", "verbs").out
        found = set(re.findall(r"provider: (\S+)\n.*\n    domain: (\S+)\n.*\n    type: (\S+)", out))
        for wanted in (("verbs", "roce_eth0", "FI_EP_MSG"), ("verbs;ofi_rxm", "roce_eth0", "FI_EP_RDM"),
                       ("verbs", "roce_eth0-dgram", "FI_EP_DGRAM")):
            self.assertIn(wanted, found, out)

    @across(["lo_v4"])
    def test_loopback_alone(self):
        """Its provider passes over the interface called lo; datagrams need no address."""
        out = self.server.run(which("fi_info"), "-p", "verbs").out
        self.assertIn("roce_lo-dgram", out)
        self.assertNotIn("FI_EP_MSG", out)

    def ping(self, kind, client):
        provider, endpoint, size, more = KINDS[kind]
        base = [which("fi_pingpong"), "-p", provider, "-e", endpoint, "-c", "-I", "50", "-S", size, *more]
        server = self.server.start(*base)
        self.assertTrue(server.wait_until(lambda process: process.listens(CONTROL_PORT)), server.output())
        result = client.run(*base, "10.77.0.1")
        codes = (0, CANCELED) if kind == "rxm" else (0,)
        self.assertIn(result.code, codes, "%s\n\nserver:\n%s" % (result, server.output()))
        self.assertIn(server.wait(self.TIMEOUT).code, codes)
        self.assertRegex(result.out, r"\dk +50 +=50")

    @across(["veth1500_v4"])
    def test_msg(self):
        self.ping("msg", self.client)
        self.ping("msg", self.server)

    @across(["veth1500_v4"])
    def test_rxm(self):
        self.ping("rxm", self.client)
        self.ping("rxm", self.server)

    @across(["veth1500_v4"])
    def test_dgram(self):
        self.ping("dgram", self.client)
        self.ping("dgram", self.server)
