#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A user who takes all he can get of the system's verbenad, and what is left for others (docs/security.md)."""

import os
import resource
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))

from pylib import daemon                                    # noqa: E402
from pylib.daemon import ALICE, BOB, connect, exchange      # noqa: E402

# Everybody shares port 4791 here: what one may have is counted all the same.
CREW = 12399


class Quotas(daemon.IntruderCase):
    def begin(self, *wrapper):
        self.needs_users()
        self.system = self.start_system("--trust-group", str(CREW), wrapper=wrapper)
        self.pid = self.daemons()[0]

    def crew(self, uid):
        return self.intruder(uid=uid, gid=CREW)

    def alice_is_served(self):
        one, other = self.peers(2, uid=ALICE, gid=CREW)
        connect(one, other)
        exchange(one)

    def memory(self, what):
        with open("/proc/%d/status" % self.pid) as status:
            return next(int(line.split()[1]) for line in status if line.startswith(what + ":"))

    def test_slots(self):
        """Half of what others leave, and somebody else has half of the rest."""
        self.begin()
        bob = self.crew(BOB)
        words = self.ask(bob, "open", 1023)
        self.assertEqual(words[:2], ["refused", "512"])
        self.assertIn("half of what other users leave", " ".join(words))
        self.alice_is_served()
        # What is given back can be had again.
        bob.popen.kill()
        self.until(lambda: self.ask(self.crew(BOB), "open", 1)[0] == "open", "bob has one again")

    def test_lanes(self):
        """Of 256."""
        self.begin()
        bob, alice = self.crew(BOB), self.crew(ALICE)
        self.assertEqual(self.ask(bob, "open", 40)[0], "open")
        words = self.ask(bob, "lanes", 7)
        self.assertEqual(words[:2], ["refused", "128"])
        self.assertIn("half of what other users leave", " ".join(words))
        self.assertEqual(self.ask(alice, "open", 20)[0], "open")
        self.assertEqual(self.ask(alice, "lanes", 7)[:2], ["refused", "64"])
        self.alice_is_served()
        # They go with their slots.
        bob.popen.kill()
        bob = self.crew(BOB)
        slot = self.ask(bob, "open", 1)[1]
        self.until(lambda: self.ask(bob, "lane", slot, 1)[0] == "lane", "bob has one again")

    def test_connections(self):
        """verbenad has 512 descriptors here."""
        self.begin("prlimit", "--nofile=512")
        bob = self.crew(BOB)
        words = self.ask(bob, "flood", 300, 1)
        self.assertEqual(words[0], "refused", words)
        self.assertLess(int(words[1]), 100)
        self.alice_is_served()

    def test_no_descriptors_are_left(self):
        """Root is not held back. verbenad turns away who comes, does not run in circles meanwhile, and goes on afterwards."""
        self.begin("prlimit", "--nofile=512")
        root = self.intruder(uid=0)
        self.assertEqual(self.ask(root, "open", 400)[0], "refused")
        self.assertEqual(self.ask(root, "flood", 400, 1)[0], "refused")
        self.until(self.sleeps, "verbenad sleeps")
        root.popen.kill()
        root.popen.wait()
        self.until(lambda: self.ask(self.crew(BOB), "open", 1)[0] == "open", "others are served again")
        self.alice_is_served()

    def test_an_heir_without_descriptors(self):
        """What processes show to a new verbenad does not fit. They are told, keep what they have, and come again until it does."""
        self.begin()
        one, other = self.peers(2, uid=ALICE, gid=CREW)
        connect(one, other)
        told = ""
        for more in (2, 4, 6):
            for peer in (one, other):
                os.kill(peer.pid, signal.SIGSTOP)
            self.kill_daemon()
            heir = self.start_system("--trust-group", str(CREW))
            pid = self.daemons()[0]
            self.until(lambda: self.sleeps(pid), "it has opened what it needs")
            _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            # Its sockets have numbers from 128 on: so many others are left.
            low = sum(int(number) < 128 for number in os.listdir("/proc/%d/fd" % pid))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (low + more, most))
            for peer in (one, other):
                os.kill(peer.pid, signal.SIGCONT)
            # With six it is the memory that they share for which there is none, when the slot has been taken over.
            self.until(lambda: "no descriptors are left" in heir.output() or "is free again" in heir.output() or len(one.processes()) == 2,
                       "it is short of descriptors, or had enough after all")
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
            self.until(lambda: len(one.processes()) == 2, "both are back")
            exchange(one)
            exchange(other)
            told += heir.output()
        self.assertIn("no descriptors are left for what pid", told)

    def sleeps(self, pid=None):
        """One that runs in circles never does."""
        with open("/proc/%d/stat" % (pid or self.pid)) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "S"

    def test_who_says_nothing_is_dropped(self):
        self.begin()
        alice = self.peer(uid=ALICE, gid=CREW).ready()
        self.assertEqual(self.ask(self.crew(BOB), "silent", 50), ["dropped"])
        self.assertEqual(len(alice.processes()), 1)

    def test_who_does_not_read(self):
        """What waits for him is limited, and its memory is given back."""
        self.begin()
        for i in range(60):
            self.host.ip("addr", "add", "10.78.0.%d/32" % (i + 1), "dev", "lo")
        before = self.memory("VmRSS")
        bob = self.crew(BOB)
        bob.say("flood", 60, 4000)
        bob.hear("flooded")
        self.assertLess(self.memory("VmHWM"), before + 80 * 1024)
        self.alice_is_served()
        bob.popen.kill()
        bob.popen.wait()
        # AddressSanitizer's allocator keeps what it had.
        if not self.is_sanitized():
            self.until(lambda: self.memory("VmRSS") < before + 12 * 1024, "its memory is given back")


if __name__ == "__main__":
    daemon.main(__file__)
