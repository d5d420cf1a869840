# SPDX-License-Identifier: MIT
"""QEMU moves a machine's memory to another host. The machine has nothing but memory, and never runs."""

import json
import mmap
import os
import socket
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


class Migration:
    """Memory of so many bytes, filled with what cannot be compressed, and an eighth more that is empty."""

    def __init__(self, ground, size):
        self.ground, self.size = ground, size
        self.image, self.arrived = os.path.join(ground.folder, "image"), os.path.join(ground.folder, "arrived")
        with open(self.image, "wb") as file:
            for _ in range(size >> 20):
                file.write(os.urandom(1 << 20))
        os.chmod(self.image, 0o644)

    def start(self, host, name, wrap, *options):
        path = os.path.join(self.ground.folder, name)
        if os.path.exists(path):
            os.unlink(path)
        process = host.start(*wrap(QEMU, "-M", "none", "-m", "%dM" % (self.size * 9 // 8 >> 20), "-display", "none", "-nodefaults", "-S",
                                   "-qmp", "unix:%s,server=on,wait=off" % path, *options))
        return Monitor(process, path)

    def move(self, kind, wrap):
        """Seconds that it took, as QEMU says. What arrived is compared."""
        uri = "%s:%s:%d" % (kind, self.ground.address, PORT)
        target = self.start(self.ground.server, "target", wrap, "-incoming", uri)
        source = self.start(self.ground.client, "source", wrap, "-device", "loader,file=%s,addr=0,force-raw=on" % self.image)
        source.order("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        have_pages(2 * self.size)
        source.order("migrate", uri=uri)
        told = {}

        def over():
            told.update(source.order("query-migrate"))
            # QEMU says that it is completed a moment before it has worked out how long that took.
            return told.get("status") == "failed" or told.get("status") == "completed" and told.get("total-time", 0) > 0
        until(over, lambda: str(told) + source.process.output() + target.process.output())
        if told["status"] != "completed":
            raise HostError("%s\n%s\n%s" % (told, source.process.output(), target.process.output()))
        until(lambda: target.order("query-status")["status"] in ("paused", "prelaunch"), lambda: "the target has not got it")
        target.order("pmemsave", val=0, size=self.size, filename=self.arrived)
        for monitor in (source, target):
            monitor.end()
        if subprocess.run(["cmp", self.image, self.arrived]).returncode:
            raise HostError("memory differs")
        os.unlink(self.arrived)
        return told["total-time"] / 1e3
