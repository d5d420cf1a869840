# SPDX-License-Identifier: MIT
"""QEMU moves a machine's memory to another host, over RDMA and over TCP. The machine has nothing but memory, and never runs."""

import json
import os
import socket

from pylib.applications import ApplicationCase
from pylib.clients import across, expand

QEMU = "qemu-system-aarch64"
SIZE = 256 << 20
PORT = 4444


class Monitor:
    """What QEMU listens for orders on (docs/interop/qmp-spec of QEMU)."""

    def __init__(self, case, process, path):
        self.case, self.process = case, process
        self.socket = socket.socket(socket.AF_UNIX)
        case.addCleanup(self.socket.close)
        case.until(lambda: self.socket.connect_ex(path) == 0, process.output)
        self.lines = self.socket.makefile("rw")
        self.lines.readline()
        self.order("qmp_capabilities")

    def order(self, name, **arguments):
        self.lines.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.lines.flush()
        while True:
            line = self.lines.readline()
            if not line:
                self.case.fail("QEMU is gone:\n%s" % self.process.wait(1))
            answer = json.loads(line)
            if "error" in answer:
                self.case.fail("%s: %s" % (name, answer["error"]))
            if "return" in answer:
                return answer["return"]


@expand
class Qemu(ApplicationCase):
    def start(self, host, name, wrap, *options):
        path = os.path.join(self.folder, name)
        if os.path.exists(path):
            os.unlink(path)
        process = host.start(*wrap(QEMU, "-M", "none", "-m", "%dM" % (SIZE >> 20), "-display", "none", "-nodefaults", "-S", "-qmp",
                                   "unix:%s,server=on,wait=off" % path, *options))
        return Monitor(self, process, path)

    def move(self, kind, wrap, image):
        """Seconds that it took."""
        uri = "%s:%s:%d" % (kind, self.address, PORT)
        arrived = os.path.join(self.folder, "arrived")
        target = self.start(self.server, "target", wrap, "-incoming", uri)
        source = self.start(self.client, "source", wrap, "-device", "loader,file=%s,addr=0,force-raw=on" % image)
        source.order("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        source.order("migrate", uri=uri)
        told = {}

        def over():
            told.update(source.order("query-migrate"))
            return told.get("status") in ("completed", "failed")
        self.until(over, lambda: str(told) + source.process.output() + target.process.output())
        self.assertEqual(told["status"], "completed", told)
        self.until(lambda: target.order("query-status")["status"] in ("paused", "prelaunch"), "the target has it")
        target.order("pmemsave", val=0, size=SIZE // 2, filename=arrived)
        for monitor in (source, target):
            monitor.order("quit")
            monitor.process.wait(self.TIMEOUT)
        with open(image, "rb") as sent, open(arrived, "rb") as got:
            self.assertTrue(sent.read() == got.read(), "memory differs")
        return told["total-time"] / 1e3

    @across(["veth1500_v4"])
    def test_migration(self):
        """Half of the memory is filled with what cannot be compressed, the rest is empty."""
        image = os.path.join(self.folder, "image")
        with open(image, "wb") as file:
            for _ in range(SIZE // 2 >> 20):
                file.write(os.urandom(1 << 20))
        os.chmod(self.folder, 0o755)
        ours = self.move("rdma", self.verbena, image)
        theirs = self.move("tcp", lambda *argv: argv, image)
        self.figure("QEMU", "migration of %d MiB" % (SIZE >> 21), "s", ours, theirs, "TCP")
