# SPDX-License-Identifier: MIT
"""Running unittest cases side by side: each in a thread, each with its own result, all told to one report.

What fails runs once more when the others of its class are through, by itself: a machine that stops for a while, as shared ones
do, is told from a mistake that way. It is reported as unsteady if it passes then. What a build with assertions says of locks is a
mistake each time.
"""

import collections
import concurrent.futures
import io
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


def name_of(case):
    return case.id().split(".", 1)[-1]


class CaseRunner:
    def __init__(self, report, jobs):
        self.report, self.jobs = report, jobs

    def run(self, directory, pattern=None, only=("",)):
        """Of the cases there those whose name has one of `only` in it."""
        loader = unittest.TestLoader()
        cases = [case for case in flatten(loader.discover(directory, top_level_dir=directory))
                 if (not pattern or pattern in case.id()) and any(part in case.id() for part in only)]
        if not cases:
            return
        families = collections.OrderedDict()
        for case in cases:
            families.setdefault(case.id().rsplit(".", 1)[0], []).append(case)
        for number, (family, members) in enumerate(families.items(), 1):
            began = time.monotonic()
            outcomes = self.side_by_side(members)
            for index, (case, outcome) in enumerate(zip(members, outcomes)):
                if outcome == "again":
                    outcomes[index] = self.again(case)
            self.report.progress(number, len(families), family, collections.Counter(outcomes), time.monotonic() - began)

    def side_by_side(self, members):
        # Programs that poll want a core each: two of them to a case.
        at_once = max(1, self.jobs // 2) if getattr(members[0], "POLLS", False) else self.jobs
        pool = concurrent.futures.ThreadPoolExecutor(at_once)
        try:
            return list(pool.map(self.one, members))
        finally:
            # Interrupted, we do not wait: whoever catches it ends what the cases have started, and so the cases.
            pool.shutdown(wait=False, cancel_futures=True)

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
