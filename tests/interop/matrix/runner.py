# SPDX-License-Identifier: MIT
"""Runs cases and judges them.

A case is tried once. Only a guest whose kernel panicked is no verdict about us: it is said, the guest boots again, and the case runs again.
"""

import threading
import time

from pylib import hosts

from . import cases

MOST_PANICS = 3                         # of one case; then it is the case that has to be looked at


class Watch:
    """While a case runs: when the guest is gone, nobody waits for an answer any more."""

    def __init__(self, rig, *sides):
        self.rig, self.sides = rig, sides
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self):
        while not self.over.wait(0.25):
            if not self.rig.guest_lives():
                for side in self.sides:
                    side.close()
                return

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Matrix:
    def __init__(self, rig, ours, kernel, log):
        self.rig, self.ours, self.kernel, self.log = rig, ours, kernel, log
        self.mtu, self.build = 1500, "plain"             # of the guest's: MTU, and of siw the build that is loaded
        self.passed, self.failed, self.panics = 0, [], 0

    def prepare(self, case):
        if case.mtu != self.mtu:
            self.rig.set_mtu(self.kernel, case.mtu)
            self.mtu = case.mtu
        if case.build and case.build != self.build:
            self.kernel.run("siw-variant " + case.build)
            self.build = case.build

    def disturb(self, case, verb):
        if case.disturbance:
            device, netem = case.disturbance
            self.kernel.run("tc qdisc %s dev %s root%s" % (verb, device, " netem " + netem if verb == "add" else ""))

    def attempt(self, case, server, client):
        """("ok" or "FAIL", what there is to say)"""
        self.ours.explanations()
        try:
            with Watch(self.rig, self.ours, self.kernel):
                self.prepare(case)
                self.disturb(case, "add")
                said = case.run(server, client) or ""
                self.close()
                self.disturb(case, "del")
                return "ok", said
        except (cases.Failed, hosts.HostError) as problem:
            self.close()
            if self.rig.guest_lives():
                self.disturb(case, "del")
            said = self.ours.explanations()
            return "FAIL", str(problem) + ("\n\nverbena says:\n" + said if said else "")

    def close(self):
        self.ours.close()
        self.kernel.close()

    def boot_again(self):
        """The guest is gone. True: its kernel panicked, which is no verdict about the case."""
        panic = self.rig.panic()
        self.log.write("==== the guest has ended; its console:\n%s\n\n" % self.rig.console())
        print("   the guest %s; it boots again" % ("panicked: " + panic if panic else "has ended, without a panic"), flush=True)
        self.panics += 1 if panic else 0
        self.rig.up()
        self.mtu, self.build = None, "plain"
        return panic is not None

    def one(self, case, who):
        server, client = (self.kernel, self.ours) if who == "verbena" else (self.ours, self.kernel)
        direction = "verbena -> kernel" if who == "verbena" else "kernel -> verbena"
        began, (ran, waited) = time.monotonic(), self.rig.guest_times()
        for tries in range(1, MOST_PANICS + 2):
            word, said = self.attempt(case, server, client)
            if self.rig.guest_lives():
                break
            if not self.boot_again() or word == "ok":
                break
        if word == "ok":
            self.passed += 1
        else:
            self.failed.append("%s, %s" % (case.name, direction))
            self.log.write("==== %s, %s\n%s\n\n" % (case.name, direction, said))
            self.log.flush()
            said = self.starving(ran, waited)
        tried = "1 try" if tries == 1 else "%d tries" % tries
        print("%-48s %-18s %-5s %5.1f s  %s  %s" % (case.name, direction, word, time.monotonic() - began, tried, said), flush=True)

    def starving(self, ran, waited):
        """Beside a failure: programs with timeouts of their own fail when the guest does not get a processor."""
        ran, waited = (max(now - then, 0) for now, then in zip(self.rig.guest_times(), (ran, waited)))
        return "the guest waited for a processor %d %% of the time it wanted one" % (100 * waited / max(ran + waited, 0.001))

    def summary(self):
        lines = ["%d passed, %d failed%s" % (self.passed, len(self.failed),
                                             "; the guest's kernel panicked %d times" % self.panics if self.panics else "")]
        return "\n".join(lines + ["  " + name for name in self.failed])
