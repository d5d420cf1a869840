# SPDX-License-Identifier: MIT
"""QEMU moves a machine, over RDMA and over TCP; what arrives is compared."""

from pylib.applications import ApplicationCase
from pylib.clients import across, expand
from pylib.workloads.ground import plain
from pylib.workloads.qemu import Live, Migration

SIZE = 128 << 20


@expand
class Qemu(ApplicationCase):
    @across(["lo_v4", "veth1500_v4"])
    def test_migration(self):
        migration = Migration(self, SIZE)
        ours, theirs = migration.move("rdma", self.verbena), migration.move("tcp", plain)
        self.figure("QEMU", "migration of %d MiB, %s" % (SIZE >> 20, self.where()), "s", ours, theirs, "TCP")

    @across(["lo_v4", "veth1500_v4"])
    def test_live(self):
        """A machine that writes to its memory while it is moved, with its memory registered by and by, and all of it at once."""
        live = Live(self)
        for pinned in (False, True):
            with self.subTest(pinned=pinned):
                told = live.move("rdma", self.verbena, rdma_pin_all=pinned)
                # Pages that were written to meanwhile went a second time.
                self.assertGreaterEqual(told["ram"]["dirty-sync-count"], 2)
