# SPDX-License-Identifier: MIT
"""QEMU moves a machine to another host: one that has nothing but memory, and never runs, or one that writes to its memory meanwhile."""

import json
import mmap
import os
import socket
import struct
import subprocess

from pylib.hosts import HostError
from pylib.workloads.ground import until

QEMU = "qemu-system-aarch64"
NEEDS = (QEMU,)
PORT = 4444
MADV_POPULATE_WRITE = 23


def have_pages(size):
    """Has the system hand out so much memory, and keeps none. A guest gives free pages back to its host, which brings them anew when they
    are used again: at 1.3 GB/s, where pages that were in use just before take a thirtieth of the time. That is no part of what is measured,
    and comes and goes with what ran before."""
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
            memory.madvise(MADV_POPULATE_WRITE)
        except OSError:
            pass                           # Linux 5.14


class Monitor:
    """What QEMU listens for orders on (docs/interop/qmp-spec of QEMU)."""

    def __init__(self, process, path):
        self.process = process
        self.socket = socket.socket(socket.AF_UNIX)
        until(lambda: self.socket.connect_ex(path) == 0, process.output)
        self.lines = self.socket.makefile("rw")
        self.lines.readline()
        self.order("qmp_capabilities")

    def order(self, name, **arguments):
        self.lines.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.lines.flush()
        while True:
            line = self.lines.readline()
            if not line:
                raise HostError("QEMU is gone:\n%s" % self.process.wait(1))
            answer = json.loads(line)
            if "error" in answer:
                raise HostError("%s: %s" % (name, answer["error"]))
            if "return" in answer:
                return answer["return"]

    def end(self):
        self.order("quit")
        self.process.wait(60)
        self.lines.close()
        self.socket.close()


def start(ground, host, name, wrap, *options):
    path = os.path.join(ground.folder, name)
    if os.path.exists(path):
        os.unlink(path)
    process = host.start(*wrap(QEMU, "-display", "none", "-nodefaults", "-S", "-qmp", "unix:%s,server=on,wait=off" % path, *options))
    return Monitor(process, path)


def migrate(source, target, uri):
    """What QEMU says of it."""
    told = {}

    def over():
        told.update(source.order("query-migrate"))
        # QEMU says that it is completed a moment before it has worked out how long that took.
        return told.get("status") == "failed" or told.get("status") == "completed" and told.get("total-time", 0) > 0
    source.order("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
    source.order("migrate", uri=uri)
    until(over, lambda: str(told) + source.process.output() + target.process.output())
    if told["status"] != "completed":
        raise HostError("%s\n%s\n%s" % (told, source.process.output(), target.process.output()))
    until(lambda: target.order("query-status")["status"] in ("paused", "prelaunch"), lambda: "the target has not got it")
    return told


def same(one, other):
    return subprocess.run(["cmp", one, other]).returncode == 0


class Migration:
    """Memory of so many bytes, filled with what cannot be compressed, and an eighth more that is empty."""

    def __init__(self, ground, size):
        self.ground, self.size = ground, size
        self.image, self.arrived = os.path.join(ground.folder, "image"), os.path.join(ground.folder, "arrived")
        with open(self.image, "wb") as file:
            for _ in range(size >> 20):
                file.write(os.urandom(1 << 20))
        os.chmod(self.image, 0o644)

    def move(self, kind, wrap):
        """Seconds that it took, as QEMU says. What arrived is compared."""
        uri = "%s:%s:%d" % (kind, self.ground.address, PORT)
        machine = ("-M", "none", "-m", "%dM" % (self.size * 9 // 8 >> 20))
        target = start(self.ground, self.ground.server, "target", wrap, *machine, "-incoming", uri)
        source = start(self.ground, self.ground.client, "source", wrap, *machine, "-device",
                       "loader,file=%s,addr=0,force-raw=on" % self.image)
        have_pages(2 * self.size)
        told = migrate(source, target, uri)
        target.order("pmemsave", val=0, size=self.size, filename=self.arrived)
        for monitor in (source, target):
            monitor.end()
        if not same(self.image, self.arrived):
            raise HostError("memory differs")
        os.unlink(self.arrived)
        return told["total-time"] / 1e3


class Live:
    """A machine that runs: it counts, in one word of each page of eight megabytes, without end."""

    MEMORY, SIZE = 0x40000000, 64 << 20        # of QEMU's machine `virt`
    CODE, COUNTED = MEMORY + (16 << 20), MEMORY + (32 << 20)
    PROGRAM = (0xd2a84000,                     # x0 = COUNTED
               0xd2a01003,                     # x3 = 8 MiB
               0xd2800001,                     # x1 = 0
               0xd2800002,                     # again: x2 = 0
               0x91000421,                     # x1 += 1
               0xf8226801,                     # next: store x1 at x0 + x2
               0x91400442,                     # x2 += 4096
               0xeb03005f,                     # compare x2 with x3
               0x54ffffa3,                     # lower: next
               0x17fffffa)                     # again

    def __init__(self, ground):
        self.ground = ground
        self.program, self.left, self.arrived = (os.path.join(ground.folder, name) for name in ("program", "left", "arrived"))
        with open(self.program, "wb") as file:
            file.write(struct.pack("<%dI" % len(self.PROGRAM), *self.PROGRAM))
        os.chmod(self.program, 0o644)

    def count(self, monitor, path):
        monitor.order("pmemsave", val=self.COUNTED, size=8, filename=path)
        with open(path, "rb") as file:
            return struct.unpack("<Q", file.read())[0]

    def move(self, kind, wrap, **capabilities):
        """It has moved, and goes on where it was. What QEMU says of it."""
        uri = "%s:%s:%d" % (kind, self.ground.address, PORT)
        machine = ("-M", "virt", "-cpu", "cortex-a53", "-accel", "tcg", "-m", "%dM" % (self.SIZE >> 20))
        target = start(self.ground, self.ground.server, "target", wrap, *machine, "-incoming", uri)
        source = start(self.ground, self.ground.client, "source", wrap, *machine, "-device",
                       "loader,file=%s,addr=%d,force-raw=on,cpu-num=0" % (self.program, self.CODE))
        for monitor in (source, target):
            monitor.order("migrate-set-capabilities", capabilities=[{"capability": name.replace("_", "-"), "state": state}
                                                                    for name, state in capabilities.items()])
        source.order("cont")
        until(lambda: self.count(source, self.left) > 1, lambda: "the machine runs")
        told = migrate(source, target, uri)
        for monitor, path in ((source, self.left), (target, self.arrived)):
            monitor.order("pmemsave", val=self.MEMORY, size=self.SIZE, filename=path)
        if not same(self.left, self.arrived):
            raise HostError("memory differs")
        before = self.count(source, self.left)
        target.order("cont")
        until(lambda: self.count(target, self.arrived) > before, lambda: "it goes on")
        for monitor in (source, target):
            monitor.end()
        return told
