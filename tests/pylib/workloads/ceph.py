# SPDX-License-Identifier: MIT
"""Ceph: a monitor and one OSD on the server, with its memory for a disk; the client's `rados` writes objects to it. All of them speak by Ceph's
RDMA messenger, or all by TCP."""

import os
import re
import subprocess
import uuid

from pylib.hosts import HostError
from pylib.workloads.ground import until

NEEDS = ("ceph-mon", "ceph-osd", "ceph", "rados")
PORT = 3300
POOL = "bench"
DISK = 2 << 30

CONFIGURATION = """[global]
fsid = {fsid}
mon host = [v2:{address}:{port}]
auth cluster required = none
auth service required = none
auth client required = none
ms bind msgr1 = false
ms type = {messenger}
public addr = {address}
run dir = {folder}
admin socket = {folder}/$cluster-$name.$pid.asok
log file = {folder}/$cluster-$name.log
mon data = {folder}/$name
osd data = {folder}/$name
osd objectstore = memstore
memstore device bytes = {disk}
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
osd crush chooseleaf type = 0
mon warn on insecure global id reclaim allowed = false
"""
# Each process registers as much memory as it may receive at once: 4,096 buffers of 128 KiB unless it is told otherwise.
BY_RDMA = """ms async rdma receive queue len = 512
ms async rdma receive buffers = 1024
ms async rdma send buffers = 512
"""
# A thread of each process polls for a millisecond after each completion before it sleeps. With few processors it takes them from those
# that work.
SLEEPS_AT_ONCE = "ms async rdma polling us = 0\n"


class Cluster:
    """The messenger is "async+rdma" or "async+posix"."""

    def __init__(self, ground, messenger, wrap, settings="", disk=DISK):
        self.ground, self.wrap, self.disk = ground, wrap, disk
        self.folder = os.path.join(ground.folder, "ceph-%s" % uuid.uuid4().hex[:8])
        os.mkdir(self.folder)
        os.chown(self.folder, ground.network.uid, ground.network.uid)
        fsid = str(uuid.uuid4())
        self.words = ("-c", ground.write(os.path.join(self.folder, "ceph.conf"), CONFIGURATION.format(
            fsid=fsid, address=ground.address, port=PORT, messenger=messenger, folder=self.folder, disk=disk) + (
                BY_RDMA if messenger == "async+rdma" else "") + settings))
        self.daemons = []
        try:
            self.start(fsid)
        except HostError:
            self.stop()
            raise

    def command(self, *words):
        """An order to the cluster, given on the server."""
        return self.ground.see(self.ground.server, *self.wrap("ceph", *self.words, "--connect-timeout", "30", *words))

    def start(self, fsid):
        server, see = self.ground.server, self.ground.see
        monmap = os.path.join(self.folder, "monmap")
        see(server, "monmaptool", "--create", "--fsid", fsid, "--addv", "a", "[v2:%s:%d]" % (self.ground.address, PORT), monmap)
        see(server, "ceph-mon", *self.words, "-i", "a", "--mkfs", "--monmap", monmap)
        self.daemons.append(self.ground.serve(*self.wrap("ceph-mon", *self.words, "-f", "-i", "a"), port=PORT))
        disk = str(uuid.uuid4())
        self.command("osd", "new", disk)
        os.mkdir(os.path.join(self.folder, "osd.0"))
        os.chown(os.path.join(self.folder, "osd.0"), self.ground.network.uid, self.ground.network.uid)
        see(server, *self.wrap("ceph-osd", *self.words, "-i", "0", "--mkfs", "--osd-uuid", disk))
        osd = server.start(*self.wrap("ceph-osd", *self.words, "-f", "-i", "0"))
        self.daemons.append(osd)
        until(lambda: re.search(r"1 up\b.*1 in\b", self.command("osd", "stat")), osd.output)
        self.command("osd", "pool", "create", POOL, "8", "8")
        # Listing waits for each placement group. They take a second to be ready: the first write would, and a measurement of a second with it.
        self.rados("ls")

    def rados(self, *words):
        return self.ground.see(self.ground.client, *self.wrap("rados", *self.words, "-p", POOL, *words))

    def compare(self, size):
        """An object that is written and read again."""
        sent, got = os.path.join(self.folder, "sent"), os.path.join(self.folder, "got")
        with open(sent, "wb") as file:
            file.write(os.urandom(size))
        os.chmod(sent, 0o644)
        self.rados("put", "object", sent)
        self.rados("get", "object", got)
        if subprocess.run(["cmp", sent, got]).returncode:
            raise HostError("what was read is not what was written")

    def write_rate(self, size, seconds):
        """MB/s of 16 writes at a time, for so many seconds or until half the disk is written: a full one takes no orders, not even to delete
        what was written."""
        out = self.rados("bench", str(seconds), "write", "-b", str(size), "-t", "16", "--max-objects", str(self.disk // 2 // size))
        found = re.search(r"^Bandwidth \(MB/sec\):\s*([\d.]+)", out, re.M)
        if not found:
            raise HostError(out)
        return float(found.group(1))

    def stop(self):
        for daemon in self.daemons:
            daemon.kill()
