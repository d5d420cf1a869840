# SPDX-License-Identifier: MIT
"""Where programs are run both ways, and what running them takes."""

import os
import shutil
import subprocess
import tempfile
import time

from pylib.hosts import PATIENCE, HostError

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))), "applications")
SHELL_PORT = 5140


def prepare(network):
    # Programs tell hosts apart by their names.
    network.own_names = True
    # `verbena run` has to do it alone.
    network.environment["LD_LIBRARY_PATH"] = ""


def plain(*argv):
    """Without Verbena."""
    return argv


def until(look, why):
    """What look() finds, once it finds something."""
    limit = time.monotonic() + PATIENCE
    while True:
        over = time.monotonic() > limit
        found = look()
        if found:
            return found
        if over:
            raise HostError("not within %d seconds: %s" % (PATIENCE, why()))
        time.sleep(0.02)


class Ground:
    """Two hosts, `server` and `client`, which may be the same; the server's `address`; their `network`. A mixin: others set these."""

    _folder = None

    @property
    def folder(self):
        """A folder that the ordinary user may write to, and that ends with the network."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="files-", dir=self.network.runtime)
            os.chown(self._folder, self.network.uid, self.network.uid)
            os.chmod(self._folder, 0o755)
        return self._folder

    def where(self):
        return "one host" if self.server is self.client else "two hosts"

    def verbena(self, *argv):
        return (self.network.staged.verbena, "run", *argv)

    def sockets(self, *argv):
        return self.verbena("--sockets", *argv)

    def write(self, name, text):
        """A file that the ordinary user may read; its path."""
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o644)
        return path

    def compile(self, compiler, source, *libraries):
        program = os.path.join(self.folder, os.path.splitext(source)[0])
        done = subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", program, os.path.join(HERE, source), *libraries], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise HostError(done.stdout)
        return program

    def see(self, host, *argv, **more):
        """What a program said that must succeed."""
        result = host.run(*argv, **more)
        if result.code:
            raise HostError(str(result))
        return result.out

    def serve(self, *argv, port, host=None, **more):
        """A server, once it listens."""
        server = (host or self.server).start(*argv, **more)
        if not server.wait_until(lambda process: process.listens(port)):
            raise HostError("the server does not listen:\n%s" % server.wait(0))
        return server

    def open_shells(self):
        """So that mpirun reaches the other host. The command to name to it."""
        shell = shutil.copy(os.path.join(HERE, "remote_shell.py"), self.folder)
        for host in {self.server, self.client}:
            self.serve("python3", shell, "--serve", port=SHELL_PORT, host=host)
        return shell
