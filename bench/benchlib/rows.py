# SPDX-License-Identifier: MIT
"""Rows: what is measured, one figure or a few at a time, and how often.

A section (programs, wire, applications and so on) is a list of rows. `measure` goes through all of them, then again from the start, so that a
machine that slows down slows every row; `compare` does so with two builds, one beside the other. A row that fails is shown as failed, with the
reason, and is not tried again; the others go on.
"""

import itertools
import math
import os
import statistics
import sys

from benchlib import BenchFailed, PROGRAM_PATHS
from pylib import hosts

FAILED = math.nan


class Row:
    def __init__(self, keys, measure, better=None, needs=()):
        """keys: one, or a list where `measure` returns as many figures. better: "more" or "less" (a list where it is not the same for all),
        None for a peer's figure, which does not depend on our code. needs: programs that must be installed."""
        self.keys = keys if isinstance(keys, list) else [keys]
        self.better = better if isinstance(better, list) else [better] * len(self.keys)
        self.measure, self.needs = measure, needs

    def figures(self):
        """[(key, figure)]; BenchFailed where there is none."""
        missing = [name for name in self.needs if not installed(name)]
        if missing:
            raise BenchFailed("%s is not installed" % " and ".join(missing))
        found = self.measure()
        return list(zip(self.keys, found if len(self.keys) > 1 else [found]))


def installed(program):
    return any(os.access(os.path.join(folder, program), os.X_OK) for folder in PROGRAM_PATHS)


def missing_programs(rows):
    return sorted({name for row in rows for name in row.needs if not installed(name)})


class Figures:
    """What was measured: lists by key, and the rows that failed with their reasons."""

    def __init__(self):
        self.lists, self.failures = {}, {}

    def take(self, row):
        """Measure a row once. False: it failed, now or before."""
        if any(key in self.failures for key in row.keys):
            return False
        try:
            for key, figure in row.figures():
                self.lists.setdefault(key, []).append(figure)
            return True
        except (BenchFailed, hosts.HostError, OSError, ValueError, IndexError) as problem:
            for key in row.keys:
                self.failures[key] = str(problem) or type(problem).__name__
            print("  failed: %s: %s" % (name_of(row.keys[0]), last_line(problem)), file=sys.stderr)
            return False

    def median(self, key):
        return FAILED if key in self.failures or key not in self.lists else statistics.median(self.lists[key])

    __getitem__ = median


def last_line(problem):
    lines = [line for line in str(problem).strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(problem).__name__


def name_of(key):
    return key if isinstance(key, str) else " ".join(str(word) for word in key)


def measure(rows, repeat, progress=lambda figures: None):
    figures = Figures()
    for _ in range(repeat):
        for row in rows:
            figures.take(row)
        progress(figures)
    return figures


def show_failed(text):
    """The table with "failed" in each cell for which there is no figure."""
    lines = []
    for line in text.splitlines():
        if line.startswith("|") and "nan" in line:
            line = "|".join(" failed " if "nan" in cell else cell for cell in line.split("|"))
        lines.append(line)
    return "\n".join(lines)


# ---- two builds ----

def chance(before, after):
    """How probable it is that equal builds differ as much as this in rank: the two-sided, exact test of Mann and Whitney."""
    everything = before + after
    def rank_sum(chosen):
        # Twice the number of pairs in which the chosen one is larger, ties counting one: whole numbers.
        others = [value for index, value in enumerate(everything) if index not in chosen]
        return sum((everything[index] > value) * 2 + (everything[index] == value) for index in chosen for value in others)
    middle = len(before) * len(after)
    seen = abs(rank_sum(frozenset(range(len(before)))) - middle)
    sums = [abs(rank_sum(frozenset(chosen)) - middle) for chosen in itertools.combinations(range(len(everything)), len(before))]
    return sum(distance >= seen for distance in sums) / len(sums)


def spread(values):
    """Half the distance between the extremes, of the median."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / 2 / middle if middle else 0.0


class Change:
    """One figure of ours, before and after."""

    SIGNIFICANT, NOTICEABLE = 0.05, 0.03

    def __init__(self, key, better, before, after):
        self.key, self.better, self.before, self.after = key, better, before, after
        middle = statistics.median(before)
        self.change = statistics.median(after) / middle - 1 if middle else 0.0
        self.chance = chance(before, after)

    def answer(self):
        if self.better is None:
            return "peer"
        if self.chance > self.SIGNIFICANT or abs(self.change) < self.NOTICEABLE:
            return "same"
        return "better" if (self.change > 0) == (self.better == "more") else "worse"

    def line(self):
        return "| %s | %.4g ± %.0f %% | %.4g ± %.0f %% | %+.1f %% | %.3f | %s |" % (
            name_of(self.key), statistics.median(self.before), 100 * spread(self.before), statistics.median(self.after),
            100 * spread(self.after), 100 * self.change, self.chance, {"worse": "**worse**"}.get(self.answer(), self.answer()))


def compare(before_rows, after_rows, repeat, progress=lambda number: None):
    """(changes, failures {key: reason}): each row with both builds at once, the order changing from round to round."""
    before, after = Figures(), Figures()
    for number in range(repeat):
        for pair in zip(before_rows, after_rows):
            sides = list(zip((before, after), pair))
            for figures, row in sides if number % 2 == 0 else reversed(sides):
                figures.take(row)
        progress(number + 1)
    failures = {**{key: "before: " + last_line(reason) for key, reason in before.failures.items()},
                **{key: "now: " + last_line(reason) for key, reason in after.failures.items()}}
    changes = [Change(key, better, before.lists[key], after.lists[key])
               for row in after_rows for key, better in zip(row.keys, row.better) if key not in failures]
    return changes, failures


def comparison_table(changes, failures, commit):
    lines = ["| | %s | now | change | by chance | |" % commit, "|---|---|---|---|---|---|"]
    lines += [change.line() for change in changes]
    lines += ["| %s | | | | | failed: %s |" % (name_of(key), reason) for key, reason in failures.items()]
    return "\n".join(lines)
