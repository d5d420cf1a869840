# SPDX-License-Identifier: MIT
"""The hosts of these tests: programs find neither at home nor in /tmp what another user, or another run, has left there."""

import os

from pylib.clients import ClientCase


class Folders(ClientCase):
    def test_home(self):
        """It is the user's own, empty, and gone with the network."""
        host = self.network.host()
        self.assertEqual(os.listdir(self.network.home), [])
        told = host.run("sh", "-c", "umask 077 && mkdir ~/.config && stat -c %u ~ && pwd -P && cd && pwd -P").out.split()
        self.assertEqual(told, [str(self.network.uid), "/", self.network.home])
        self.network.close()
        self.assertFalse(os.path.exists(self.network.home))

    def test_own_tmp(self):
        """A file of a fixed name that belongs to somebody else, as ibv_xsrq_pingpong's may: programs of the two hosts see one of their own,
        which the machine does not; what is staged and the network's folders they see too."""
        self.network.own_tmp()
        left, right = self.network.host(), self.network.host()
        name = os.path.basename(self.network.tmp) + "-shared"
        planted = os.path.join("/tmp", name)
        with open(planted, "w") as file:
            self.addCleanup(os.unlink, planted)
            file.write("planted")
        os.chmod(planted, 0o600)
        done = left.run("sh", "-c", "echo own >/tmp/" + name)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(right.run("cat", planted).out, "own\n")
        with open(planted) as file:
            self.assertEqual(file.read(), "planted")
        self.assertTrue(left.devices())
        self.assertEqual(left.run("test", "-w", self.network.home, "-a", "-w", self.network.runtime).code, 0)
        tmp = self.network.tmp
        self.network.close()
        self.assertFalse(os.path.exists(tmp))
        self.assertTrue(os.path.exists(self.network.staged.library))
