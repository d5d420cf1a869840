# SPDX-License-Identifier: MIT
"""QEMU moves a machine's memory, over RDMA and over TCP; what arrives is compared."""

from pylib.applications import ApplicationCase
from pylib.clients import across, expand
from pylib.workloads.ground import plain
from pylib.workloads.qemu import Migration

SIZE = 128 << 20


@expand
class Qemu(ApplicationCase):
    @across(["lo_v4", "veth1500_v4"])
    def test_migration(self):
        migration = Migration(self, SIZE)
        ours, theirs = migration.move("rdma", self.verbena), migration.move("tcp", plain)
        self.figure("QEMU", "migration of %d MiB, %s" % (SIZE >> 20, self.where()), "s", ours, theirs, "TCP")
