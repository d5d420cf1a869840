# SPDX-License-Identifier: MIT
"""libibumad.so.3: every function by its name, beside the distribution's own library where that needs no adapter."""

import glob
import os
import re

from pylib import clients
from pylib.fabric import FabricCase

HERE = os.path.dirname(os.path.realpath(__file__))
SYMBOLS = os.path.join(HERE, "..", "abi", "libibumad.symbols")


class Umad(FabricCase):
    def lid(self, host):
        return re.search(r"Base lid: (\d+)", self.tool(host, "ibstat", "vib0")).group(1)

    def said(self, host, *argv, **more):
        result = host.run("python3", clients.staged.script("umad_functions.py"), *argv, **more)
        self.assertEqual(result.code, 0, result)
        return result.out

    def test_names_and_headers(self):
        """Names of classes, methods, attributes and states, and what is written into a header: as the distribution's library has them."""
        host = self.network.host()
        self.maxDiff = 4000
        ours = self.said(host, "names").splitlines()
        self.assertGreater(len(ours), 100)
        # Another version may have other names.
        if any(os.path.realpath(path).endswith(".3.2.44.0") for path in glob.glob("/usr/lib/*/libibumad.so.3")):
            self.assertEqual(ours, self.said(host, "names", environment={"LD_LIBRARY_PATH": ""}).splitlines())

    def test_every_function(self):
        """All that is exported, on a port: devices, agents of every kind, MADs that are answered, lost, refused and too long."""
        self.pair(None)
        process, read = self.opensm(self.left, "sm")
        self.until_up(process, read)
        said = self.said(self.right, "port", self.lid(self.left))
        with open(SYMBOLS) as file:
            exported = set(re.findall(r"\bumad_\w+", file.read()))
        self.assertEqual(len(exported), 42)
        called = next(line for line in said.splitlines() if line.startswith("called "))
        self.assertEqual(set(called.split()[1:]), exported)
        self.assertRegex(said, r"GID 0x")

    def test_the_files(self):
        """Programs that are given a file of MADs (srp_daemon -d) find out by sysfs whose it is. Ethernet's ports have none here."""
        host = self.network.host()
        verbena = [clients.staged.verbena, "run"]
        names = [*verbena, "sh", "-c", "ls /sys/class/infiniband_mad /dev/infiniband"]
        self.assertNotRegex(host.run(*names).out, r"umad|issm")
        self.pair(None)
        left = self.left
        self.assertEqual([left.run(*names).out.split().count(name) for name in ("umad0", "issm0", "abi_version")], [2, 2, 1])
        for name in ("umad0", "issm0"):
            folder = "/sys/class/infiniband_mad/" + name
            self.assertEqual(left.run(*verbena, "cat", folder + "/ibdev", folder + "/port").out, "vib0\n1\n")
            self.assertEqual(left.run(*verbena, "readlink", "-f", folder).out, "/sys/devices/virtual/infiniband_mad/%s\n" % name)
            self.assertEqual(left.run(*verbena, "test", "-c", "/dev/infiniband/" + name).code, 0)

    def test_partitions(self):
        """QP1 takes what any entry of its port's P_Key table goes with; what none goes with is lost, and counted by its port."""
        self.pair(None)
        guids = [re.search(r"Port GUID: (0x\w+)", self.tool(host, "ibstat", "vib0")).group(1) for host in (self.left, self.right)]
        partitions = self.write("partitions.conf", "Default=0x7fff : ALL=full;\nblue=0x21 : %s=full, %s=limited;\n"
                                "green=0x22 : ALL_CAS=limited;\nown=0x23 : %s=full;\n" % (guids[0], guids[1], guids[1]))
        process, read = self.opensm(self.left, "sm", "-P", partitions)
        self.until_up(process, read)
        lids = [self.lid(host) for host in (self.left, self.right)]
        entries = [re.findall(r"0x\w{4}", re.sub(r"(?m)^ *\d+:", "", self.tool(self.left, "smpquery", "pkeys", lid))) for lid in lids]
        left, right = ({key: index for index, key in enumerate(found) if key != "0x0000"} for found in entries)
        self.assertEqual((set(left), set(right)), ({"0xffff", "0x8021", "0x0022"}, {"0xffff", "0x0021", "0x0022", "0x8023"}), entries)

        def violations():
            told = self.tool(self.left, "smpquery", "portinfo", lids[0], "1")
            return int(re.search(r"(?i)pkey\w*viol\w*:\.*(\d+)", told).group(1))
        for key, taken in (("0xffff", True), ("0x0021", True), ("0x0022", False), ("0x8023", False)):
            before = violations()
            said = self.said(self.right, "pkey", lids[0], str(right[key]))
            self.assertEqual(said.split(), ["status", "0", "entry", str(right[key])] if taken else ["status", "110", "entry", str(right[key])])
            # The question, and its repetition, which leaves only if its sender is given a processor in time.
            self.until(lambda: violations() - before in ((0,) if taken else (1, 2)), lambda: (before, violations()))
