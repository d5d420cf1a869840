# SPDX-License-Identifier: MIT
"""What we put on the wire, judged by others: tshark dissects every packet, and each ICRC is computed again."""

import os
import signal
import shutil
import subprocess
import tempfile

from pylib.capture import judge
from pylib.clients import ClientCase, across, expand, which

# (tool, options, opcodes that must appear: BTH opcode numbers of IBTA 9.2.1)
RUNS = (
    ("ib_send_bw", "-c RC -n 20 -s 5000", {0x00, 0x01, 0x02, 0x11}),
    ("ib_send_bw", "-c RC -n 20 -s 64", {0x04}),
    ("ib_send_bw", "-c UC -n 20 -s 3000", {0x20, 0x22}),
    ("ib_send_bw", "-c UD -n 20 -s 512", {0x64}),
    ("ib_write_bw", "-c RC -n 20 -s 65536", {0x06, 0x07, 0x08}),
    ("ib_write_bw", "-c UC -n 20 -s 4000", {0x26, 0x28}),
    ("ib_read_bw", "-n 20 -s 65536", {0x0c, 0x0d, 0x0e, 0x0f}),
    ("ib_atomic_bw", "-n 20", {0x12, 0x14}),
    ("ib_atomic_bw", "-n 20 -A CMP_AND_SWAP", {0x12, 0x13}),
    # Sizes around the padding to four bytes.
    ("ib_send_bw", "-c RC -n 5 -s 1", {0x04}), ("ib_send_bw", "-c RC -n 5 -s 2", {0x04}),
    ("ib_send_bw", "-c RC -n 5 -s 1023", {0x04}), ("ib_write_bw", "-c RC -n 5 -s 1025", {0x06, 0x08}),
)


# Payload is whatever lay in a buffer; these dissectors guess by its first bytes that it is theirs, and then call it malformed (the
# kernel's own packets too).
GUESSERS = ("rpcrdma_infiniband", "smb_direct_infiniband", "smcr_infiniband", "sdp_infiniband", "iser_infiniband", "fc_infiniband",
            "lnet_ib", "nvme_rdma", "eth_over_ib", "mellanox_eoib")


@expand
class Capture(ClientCase):
    def segment_before_the_wire(self):
        """A capture shows what the kernel hands to the device; without this that is runs of packets not yet split."""
        for host in (self.server, self.client):
            for feature in ("tx-udp-segmentation", "gso", "gro"):
                done = host.run("ethtool", "-K", "eth0", feature, "off", privileged=True)
                self.assertEqual(done.code, 0, done)

    @across(["veth1500_v4", "veth1500_v6", "veth9000_v4", "veth9000_v6"])
    def test_every_packet(self):
        """Every opcode that perftest can provoke: no malformed frame, no wrong ICRC."""
        self.segment_before_the_wire()
        directory = tempfile.mkdtemp(prefix="verbena-capture-")
        self.addCleanup(shutil.rmtree, directory, True)
        os.chmod(directory, 0o777)
        path = os.path.join(directory, "wire.pcap")
        sniffer = self.server.start("tcpdump", "-i", "eth0", "-U", "-B", "65536", "-Z", "root", "-w", path, "udp port 4791",
                                    privileged=True)
        self.assertTrue(sniffer.wait_until(lambda process: "listening on" in process.output()), sniffer.output())
        wanted = set()
        for tool, options, opcodes in RUNS:
            base = [which(tool), "-F", "-d", self.device] + options.split()
            self.exchange(base + ["-x", str(self.gids[0])], base + ["-x", str(self.gids[1]), self.address])
            wanted |= opcodes if "1500" in self.id() else set()
        sniffer.signal(signal.SIGINT)
        said = sniffer.wait(self.TIMEOUT).out
        self.assertIn("0 packets dropped by kernel", said)

        keep = os.environ.get("VERBENA_KEEP_CAPTURE")
        if keep:
            shutil.copy(path, keep)
        count, opcodes, wrong = judge(path)
        self.assertGreater(count, 200)
        self.assertEqual(wrong[:10], [], "%d of %d packets have a wrong ICRC" % (len(wrong), count))
        self.assertLessEqual(wanted, set(opcodes))

        self.assertEqual(self.dissect(path, "udp.port == 4791 && !infiniband"), "", "not recognised as RoCEv2")
        self.assertEqual(self.dissect(path, "_ws.malformed || _ws.expert.severity == error"), "", "malformed")
        shown = self.dissect(path, "infiniband", "-T", "fields", "-e", "infiniband.invariant.crc")
        # It does not know those of manufacturers' own opcodes, by which two of ours make themselves known (IBA 9.2.1).
        own = sum(number for opcode, number in opcodes.items() if opcode >= 0xc0)
        self.assertEqual(len(shown.split()), count - own, "tshark sees an ICRC in each packet")
        self.assertLess(own, count / 20)

    def dissect(self, path, display_filter, *more):
        quiet = [word for name in GUESSERS for word in ("--disable-heuristic", name)]
        done = subprocess.run(["tshark", "-n", *quiet, "-r", path, "-Y", display_filter, *more], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, "HOME": os.path.dirname(path)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()
