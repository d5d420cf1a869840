#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Users of one host who do not trust each other, and the system's verbenad between them (docs/security.md)."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))

from pylib import daemon                                    # noqa: E402
from pylib.daemon import ALICE, BOB, connect, exchange      # noqa: E402

CREW, ACCOUNT = 12399, 12347
# Through memory nobody could listen.
BY_WIRE = {"VERBENA_WIRE": "rocev2"}


class Users(daemon.IntruderCase):
    def pair(self, *arguments, **options):
        """Two processes of alice, connected by wire."""
        one, other = self.peers(2, *arguments, uid=ALICE, environment=BY_WIRE, **options)
        connect(one, other)
        exchange(one)
        return one, other

    # ---- a process with a socket of the port ----

    def attack(self, *steps, slots=1):
        """bob does what the steps say; alice's processes go on, and bob has received nothing that was theirs."""
        self.needs_users()
        self.needs_tables()
        self.start_system()
        one, other = self.pair()
        bob = self.intruder()
        self.assertEqual(self.ask(bob, "open", slots)[0], "open")
        self.ask(bob, "stolen")
        for step in steps:
            self.assertEqual(self.ask(bob, *step.split())[0], step.split()[0])
        exchange(one, 200)
        exchange(other, 200)
        # A process that comes later, too.
        third, fourth = self.pair()
        exchange(third, 200)
        self.assertEqual(self.ask(bob, "stolen"), ["stolen", "0"])

    def test_leaving_the_group_and_keeping_the_port(self):
        self.attack("leave")

    def test_leaving_without_a_word(self):
        self.attack("hole", slots=3)

    def test_detaching_the_steering_program(self):
        self.attack("detach", slots=3)

    def test_taking_a_flow(self):
        self.attack("flow %d" % ALICE, slots=16)

    def test_leaving_with_lanes(self):
        self.attack("lanes 7", "leave", slots=2)

    def test_leaving_with_lanes_without_a_word(self):
        self.attack("lanes 7", "hole", slots=2)

    def test_detaching_the_steering_program_by_lanes(self):
        self.attack("lanes 3", "detach", slots=3)

    def test_lanes_are_for_the_process_that_has_the_slot(self):
        self.needs_users()
        self.needs_tables()
        self.start_system()
        alice, second, bob, root = (self.intruder(uid=uid) for uid in (ALICE, ALICE, BOB, 0))
        slot = self.ask(alice, "open", 1)[1]
        self.assertEqual(self.ask(second, "open", 1)[0], "open")
        not_his = "refused this process does not have that slot".split()
        for other in (second, bob, root):
            self.assertEqual(self.ask(other, "lane", slot, 1), not_his)
            self.assertEqual(self.ask(other, "unlane", slot, 1), not_his)
        self.assertEqual(self.ask(second, "show", slot, 1), "refused the lane is not this process's any more".split())
        self.assertEqual(self.ask(alice, "lane", slot, 1), ["lane", "2"])
        self.assertEqual(self.ask(alice, "lane", slot, 1), ("refused slot %s has lane 1 already" % slot).split())
        self.assertEqual(self.ask(second, "unlane", slot, 1), not_his)
        self.assertEqual(self.ask(alice, "unlane", slot, 1), ["unlaned"])
        self.assertEqual(self.ask(alice, "unlane", slot, 1), "refused the slot does not have that lane".split())
        # The slot's own sockets are no lane's.
        self.assertEqual(self.ask(alice, "show", slot, 1), "refused these are not the lane's sockets".split())
        self.assertEqual(self.ask(alice, "lane", slot, 1), ["lane", "2"])

    def received(self, process, slot, expected):
        """Of a packet for each lane."""
        script = ("import socket, struct\nfor address, family in (('127.0.0.1', socket.AF_INET), ('::1', socket.AF_INET6)):\n"
                  " for lane in range(8):\n  socket.socket(family, socket.SOCK_DGRAM).sendto(struct.pack('>BBHIIQ', 4, 0x40, 0xffff,"
                  " %d << 14 | 8 | lane, 1, 0), (address, 4791))" % slot)
        self.assertEqual(self.host.run("python3", "-c", script).out, "")
        found = []

        def have_come():
            found.extend(self.ask(process, "received")[1:])
            return len(found) >= 16
        self.until(have_come, "all have come")
        self.assertEqual(sorted(map(int, found)), sorted(2 * expected))

    def test_lanes_have_their_packets(self):
        """On the port of a user, and when another verbenad has come."""
        self.needs_users()
        self.needs_tables()
        self.start_system()
        bob = self.intruder()
        slot = int(self.ask(bob, "open", 1)[1])
        self.received(bob, slot, 8 * [0])
        self.assertEqual(self.ask(bob, "lanes", 3), ["lanes", "3"])
        self.received(bob, slot, [0, 1, 2, 3, 0, 0, 0, 0])
        third = self.intruder()
        self.assertEqual(self.ask(third, "open", 3)[0], "open")
        self.assertEqual(self.ask(third, "lanes", 2)[0], "lanes")
        bob.say("reclaim")
        self.kill_daemon()
        third.popen.kill()
        third.popen.wait()
        system = self.start_system()
        bob.hear("reclaimed", 1)
        self.until(lambda: "taking over" in system.output(), "it is the heir")
        # As soon as it knows where they are it gives out more.
        self.until(lambda: self.ask(bob, "received") and self.ask(bob, "lane", slot, 7)[0] == "lane", "it has settled")
        self.assertEqual(self.ask(bob, "unlane", slot, 7), ["unlaned"])
        self.received(bob, slot, [0, 1, 2, 3, 0, 0, 0, 0])

    def test_claiming_a_slot_that_was_given_back(self):
        """bob keeps sockets of slots that he gave back. When verbenad is started anew he claims them before who has them now."""
        self.needs_users()
        self.needs_tables()
        self.start_system()
        bob = self.intruder()
        words = self.ask(bob, "open", 300)
        had = {int(slot) for slot in words[1::2]}
        self.assertEqual(self.ask(bob, "leave"), ["leave"])
        for _ in range(64):
            one, other = self.peers(2, uid=ALICE, environment=BY_WIRE)
            if {one.slot, other.slot} & had:
                break
            one.quit()
            other.quit()
        self.assertTrue({one.slot, other.slot} & had)
        connect(one, other)
        exchange(one)
        os.kill(one.pid, signal.SIGSTOP)
        os.kill(other.pid, signal.SIGSTOP)
        bob.say("reclaim")
        self.kill_daemon()
        self.start_system()
        claimed = int(bob.hear("reclaimed")[1])
        os.kill(one.pid, signal.SIGCONT)
        os.kill(other.pid, signal.SIGCONT)
        self.until(lambda: len(one.processes()) == 2, "alice's are back")
        self.assertEqual(claimed, 0)
        self.ask(bob, "stolen")
        exchange(one)
        exchange(other)
        self.assertEqual(self.ask(bob, "stolen"), ["stolen", "0"])

    def test_the_port_of_users_who_are_gone(self):
        """Nobody else can bind it, though packets still go there while there is no verbenad."""
        self.needs_users()
        self.needs_tables()
        self.start_system()
        alice = self.intruder(uid=ALICE)
        port = int(self.ask(alice, "open", 1)[2])
        self.assertLess(port, 1024)
        self.kill_daemon()
        alice.popen.kill()
        alice.popen.wait()
        script = ("import socket\nfor family in (socket.AF_INET, socket.AF_INET6):\n s = socket.socket(family, socket.SOCK_DGRAM)\n"
                  " s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n print(s.bind(('', %d)))" % port)
        drop = ["setpriv", "--reuid=%d" % BOB, "--regid=%d" % BOB, "--clear-groups"]
        self.assertIn("PermissionError", self.host.run(*drop, "python3", "-c", script, privileged=True).out)

    # ---- what others of the host may know of a process ----

    def test_memory_is_for_processes_of_one_user(self):
        """By the segment that verbenad hands out one process reaches the memory of another."""
        self.needs_users()
        self.needs_tables()
        self.start_system()
        alice = self.peer(uid=ALICE).ready()
        question = "segment", alice.slot, "::ffff:127.0.0.1"
        self.until(lambda: self.ask(self.intruder(uid=ALICE), *question) == ["segment", "2"], "alice's other processes get it")
        for uid in (BOB, 0):
            self.assertEqual(self.ask(self.intruder(uid=uid), *question), "refused the process is another user's".split())

    def test_what_a_process_holds_is_shown_to_its_user(self):
        """And to root."""
        self.needs_users()
        self.needs_tables()
        self.start_system()
        self.peer(uid=ALICE).ready()
        bob = self.peer(uid=BOB).ready()
        for uid, shown in ((ALICE, [ALICE]), (BOB, [BOB]), (0, [ALICE, BOB])):
            words = self.ask(self.intruder(uid=uid), "resources")
            self.assertEqual((words[0], sorted(map(int, words[1:]))), ("resources", shown))
        self.assertEqual(len(bob.processes()), 1)
        self.assertEqual({uid for uid, _, _ in self.peer(uid=0).ready().processes().values()}, {ALICE, BOB, 0})

    # ---- the rule that keeps users apart ----

    def test_packets_reach_the_port_of_their_user(self):
        """By IPv4 and IPv6, without a UDP checksum, and many at once; what is sent back comes from port 4791."""
        self.needs_users()
        self.needs_tables()
        self.host, far = self.network.pair()
        self.start_system()
        bob = self.intruder()
        slot, port = (int(word) for word in self.ask(bob, "open", 1)[1:3])
        self.assertNotEqual(port, 4791)
        bob.say("echo", 6)
        script = """if True:
            import socket, struct
            UDP_SEGMENT, UDP_NO_CHECK6_TX, SO_NO_CHECK = 103, 101, 11
            bth = struct.pack('>BBHII', 4, 0x40, 0xffff, %d << 14 | 77, 1)
            for family, address in ((socket.AF_INET, '10.77.0.1'), (socket.AF_INET6, 'fd77::1')):
                for kind in ('plain', 'unchecked', 'bundle'):
                    s = socket.socket(family, socket.SOCK_DGRAM)
                    s.settimeout(%d)
                    s.connect((address, 4791))
                    payload = bth.ljust(1000, b'x')
                    if kind == 'unchecked' and family == socket.AF_INET:
                        s.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
                    if kind == 'unchecked' and family == socket.AF_INET6:
                        s.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_TX, 1)
                    if kind == 'bundle':
                        s.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
                        payload *= 50
                    s.send(payload)
                    print(family.name, kind, s.recv(100).decode(), flush=True)
        """ % (slot, daemon.PATIENCE)
        result = far.run("python3", "-c", script)
        self.assertEqual(result.out.split("\n")[:-1],
                         ["%s %s %d" % (family, kind, length) for family in ("AF_INET", "AF_INET6")
                          for kind, length in (("plain", 1000), ("unchecked", 1000), ("bundle", 50000))], result)
        bob.hear("echoed")

    def test_the_rule_comes_back(self):
        """Whoever loads a firewall begins with `flush ruleset`, or ends with a table that is out of date."""
        self.needs_users()
        self.needs_tables()
        self.start_system()
        one, other = self.pair()
        saved = self.host.run("nft", "list", "ruleset", privileged=True).out
        self.host.run("nft", "flush", "ruleset", privileged=True)
        exchange(one)
        third, fourth = self.pair()
        path = os.path.join(self.directory, "saved.nft")
        with open(path, "w") as file:
            file.write("flush ruleset\n" + saved)
        loaded = self.host.run("nft", "-f", path, privileged=True)
        self.assertEqual(loaded.code, 0, str(loaded) + saved)
        exchange(third)
        exchange(one)

    def test_forwarded_packets_are_left_alone(self):
        """A router that is an RDMA host, too."""
        self.needs_users()
        self.needs_tables()
        self.start_system()
        self.assertEqual(self.ask(self.intruder(), "open", 1)[0], "open")
        rules = self.host.run("nft", "list", "table", "inet", "verbena", privileged=True).out
        self.assertIn("hook input", rules)
        self.assertNotIn("prerouting", rules)

    # ---- verbenad's name and port in other hands ----

    def holder(self, script, uid=BOB):
        """A process of that user with what the script makes; it says "held"."""
        path = os.path.join(self.directory, "holder.py")
        with open(path, "w") as file:
            file.write("#!/usr/bin/env python3\nimport socket, sys\n%s\nprint('held', flush=True)\nsys.stdin.read()\n" % script)
        os.chmod(path, 0o755)
        holder = daemon.Peer(self, self.host, program=path, uid=uid)
        holder.hear("held")
        return holder

    def hold_name(self):
        return self.holder("s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.bind('\\0verbena/1')\ns.listen()")

    def test_the_name_is_taken_before_the_start(self):
        self.needs_users()
        self.hold_name()
        self.start_system("--trust-group", str(CREW))
        one, other = self.peers(2, uid=ALICE, gid=CREW)
        connect(one, other)
        exchange(one)
        # One is enough.
        self.assertIn("another verbenad runs", self.host.run(self.daemon_path, "--system", "--foreground", privileged=True).out)

    def test_the_name_is_taken_after_a_crash(self):
        self.needs_users()
        self.start_system("--trust-group", str(CREW))
        one, other = self.peers(2, uid=ALICE, gid=CREW)
        connect(one, other)
        self.kill_daemon()
        self.hold_name()
        self.start_system("--trust-group", str(CREW))
        self.until(lambda: len(one.processes()) == 2, "everybody is back")
        exchange(one)

    def test_the_port_is_taken(self):
        """verbenad says by whom, and has it when that is gone."""
        self.needs_users()
        bob = self.holder("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 4791))")
        self.start_system("--trust-group", str(CREW))
        peer = self.peer(uid=ALICE, gid=CREW)
        self.assertIn("Address already in use", peer.failed())
        self.assertIn("uid %d has it, pid %d" % (BOB, bob.pid), peer.log())
        bob.popen.kill()
        bob.popen.wait()
        self.peer(uid=ALICE, gid=CREW).ready()

    def test_no_other_user_has_a_socket_of_the_port(self):
        """Connected to a flow it would have that flow's packets before the rule has seen them."""
        self.needs_users()
        self.start_system()
        self.peer(uid=0).ready()
        self.holder("""if True:
            import errno, itertools

            addresses = [(socket.AF_INET, a) for a in ('', '127.0.0.1', '127.0.0.9')] + [(socket.AF_INET6, a) for a in ('::', '::1')]
            for (family, address), option, device in itertools.product(addresses, (0, socket.SO_REUSEADDR, socket.SO_REUSEPORT), (b'', b'lo')):
                s = socket.socket(family, socket.SOCK_DGRAM)
                if option:
                    s.setsockopt(socket.SOL_SOCKET, option, 1)
                if device:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
                try:
                    s.bind((address, 4791))
                    sys.exit('bound to %s' % address)
                except OSError as error:
                    assert error.errno == errno.EADDRINUSE, error
        """)

    def test_verbenad_gains_no_privileges(self):
        self.start_system()
        with open("/proc/%d/status" % self.daemons()[0]) as status:
            status = status.read()
        self.assertIn("NoNewPrivs:\t1\n", status)
        if not self.is_sanitized():
            self.assertIn("Seccomp:\t2\n", status)

    def test_the_name_is_handed_over(self):
        """As systemd does it: the listening socket is there before verbenad and after it, and who connects meanwhile waits."""
        starter = """if True:
            import os, socket, subprocess, sys
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.bind('\\0verbena/1')
            s.listen()
            os.dup2(s.fileno(), 3)
            def child():
                os.environ['LISTEN_PID'], os.environ['LISTEN_FDS'] = str(os.getpid()), '1'
                os.set_inheritable(3, True)
                os.execv(sys.argv[1], [sys.argv[1], '--system', '--foreground'])
            for _ in range(2):
                pid = os.fork()
                if pid == 0:
                    child()
                os.waitpid(pid, 0)
        """
        self.host.start("python3", "-c", starter, self.daemon_path, privileged=True)
        one, other = self.peers(2, uid=0, environment=BY_WIRE)
        connect(one, other)
        self.kill_daemon()
        third = self.peer(uid=0).ready()
        self.until(lambda: len(third.processes()) == 3, "everybody is back")
        exchange(one)

    def test_the_account_of_the_system(self):
        """A verbenad of the account `verbena` is trusted, one of any other but root and oneself is not."""
        self.needs_users()
        self.needs_tables()
        capabilities = "+net_admin,+net_bind_service"
        self.host.start("setpriv", "--reuid=%d" % ACCOUNT, "--regid=%d" % ACCOUNT, "--clear-groups", "--inh-caps=" + capabilities,
                        "--ambient-caps=" + capabilities, self.daemon_path, "--system", "--foreground", privileged=True,
                        environment=self.sanitizer_options())
        self.until(lambda: self.hears("@verbena/1"), "it listens")
        stranger = self.peer(uid=ALICE)
        self.assertIn("Permission denied", stranger.failed())
        self.assertIn(str(ACCOUNT), stranger.log())
        accounts, script = (os.path.join(self.directory, name) for name in ("passwd", "with-account"))
        with open("/etc/passwd") as known, open(accounts, "w") as file:
            file.write("".join(line for line in known if not line.startswith("verbena:")))
            file.write("verbena:x:%d:%d::/:/bin/false\n" % (ACCOUNT, ACCOUNT))
        # `ip netns exec` has made a mount namespace for it.
        with open(script, "w") as file:
            file.write("#!/bin/sh\nmount --bind %s /etc/passwd && exec setpriv --reuid=%d --regid=%d --clear-groups --inh-caps=-all "
                       "--bounding-set=-all --no-new-privs %s\n" % (accounts, ALICE, ALICE, self.peer_path))
        os.chmod(script, 0o755)
        daemon.Peer(self, self.host, program=script, uid=0).ready()

    def hears(self, name):
        with open("/proc/%d/net/unix" % self.host.processes[-1].pid) as table:
            return any(line.split()[-1] == name and line.split()[5] == "01" for line in table)

    # ---- users who cannot be kept apart, or need not be ----

    def test_refused_where_users_cannot_be_kept_apart(self):
        self.needs_users()
        system = self.start_system(wrapper=("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"))
        words = self.ask(self.intruder(), "open", 1)
        self.assertEqual(words[:2], ["refused", "0"])
        self.assertIn("--trust-group", words)
        peer = self.peer(uid=ALICE)
        self.assertIn("Permission denied", peer.failed())
        self.assertIn("cannot keep users apart here (nf_tables: Operation not permitted)", peer.log())
        # Root is not another user.
        one, other = self.peers(2, uid=0, environment=BY_WIRE)
        connect(one, other)
        exchange(one)
        self.assertTrue(system.running())

    def test_users_who_trust_each_other(self):
        """They share port 4791, and the rest stay apart or away."""
        self.needs_users()
        self.start_system("--trust-group", str(CREW), wrapper=("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"))
        for crew in ({"groups": [CREW]}, {"gid": CREW}):
            bob = self.intruder(**crew)
            self.assertEqual(self.ask(bob, "open", 1)[2], "4791")
        self.assertEqual(self.ask(self.intruder(), "open", 1)[0], "refused")


if __name__ == "__main__":
    daemon.main(__file__)
