# SPDX-License-Identifier: MIT
"""mckey with a lone receiver. A kernel of 6.10 or later takes a datagram that only one socket of the host has joined for past the ordinary
delivery of multicast and through the program that steers by queue pair: two receivers do not show it."""

from pylib.clients import ClientCase, across, expand, which

# (address of the receiver, of the sender, group)
ADDRESSES = {"v4": ("10.77.0.1", "10.77.0.2", "239.77.0.1"), "v6": ("fd77::1", "fd77::2", "ff15::77")}


@expand
class Multicast(ClientCase):
    @across(["veth1500_v4", "veth1500_v6"])
    def test_lone_receiver(self):
        receiver, sender, group = ADDRESSES[self.id()[-2:]]
        common = ["-m", group, "-C", "5", "-S", "200"]
        # Another process has the first place in the group of sockets: what is steered wrongly does not come right by luck.
        self.server.start(which("rping"), "-s", "-a", receiver)
        receiving = self.server.start(which("mckey"), "-b", receiver, *common)
        self.until(lambda: group in self.server.ip("maddr", "show", "dev", "eth0"), receiving.output)
        sent = self.client.run(which("mckey"), "-b", sender, *common, "-s")
        self.assertEqual(sent.code, 0, sent)
        received = receiving.wait(self.TIMEOUT)
        self.assertEqual(received.code, 0, received)
        self.assertIn("data transfers complete", received.out)
