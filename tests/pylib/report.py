# SPDX-License-Identifier: MIT
"""What a test run says: a heading per stage, a line per test program or failing case, one line of totals at the end."""

import collections
import threading
import time


# So many tests of one run may pass only when they run again; more of them fail it.
UNSTEADY_ALLOWED = 2


class StageFailed(Exception):
    """The stage could not run (it does not compile, say)."""


class Report:
    def __init__(self, out, may_skip, verbose=False):
        self.out, self.may_skip, self.verbose = out, may_skip, verbose
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.bad_skips = 0
        self.failures, self.unsteady_names = [], []
        self.began = time.monotonic()
        self.stage = self.stage_began = self.stage_counts = None

    def _line(self, text):
        self.out.write(text + "\n")
        self.out.flush()

    def begin(self, stage):
        with self.lock:
            self.stage, self.stage_began, self.stage_counts = stage, time.monotonic(), collections.Counter()
            self._line("\n== %s" % stage)

    def say(self, text, seconds=None):
        with self.lock:
            self._line("   %s%s" % (text, "" if seconds is None else " (%.1f s)" % seconds))

    def case(self, name, outcome, seconds=None, detail=None, quiet=False):
        """outcome: passed, failed or skipped; detail: what to show when it did not pass."""
        with self.lock:
            self.counts[outcome] += 1
            self.stage_counts[outcome] += 1
            if outcome == "passed" and (quiet or not self.verbose):
                return
            allowed = outcome == "skipped" and any(word in name or word in (detail or "") for word in self.may_skip)
            if outcome == "skipped" and not allowed:
                self.bad_skips += 1
            self._line("   %-8s %s%s" % (outcome.upper() if outcome == "failed" else outcome, name,
                                         "" if seconds is None else " (%.1f s)" % seconds))
            if outcome == "failed":
                self.failures.append("%s: %s" % (self.stage, name))
            if outcome != "passed":
                self._quote(detail)

    def runs_again(self, name, detail):
        """It failed; its verdict is that of a second run."""
        with self.lock:
            self._line("   %s failed and runs again, alone; what it said:" % name)
            self._quote(detail)

    def unsteady(self, name):
        """It passed in that second run; its cases are told besides."""
        with self.lock:
            self.unsteady_names.append("%s: %s" % (self.stage, name))

    def _quote(self, text):
        for line in (text or "").rstrip().splitlines():
            self._line("   | " + line)

    def progress(self, done, total, name, counts, seconds):
        """One test program of several cases is through."""
        with self.lock:
            told = ", ".join("%d %s" % (counts[word], word) for word in ("passed", "failed", "skipped") if counts[word])
            self._line("   [%*d/%d] %-44s %s (%.1f s)" % (len(str(total)), done, total, name, told or "nothing", seconds))

    def end(self):
        with self.lock:
            told = ", ".join("%d %s" % (self.stage_counts[word], word) for word in ("passed", "failed", "skipped")
                             if self.stage_counts[word]) or "no tests"
            self._line("   %s: %s in %.1f s" % (self.stage, told, time.monotonic() - self.stage_began))

    def finish(self):
        with self.lock:
            self._line("")
            for failure in self.failures:
                self._line("failed: " + failure)
            for name in self.unsteady_names:
                self._line("unsteady (passed when it ran again, alone): " + name)
            if len(self.unsteady_names) > UNSTEADY_ALLOWED:
                self._line("more than %d unsteady tests: that is not the machine's doing" % UNSTEADY_ALLOWED)
            if self.bad_skips:
                self._line("%d skipped that should have run on this machine" % self.bad_skips)
            self._line("ran for %.0f s" % (time.monotonic() - self.began))
            self._line("%d passed, %d failed, %d skipped"
                       % (self.counts["passed"], self.counts["failed"], self.counts["skipped"]))
            nothing = not sum(self.counts.values())
            bad = self.counts["failed"] or self.bad_skips or nothing or len(self.unsteady_names) > UNSTEADY_ALLOWED
            return 1 if bad else 0
