# SPDX-License-Identifier: MIT
"""An ordinary user's programs through the system's verbenad, which gives that user a port of his own (docs/security.md)."""

import json
import os
import tempfile

from pylib.clients import ClientCase, across, expand, which

# (address of the server, of the client, multicast group)
ADDRESSES = {"v4": ("10.77.0.1", "10.77.0.2", "239.77.0.1"), "v6": ("fd77::1", "fd77::2", "ff15::77")}
PLACES = ["veth1500_v4", "veth1500_v6"]
BOB = 12346      # not the user that the other programs run as


@expand
class SystemDaemon(ClientCase):
    def prepare(self):
        if os.environ.get("VERBENA_TEST_INSIDE"):
            self.skipTest("only root can be several users")
        if self.server.run("nft", "list", "ruleset", privileged=True).code:
            self.skipTest("this kernel has no nf_tables")
        for host in {self.server, self.client}:
            daemon = host.start(os.path.join(self.network.staged.root, "bin", "verbenad"), "--system", "--foreground", privileged=True,
                                environment={"VERBENA_LOG": "info"})
            self.until(lambda: self.listens(daemon), daemon.output)
            if host is self.server:
                self.daemon = daemon

    def listens(self, daemon):
        with open("/proc/%d/net/unix" % daemon.pid) as table:
            return any(line.split()[-1] == "@verbena/1" and line.split()[5] == "01" for line in table)

    def rules(self, host):
        return host.run("nft", "list", "table", "inet", "verbena", privileged=True).out

    @across(PLACES + ["lo_wire"])
    def test_write(self):
        """By wire, in bundles; nothing of it is lost."""
        index = self.gids
        common = ["-d", self.device, "-s", "65536", "-n", "500", "-F"]
        self.exchange([which("ib_write_bw"), *common, "-x", str(index[0])],
                      [which("ib_write_bw"), *common, "-x", str(index[1]), self.address])
        self.assertIn("map slots", self.rules(self.server))

    @across(PLACES)
    def test_connections(self):
        """QP1 is the daemon's, on port 4791."""
        address = ADDRESSES[self.id()[-2:]][0]
        server = self.server.start(which("rping"), "-s", "-P", "-a", address)
        self.until(lambda: self.client.run(which("rping"), "-c", "-a", address, "-C", "20", "-V", "-S", "5000").code == 0, server.output)

    @across(PLACES)
    def test_multicast(self):
        """Groups have sockets of their own: one receiver, then one more of the same host."""
        address, sender, group = ADDRESSES[self.id()[-2:]]
        common = ["-m", group, "-C", "5", "-S", "200"]
        for receivers in (1, 2):
            receiving = [self.server.start(which("mckey"), "-b", address, *common) for _ in range(receivers)]
            self.until(lambda: self.members(group) == receivers, receiving[0].output)
            sent = self.client.run(which("mckey"), "-b", sender, *common, "-s")
            self.assertEqual(sent.code, 0, sent)
            for one in receiving:
                received = one.wait(self.TIMEOUT)
                self.assertEqual(received.code, 0, received)
                self.assertIn("data transfers complete", received.out)

    def members(self, group):
        """How many have joined."""
        words = self.server.ip("maddr", "show", "dev", "eth0").split()
        if group not in words:
            return 0
        after = words[words.index(group) + 1:][:2]
        return int(after[1]) if after[:1] == ["users"] else 1

    @across(["veth1500_v4"])
    def test_nobody_listens(self):
        """A host where no process uses RDMA refuses connections; it does not leave who connects waiting."""
        client = self.client.run(which("rping"), "-c", "-a", ADDRESSES["v4"][0], "-C", "1")
        self.assertNotEqual(client.code, 0)
        self.assertIn("RDMA_CM_EVENT_REJECTED", client.out)

    @across(["veth1500_v4"])
    def test_counters_are_each_users_own(self):
        """In the view of `verbena run`: what a user's processes have counted, and root sees all of it."""
        bobs = tempfile.TemporaryDirectory()
        self.addCleanup(bobs.cleanup)
        os.chown(bobs.name, BOB, BOB)
        bob = ("setpriv", "--reuid=%d" % BOB, "--regid=%d" % BOB, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")

        def packets(*argv, **more):
            out = self.client.run(*argv, self.network.staged.verbena, "run", "cat",
                                  "/sys/class/infiniband/%s/ports/1/counters/port_xmit_packets" % self.device, **more).out
            return int(out.splitlines()[-1])
        common = [which("ib_write_bw"), "-d", self.device, "-s", "1024", "-n", "500", "-F"]
        self.exchange([*common, "-x", str(self.gids[0])], [*common, "-x", str(self.gids[1]), self.address])
        alices = packets()
        self.assertGreaterEqual(alices, 500)
        self.assertEqual(packets(privileged=True), alices)
        self.assertEqual(packets(*bob, privileged=True, environment={"XDG_RUNTIME_DIR": bobs.name}), 0)

    # ---- another user of the peer's host ----

    def rows(self, host, kind):
        told = host.run(self.network.staged.verbena, "res", kind, "--json", privileged=True).out
        return [dict(row, pid=process["pid"]) for process in json.loads(told[told.index("["):]) for row in process[kind + "s"]]

    def established(self):
        return [row for row in self.rows(self.server, "cm_id") if row["state"] == "ESTABLISHED"]

    @across(["veth1500_v4"])
    def test_requests_in_the_name_of_another_user(self):
        """bob names every queue pair of alice's in requests of his own: her connections go on."""
        address, own, _ = ADDRESSES["v4"]
        server = self.server.start(which("rping"), "-s", "-P", "-a", address)
        self.until_listening(server)
        client = self.client.start(which("rping"), "-c", "-a", address, "-C", "1000000000")
        self.until(lambda: len(self.established()) == 1, client.output)
        before, = self.established()
        pairs = [str(row["qpn"]) for row in self.rows(self.client, "qp")]
        guid = next(row["guid"] for row in self.client.devices() if row["name"] == self.device)
        forge = os.path.join(os.path.dirname(os.path.realpath(__file__)), "programs", "forged_request.py")
        with open(forge) as file:
            script = file.read()
        sent = self.client.run("setpriv", "--reuid=%d" % BOB, "--regid=%d" % BOB, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
                               "python3", "-c", script, own, address, "7174", guid, *pairs, privileged=True)
        self.assertEqual((sent.code, len(pairs)), (0, 1), sent)
        # They were understood, and refused as of a queue pair that has a connection.
        self.until(lambda: "reason 10" in self.daemon.output(), self.daemon.output)
        # What the server's daemon made of them it has done when it has connected another.
        another = self.client.run(which("rping"), "-c", "-a", address, "-C", "5")
        self.assertEqual(another.code, 0, another)
        self.assertIn(before, self.established())
        done = self.rows(self.server, "qp")
        self.until(lambda: self.progress() > max(row["receives_done"] for row in done), client.output)
        self.assertTrue(client.running() and server.running())

    def progress(self):
        return max((row["receives_done"] for row in self.rows(self.server, "qp")), default=0)

    @across(["lo_v4"])
    def test_streams_of_two_users(self):
        """Processes of two users have no way through memory to each other: iWARP's WRITEs and READs stay with the stream."""
        iwarp = {"VERBENA_TRANSPORT": "iwarp"}
        common = ["-a", self.address, "-p", "7175"]
        server = self.server.start(which("rping"), "-s", "-P", "-V", *common, environment=iwarp)
        self.until(lambda: server.listens(7175), server.output)
        self.client.start("setpriv", "--reuid=%d" % BOB, "--regid=%d" % BOB, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
                          which("rping"), "-c", "-C", "1000000000", "-V", *common, privileged=True, environment=iwarp)

        def pairs():
            return [row for row in self.rows(self.server, "qp") if row["state"] == "RTS" and row["pid"] == server.pid]
        self.until(lambda: any(row["sends_done"] > 500 for row in pairs()), server.output)
        self.assertEqual({row["way"] for row in pairs()}, {"iwarp"})
        # With one of his own user the same server has.
        self.client.start(which("rping"), "-c", "-C", "1000000000", "-V", *common, environment=iwarp)
        self.until(lambda: sorted(row["way"] for row in pairs()) == ["iwarp", "memory"], pairs)
