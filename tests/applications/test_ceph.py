# SPDX-License-Identifier: MIT
"""Ceph's RDMA messenger: monitor, OSD and clients of the distribution; what is read is compared with what was written."""

from pylib.applications import ApplicationCase
from pylib.clients import across, expand
from pylib.workloads.ceph import Cluster, SLEEPS_AT_ONCE
from pylib.workloads.ground import plain

SIZES = ((4096, "4 KiB"), (1 << 20, "1 MiB"))


@expand
class Ceph(ApplicationCase):
    @across(["lo_v4", "veth1500_v4"])
    def test_rados(self):
        rates = []
        for messenger, wrap, settings in (("async+rdma", self.verbena, SLEEPS_AT_ONCE), ("async+rdma", self.verbena, ""), ("async+posix", plain, "")):
            cluster = Cluster(self, messenger, wrap, settings)
            cluster.compare(9 << 20)
            rates.append([cluster.write_rate(size, 2) for size, _ in SIZES])
            cluster.stop()
        for (_, words), sleeping, polling, theirs in zip(SIZES, *rates):
            for how, ours in (("", sleeping), (", polling", polling)):
                self.figure("Ceph", "rados bench, writes of %s%s, %s" % (words, how, self.where()), "MB/s", ours, theirs, "TCP")

    @across(["lo_v4"])
    def test_disk_that_seconds_would_fill(self):
        cluster = Cluster(self, "async+posix", plain, disk=256 << 20)
        self.assertGreater(cluster.write_rate(1 << 20, 100), 0)
        self.assertGreater(cluster.write_rate(1 << 20, 100), 0)
        cluster.stop()
