# SPDX-License-Identifier: MIT
"""Applications as test cases: what they moved is compared, and beside each figure stands that of the same program over TCP or
shared memory, measured in the same run."""

import os
import shutil
import subprocess
import tempfile

from pylib import clients
from pylib.clients import ClientCase

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "applications")
SHELL = os.path.join(HERE, "remote_shell.py")
SHELL_PORT = 5140

# (program, what, unit, over Verbena, beside it, what that is), in the order they were measured.
figures = []


class ApplicationCase(ClientCase):
    def setUp(self):
        super().setUp()
        # Programs tell hosts apart by their names.
        self.network.own_names = True
        # `verbena run` has to do it alone.
        self.network.environment["LD_LIBRARY_PATH"] = ""
        self.folder = tempfile.mkdtemp(prefix="verbena-applications-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        os.chown(self.folder, self.network.uid, self.network.uid)

    # Limits that programs meet on adapters, and here under their profiles.
    PROFILES = ("mlx5", "rxe")

    def verbena(self, *argv):
        return (clients.staged.verbena, "run", *argv)

    def under(self, profile):
        return lambda *argv: self.verbena("--profile", profile, *argv)

    def compile(self, compiler, source, *libraries):
        program = os.path.join(self.folder, os.path.splitext(source)[0])
        subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", program, os.path.join(HERE, source), *libraries], check=True)
        os.chmod(self.folder, 0o755)
        return program

    def copy(self, name):
        """A file of this folder, where the ordinary user can read it."""
        os.chmod(self.folder, 0o755)
        return shutil.copy(os.path.join(HERE, name), self.folder)

    def open_shells(self):
        """So that mpirun reaches the other host. The command to name to it."""
        shell = self.copy("remote_shell.py")
        for host in (self.server, self.client):
            server = host.start("python3", shell, "--serve")
            self.assertTrue(server.wait_until(lambda process: process.listens(SHELL_PORT)), server.output())
        return shell

    def see(self, host, *argv, **more):
        result = host.run(*argv, **more)
        self.assertEqual(result.code, 0, result)
        return result.out

    def figure(self, program, what, unit, ours, theirs, beside):
        figures.append((program, what, unit, ours, theirs, beside))


def table():
    lines = ["%-10s %-34s %12s %12s %8s" % ("program", "what", "Verbena", "beside it", "ratio")]
    for program, what, unit, ours, theirs, beside in figures:
        lines.append("%-10s %-34s %12s %12s %8.2f   %s" % (program, what, "%.4g %s" % (ours, unit), "%.4g %s" % (theirs, unit),
                                                            ours / theirs, beside))
    return lines
