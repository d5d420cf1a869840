# SPDX-License-Identifier: MIT
"""The software InfiniBand under the distribution's own opensm and infiniband-diags, as an ordinary user."""

import json
import os
import re
import signal
import xml.etree.ElementTree

from pylib import clients
from pylib.fabric import RING, FabricCase

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def fat_tree(spines, leaves, hosts):
    """A topology file: each leaf has `hosts` adapters and a cable to each spine."""
    lines = []
    for spine in range(spines):
        lines.append('Switch %d "S-spine%d"' % (leaves, spine))
        lines += ['[%d] "S-leaf%d"[%d]' % (leaf + 1, leaf, hosts + 1 + spine) for leaf in range(leaves)]
    for leaf in range(leaves):
        lines.append('Switch %d "S-leaf%d"' % (hosts + spines, leaf))
        lines += ['[%d] "H-%d"[1]' % (host + 1, leaf * hosts + host) for host in range(hosts)]
    lines += ['Ca 1 "H-%d"' % host for host in range(leaves * hosts)]
    return "\n".join(lines) + "\n"


class Fabric(FabricCase):
    def test_one_switch(self):
        """Two hosts at one switch: opensm brings it up without an ERR line, and every tool sees the same two hosts."""
        self.pair(None)
        process, read = self.opensm(self.left, "sm")
        self.until_up(process, read)
        left, right = self.left, self.right
        out = self.tool(left, "ibstat", "vib0")
        self.assertRegex(out, r"State: Active\n\s+Physical state: LinkUp\n\s+Rate: 40\n")
        self.assertRegex(out, r"Link layer: InfiniBand")
        lids = [int(re.search(r"Base lid: (\d+)", self.tool(host, "ibstat", "vib0")).group(1)) for host in (left, right)]
        self.assertEqual(len(set(lids)), 2)
        self.assertNotIn(0, lids)
        self.assertEqual(len(self.tool(right, "ibhosts").splitlines()), 2)
        self.assertEqual(len(self.tool(right, "ibswitches").splitlines()), 1)
        self.assertRegex(self.tool(right, "sminfo"), r"sm lid %d .* SMINFO_MASTER" % lids[0])
        self.assertEqual(self.tool(right, "iblinkinfo", "-l").count("Active/  LinkUp"), 4)
        self.assertRegex(self.tool(left, "smpquery", "nodedesc", str(lids[1])), r"Node Description:\.+\S+ vib0")
        self.assertRegex(self.tool(left, "smpquery", "-D", "nodeinfo", "0,1"), r"NodeType:\.+Switch")
        self.assertEqual(self.tool(left, "saquery").count("NodeRecord dump"), 3)
        self.assertEqual(self.tool(right, "saquery", "-p").count("PathRecord dump"), 9)
        # Ping: an agent of a vendor's class, and its answers through the switch.
        server = right.start("/usr/sbin/ibping", "-S")
        self.until(lambda: left.run("/usr/sbin/ibping", "-c", "1", str(lids[1])).code == 0, "ibping is answered")
        out = self.tool(left, "ibping", "-f", "-c", "50", str(lids[1]))
        self.assertRegex(out, r"50 packets transmitted, 50 received, 0% packet loss")
        server.kill()
        # The counters are those packets.
        out = self.tool(left, "perfquery", str(lids[1]), "1")
        self.assertGreaterEqual(int(re.search(r"PortRcvPkts:\.+(\d+)", out).group(1)), 51)
        self.assertNotIn(" ERR ", read())
        self.assertRegex(self.tool(right, "ibqueryerrors"), r"3 nodes checked, 0 bad nodes found")
        self.assertRegex(self.tool(left, "smpquery", "nodeinfo", "-D", "0,1"), r"NumPorts:\.+36")
        # opensm's own test: all that the subnet administration knows, in one inventory.
        files = ("-i", os.path.join(self.scratch, "inventory"), "-l", os.path.join(self.scratch, "osmtest.log"))
        for flow in ("c", "a"):
            self.assertRegex(self.tool(left, "osmtest", "-f", flow, *files), r"PASS")
        self.verbena(right, "leave")
        self.assertEqual(self.verbena(right, "leave", code=1).count("has not joined a fabric"), 1)

    def test_the_first_commands(self):
        """What docs/infiniband.md begins with, as an ordinary user who has set nothing and in whose PATH there is no /usr/sbin."""
        with open(os.path.join(ROOT, "docs", "infiniband.md")) as file:
            block = re.search(r"```\n(verbena fabric up.*?)```", file.read(), re.S).group(1)
        commands = [line.split("#")[0].strip(" &") for line in block.splitlines()]
        self.assertEqual([words.split()[:3] for words in commands[:3]], [["verbena", "fabric", "up"], ["verbena", "fabric", "join"],
                                                                         ["verbena", "run", "opensm"]])
        environment = {"PATH": os.path.dirname(clients.staged.verbena) + ":/usr/bin:/bin", "LD_LIBRARY_PATH": "", "HOME": self.scratch}
        host, shell = self.network.host(), ["sh", "-c", 'cd "$0" && exec $1', self.scratch]
        fabric = host.start(*shell, commands[0], environment=environment)
        self.assertTrue(fabric.wait_until(lambda p: "UDP port" in p.output()), fabric.output())
        log, said = os.path.join(self.scratch, "opensm.log"), {}
        for command in commands[1:]:
            result = host.run(*shell, command, environment=environment)
            self.assertEqual(result.code, 0, result)
            said[command.split()[2]] = result.out
            if "opensm" in command:
                self.until(lambda: "State: Active" in self.tool(host, "ibstat", "vib0"), lambda: self.text(log))
        self.assertIn("State: Active", said["ibstat"])
        self.assertIn("Active/  LinkUp", said["iblinkinfo"])
        # Its log is written when it ends.
        host.signal_all("opensm", signal.SIGTERM)
        self.until(lambda: not host.pids_of("opensm"), "opensm ends")
        self.assertIn("SUBNET UP", self.text(log))
        self.assertNotRegex(self.text(log), r" ERR |denied")
        # And the one of docs/capture.md.
        with open(os.path.join(ROOT, "docs", "capture.md")) as file:
            command = re.search(r"(?m)^\$ (verbena capture .* opensm .*)$", file.read()).group(1)
        result = host.run(*shell, command, environment=environment)
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out, r"sm.pcapng: \d\d+ packets")

    def text(self, path):
        try:
            with open(path) as file:
                return file.read()
        except OSError:
            return ""

    def test_the_same_again(self):
        """What ibnetdiscover writes, brought up, is the same fabric."""
        def discover(topology, name):
            host = self.network.host()
            self.up(host, topology)
            self.verbena(host, "join", "--as", name)
            process, read = self.opensm(host, "sm-" + host.name)
            self.until_up(process, read)
            return self.tool(host, "ibnetdiscover")
        first = discover(RING, "A")
        self.assertEqual(len(re.findall(r"^Switch", first, re.M)), 3)
        second = discover(first, re.search(r'Ca\t1 "(\S+)"\t\t# "alpha"', first).group(1))
        # LIDs are the manager's choice; the rest is what there is.
        def plain(text):
            return [re.sub(r" lid \d+| lmc \d", "", line) for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(plain(first), plain(second))

    def test_six_hundred_ghosts(self):
        """Tables of many megabytes: all nodes and all paths, and a trace that agrees with the forwarding tables."""
        host = self.network.host()
        self.up(host, fat_tree(12, 24, 25))
        self.verbena(host, "join")
        process, read = self.opensm(host, "sm")
        self.until_up(process, read)
        nodes = 12 + 24 + 600
        # Only who knows opensm's key is told everybody's P_Keys.
        records = self.tool(host, "saquery", "-t", "60000")
        self.assertEqual(records.count("NodeRecord dump"), nodes)
        self.assertEqual(self.tool(host, "saquery", "-t", "60000", "-p").count("PathRecord dump"), nodes * nodes)
        self.assertEqual(len(self.tool(host, "ibhosts").splitlines()), 600)
        told = json.loads(self.verbena(host, "show", "--json"))
        self.assertEqual([len(told["nodes"]), len(told["links"])], [nodes, 600 + 12 * 24])
        record = next(part for part in records.split("NodeRecord dump")[1:] if re.search(r"NodeDescription\.+H-599$", part, re.M))
        lid = int(re.search(r"lid\.+(\w+)", record).group(1), 0)
        trace = self.tool(host, "ibtracert", "1", str(lid))
        steps = re.findall(r"^\[(\d+)\] -> switch port \{0x\w+\}\[\d+\] lid (\d+)", trace, re.M)
        exits = re.findall(r"^\[(\d+)\] -> ", trace, re.M)[1:]
        self.assertEqual(len(steps), len(exits))
        for (_, switch), port in zip(steps, exits):
            self.assertRegex(self.tool(host, "ibroute", switch), r"(?m)^0x%04x %03d " % (lid, int(port)))
        self.assertNotIn(" ERR ", read())

    def test_a_killed_fabric(self):
        """The socket by which processes plug in their cables of memory stays when a fabric is killed; the next one of this user takes it away, wherever
        that is, and leaves those of others that live."""
        self.network.own_tmp()
        sockets = os.path.join(self.network.tmp, "verbena-%d" % self.network.uid)
        hosts = [self.network.host() for _ in range(3)]
        killed = self.up(hosts[0])
        dead = set(os.listdir(sockets))
        lives = self.up(hosts[1])
        living = set(os.listdir(sockets)) - dead
        self.assertEqual((len(dead), len(living)), (1, 1))
        killed.kill()
        self.assertEqual(set(os.listdir(sockets)), dead | living)
        last = self.up(hosts[2])
        left = set(os.listdir(sockets))
        self.assertEqual((len(left), left & dead, left & living), (2, set(), living))
        for process in (lives, last):
            process.signal(signal.SIGTERM)
            self.assertEqual(process.wait(self.TIMEOUT).code, 0)
        self.assertEqual(os.listdir(sockets), [])

    def test_heard_by_one_side_alone(self):
        """What the fabric says reaches a host no longer, what the host says still reaches the fabric: the host gives its cable up. When it is heard
        again both ends of the link begin anew, so opensm hears of it, and the port is active."""
        self.pair(None)
        process, read = self.opensm(self.left, "sm")
        self.until_up(process, read)

        def is_active():
            return "State: Active" in self.tool(self.right, "ibstat", "vib0")
        self.assertTrue(is_active())
        self.left.ip("route", "add", "blackhole", "10.77.0.2/32")
        self.until(lambda: not is_active(), "the host gives its cable up")
        self.left.ip("route", "del", "blackhole", "10.77.0.2/32")
        self.until(is_active, lambda: self.tool(self.left, "iblinkinfo", "-l") + read())

    def test_cut_and_mend(self):
        """A cable that is cut is down at both ends; opensm hears of it by a trap and routes around it; mended, it is back."""
        self.pair(RING, ("--as", "A"), ("--as", "B"))
        process, read = self.opensm(self.left, "sm")
        self.until_up(process, read)
        lid = re.search(r"Base lid: (\d+)", self.tool(self.right, "ibstat", "vib0")).group(1)
        direct = self.tool(self.left, "ibtracert", "1", lid)
        self.assertEqual(direct.count("-> switch port"), 2)
        self.verbena(self.left, "cut", "S1:3")
        self.assertRegex(self.verbena(self.left, "show"), r"\[ 3\] CUT")
        self.until_up(process, read, 2)
        around = self.tool(self.left, "ibtracert", "1", lid)
        self.assertEqual(around.count("-> switch port"), 3)
        self.verbena(self.left, "mend", "S2:4")
        self.until_up(process, read, 3)
        self.until(lambda: self.tool(self.left, "ibtracert", "1", lid) == direct, "the direct way is taken again")

    def test_a_lost_switch(self):
        """All cables of a switch are cut: opensm has it no longer, the hosts reach each other; it comes back with its cables."""
        self.pair(RING, ("--as", "A"), ("--as", "B"))
        process, read = self.opensm(self.left, "sm")
        self.until_up(process, read)
        lid = re.search(r"Base lid: (\d+)", self.tool(self.right, "ibstat", "vib0")).group(1)
        switches = self.tool(self.left, "ibswitches")

        def said(*command):
            """A question fails while the way changes: then again."""
            return self.left.run("/usr/sbin/" + command[0], *command[1:]).out

        def is_way(hops):
            self.until(lambda: said("ibtracert", "1", lid).count("-> switch port") == hops, lambda: said("ibtracert", "1", lid) + read())

        def is_known(nodes):
            self.until(lambda: said("saquery").count("NodeRecord dump") == nodes, lambda: said("saquery") + read())
        self.verbena(self.left, "cut", "S1:3")
        is_way(3)
        self.verbena(self.left, "mend", "S1:3")
        for port in ("S3:3", "S3:4"):
            self.verbena(self.left, "cut", port)
        is_known(4)
        is_way(2)
        self.assertEqual(len(self.tool(self.left, "ibswitches").splitlines()), 2)
        self.assertRegex(self.tool(self.left, "perfquery", lid, "1"), r"PortXmitPkts")
        self.verbena(self.left, "mend", "S3:3")
        is_known(5)
        self.assertEqual(sorted(self.tool(self.left, "ibswitches").splitlines()), sorted(switches.splitlines()))

    def test_a_daemon_that_dies(self):
        """verbenad of a host is killed: opensm has that host no longer. It is back when it has joined again, in the same place."""
        self.pair(RING, ("--as", "A"), ("--as", "B"))
        process, read = self.opensm(self.left, "sm")
        self.until_up(process, read)

        def hosts():
            return len(self.left.run("/usr/sbin/saquery", "-t", "1000").out.split("Channel Adapter")) - 1
        self.until(lambda: hosts() == 2, read)
        self.right.signal_all("verbenad")
        self.until(lambda: hosts() == 1, read)
        self.assertRegex(self.verbena(self.left, "show"), r"DOWN +4xQDR +host .* in the place of B")
        self.assertIn("at S2[1]", self.verbena(self.right, "join", "10.77.0.1", "--as", "B"))
        self.until(lambda: hosts() == 2 and "State: Active" in self.tool(self.right, "ibstat", "vib0"), read)

    def picture(self, path):
        """Every node and link of an SVG, by its title."""
        groups = xml.etree.ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}g")
        titles = [(group.get("class"), group.find("{http://www.w3.org/2000/svg}title").text) for group in groups]
        return {kind: sorted(text for which, text in titles if which == kind) for kind, _ in titles}

    def test_picture(self):
        """LIDs are those of the tools, states and rates those of the links; a picture that is drawn anew shows a cable that was cut."""
        self.pair(RING, ("--as", "A"))
        process, read = self.opensm(self.left, "sm")
        self.until_up(process, read)
        told = json.loads(self.verbena(self.left, "show", "--json"))
        lids = {node["name"]: node["lid"] for node in told["nodes"]}
        for host, name in ((self.left, "A"), (self.right, "B")):
            self.assertEqual(int(re.search(r"Base lid: (\d+)", self.tool(host, "ibstat", "vib0")).group(1)), lids[name])
        self.assertEqual(len(set(lids.values())), 5)
        self.assertEqual({(link["state"], link["rate"]) for link in told["links"]}, {("ACTIVE", "4xQDR")})
        path = os.path.join(self.scratch, "fabric.svg")
        painter = self.left.start(clients.staged.verbena, "fabric", "show", "--svg", path, "--every", "1")
        self.until(lambda: os.path.exists(path), "the picture is there")
        seen = self.picture(path)
        self.assertEqual(seen["link"], ["S1[1] - A[1] ACTIVE 4xQDR", "S1[3] - S2[4] ACTIVE 4xQDR", "S1[4] - S3[3] ACTIVE 4xQDR",
                                        "S2[1] - B[1] ACTIVE 4xQDR", "S2[3] - S3[4] ACTIVE 4xQDR"])
        self.assertEqual([len(seen[kind]) for kind in ("switch", "host")], [3, 2])
        self.assertIn("lid %d," % lids["S3"], seen["switch"][2])
        self.verbena(self.left, "cut", "S1:3")
        self.until(lambda: "S1[3] - S2[4] CUT 4xQDR" in self.picture(path)["link"], "the cut is in the picture")
        self.assertTrue(painter.running())
        painter.kill()
        self.assertIn("--every goes with --svg", self.verbena(self.left, "show", "--every", "1", code=2))

    def test_partitions(self):
        """partitions.conf: who is a member, full or limited, is in the P_Key tables, and the subnet administration says the same."""
        self.pair(RING, ("--as", "A"), ("--as", "B"))
        guids = [re.search(r"Port GUID: (0x\w+)", self.tool(host, "ibstat", "vib0")).group(1) for host in (self.left, self.right)]
        partitions = self.write("partitions.conf", "Default=0x7fff, ipoib : ALL=full;\nblue=0x0021 : %s=full, %s=limited;\n" % tuple(guids))
        process, read = self.opensm(self.left, "sm", "-P", partitions)
        self.until_up(process, read)
        lids = [re.search(r"Base lid: (\d+)", self.tool(host, "ibstat", "vib0")).group(1) for host in (self.left, self.right)]
        for lid, key in zip(lids, ("0x8021", "0x0021")):
            table = self.tool(self.right, "smpquery", "pkeys", lid)
            self.assertIn("0xffff", table)
            self.assertEqual(re.findall(r"0x[08]021", table), [key])
        # Only who knows opensm's key is told everybody's P_Keys.
        records = self.tool(self.right, "saquery", "--smkey", "1", "PKTR")
        # At each of the two, and at the port of its switch, where opensm has it enforced.
        self.assertEqual(sorted(re.findall(r"0x[08]021", records)), ["0x0021", "0x0021", "0x8021", "0x8021"])
        path = self.tool(self.left, "saquery", "PR", "--slid", lids[0], "--dlid", lids[1])
        # Both are full members of one partition; of the other only the first is.
        self.assertRegex(path, r"(?i)pkey\.+0x(ffff|8021)\n")

    def test_handover(self):
        """Two opensms: one is master, the other stands by and takes over when the first is gone."""
        self.pair(None)
        first, read_first = self.opensm(self.left, "first", "-p", "10")
        self.until_up(first, read_first)
        second, read_second = self.opensm(self.right, "second", "-p", "1")
        self.until(lambda: "Entering STANDBY state" in read_second(), lambda: read_second() + read_first())
        self.assertRegex(self.tool(self.left, "sminfo"), r"priority 10 state 3 SMINFO_MASTER")
        first.kill()
        # It asks the first once more, and says that nobody answers.
        self.until_up(second, read_second, expected=("5411", "3113", "3120"))
        self.assertRegex(self.tool(self.left, "sminfo"), r"priority 1 state 3 SMINFO_MASTER")

    def test_quality_of_service(self):
        """opensm -Q sets SL mappings and VL arbitration."""
        host = self.network.host()
        self.up(host, RING)
        self.verbena(host, "join")
        process, read = self.opensm(host, "sm", "-Q")
        self.until_up(process, read)
        self.assertRegex(self.tool(host, "smpquery", "-D", "sl2vl", "0,1", "3"), r"ports: in  0, out  3: \| 0\| 1\| 2\| 3\| 4\| 5\| 6\| 7")

    def test_what_is_wrong(self):
        """Mistakes are named: in files line and word, in commands what to do."""
        host = self.network.host()
        bad = self.write("bad", 'Switch 8 "S1"\n[1] "H9"[1]\n')
        result = host.run(clients.staged.verbena, "fabric", "up", bad)
        self.assertEqual(result.code, 1)
        self.assertIn("bad:2: H9: no node of this name is in the file", result.out)
        self.assertIn("verbena fabric up", self.verbena(host, "show", code=1))
        self.assertIn("no fabric answers there", self.verbena(host, "join", code=1))
        self.assertEqual(host.run(clients.staged.verbena, "fabric", "fly").code, 2)
        self.assertEqual(host.run(clients.staged.verbena, "fabric", "join", "--port", "70000").code, 2)
        self.up(host)
        self.assertIn("no adapter of this name", self.verbena(host, "join", "--as", "H1", code=1))
        self.assertIn("no cable at port 5", self.verbena(host, "cut", "S1:5", code=1))
        self.assertIn("there is no node", self.verbena(host, "cut", "S2:1", code=1))
        self.verbena(host, "join")
        self.assertIn("has joined a fabric already", self.verbena(host, "join", code=1))
        # Without a subnet manager the port has no LID: said by the tools themselves.
        self.assertRegex(self.tool(host, "ibstat", "vib0"), r"State: Initializing")
        other = host.run(clients.staged.verbena, "fabric", "up")
        self.assertEqual(other.code, 1)
        self.assertIn("--port", other.out)

