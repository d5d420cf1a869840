# SPDX-License-Identifier: MIT
"""fio's rdma engine, beside its net engine over TCP."""

import re

from pylib.applications import ApplicationCase
from pylib.clients import across, expand
from pylib.workloads.ground import plain

PORT = 7000


@expand
class Fio(ApplicationCase):
    def argv(self, engine, *options):
        # The same name and with it the same seeds on both sides.
        return ("fio", "--name=both", "--ioengine=" + engine, "--port=%d" % PORT, "--bs=65536", "--size=256m", "--verify_state_save=0",
                "--iodepth=16", "--unit_base=8", *options)

    def move(self, engine, wrap, receiver, sender):
        """MB/s. fio's rdma engine asks for no retry where the receiver is not ready and gives it half a second: on a busy machine, once more."""
        for _ in range(10):
            server = self.server.start(*wrap(*self.argv(engine, "--rw=read", *receiver)))
            if engine == "rdma":
                self.until_listening(server)
            else:
                self.assertTrue(server.wait_until(lambda process: process.listens(PORT)), server.output())
            client = self.client.start(*wrap(*self.argv(engine, "--rw=write", "--hostname=" + self.address, *sender)))
            client.wait_until(lambda process: "RNR retry" in process.output(), self.TIMEOUT)
            if "RNR retry" in client.output():
                client.kill()
                server.kill()
                continue
            told, served = client.wait(self.TIMEOUT), server.wait(self.TIMEOUT)
            # The receiver of fio's net engine takes a part of a block for a whole one, and leaves before its sender is through.
            self.assertEqual((told.code if engine == "rdma" else 0, served.code), (0, 0), "%s\n\n%s" % (told, served))
            rate = re.search(r"(?:WRITE|READ): bw=.*?\(([\d.]+)([MG])B/s\)", (told if engine == "rdma" else served).out)
            return float(rate.group(1)) * {"M": 1, "G": 1000}[rate.group(2)]
        self.fail("RNR retries, ten times")

    @across(["lo_v4", "veth1500_v4"])
    def test_engines(self):
        """SENDs whose receiver knows what to expect, then the pace of WRITEs."""
        # All receives wait before the first block is sent.
        self.move("rdma", self.verbena, ("--iodepth=256", "--verify=crc32c", "--size=16m"),
                  ("--verb=send", "--verify=crc32c", "--do_verify=0", "--size=16m"))
        # The half second that its rdma engine sleeps counts: of so much it is a part.
        size = "--size=8g"
        ours = self.move("rdma", self.verbena, (size,), ("--verb=write", size))
        theirs = self.move("net", plain, ("--listen", "--protocol=tcp", size), ("--protocol=tcp", size))
        self.figure("fio", "WRITE 64 KiB, 16 at once, %s" % self.where(), "MB/s", ours, theirs, "TCP")
