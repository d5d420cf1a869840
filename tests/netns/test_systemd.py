#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The units of the system's verbenad as systemd reads them, and verbenad started by a socket of its making, for all users and for one."""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from pylib import daemon                                    # noqa: E402
from pylib.daemon import ALICE, connect, exchange           # noqa: E402

UNITS = os.path.join(HERE, "..", "..", "daemon")
# Tenths, 0 to 100, as systemd weighs what a unit leaves open: 18 is for the two capabilities, for user and for network.
MOST_EXPOSED = 20
BY_WIRE = {"VERBENA_WIRE": "rocev2"}


class Units(daemon.DaemonCase):
    def setUp(self):
        super().setUp()
        if not shutil.which("systemd-analyze"):
            self.skipTest("the package systemd is not installed")
        self.units = []
        for name in ("verbenad.service", "verbenad.socket"):
            with open(os.path.join(UNITS, name)) as file:
                text = file.read()
            self.units.append(os.path.join(self.directory, name))
            with open(self.units[-1], "w") as file:
                file.write(text.replace("/usr/bin/verbenad", self.daemon_path))

    def analyze(self, *arguments):
        return subprocess.run(["systemd-analyze", "--no-pager", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def test_are_understood(self):
        """Every line: a key that is misspelt is told and does not matter to the exit code."""
        result = self.analyze("verify", *self.units)
        told = [line for line in result.stdout.splitlines() if "verbenad" in line]
        self.assertEqual((result.returncode, told), (0, []), result.stdout)

    def test_leave_little_open(self):
        result = self.analyze("security", "--offline=true", "--threshold=%d" % MOST_EXPOSED, self.units[0])
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("Overall exposure level for verbenad.service", result.stdout)


class Activation(daemon.DaemonCase):
    """systemd-socket-activate holds the name and becomes verbenad when somebody connects."""

    def activate(self, *options, drop=()):
        if not shutil.which("systemd-socket-activate"):
            self.skipTest("the package systemd is not installed")
        starter = self.host.start(*drop, "systemd-socket-activate", "--seqpacket", "-l", "@verbena/1", self.daemon_path, *options,
                                  "--foreground", privileged=True, environment=self.sanitizer_options())
        self.until(lambda: self.name_is_held(starter) or not starter.running(), "the name is held")
        self.assertEqual(self.daemons(), [])
        return starter

    def name_is_held(self, starter):
        with open("/proc/%d/net/unix" % starter.pid) as table:
            return any(line.split()[-1] == "@verbena/1" for line in table)

    def serves(self, starter, uid):
        one, other = self.peers(2, uid=uid, environment=BY_WIRE)
        connect(one, other)
        exchange(one)
        # None but that one was started.
        self.assertEqual(len(self.daemons()), 1)
        self.assertTrue(starter.running())

    def test_for_all_users(self):
        starter = self.activate("--system")
        self.serves(starter, 0)

    def test_for_all_users_as_one_of_them_sees_it(self):
        self.needs_users()
        self.needs_tables()
        starter = self.activate("--system")
        self.serves(starter, ALICE)

    def test_for_one_user(self):
        self.needs_users()
        starter = self.activate(drop=("setpriv", "--reuid=%d" % ALICE, "--regid=%d" % ALICE, "--clear-groups", "--inh-caps=-all",
                                      "--bounding-set=-all"))
        self.serves(starter, ALICE)
        with open("/proc/%d/status" % self.daemons()[0]) as status:
            self.assertIn("Uid:\t%d\t" % ALICE, status.read())


if __name__ == "__main__":
    daemon.main(__file__)
