# SPDX-License-Identifier: MIT
"""What tests/run does with a test that fails: once more, alone; a crash or a sanitizer's finding never; few that pass then. And how many
cases it runs at a time."""

import io
import threading
import unittest

from pylib.cases import WAITING_PER_CORE, CaseRunner
from pylib.mesontests import may_be_chance
from pylib.report import UNSTEADY_ALLOWED, Report


def scene(failures, words="not yet"):
    """A case that fails so many times and passes from then on."""
    left = [failures]

    class Scene(unittest.TestCase):
        def runTest(self):
            if left[0] > 0:
                left[0] -= 1
                self.fail(words)
    return Scene()


def verdict(*failures, words="not yet"):
    """(exit code, what was printed) of a run of such cases."""
    out = io.StringIO()
    report = Report(out, {})
    report.begin("stage")
    CaseRunner(report, 1).run_cases([scene(count, words) for count in failures])
    report.end()
    return report.finish(), out.getvalue()


class SecondTry(unittest.TestCase):
    def test_passing_is_not_told(self):
        code, text = verdict(0)
        self.assertEqual(code, 0)
        self.assertNotIn("again", text)
        self.assertIn("1 passed, 0 failed, 0 skipped", text)

    def test_one_that_passes_then_is_named(self):
        code, text = verdict(0, 1)
        self.assertEqual(code, 0)
        self.assertIn("| not yet", text)
        self.assertIn("unsteady (passed when it ran again, alone): stage: ", text)
        self.assertIn("2 passed, 0 failed, 0 skipped", text)

    def test_one_that_fails_twice_fails(self):
        code, text = verdict(0, 2)
        self.assertEqual(code, 1)
        self.assertIn("Scene", text)
        self.assertIn("1 passed, 1 failed (", text)
        self.assertIn("1 passed, 1 failed, 0 skipped", text)
        self.assertNotIn("unsteady (", text)

    def test_locks_out_of_order_are_no_chance(self):
        code, text = verdict(1, words="exit code -6\nverbena: lock order: a (0x1) wanted after b (0x2)")
        self.assertEqual(code, 1)
        self.assertIn("0 passed, 1 failed, 0 skipped", text)

    def test_many_fail_the_run(self):
        self.assertEqual(verdict(*[1] * UNSTEADY_ALLOWED)[0], 0)
        self.assertEqual(verdict(*[1] * (UNSTEADY_ALLOWED + 1))[0], 1)

    def test_what_chance_cannot_do(self):
        def failed(returncode, text, result="FAIL"):
            return may_be_chance({"result": result, "returncode": returncode, "stdout": text})
        self.assertTrue(failed(1, "[  FAILED  ] not within 30 seconds"))
        self.assertTrue(failed(-15, "", "TIMEOUT"))
        self.assertFalse(failed(0, "", "OK"))
        self.assertFalse(failed(-11, ""))
        self.assertFalse(failed(99, ""))
        self.assertFalse(failed(1, "WARNING: ThreadSanitizer: data race"))
        self.assertFalse(failed(1, "x.c:3:1: runtime error: shift"))
        self.assertFalse(failed(1, "Test failed with exception: Segmentation fault(11)"))


class SideBySide(unittest.TestCase):
    PATIENCE = 60

    def run_all(self, jobs, act, kinds):
        """Runs a case for each number of cores in kinds; each calls act with it. Returns what was printed."""
        def case(wanted):
            class Act(unittest.TestCase):
                CORES = wanted

                def runTest(self):
                    act(wanted)
            return Act()
        out = io.StringIO()
        report = Report(out, {})
        report.begin("stage")
        CaseRunner(report, jobs).run_cases([case(wanted) for wanted in kinds])
        self.assertEqual(report.finish(), 0, out.getvalue())
        self.assertIn("%d passed, 0 failed, 0 skipped" % len(kinds), out.getvalue())

    def greatest(self, jobs, kinds):
        """How many ran beside one of each kind, at most."""
        lock, now, seen = threading.Lock(), [], {}

        def act(wanted):
            with lock:
                now.append(wanted)
                for kind in now:
                    seen[kind] = max(seen.get(kind, 0), len(now))
            # Who would be let in beside us has the time to come.
            threading.Event().wait(0.01)
            with lock:
                now.remove(wanted)
        self.run_all(jobs, act, kinds)
        return seen

    def test_those_that_wait_run_together(self):
        """As many as there are places meet; if fewer ran at a time none would come to its end."""
        together = threading.Barrier(2 * WAITING_PER_CORE)
        self.run_all(2, lambda _: together.wait(self.PATIENCE), [0] * 2 * WAITING_PER_CORE)

    def test_no_more_than_the_cores(self):
        seen = self.greatest(2, [0, 2, 0, 1, 2, 1, 0, 0, 1] * 3)
        self.assertEqual(seen[2], 1)
        # Beside one that keeps a core busy: another, or those that wait on the other core.
        self.assertLessEqual(seen[1], 1 + WAITING_PER_CORE)
        self.assertLessEqual(seen[0], 2 * WAITING_PER_CORE)

    def test_in_turns(self):
        """One job, as for what is measured: one at a time, whatever it is."""
        self.assertEqual(self.greatest(1, [0, 1, 2] * 3), {0: 1, 1: 1, 2: 1})
