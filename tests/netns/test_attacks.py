#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a peer with a good queue pair, and other users of its host and of ours, try: keys that they were not given, questions about
queue pairs that are not theirs, packets in the peer's name (docs/security.md). Alice's processes are those of attacked.c."""

import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from pylib import daemon                                    # noqa: E402
from pylib.daemon import ALICE, BOB                         # noqa: E402

REM_ACCESS_ERR, ERROR = 10, 6                               # ibv_wc_status, ibv_qp_state
NO_PROCESS, NO_QP, OTHER_PEER, YOUR_PEER, OTHER_PSN, NOT_TOLD, LIVES = 1, 2, 4, 5, 7, 8, 9     # src/wire/inquiry.h
AT_ONCE = 32                                                # that are told without proof
NEAR, FAR = "10.77.0.1", "10.77.0.2"


class Attacked(daemon.Peer):
    def __init__(self, test, host, address, uid=ALICE):
        super().__init__(test, host, address, uid=uid, program=test.peer_path,
                         environment={"LD_LIBRARY_PATH": test.directory, "VERBENA_WIRE": "rocev2"})
        self.address = address
        self.hear("ready")

    def ask(self, *words):
        self.say(*words)
        return self.hear()

    def make_pair(self):
        self.qpn, self.psn = map(int, self.ask("pair")[1:])

    def keys(self, which):
        numbers = [int(word) for word in self.ask(which)[1:]]
        return list(zip(numbers[::2], numbers[1::2]))


def join(one, other):
    for side in (one, other):
        side.make_pair()
    for side, peer in ((one, other), (other, one)):
        side.test.assertEqual(side.ask("connect", peer.address, peer.qpn, peer.psn), ["connected"])


class Attacks(daemon.DaemonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        library = os.path.join(os.path.dirname(os.path.realpath(daemon.programs[0])), "..", "lib", "libibverbs.so.1")
        for path in (library, os.path.join(HERE, "injector.py")):
            copy = shutil.copy(path, cls.directory)
            os.chmod(copy, 0o755)

    def setUp(self):
        super().setUp()
        self.needs_users()
        self.needs_tables()

    def two_hosts(self):
        """Alice's victim, her process on the other host, and that host."""
        near, far = self.network.pair()
        for host in (near, far):
            # A rule that looks at packets sees each of them.
            for feature in ("tx-udp-segmentation", "gso", "gro"):
                host.run("ethtool", "-K", "eth0", feature, "off", privileged=True)
            self.host = host
            self.start_system()
        self.host = near
        return Attacked(self, near, NEAR), Attacked(self, far, FAR), far

    def one_host(self):
        self.start_system()
        return Attacked(self, self.host, "127.0.0.1"), Attacked(self, self.host, "127.0.0.1"), self.host

    def injector(self, host, source, destination, uid=BOB):
        injector = daemon.Peer(self, host, source, destination, uid=uid, program=os.path.join(self.directory, "injector.py"))
        injector.hear("ready")
        return injector

    # ---- keys ----

    @staticmethod
    def guesses(keys):
        """What those who hold these keys may think of: neighbours, other bits, and the series gone on with."""
        last = keys[-1]
        found = {key + step for key in keys[-2:] for step in (-256, -1, 1, 256)}
        found |= {last ^ 1 << bit for bit in range(0, 32, 3)}
        found |= {2 * last - key for key in keys[:6]} | {last + keys[i + 1] - keys[i] for i in range(6)}
        return sorted({key % (1 << 32) for key in found} - set(keys))

    def guess(self, victim, peer):
        given, kept = victim.keys("keys"), victim.keys("kept")
        for i, key in enumerate(self.guesses([key for _, key in given])):
            join(victim, peer)
            # It is a good one, as long as its user keeps to what was given.
            self.assertEqual(peer.ask("write", given[0][1], given[0][0]), ["completed", "0"])
            self.assertEqual(peer.ask("write", key, kept[i % len(kept)][0]), ["completed", str(REM_ACCESS_ERR)])
            self.assertEqual(peer.ask("state"), ["state", str(ERROR)])
            self.until(lambda: victim.ask("state") == ["state", str(ERROR)], "the victim's queue pair has ended")
            self.assertEqual(victim.ask("whole"), ["whole", "yes"])
        # A key of a region whose neighbour is asked for.
        join(victim, peer)
        self.assertEqual(peer.ask("write", given[0][1], kept[0][0]), ["completed", str(REM_ACCESS_ERR)])
        self.assertEqual(victim.ask("whole"), ["whole", "yes"])
        self.assertFalse({key for _, key in given} & {key for _, key in kept})

    def test_guessed_keys_from_the_peers_host(self):
        victim, peer, _ = self.two_hosts()
        self.guess(victim, peer)

    def test_guessed_keys_from_this_host(self):
        """By another user."""
        victim, _, host = self.one_host()
        self.guess(victim, Attacked(self, host, "127.0.0.1", uid=BOB))

    # ---- inquiries ----

    def answer(self, injector, *question):
        """(status, all that was said)."""
        injector.say("ask", *question)
        _, status, told = injector.hear("answer")
        return int(status), told

    def inquire(self, victim, peer, host):
        join(victim, peer)
        bob = self.injector(host, peer.address, victim.address)
        unused, elsewhere = victim.qpn ^ 1 << 12, victim.qpn ^ 1 << 23
        questions = {
            OTHER_PEER: (victim.qpn, peer.qpn ^ 1, 0, 0, 0),
            NO_QP: (unused, peer.qpn, 0, 0, 0),
            OTHER_PSN: (victim.qpn, peer.qpn, peer.psn ^ 0x5a5, victim.psn ^ 0x5a5, 0),
        }
        for expected, question in questions.items():
            status, told = self.answer(bob, *question)
            self.assertEqual(status, expected)
            # Status, state and kind, and nothing else.
            self.assertEqual(told[24:], "0" * len(told[24:]))
        # When so many have been told each hears the same, whatever there is.
        bob.say("hurry", AT_ONCE + 8, unused)
        bob.hear("hurried")
        heard = set()
        for question in questions.values():
            self.until(lambda: self.answer(bob, *question)[0] == NOT_TOLD, "enough have been told")
            status, told = self.answer(bob, *question)
            if status == NOT_TOLD:          # otherwise four seconds have passed
                heard.add(told)
        self.assertLessEqual(len(heard), 1)
        # The peer is told all the same, which knows where the two began.
        proof = self.injector(host, peer.address, victim.address, uid=ALICE)
        self.assertEqual(self.answer(proof, victim.qpn, peer.qpn, peer.psn, victim.psn, 0)[0], YOUR_PEER)
        # verbenad says that the process lives, of all its numbers alike.
        lives = self.answer(bob, 1, 0, 0, 0, victim.qpn)
        self.assertEqual(lives[0], LIVES)
        self.assertEqual(self.answer(bob, 1, 0, 0, 0, unused), lives)
        self.assertEqual(self.answer(bob, 1, 0, 0, 0, elsewhere)[0], NO_PROCESS)
        self.assertEqual(self.answer(bob, elsewhere, 0, 0, 0, 0)[0], NO_PROCESS)

    def test_questions_from_the_peers_host(self):
        self.inquire(*self.two_hosts())

    def test_questions_from_this_host(self):
        self.inquire(*self.one_host())

    # ---- packets in the peer's name ----

    def counter(self, victim, name):
        verbena = os.path.join(os.path.dirname(os.path.realpath(daemon.programs[0])), "verbena")
        told = self.host.run(verbena, "stat", "--all", "--json", "--pid", str(victim.pid), privileged=True).out
        return json.loads(told[told.index("["):])[0]["counters"][name]

    def rule(self, *words):
        done = self.host.run("nft", *words, privileged=True)
        self.assertEqual(done.code, 0, done)

    def test_forged_packets_beside_those_that_are_kept(self):
        """The first packet of some is lost, again and again, and those behind it wait in the receiver (roce/reorder.c). Bob, on the peer's
        host, sends others with their PSNs. Neither is taken: they are asked for when the first has come."""
        count, forged = 12, 5
        victim, peer, far = self.two_hosts()
        join(victim, peer)
        bob = self.injector(far, FAR, NEAR)
        self.rule("add table ip losses")
        self.rule("add chain ip losses coming { type filter hook prerouting priority -300 ; }")
        self.rule("add rule ip losses coming udp dport 4791 @th,136,24 %d drop" % peer.psn)
        peer.say("send", count)
        self.until(lambda: self.counter(victim, "out_of_seq_request") >= count - 1, "those behind it have come")
        self.assertEqual(self.counter(victim, "conflicting_request"), 0)
        for i in range(forged):
            bob.say("send", victim.qpn, (peer.psn + 2 + 2 * i) % (1 << 24), 512, 0xbd)
            bob.hear("sent")
        self.until(lambda: self.counter(victim, "conflicting_request") == forged, "each is noticed")
        self.assertEqual(victim.ask("receive"), ["received", "0", "0"])
        self.rule("flush chain ip losses coming")
        peer.hear("sent", "0")
        self.until(lambda: victim.ask("receive")[1] == str(count), "all have come")
        self.assertEqual(victim.ask("receive"), ["received", str(count), "0"])
        # The connection goes on.
        self.assertEqual(peer.ask("send", count), ["sent", "0"])
        self.until(lambda: victim.ask("receive") == ["received", str(2 * count), "0"], "and so do others")


if __name__ == "__main__":
    daemon.main(__file__)
