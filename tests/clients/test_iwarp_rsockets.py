# SPDX-License-Identifier: MIT
"""rsockets on iWARP devices, which have no WRITE with immediate data: a WRITE and a SEND take its place (src/rdmacm/rsocket/stream_message.c).
Between hosts with MPA's CRC, within one without, unless a case says otherwise."""

import test_iwarp as iwarp
import test_rsockets as rs
from pylib.clients import add, across, expand, which

RSTREAM = {
    "small": ("lo_v4", "veth1500_v4"),
    "large": ("lo_v4", "veth1500_v6"),
    "blocking": ("veth1500_v4",),
    "polling": ("lo_v4",),
    "nonblocking": ("veth1500_v4",),
    "tiny_buffers": ("lo_v4", "veth1500_v4"),
    "no_inline": ("lo_v4",),
    "keep_alive": ("veth1500_v4",),
    "fork": ("lo_v4",),
}
RIOSTREAM = {
    "small": ("lo_v4",),
    "large": ("lo_v4", "veth1500_v4"),
    "blocking": ("veth1500_v4",),
}


class IwarpRsocketCase(rs.RsocketCase):
    """A program that cannot connect by iWARP fails: nothing else is shown to it."""

    def settle(self, place):
        where = rs.PLACES[place]
        self.place = place
        self.network.environment.update(iwarp.IWARP)
        self.server, self.client = (self.network.host(),) * 2 if where["mtu"] is None else self.network.pair(where["mtu"])
        self.address = where["address"]
        self.prepare()


class Streams(IwarpRsocketCase):
    streams = rs.Streams.streams

    def with_settings(self, settings):
        self.network.environment["VERBENA_IWARP"] = settings
        self.streams("rstream", rs.RSTREAM["middle"])
        self.streams("riostream", rs.RIOSTREAM["large"])


for name, places in RSTREAM.items():
    for place in places:
        add(Streams, "test_rstream__%s__%s" % (name, place), place, Streams.streams, "rstream", rs.RSTREAM[name])
for name, places in RIOSTREAM.items():
    for place in places:
        add(Streams, "test_riostream__%s__%s" % (name, place), place, Streams.streams, "riostream", rs.RIOSTREAM[name])
for place, settings in (("lo_v4", "crc=on"), ("veth1500_v4", "crc=off")):
    add(Streams, "test_%s__%s" % (settings.replace("=", "_"), place), place, Streams.with_settings, settings)


@expand
class Copies(IwarpRsocketCase, rs.CopyCase):
    @across(["lo_v4", "veth1500_v4"])
    def test_rcopy(self):
        self.make_source(20 << 20)
        self.meet([which("rcopy")], [which("rcopy"), self.source, "%s:%s" % (self.peer(), self.target)], server_ends=False)
        self.assert_copied()

    @across(["lo_v4", "veth1500_v4"])
    def test_netcat(self):
        """Who sends, and leaves when the last byte is handed over, loses none of them."""
        self.make_source(20 << 20)
        address = self.peer()
        for port in range(7000, 7003):
            self.meet(["sh", "-c", "nc.traditional -l -p %d -s %s > %s" % (port, address, self.target)],
                      ["sh", "-c", "nc.traditional -q 0 %s %d < %s" % (address, port, self.source)],
                      environment={"LD_PRELOAD": rs.preload()})
            self.assert_copied()


@expand
class Preloaded(IwarpRsocketCase):
    iperf3 = rs.Preloaded.iperf3

    @across(["lo_v4", "veth1500_v4"])
    def test_iperf3(self):
        self.iperf3()

    @across(["veth1500_v4"])
    def test_iperf3_reverse_in_parallel(self):
        self.iperf3("-R", "-P", "2")
