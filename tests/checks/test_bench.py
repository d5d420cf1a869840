# SPDX-License-Identifier: MIT
"""What bench/run does with rows: failures are shown and stop nothing, missing programs are named, and chance is told from a change."""

import contextlib
import io
import os
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "bench"))

from benchlib import BenchFailed, rows                      # noqa: E402


def counted(values):
    """A measurement that yields these one after the other."""
    left = iter(values)
    return lambda: next(left)


def broken():
    raise BenchFailed("first line\nthe peer went away")


class Quiet(unittest.TestCase):
    """Rows say on standard error that they failed."""

    def setUp(self):
        self.enterContext(contextlib.redirect_stderr(io.StringIO()))


class Measuring(Quiet):
    def test_medians_of_rounds(self):
        figures = rows.measure([rows.Row("a", counted([3, 1, 2])), rows.Row(["b", "c"], lambda: (10, 20))], 3)
        self.assertEqual([figures["a"], figures["b"], figures["c"]], [2, 10, 20])

    def test_a_row_that_fails_is_shown_and_the_others_go_on(self):
        figures = rows.measure([rows.Row("a", broken), rows.Row("b", lambda: 7)], 2)
        self.assertEqual(figures["b"], 7)
        self.assertEqual(rows.last_line(figures.failures["a"]), "the peer went away")
        table = "| row | %.1f Gb/s | %.2f × | %.1f |" % (figures["a"], figures["a"] / figures["b"], figures["b"])
        self.assertEqual(rows.show_failed(table), "| row | failed | failed | 7.0 |")

    def test_one_failure_of_several_rounds_is_a_failure(self):
        tries = []

        def second_fails():
            tries.append(1)
            if len(tries) == 2:
                raise BenchFailed("gone")
            return 1.0
        figures = rows.measure([rows.Row("a", second_fails)], 3)
        self.assertIn("a", figures.failures)
        self.assertEqual(len(tries), 2)

    def test_a_missing_program_is_named(self):
        row = rows.Row("a", lambda: 1, needs=("no-such-program-anywhere",))
        self.assertEqual(rows.missing_programs([row]), ["no-such-program-anywhere"])
        self.assertIn("no-such-program-anywhere is not installed", rows.measure([row], 1).failures["a"])


class Comparing(Quiet):
    def change(self, before, after, better="more"):
        rounds = len(before)
        changes, failures = rows.compare([rows.Row("a", counted(before), better)], [rows.Row("a", counted(after), better)], rounds)
        self.assertFalse(failures)
        return changes[0]

    def test_exact_chances(self):
        # Two of the 252 ways to choose five of ten are as far apart as this.
        self.assertAlmostEqual(rows.chance([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 2 / 252)
        self.assertEqual(rows.chance([1, 2, 3], [1, 2, 3]), 1.0)

    def test_a_slower_build_is_worse(self):
        before, after = [10, 10.1, 9.9, 10.2, 9.8], [9, 9.1, 8.9, 9.2, 8.8]
        self.assertEqual(self.change(before, after).answer(), "worse")
        self.assertEqual(self.change(before, after, "less").answer(), "better")

    def test_figures_of_one_row_may_differ_in_what_is_better(self):
        before, after = [10, 10.1, 9.9, 10.2, 9.8], [9, 9.1, 8.9, 9.2, 8.8]
        rows_of = [rows.Row(["a", "b"], counted([(value, value) for value in side]), ["less", "more"]) for side in (before, after)]
        changes, failures = rows.compare([rows_of[0]], [rows_of[1]], 5)
        self.assertFalse(failures)
        self.assertEqual([change.answer() for change in changes], ["better", "worse"])

    def test_noise_is_the_same(self):
        self.assertEqual(self.change([10, 12, 8, 11, 9], [9, 11, 7, 12, 8.5]).answer(), "same")

    def test_little_is_the_same_however_certain(self):
        self.assertEqual(self.change([10, 10, 10, 10, 10], [9.9, 9.9, 9.9, 9.9, 9.9]).answer(), "same")

    def test_a_peer_is_never_judged(self):
        self.assertEqual(self.change([10] * 5, [5] * 5, None).answer(), "peer")

    def test_order_changes_from_round_to_round(self):
        order = []
        rows.compare([rows.Row("a", lambda: order.append("before") or 1)], [rows.Row("a", lambda: order.append("now") or 1)], 2)
        self.assertEqual(order, ["before", "now", "now", "before"])

    def test_a_failure_of_either_build_is_told(self):
        changes, failures = rows.compare([rows.Row("a", lambda: 1)], [rows.Row("a", broken)], 3)
        self.assertEqual((changes, failures), ([], {"a": "now: the peer went away"}))
        self.assertIn("| a | | | | | failed: now: the peer went away |", rows.comparison_table(changes, failures, "abc"))
