# SPDX-License-Identifier: MIT
"""The five ibv_*_pingpong programs of the distribution, in every place, with their options."""

from pylib.clients import ALL_PLACES, PLACES, ClientCase, add, pingpong_figures, which

# name: options. Defaults are 1000 iterations of 4096 bytes (UD: 1024, whatever its help says).
RC = {
    "default": "",
    "events": "-e",
    "timestamps": "-t",
    "new_send": "-N",
    "new_send_events": "-N -e",
    "checked": "-c",
    "checked_new_send": "-c -N -s 8192",
    "large": "-s 1048576 -n 100 -r 50",
    "large_checked": "-s 4194304 -n 10 -r 10 -c",
    "tiny": "-s 1",
    "odd": "-s 4097 -c",
    "many": "-n 20000",
    "many_events": "-n 5000 -e",
    "mtu_256": "-m 256",
    "mtu_512": "-m 512 -c",
    "on_demand": "-o",
    "on_demand_implicit": "-o -O",
    "on_demand_prefetch": "-o -P",
    "device_memory": "-j",
    "service_level": "-l 3",
}
UC = {
    "default": "",
    "events": "-e",
    "checked": "-c",
    "large": "-s 32768 -n 200",
    "many": "-n 10000",
    "mtu_512": "-m 512 -c",
}
UD = {
    "default": "",
    "events": "-e",
    "checked": "-c",
    "small": "-s 64 -c",
    "many": "-n 10000",
}
SRQ = {
    "default": "",
    "events": "-e",
    "checked": "-c",
    "large": "-s 262144 -n 20 -r 100",
    "many": "-n 5000 -q 4",
    "one": "-q 1",
    "on_demand": "-o",
}
# It does one round with each client, and says so.
XSRQ = {"default": "", "events": "-e", "large": "-s 1000000", "on_demand": "-o"}
# Only where the path carries 4096 bytes.
BIG_MTU = {"mtu_2048": "-m 2048 -c", "mtu_4096": "-m 4096 -c -s 65536"}


class PingPong(ClientCase):
    CORES = 1

    def pingpong(self, kind, options):
        program = which("ibv_%s_pingpong" % kind)
        words = options.split()
        base = [program, "-d", self.device] + words
        before = self.datagrams(self.client)
        server, client = self.exchange(base + ["-g", str(self.gids[0])],
                                       base + ["-g", str(self.gids[1]), self.address])
        self.assert_no_complaint(server, client)
        if kind == "uc" and self.place.startswith("lo_v"):
            self.assert_through_memory(before)
        size = int(words[words.index("-s") + 1]) if "-s" in words else 1024 if kind == "ud" else 4096
        count = int(words[words.index("-n") + 1]) if "-n" in words else 1000
        queue_pairs = (int(words[words.index("-q") + 1]) if "-q" in words else 16) if kind == "srq" else 1
        for out in (server, client):
            figures = pingpong_figures(out)
            self.assertIsNotNone(figures, out)
            volume, megabits, iterations, pace = figures
            if kind == "srq":
                # It counts what all queue pairs did together.
                self.assertGreaterEqual(iterations, count)
            else:
                self.assertEqual(iterations, count)
            self.assertEqual(volume, size * iterations * 2)
            # One byte at a time rounds to nothing.
            self.assertTrue(megabits > 0 or size == 1, out)
            self.assertGreater(pace, 0)
            self.assertLessEqual(queue_pairs, iterations)

    def extended(self, options):
        self.network.own_tmp()    # the file that names the XRC domain
        base = [which("ibv_xsrq_pingpong"), "-d", self.device, "-m", "1024"] + options.split()
        before = self.datagrams(self.client)
        server, client = self.exchange(base + ["-g", str(self.gids[0])],
                                       base + ["-g", str(self.gids[1]), self.address])
        self.assert_no_complaint(server, client)
        if self.place.startswith("lo_v"):
            self.assert_through_memory(before)
        for out in (server, client):
            self.assertIn("success", out)
            self.assertIn("SRQN", out)


# One host, by wire: what is enough to see that this way works too.
BY_WIRE = {("rc", "default"), ("rc", "events"), ("rc", "large_checked"), ("srq", "default"), ("uc", "default")}

for place in PLACES:
    big = PLACES[place]["mtu"] != 1500
    for kind, table in (("rc", RC), ("uc", UC), ("ud", UD), ("srq", SRQ)):
        cases = dict(table, **BIG_MTU) if big and kind in ("rc", "uc") else table
        for case, options in cases.items():
            if place in ALL_PLACES or (kind, case) in BY_WIRE:
                add(PingPong, "test_%s__%s__%s" % (kind, case, place), place, PingPong.pingpong, kind, options)
for place in ("lo_v4", "veth1500_v6"):
    for case, options in XSRQ.items():
        add(PingPong, "test_xsrq__%s__%s" % (case, place), place, PingPong.extended, options)
