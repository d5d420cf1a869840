# SPDX-License-Identifier: MIT
"""Ceph's RDMA messenger: monitor, OSD and clients of the distribution; what is read is compared with what was written."""

from pylib.applications import ApplicationCase
from pylib.clients import across, expand
from pylib.workloads.ceph import Cluster
from pylib.workloads.ground import plain

SIZES = ((4096, "4 KiB"), (1 << 20, "1 MiB"))


@expand
class Ceph(ApplicationCase):
    @across(["lo_v4", "veth1500_v4"])
    def test_rados(self):
        rates = []
        for messenger, wrap in (("async+rdma", self.verbena), ("async+posix", plain)):
            cluster = Cluster(self, messenger, wrap)
            cluster.compare(9 << 20)
            rates.append([cluster.write_rate(size, 2) for size, _ in SIZES])
            cluster.stop()
        for (_, words), ours, theirs in zip(SIZES, *rates):
            self.figure("Ceph", "rados bench, writes of %s, %s" % (words, self.where()), "MB/s", ours, theirs, "TCP")
