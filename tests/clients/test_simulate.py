# SPDX-License-Identifier: MIT
"""`verbena fabric simulate`: experiments by name and from files, their pictures and samples, and what is told when something is wrong."""

import os
import tempfile
import xml.dom.minidom

from pylib import clients
from pylib.clients import ClientCase, across, expand

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
FILE = """
duration = "1ms"
sample = "50us"
title = "two & one"
[hosts]
count = 3
[[switch]]
name = "s0"
hosts = "0-2"
[workload]
pattern = "incast"
senders = 2
[watch]
port = ["s0 h0"]
[[variant]]
name = "plain"
[[must]]
says = "more than there is"
variant = "plain"
metric = "goodput_sum"
at_least = %s
[plot]
rows = ["goodput", "queue"]
bars = ["goodput_sum: all, Gb/s"]
"""


@expand
class Simulate(ClientCase):
    def simulate(self, *argv):
        return self.client.run(clients.staged.verbena, "fabric", "simulate", *argv)

    @across(["lo_v4"])
    def test_names(self):
        """Every file of sim/experiments is listed; one runs, and writes what it is asked to."""
        listed = self.simulate()
        self.assertEqual(listed.code, 0, listed)
        for name in os.listdir(os.path.join(ROOT, "sim", "experiments")):
            self.assertRegex(listed.out, r"(?m)^  %s " % os.path.splitext(name)[0])
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            svg, csv = os.path.join(folder, "x.svg"), os.path.join(folder, "x.csv")
            done = self.simulate("livelock", "--svg", svg, "--csv", csv)
            self.assertEqual(done.code, 0, done)
            self.assertIn("shown", done.out)
            self.assertNotIn("NOT SHOWN", done.out)
            self.assertEqual(xml.dom.minidom.parse(svg).documentElement.tagName, "svg")
            with open(csv) as file:
                lines = file.read().splitlines()
            self.assertEqual(lines[0], "variant,what,of,us,value")
            self.assertTrue(any(line.startswith("go-back-N,goodput_gbps,") for line in lines))

    @across(["lo_v4"])
    def test_file(self):
        """A file of one's own: shown is 0, not shown is 1; the same seed twice is the same to the byte."""
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            path = os.path.join(folder, "x.toml")
            for limit, code in (("10", 0), ("4000", 1)):
                with open(path, "w") as file:
                    file.write(FILE % limit)
                done = self.simulate(path)
                self.assertEqual(done.code, code, done)
                self.assertEqual("NOT SHOWN" in done.out, bool(code))
            pictures = []
            for number in range(2):
                svg = os.path.join(folder, "%d.svg" % number)
                self.simulate(path, "--seed", "9", "--svg", svg)
                xml.dom.minidom.parse(svg)
                with open(svg) as file:
                    pictures.append(file.read())
            self.assertEqual(*pictures)

    @across(["lo_v4"])
    def test_wrong(self):
        self.assertEqual(self.simulate("--no-such-option").code, 2)
        self.assertEqual(self.simulate("livelock", "--seed", "none").code, 2)
        missing = self.simulate("livelok")
        self.assertEqual(missing.code, 1)
        self.assertIn("livelok", missing.out)
        self.assertEqual(self.simulate("livelock", "--svg", "/nowhere/x.svg").code, 1)
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            path = os.path.join(folder, "x.toml")
            with open(path, "w") as file:
                file.write(FILE.replace("count = 3", "count = three") % 1)
            done = self.simulate(path)
            self.assertEqual(done.code, 1)
            self.assertRegex(done.out, r"x\.toml: line 6: ")
            with open(path, "w") as file:
                file.write((FILE % 1).replace('metric = "goodput_sum"', 'metric = "speed"'))
            done = self.simulate(path)
            self.assertEqual(done.code, 1)
            self.assertRegex(done.out, r'metric "speed": there is no such variant or metric. Metrics are goodput_sum ')
