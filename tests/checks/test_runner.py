# SPDX-License-Identifier: MIT
"""What tests/run does with a test that fails: once more, alone; a crash or a sanitizer's finding never; few that pass then."""

import io
import unittest

from pylib.cases import CaseRunner, flatten
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
    runner = CaseRunner(report, 1)
    for case in flatten(unittest.TestSuite(scene(count, words) for count in failures)):
        if runner.one(case) == "again":
            runner.again(case)
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
