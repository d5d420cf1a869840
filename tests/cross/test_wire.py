# SPDX-License-Identifier: MIT
"""src/base and src/wire where bytes lie the other way round and where pointers are short: compiled by cross compilers
with warnings as errors, their unit tests and the golden packets run under qemu."""

import atexit
import glob
import os
import shutil
import subprocess
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
MACHINES = {
    "s390x": ("s390x-linux-gnu-gcc", "qemu-s390x", "64-bit, big-endian"),
    "i386": ("i686-linux-gnu-gcc", "qemu-i386", "32-bit, little-endian"),
}
FLAGS = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-Wno-unused-function",
         "-D_GNU_SOURCE", "-DVB_CRC_PORTABLE", "-I" + os.path.join(ROOT, "src"), "-I" + os.path.join(ROOT, "tests", "cross"),
         "-I" + os.path.join(ROOT, "tests", "vectors"), "-I" + ROOT]
PROGRAMS = sorted(glob.glob(os.path.join(ROOT, "tests", "unit", "base", "test_*.c"))
                  + glob.glob(os.path.join(ROOT, "tests", "unit", "wire", "test_*.c"))
                  + [os.path.join(ROOT, "tests", "vectors", "test_golden.c")])


class Wire(unittest.TestCase):
    directories, lock = {}, threading.Lock()

    def call(self, *argv):
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=300)
        self.assertEqual(done.returncode, 0, "%s\n%s" % (" ".join(argv), done.stdout[-4000:]))
        return done.stdout

    def library(self, machine):
        """The two rooms, compiled once for each machine."""
        with self.lock:
            if machine not in self.directories:
                directory = tempfile.mkdtemp(prefix="verbena-cross-")
                atexit.register(shutil.rmtree, directory, True)
                sources = sorted(glob.glob(os.path.join(ROOT, "src", "base", "*.c"))
                                 + glob.glob(os.path.join(ROOT, "src", "wire", "*.c")))
                for source in sources:
                    name = os.path.relpath(source, ROOT).replace(os.sep, "_")[:-2] + ".o"
                    self.call(MACHINES[machine][0], *FLAGS, "-c", source, "-o", os.path.join(directory, name))
                self.directories[machine] = directory
            return self.directories[machine]

    def run_on(self, machine, source):
        compiler, emulator, _ = MACHINES[machine]
        for tool in (compiler, emulator):
            if not shutil.which(tool):
                self.skipTest("%s is not installed" % tool)
        directory = self.library(machine)
        program = os.path.join(directory, os.path.relpath(source, ROOT).replace(os.sep, "_")[:-2])
        more = [os.path.join(ROOT, "tests", "vectors", "capture.c")] if "vectors" in source else []
        arguments = [os.path.join(ROOT, "tests", "vectors", "pcap")] if "vectors" in source else []
        self.call(compiler, *FLAGS, "-static", source, *more, *glob.glob(os.path.join(directory, "*.o")), "-o", program, "-pthread")
        out = self.call(emulator, program, *arguments)
        self.assertIn("[       OK ]", out)


def add(machine, source):
    def method(self):
        self.run_on(machine, source)
    name = "test_%s__%s" % (machine, os.path.relpath(source, os.path.join(ROOT, "tests")).replace(os.sep, "_")[:-2])
    method.__name__ = name
    setattr(Wire, name, method)


for each_machine in MACHINES:
    for each_source in PROGRAMS:
        add(each_machine, each_source)
