# SPDX-License-Identifier: MIT
"""iSER: tgt as the target, libiscsi as the initiator, both of the distribution and both in user space."""

import os
import re

from pylib.applications import ApplicationCase
from pylib.clients import across, expand

PORT = 3260
INITIATOR = "iqn.2026-11.test:initiator"


@expand
class Iser(ApplicationCase):
    def start_target(self):
        """One disk, once for iSER and once for TCP."""
        disk = os.path.join(self.folder, "disk")
        with open(disk, "wb") as file:
            file.truncate(32 << 20)
        os.chown(disk, self.network.uid, self.network.uid)
        control = {"TGT_IPC_SOCKET": os.path.join(self.folder, "control")}
        target = self.server.start(*self.verbena("/usr/sbin/tgtd", "-f"), environment=control)

        def order(*words):
            return self.server.run("/usr/sbin/tgtadm", *words, environment=control)
        self.until(lambda: order("--lld", "iscsi", "--op", "show", "--mode", "sys").code == 0, target.output)
        for number, kind in (("1", "iser"), ("2", "iscsi")):
            which = ("--lld", kind, "--tid", number, "--mode")
            # tgt 1.0.85 wants both an address and a name of an initiator before it lets one in over iSER.
            for words in (("target", "--op", "new", "-T", "iqn.2026-11.test:" + kind),
                          ("logicalunit", "--op", "new", "--lun", "1", "-b", disk),
                          ("target", "--op", "bind", "-I", "ALL"), ("target", "--op", "bind", "-Q", INITIATOR)):
                result = order(*which, *words)
                self.assertEqual(result.code, 0, result)

    def urls(self):
        return ("iser://%s/iqn.2026-11.test:iser/1" % self.address, "iscsi://%s/iqn.2026-11.test:iscsi/1" % self.address)

    def rate(self, argv, blocks):
        out = self.see(self.client, *argv)
        return int(re.findall(r"iops average (\d+)", out)[-1]) * (blocks * 512 / 1e6 if blocks > 8 else 1)

    @across(["lo_v4", "veth1500_v4"])
    def test_disk(self):
        """32 requests of 128 KiB at a time, written, read and compared; then the pace of reads, 16 at a time."""
        self.start_target()
        program = self.compile("gcc", "iser_check.c", "-liscsi")
        iser, tcp = self.urls()
        for argv in (self.verbena(program, INITIATOR, iser), (program, INITIATOR, tcp)):
            self.assertIn("128 requests written, read and compared", self.see(self.client, *argv))
        for blocks, what, unit in ((8, "4 KiB", "/s"), (512, "256 KiB", "MB/s")):
            words = ("iscsi-perf", "-i", INITIATOR, "-b", str(blocks), "-m", "16", "-t", "2")
            self.figure("tgt", "iSER, %s, reads of %s" % (self.where(), what), unit, self.rate(self.verbena(*words, iser), blocks),
                        self.rate((*words, tcp), blocks), "TCP")
