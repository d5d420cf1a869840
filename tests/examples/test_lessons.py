# SPDX-License-Identifier: MIT
"""docs/learn: every command block of the lessons marked `sh` runs as it stands, and every link leads somewhere."""

import glob
import os
import re
import shutil
import tempfile

from pylib import clients
from pylib.clients import ClientCase, add

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
LEARN = os.path.join(ROOT, "docs", "learn")
LESSONS = sorted(glob.glob(os.path.join(LEARN, "[0-9]*-*.md")), key=lambda path: int(os.path.basename(path).split("-")[0]))


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Lessons(ClientCase):
    def lesson(self, path):
        """In a folder that looks like build/examples, with `verbena` in the PATH."""
        folder = tempfile.mkdtemp(prefix="verbena-lesson-")
        self.addCleanup(shutil.rmtree, folder, True)
        os.chmod(folder, 0o777)
        shutil.copytree(os.path.join(clients.staged.root, "examples"), folder, dirs_exist_ok=True)
        os.chmod(folder, 0o777)
        blocks = re.findall(r"^```sh\n(.*?)^```$", text_of(path), re.S | re.M)
        self.assertTrue(blocks, path)
        for block in blocks:
            result = self.server.run("sh", "-e", "-c", "cd %s\n%s" % (folder, block), environment={
                "PATH": os.path.dirname(clients.staged.verbena) + ":/usr/sbin:/usr/bin:/bin", "HOME": folder})
            self.assertEqual(result.code, 0, result)


for number, place in enumerate(LESSONS, 1):
    add(Lessons, "test_lesson_%d" % number, "lo_v4", Lessons.lesson, place)


class Text(ClientCase):
    def test_fourteen_lessons(self):
        self.assertEqual([int(os.path.basename(path).split("-")[0]) for path in LESSONS], list(range(1, 15)))
        index = text_of(os.path.join(LEARN, "README.md"))
        for path in LESSONS:
            self.assertIn("(%s)" % os.path.basename(path), index)
            self.assertIn("## Try next", text_of(path))

    def test_links(self):
        for path in glob.glob(os.path.join(LEARN, "*.md")) + [os.path.join(ROOT, "examples", "README.md")]:
            for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text_of(path)):
                if not target.startswith("http"):
                    self.assertTrue(os.path.exists(os.path.join(os.path.dirname(path), target)), "%s: %s" % (path, target))

    def test_every_example_is_taught(self):
        taught = "".join(text_of(path) for path in LESSONS)
        for path in glob.glob(os.path.join(ROOT, "examples", "[0-9][0-9]_*.c")):
            self.assertIn(os.path.basename(path), taught)
