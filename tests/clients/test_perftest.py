# SPDX-License-Identifier: MIT
"""perftest of the distribution: every tool, transport and the options people use.

Events (-e) are for SEND, READ and atomics: perftest refuses them for WRITE.

UC and UD have no flow control: a receiver that loses its processor for a while loses messages, and a bandwidth test
of SENDs then waits for ever, on an adapter as well as here. Their counts are therefore such that all of it fits the
receive queue and the socket at once.
"""

import signal

from pylib.clients import MAIN_PLACES, PLACES, TCP_PORT, ClientCase, add, busy, perftest_measured, perftest_rows, which

MTUS = (256, 512, 1024, 2048, 4096)

# (tool, transport): {case: options}
FULL = {
    ("send_bw", "RC"): {
        "default": "-n 2000", "all": "-a -n 30", "bidirectional": "-b -n 1000", "queue_pairs": "-q 8 -n 500",
        "shared_receive": "--use-srq -q 4 -n 500", "inline": "-I 64 -s 64 -n 5000", "events": "-e -n 1000",
        "bidirectional_all": "-a -b -n 20", "post_list": "-l 8 -n 2000 -s 1024", "old_post": "--use_old_post_send -n 1000",
    },
    ("send_bw", "UC"): {
        "default": "-n 32 -s 1024", "small": "-n 64 -s 64 -I 64", "bidirectional": "-b -n 32 -s 1024",
        "queue_pairs": "-q 8 -n 8 -s 512", "events": "-e -n 32 -s 1024",
    },
    ("send_bw", "UD"): {
        "default": "-n 64 -s 1024", "small": "-n 64 -s 64 -I 64", "bidirectional": "-b -n 32 -s 1024",
        "queue_pairs": "-q 8 -n 8 -s 512", "events": "-e -n 64 -s 1024", "shared_receive": "--use-srq -n 32 -s 1024",
    },
    ("send_lat", "RC"): {
        "default": "-n 2000", "all": "-a -n 10", "inline": "-I 64 -s 64 -n 2000", "events": "-e -n 1000",
        "shared_receive": "--use-srq -n 1000",
    },
    ("send_lat", "UC"): {"default": "-n 1000", "events": "-e -n 500", "sizes": "-s 16384 -n 500"},
    ("send_lat", "UD"): {"default": "-n 1000", "events": "-e -n 500", "all": "-a -n 30"},
    ("write_bw", "RC"): {
        "default": "-n 2000", "all": "-a -n 30", "bidirectional": "-b -n 1000", "queue_pairs": "-q 8 -n 500",
        "inline": "-I 64 -s 64 -n 5000", "bidirectional_all": "-a -b -n 20",
        "many_queue_pairs": "-q 64 -n 50", "duration": "-D 2 -f 0", "post_list": "-l 8 -n 2000 -s 1024",
        "region_per_queue_pair": "--mr_per_qp -q 4 -n 200",
    },
    ("write_bw", "UC"): {
        "default": "-n 500", "bidirectional": "-b -n 500 -s 4096", "queue_pairs": "-q 8 -n 100", "all": "-a -n 20",
    },
    # Both sides look at their memory and never poll: few turns, because each waits for the scheduler on a busy machine.
    ("write_lat", "RC"): {"default": "-n 300", "all": "-a -n 5", "inline": "-I 64 -s 64 -n 300"},
    ("write_lat", "UC"): {"default": "-n 300", "inline": "-I 64 -s 64 -n 300"},
    ("read_bw", "RC"): {
        "default": "-n 2000", "all": "-a -n 30", "bidirectional": "-b -n 1000", "queue_pairs": "-q 8 -n 300",
        "events": "-e -n 1000", "one_outstanding": "-o 1 -n 500",
    },
    ("read_lat", "RC"): {"default": "-n 2000", "all": "-a -n 10", "events": "-e -n 500"},
    ("atomic_bw", "RC"): {
        "default": "-n 5000", "compare_and_swap": "-A CMP_AND_SWAP -n 5000", "bidirectional": "-b -n 2000",
        "queue_pairs": "-q 8 -n 500", "events": "-e -n 1000",
    },
    ("atomic_lat", "RC"): {
        "default": "-n 2000", "compare_and_swap": "-A CMP_AND_SWAP -n 1000", "events": "-e -n 500",
    },
}
# A run over all sizes takes ten seconds or more, most of it perftest finding out how fast the processor is, once for each size. They
# are spread over the places.
SPREAD = {
    ("send_bw", "RC", "all"): ("lo_v4", "veth1500_v4", "veth9000_v6"),
    ("write_bw", "RC", "all"): ("lo_v6", "veth1500_v4", "veth9000_v4"),
    ("read_bw", "RC", "all"): ("lo_v4", "veth1500_v6", "veth9000_v4"),
    ("send_bw", "RC", "bidirectional_all"): ("lo_v4",), ("write_bw", "RC", "bidirectional_all"): ("veth1500_v4",),
    ("write_bw", "UC", "all"): ("veth1500_v4",), ("send_lat", "RC", "all"): ("lo_v4",), ("send_lat", "UD", "all"): ("veth1500_v4",),
    ("write_lat", "RC", "all"): ("veth1500_v4",), ("read_lat", "RC", "all"): ("lo_v4",),
}
# Elsewhere: what depends on addresses and MTUs.
SHORT = {
    ("send_bw", "RC"): ("default", "queue_pairs"), ("send_bw", "UD"): ("default",), ("send_lat", "RC"): ("default",),
    ("send_lat", "UD"): ("default",), ("write_bw", "RC"): ("default", "bidirectional"), ("write_bw", "UC"): ("default",),
    ("write_lat", "RC"): ("default",), ("read_bw", "RC"): ("default",), ("read_lat", "RC"): ("default",),
    ("atomic_bw", "RC"): ("default",), ("atomic_lat", "RC"): ("default",),
}
XRC = {
    "lo_v4": {"send_bw": "-n 500", "write_bw": "-b -q 2 -n 200", "read_bw": "-n 500", "send_lat": "-n 300", "atomic_bw": "-n 500"},
    "veth1500_v4": {"send_bw": "-n 500", "write_bw": "-b -q 2 -n 200", "read_bw": "-n 500", "send_lat": "-n 300", "atomic_bw": "-n 500"},
}


class Perftest(ClientCase):
    CORES = 1

    def argv(self, tool, transport, options, gid):
        argv = [which("ib_" + tool), "-F", "-d", self.device, "-x", str(gid)] + options.split()
        # READs and atomics are of RC, unless they are of XRC.
        if transport == "XRC" or not (tool.startswith("atomic") or tool.startswith("read")):
            argv += ["-c", transport]
        return argv

    def perftest(self, tool, transport, options):
        if transport == "XRC":
            self.network.own_tmp()    # the file that names the XRC domain
        before = self.datagrams(self.client)
        server, client = self.exchange(self.argv(tool, transport, options, self.gids[0]),
                                       self.argv(tool, transport, options, self.gids[1]) + [self.address])
        self.assert_no_complaint(server, client)
        if transport in ("UC", "XRC") and self.place.startswith("lo_v"):
            self.assert_through_memory(before)
        rows = perftest_rows(client)
        self.assertTrue(rows, client)
        words = options.split()
        if "-a" in words:
            # 2 bytes to 8 MiB; a datagram ends at the MTU.
            sizes = [int(row[0]) for row in rows]
            self.assertEqual(sizes, [2 << i for i in range(len(sizes))])
            self.assertEqual(len(sizes), 23 if transport != "UD" else len(sizes))
            self.assertGreaterEqual(len(sizes), 9)
        else:
            self.assertEqual(len(rows), 1, client)
        for row in perftest_measured(client):
            # Bandwidth: bytes, iterations, peak, average, million messages. Latency: bytes, iterations, min, max, typical...
            if tool.endswith("_bw"):
                # A few bytes at a time, in MB/s, may round to nothing: the message rate does not.
                self.assertGreater(row[4], 0, client)
                self.assertLess(row[3], 1e6, client)
            else:
                self.assertGreater(row[2], 0, client)
                self.assertLess(row[2], 1e6, client)
                self.assertLessEqual(row[2], row[3], client)

    @busy(2)
    def in_turns(self, *how):
        """As perftest, where each waits for the other's answer."""
        self.perftest(*how)

    def run_infinitely(self, tool, transport, options):
        """Reports once per period until interrupted."""
        words = options + " --run_infinitely -D 1"
        server = self.server.start("stdbuf", "-oL", *self.argv(tool, transport, words, self.gids[0]))
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        client = self.client.start("stdbuf", "-oL", *self.argv(tool, transport, words, self.gids[1]), self.address)
        reported = client.wait_until(lambda process: len(perftest_rows(process.output())) >= 2)
        self.assertTrue(reported, "client:\n%s\n\nserver:\n%s" % (client.output(), server.output()))
        self.assertTrue(client.running())
        client.signal(signal.SIGINT)
        server.signal(signal.SIGINT)
        for process in (client, server):
            self.assertFalse(process.wait(self.TIMEOUT).timed_out)
        for row in perftest_measured(client.output()):
            self.assertGreater(row[3], 0, client.output())


def add_case(tool, transport, case, options, place):
    function = Perftest.in_turns if tool.endswith("_lat") else Perftest.perftest
    add(Perftest, "test_%s_%s__%s__%s" % (tool, transport, case, place), place, function, tool, transport, options)


for place, where in PLACES.items():
    for (tool, transport), cases in FULL.items():
        for case, options in cases.items():
            usual = place in MAIN_PLACES or case in SHORT.get((tool, transport), ())
            if place in SPREAD.get((tool, transport, case), (place,) if usual else ()):
                add_case(tool, transport, case, options, place)
    largest = 1024 if where["mtu"] == 1500 else 4096
    for mtu in MTUS:
        if mtu <= largest and (place in MAIN_PLACES or mtu == 4096):
            for tool in ("send_bw", "write_bw", "read_bw"):
                add_case(tool, "RC", "mtu_%d" % mtu, "-m %d -n 300" % mtu, place)
            add_case("write_bw", "UC", "mtu_%d" % mtu, "-m %d -n 100" % mtu, place)
for place, cases in XRC.items():
    for tool, options in cases.items():
        add_case(tool, "XRC", "default", options, place)
for place in MAIN_PLACES:
    for tool in ("write_bw", "send_bw"):
        add(Perftest, "test_%s_RC__run_infinitely__%s" % (tool, place), place, Perftest.run_infinitely, tool, "RC", "")
