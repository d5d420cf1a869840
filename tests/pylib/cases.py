# SPDX-License-Identifier: MIT
"""Running unittest cases side by side: each in a thread, each with its own result, all told to one report.

Cases of different classes run beside each other: where each class waited for the last of the one before, a processor had nothing to do
for as long as that one case took. How many at a time follows from what they are. Two programs that answer each other and poll want a core
each, for as long as the case takes (`cores` is 2); others poll for a moment and prepare for most of their time, or one of two polls (1). All
the rest wait, for timers of the programs and of the protocol: a tenth of a second of work in several seconds is common. There are several of
them for each core.

What fails runs once more when all are through, by itself: a machine that stops for a while, as shared ones do, is told from a mistake that
way. It is reported as unsteady if it passes then. What a build with assertions says of locks is a mistake each time.
"""

import collections
import concurrent.futures
import io
import threading
import time
import traceback
import unittest


class _Result(unittest.TestResult):
    """Remembers the verdict on a single case; a failing subtest fails its case."""

    def __init__(self):
        super().__init__()
        self.outcome, self.detail = "passed", None

    def _bad(self, error):
        self.outcome = "failed"
        kind, value, trace = error
        if issubclass(kind, AssertionError):
            text = str(value)
        else:
            stream = io.StringIO()
            traceback.print_exception(kind, value, trace, file=stream)
            text = stream.getvalue()
        self.detail = text if self.detail is None else self.detail + "\n" + text

    def addError(self, test, error):
        self._bad(error)

    def addFailure(self, test, error):
        self._bad(error)

    def addSubTest(self, test, subtest, error):
        if error:
            self._bad(error)

    def addSkip(self, test, reason):
        self.outcome, self.detail = "skipped", reason


def may_be_chance(detail):
    """Not a lock that was waited for out of order (base/lock_order.c), whoever noticed."""
    return "verbena: lock order:" not in (detail or "")


def flatten(suite):
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from flatten(entry)
        else:
            yield entry


def cores(case):
    """How many it keeps busy: `cores` of the method, CORES of the class, or 0, part of one."""
    return getattr(getattr(case, case._testMethodName), "cores", getattr(case, "CORES", 0))


def name_of(case):
    return case.id().split(".", 1)[-1]


# Cases that wait for most of their time, for each core.
WAITING_PER_CORE = 3


class Cores:
    """What is left of the machine for another case, in parts of a core. With one job cases take turns, whatever they do."""

    def __init__(self, jobs):
        self.parts = WAITING_PER_CORE if jobs > 1 else 1
        self.all = self.free = jobs * self.parts
        self.changed = threading.Condition()

    def wanted(self, case):
        return min(cores(case) * self.parts, self.all) or 1

    def take(self, parts):
        with self.changed:
            self.changed.wait_for(lambda: self.free >= parts)
            self.free -= parts

    def give(self, parts):
        with self.changed:
            self.free += parts
            self.changed.notify()


class Family:
    """The cases of one class: told of in one line, when the last of them is through."""

    def __init__(self, name):
        self.name, self.outcomes, self.again = name, collections.Counter(), []
        self.members = self.seconds = 0


class CaseRunner:
    def __init__(self, report, jobs):
        self.report, self.jobs = report, jobs
        self.lock, self.told = threading.Lock(), 0

    def run(self, directory, pattern=None, only=("",)):
        """Of the cases there those whose name has one of `only` in it."""
        loader = unittest.TestLoader()
        self.run_cases([case for case in flatten(loader.discover(directory, top_level_dir=directory))
                        if (not pattern or pattern in case.id()) and any(part in case.id() for part in only)])

    def run_cases(self, cases):
        self.families, self.told = collections.OrderedDict(), 0
        for case in cases:
            self.family(case).members += 1
        self.side_by_side(cases)
        for family in self.families.values():
            for case in family.again:
                self.through(family, case, *self.timed(self.again, case))

    def family(self, case):
        name = case.id().rsplit(".", 1)[0]
        return self.families.setdefault(name, Family(name))

    def side_by_side(self, cases):
        # First those that want most of the machine: between others they would wait for it to be empty each time.
        machine, pool = Cores(self.jobs), concurrent.futures.ThreadPoolExecutor(self.jobs * WAITING_PER_CORE)
        running = []
        try:
            for case in sorted(cases, key=cores, reverse=True):
                parts = machine.wanted(case)
                machine.take(parts)
                running.append(pool.submit(self.first, case, machine, parts))
            for future in running:
                future.result()
        finally:
            # Interrupted, we do not wait: whoever catches it ends what the cases have started, and so the cases.
            pool.shutdown(wait=False, cancel_futures=True)

    def first(self, case, machine, parts):
        try:
            outcome, seconds = self.timed(self.one, case)
        finally:
            machine.give(parts)
        self.through(self.family(case), case, outcome, seconds)

    @staticmethod
    def timed(call, case):
        began = time.monotonic()
        return call(case), time.monotonic() - began

    def through(self, family, case, outcome, seconds):
        with self.lock:
            family.seconds += seconds
            if outcome == "again":
                family.again.append(case)
                return
            family.outcomes[outcome] += 1
            if sum(family.outcomes.values()) == family.members:
                self.told += 1
                self.report.progress(self.told, len(self.families), family.name, family.outcomes, family.seconds)

    def one(self, case, told_already=False):
        result, began = _Result(), time.monotonic()
        case.run(result)
        if result.outcome == "failed" and not told_already and may_be_chance(result.detail):
            self.report.runs_again(name_of(case), result.detail)
            return "again"
        self.report.case(name_of(case), result.outcome, time.monotonic() - began, result.detail)
        return result.outcome

    def again(self, case):
        outcome = self.one(case, told_already=True)
        if outcome == "passed":
            self.report.unsteady(name_of(case))
        return outcome
