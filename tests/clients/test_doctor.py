# SPDX-License-Identifier: MIT
"""`verbena doctor` where other users and firewalls are, and `verbena doctor --peer`."""

import json
import os
import signal

from pylib import clients
from pylib.clients import across, expand, which
from pylib.hosts import ORDINARY_UID
from test_observe import Looking

STAY = ["stdbuf", "-oL"]


class Asked(Looking):
    def rows(self, *argv, **more):
        result = self.verbena("doctor", "--json", *argv, **more)
        return {row["check"]: row for row in json.loads(result.out[result.out.index("[\n"):])}

    def watch(self, host, *prefix, **more):
        """A program that keeps a device open, and so a verbenad."""
        watcher = host.start(*prefix, *STAY, which("ibv_asyncwatch"), "-d", self.device, **more)
        self.assertTrue(watcher.wait_until(lambda process: "async event FD" in process.output()), watcher.output())
        return watcher

    def block(self, host, rule, hook="input"):
        done = host.run("nft", "table inet t { chain c { type filter hook %s priority 0; %s; }; }" % (hook, rule), privileged=True)
        self.assertEqual(done.code, 0, done)

    def verdicts(self, rows):
        return {check: row["verdict"] for check, row in rows.items()}


@expand
class ThisHost(Asked):
    @across(["lo_v4"])
    def test_another_users_daemon(self):
        """Its sockets, and those of its clients, are not called a stranger's."""
        if os.environ.get("VERBENA_TEST_INSIDE"):
            self.skipTest("only root can be several users")
        self.until(lambda: not self.client.pids(), "the first daemon has left")
        drop = ["setpriv", "--reuid=%d" % (ORDINARY_UID + 1), "--regid=%d" % (ORDINARY_UID + 1), "--clear-groups",
                "--inh-caps=-all", "--bounding-set=-all"]
        self.watch(self.client, *drop, privileged=True)
        for more in ({}, {"privileged": True}):
            rows = self.rows(**more)
            self.assertEqual(rows["daemon"]["verdict"], "fail")
            self.assertIn("another user", rows["daemon"]["found"])
            self.assertEqual(rows["UDP port 4791"]["verdict"], "ok", rows["UDP port 4791"])
            self.assertIn(str(ORDINARY_UID + 1), rows["UDP port 4791"]["found"])
            # Not even root is served, as verbenad(8) says.
            refused = self.client.run(which("ibv_devices"), environment={"VERBENA_EXPLAIN": "1"}, **more)
            self.assertNotIn("roce_lo", refused.out)
            self.assertIn("Another user's verbenad runs here: let root start one for all", refused.out)

    @across(["lo_v4"])
    def test_stopped_daemon(self):
        """Which process does not answer, and why; a program is refused and told the same."""
        self.watch(self.client)
        daemon = self.client.pids_of("verbenad")[0]
        self.client.signal_all("verbenad", signal.SIGSTOP)
        row = self.rows()["daemon"]
        self.assertEqual((row["verdict"], row["found"]), ("fail", "verbenad (pid %d) is stopped" % daemon))
        self.assertIn("kill -CONT %d" % daemon, row["advice"])
        refused = self.client.run(which("ibv_devices"), environment={"VERBENA_EXPLAIN": "1"})
        self.assertNotEqual(refused.code, 0)
        self.assertIn("verbenad (pid %d), which knows the devices of this network namespace, is stopped." % daemon, refused.out)
        self.assertIn("cannot talk to verbenad: it is stopped (pid %d)" % daemon, refused.out)
        self.client.signal_all("verbenad", signal.SIGCONT)
        self.assertEqual(self.rows()["daemon"]["verdict"], "ok")

    @across(["lo_v4"])
    def test_firewall(self):
        """A rule on UDP port 4791, with a daemon and without; packets that may not be sent."""
        self.until(lambda: not self.client.pids(), "the first daemon has left")
        self.assertEqual(self.rows()["firewall"]["verdict"], "ok")
        self.watch(self.client)
        self.assertEqual(self.rows()["firewall"]["verdict"], "ok")
        self.block(self.client, "udp dport 4791 drop")
        row = self.rows()["firewall"]
        self.assertEqual(row["verdict"], "fail", row)
        self.assertIn("a rule drops them", row["found"])
        self.client.signal_all()
        self.until(lambda: not self.client.pids(), "all have left")
        self.assertEqual(self.rows()["firewall"]["verdict"], "fail")

    @across(["lo_v4"])
    def test_firewall_of_one_family(self):
        """A rule for IPv6 alone, or for what goes out; the family is named."""
        for table, hook, said in (("ip6", "input", "IPv6"), ("ip", "output", "IPv4")):
            for daemon in (False, True):
                self.until(lambda: not self.client.pids(), "nobody is there")
                self.client.run("nft", "flush", "ruleset", privileged=True)
                if daemon:
                    self.watch(self.client)
                rule = "table %s t { chain c { type filter hook %s priority 0; udp dport 4791 drop; }; }" % (table, hook)
                self.assertEqual(self.client.run("nft", rule, privileged=True).code, 0)
                row = self.rows()["firewall"]
                self.assertEqual(row["verdict"], "fail", row)
                self.assertIn("of this host do not arrive by %s:" % said, row["found"])
                self.client.signal_all()


@expand
class Peer(Asked):
    def ask(self, address=None, expect=None):
        rows = self.rows("--peer", address or self.address)
        if expect is not None:
            self.assertEqual({check: rows[check]["verdict"] for check in expect}, expect, rows)
        return rows

    @across(["veth1500_v4", "veth1500_v6"])
    def test_all_is_well(self):
        """Route, MTU, both ways and the version; in JSON and in words."""
        self.watch(self.server)
        address = "fd77::1" if self._testMethodName.endswith("v6") else "10.77.0.1"
        rows = self.ask(address, {"route": "ok", "MTU": "ok", "to its port": "ok", "version": "ok", "and back to ours": "ok"})
        self.assertIn("roce_eth0", rows["route"]["found"])
        self.assertIn("1500", rows["MTU"]["found"])
        # Where this user may ping, packets of that size are tried.
        self.client.run("sysctl", "-q", "-w", "net.ipv4.ping_group_range=0 2147483647", privileged=True)
        self.until(lambda: "1500 bytes go there and come back" in self.ask(address)["MTU"]["found"], lambda: self.ask(address)["MTU"])
        self.assertIn(self.told("version")["version"], rows["version"]["found"])
        text = self.verbena("doctor", "--peer", address)
        self.assertEqual(text.code, 0, text)
        self.assertIn("open both ways", text.out)

    @across(["veth1500_v4"])
    def test_mtus_that_differ(self):
        """9000 here, 1500 there, and nobody on the way says so: found by packets that do not come back."""
        self.watch(self.server)
        self.client.ip("link", "set", "eth0", "mtu", "9000")
        for groups, verdict, words in (("1 0", "ok", "9000 as far as this host knows"),
                                       ("0 2147483647", "warn", "9000 of eth0, but pings of that size do not come back")):
            self.client.run("sysctl", "-q", "-w", "net.ipv4.ping_group_range=" + groups, privileged=True)
            row = self.ask()["MTU"]
            self.assertEqual(row["verdict"], verdict, row)
            self.assertIn(words, row["found"])

    @across(["veth1500_v4"])
    def test_blocked_here(self):
        """A firewall of this host that lets in answers only: half of it works."""
        self.watch(self.server)
        self.watch(self.client)
        self.block(self.client, "iifname eth0 udp dport 4791 drop")
        rows = self.ask(expect={"to its port": "ok", "and back to ours": "fail"})
        self.assertIn("A firewall of this host", rows["and back to ours"]["advice"])
        self.assertEqual(self.verbena("doctor", "--peer", self.address).code, 1)

    @across(["veth1500_v4"])
    def test_blocked_there(self):
        self.watch(self.server)
        self.block(self.server, "iifname eth0 udp dport 4791 drop")
        self.ask(expect={"to its port": "warn", "and back to ours": "fail"})

    @across(["veth1500_v4"])
    def test_nobody_there(self):
        """No Verbena on the host; no host; no route."""
        self.server.signal_all()
        self.until(lambda: not self.server.pids(), "the daemon has left")
        self.assertIn("nobody has its UDP port 4791", self.ask(expect={"to its port": "fail"})["to its port"]["found"])
        self.assertIn("no host answers", self.ask("10.77.0.9", {"to its port": "fail"})["to its port"]["found"])
        self.assertEqual(self.verdicts(self.ask("198.51.100.1")), {"route": "fail"})
        self.assertEqual(self.verbena("doctor", "--peer", "nowhere").code, 2)
        self.client.ip("route", "add", "198.51.100.0/24", "via", "10.77.0.1", "mtu", "1000")
        self.assertEqual(self.ask("198.51.100.1")["MTU"]["verdict"], "warn")
