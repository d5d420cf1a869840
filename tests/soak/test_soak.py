#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_soak.py BUILD: a short soak finds nothing, and its report says what was done."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

import report                                               # noqa: E402

OPERATIONS = 60
build = None


class Soak(unittest.TestCase):
    def test_short(self):
        with tempfile.TemporaryDirectory(prefix="verbena-soak-") as folder:
            done = subprocess.run([os.path.join(HERE, "run"), "--operations", str(OPERATIONS), "--build", build, "--report", folder],
                                  capture_output=True, text=True, errors="replace")
            self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-3000:])
            with open(os.path.join(folder, "report.json")) as file:
                told = json.load(file)
            self.assertEqual(told["failures"], [])
            for kind in ("verbs", "connections", "streams"):
                self.assertGreaterEqual(told["operations"][kind], 3 * OPERATIONS)
            self.assertEqual(told["operations"]["programs"], 10)
            self.assertGreater(told["packets"]["disturbed on purpose"], 0)
            drawn = xml.etree.ElementTree.parse(os.path.join(folder, "memory.svg")).getroot()
            self.assertEqual(len(drawn.findall("{http://www.w3.org/2000/svg}polyline")), len(told["memory_kib"]))
            self.assertEqual(sorted(told["memory_kib"]), ["faults client", "faults server", "memory client", "memory server", "shaped client",
                                                          "shaped server", "verbenad, left", "verbenad, right"])
            with open(os.path.join(folder, "report.md")) as file:
                self.assertIn("Nothing was wrong.", file.read())

    def test_growth(self):
        """What grows without end is told from what is large at first, and from what comes and goes."""
        self.assertEqual(report.growth([(i, 1000 + 10 * i) for i in range(100)]), (1000 + 750) - (1000 + 490))
        self.assertLessEqual(report.growth([(i, 5000 if i > 10 else 1000) for i in range(100)]), 0)
        self.assertLessEqual(report.growth([(i, 5000 if i % 20 < 10 else 1000) for i in range(100)]), 0)


if __name__ == "__main__":
    build = sys.argv.pop(1)
    unittest.main()
