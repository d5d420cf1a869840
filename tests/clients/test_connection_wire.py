# SPDX-License-Identifier: MIT
"""A connection by librdmacm as it looks on the wire. Two sides with the same misunderstanding agree with each other: here the
specification is asked, in a program that shares nothing with them."""

import os
import shutil
import signal
import struct
import tempfile

from pylib.capture import frames, judge, roce_datagram
from pylib.clients import ClientCase, across, expand, which

BTH, DETH, MAD = 12, 8, 24
CM_REQ, CM_REP = 0x0010, 0x0013
ATOMIC_ACKNOWLEDGE, UD_SEND = 0x12, 0x64


def number24(data, at):
    return int.from_bytes(data[at:at + 3], "big")


class Seen:
    """What a capture of one connection tells."""

    def __init__(self, path):
        self.starting = {}              # CM attribute: (who sent it, Starting PSN)
        self.first = {}                 # who: PSN of the first request
        for frame in frames(path):
            found = roce_datagram(frame)
            if found:
                self.note(*found)

    def note(self, packet, header):
        sender = packet[12:16] if header == 20 else packet[8:24]
        datagram = packet[header + 8:]
        opcode = datagram[0]
        if opcode == UD_SEND and number24(datagram, 5) == 1:
            attribute = struct.unpack(">H", datagram[BTH + DETH + 16:BTH + DETH + 18])[0]
            at = {CM_REQ: 44, CM_REP: 20}.get(attribute)
            if at:
                self.starting[attribute] = (sender, number24(datagram, BTH + DETH + MAD + at))
        elif opcode < 0x20 and not 0x0d <= opcode <= ATOMIC_ACKNOWLEDGE:
            self.first.setdefault(sender, number24(datagram, 9))


@expand
class ConnectionWire(ClientCase):
    @across(["veth1500_v4", "veth1500_v6"])
    def test_starting_psn(self):
        """Each message names the PSN at which its receiver begins to send (IBA 12.7, Starting PSN)."""
        directory = tempfile.mkdtemp(prefix="verbena-capture-")
        self.addCleanup(shutil.rmtree, directory, True)
        os.chmod(directory, 0o777)
        path = os.path.join(directory, "wire.pcap")
        sniffer = self.server.start("tcpdump", "-i", "eth0", "-U", "--immediate-mode", "-Z", "root", "-w", path, "udp port 4791", privileged=True)
        self.assertTrue(sniffer.wait_until(lambda process: "listening on" in process.output()), sniffer.output())
        address = "fd77::1" if self.id().endswith("v6") else "10.77.0.1"
        self.rping(address)
        sniffer.signal(signal.SIGINT)
        sniffer.wait(self.TIMEOUT)
        _, _, wrong = judge(path)
        self.assertEqual(wrong, [])
        seen = Seen(path)
        (client, named_by_client), (server, named_by_server) = seen.starting[CM_REQ], seen.starting[CM_REP]
        self.assertEqual(seen.first[server], named_by_client)
        self.assertEqual(seen.first[client], named_by_server)

    def rping(self, address):
        server = self.server.start(which("rping"), "-s", "-a", address, "-C", "2")
        self.until_listening(server)
        client = self.client.run(which("rping"), "-c", "-a", address, "-C", "2")
        self.assertEqual(client.code, 0, client)
        self.assertEqual(server.wait(self.TIMEOUT).code, 0)
