# SPDX-License-Identifier: MIT
"""Rooms and their dependencies: what includes what, and that each header stands alone."""

import os
import re
import shlex
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SOURCE = os.path.join(ROOT, "src")

# Typed from the architecture, not derived from the build files: each room and all it may include.
MAY_INCLUDE = {
    "base": {"base"},
    "wire": {"base", "wire"},
    "memory": {"base", "wire", "memory"},
    "queue": {"base", "wire", "memory", "queue"},
    "roce": {"base", "wire", "memory", "queue", "roce"},
    "connect": {"base", "wire", "memory", "queue", "connect"},
    "io": {"base", "wire", "io"},
    "progress": {"base", "wire", "memory", "queue", "roce", "connect", "io", "progress"},
    "verbs": {"base", "wire", "memory", "queue", "roce", "connect", "io", "progress", "verbs"},
    "rdmacm": {"base", "wire", "memory", "queue", "roce", "connect", "io", "progress", "rdmacm"},
}
# Engines are the same object files in the library, the simulator and the fuzzers: no clocks, files, sockets or threads.
SANS_IO = ("wire", "memory", "queue", "roce", "connect")
OPERATING_SYSTEM = re.compile(r"\b(clock_gettime|gettimeofday|time\(NULL\)|getrandom|rand\(|socket\(|sendmsg|recvmsg|"
                              r"epoll_\w+|open\(|ioctl\(|pthread_create|nanosleep|usleep)\b")


def sources(*endings):
    for directory, _, names in sorted(os.walk(SOURCE)):
        for name in sorted(names):
            if name.endswith(endings):
                path = os.path.join(directory, name)
                yield os.path.relpath(path, SOURCE).split(os.sep)[0], path


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


class Layers(unittest.TestCase):
    def test_every_room_is_known(self):
        """A new room needs a line in the table above."""
        rooms = {room for room, _ in sources(".c", ".h")}
        self.assertLessEqual(rooms, set(MAY_INCLUDE))

    def test_includes_point_down(self):
        """A room includes its own headers and those of the rooms below it."""
        wrong = []
        for room, path in sources(".c", ".h"):
            with open(path) as file:
                text = without_comments(file.read())
            for target in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
                other = target.split("/")[0]
                if "/" not in target or other not in MAY_INCLUDE[room]:
                    wrong.append("%s includes %s" % (os.path.relpath(path, ROOT), target))
        self.assertEqual("\n".join(wrong), "")

    def test_wire_knows_no_verbs(self):
        """src/base and src/wire compile where there is no libibverbs-dev."""
        for room, path in sources(".c", ".h"):
            with open(path) as file:
                if room in ("base", "wire") and re.search(r"#\s*include\s*<(infiniband|rdma)/", file.read()):
                    self.fail(os.path.relpath(path, ROOT))

    def test_engines_do_not_call_the_system(self):
        """Time and randomness are parameters, input and output are the caller's."""
        wrong = []
        for room, path in sources(".c"):
            if room not in SANS_IO:
                continue
            with open(path) as file:
                for call in OPERATING_SYSTEM.findall(without_comments(file.read())):
                    wrong.append("%s calls %s" % (os.path.relpath(path, ROOT), call))
        self.assertEqual("\n".join(wrong), "")

    def test_headers_compile_alone(self):
        """Each header includes what it needs."""
        flags = shlex.split(subprocess.run(["pkg-config", "--cflags", "libibverbs", "librdmacm"], text=True,
                                           capture_output=True).stdout)
        wrong = []
        for _, path in sources(".h"):
            done = subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                                   "-I" + SOURCE, *flags, "-x", "c", "-"], text=True, capture_output=True,
                                  input='#include "%s"\n' % os.path.relpath(path, SOURCE))
            if done.returncode:
                wrong.append(done.stderr)
        self.assertEqual("".join(wrong), "")


class Style(unittest.TestCase):
    def files(self):
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], text=True,
                                capture_output=True).stdout.split()
        return [path for path in listed if path.endswith((".c", ".h")) and os.path.exists(os.path.join(ROOT, path))]

    def test_limits(self):
        """900 lines, a licence in the first line, and columns: 120 is the aim, 140 (tabs of eight) the limit."""
        wrong = []
        for path in self.files():
            with open(os.path.join(ROOT, path)) as file:
                lines = file.read().split("\n")
            if "SPDX-License-Identifier: MIT" not in lines[0]:
                wrong.append("%s: no licence line" % path)
            if len(lines) > 901:
                wrong.append("%s: %d lines" % (path, len(lines)))
            for number, line in enumerate(lines, 1):
                if len(line.expandtabs(8)) > 140:
                    wrong.append("%s:%d: longer than 140 columns" % (path, number))
        self.assertEqual("\n".join(wrong), "")

    def test_nothing_is_left_for_later(self):
        """No marks of unfinished work."""
        marks = re.compile(r"\b(%s)\b" % "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")))
        wrong = []
        for path in self.files():
            with open(os.path.join(ROOT, path)) as file:
                for number, line in enumerate(file, 1):
                    if marks.search(line):
                        wrong.append("%s:%d: %s" % (path, number, line.strip()))
        self.assertEqual("\n".join(wrong), "")
