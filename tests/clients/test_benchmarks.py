# SPDX-License-Identifier: MIT
"""bench/run as somebody meets it who has waited long enough."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

from pylib import clients, hosts

HERE = os.path.dirname(os.path.realpath(__file__))
RUN = os.path.join(os.path.dirname(os.path.dirname(HERE)), "bench", "run")
PATIENCE = 60


def namespaces_of(pid):
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith("vb-%d-" % pid)]


class Ended(unittest.TestCase):
    def test_leaves_nothing_behind(self):
        with tempfile.TemporaryDirectory(prefix="verbena-bench-") as folder:
            os.chmod(folder, 0o755)
            bench = subprocess.Popen([sys.executable, RUN, "--only", "sockets", "--quick", "--build", clients.staged.build],
                                     env={**os.environ, "TMPDIR": folder}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            try:
                began = time.monotonic()
                while not namespaces_of(bench.pid):
                    self.assertIsNone(bench.poll(), "it ended by itself")
                    self.assertLess(time.monotonic() - began, PATIENCE, "it makes no host")
                    time.sleep(0.05)
                bench.terminate()
                self.assertEqual(bench.wait(PATIENCE), 143)
            finally:
                bench.kill()
                bench.wait()
            self.assertEqual(namespaces_of(bench.pid), [])
            self.assertEqual(os.listdir(folder), [])

    def test_while_a_host_is_made(self):
        """The signal comes when the namespace is there and its maker has not heard of it; and before it is there."""
        for is_made in (True, False):
            network = hosts.Network(clients.staged)
            really = network.add_namespace

            def ended(name, is_made=is_made, really=really):
                if is_made:
                    really(name)
                raise SystemExit(143)

            network.add_namespace = ended
            with self.assertRaises(SystemExit), network:
                network.host()
            names = [host.name for host in network.hosts]
            self.assertEqual(len(names), 1)
            self.assertFalse(os.path.exists("/run/netns/" + names[0]))
