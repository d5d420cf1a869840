# SPDX-License-Identifier: MIT
"""Running meson's tests and counting the cases inside them: cmocka's, TAP's, Python's unittest; else a program is one."""

import collections
import json
import os
import re
import subprocess

from pylib.report import StageFailed

RUN = re.compile(r"^\[ RUN +\] (\S+)", re.M)
OUTCOME = re.compile(r"^\[ +(OK|FAILED|SKIPPED|ERROR) +\] (\w+)\s*$", re.M)
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in", re.M)
UNITTEST_END = re.compile(r"^(?:OK|FAILED)(?: \((.*)\))?$", re.M)
SKIPPED = re.compile(r"^.*\.\.\. skipped .*$", re.M)
SANITIZER_EXIT = 99
FINDING = re.compile(r"Sanitizer|runtime error:|failed with exception")
TAP = re.compile(r"^(ok|not ok)\b[^#\n]*(#\s*skip)?", re.M | re.I)


def count_cases(text, result):
    """Counter of passed, failed, skipped for one program's output and meson's verdict on it."""
    counts = collections.Counter()
    started = RUN.findall(text)
    if started:
        outcome = {name: word for word, name in OUTCOME.findall(text)}
        for name in started:
            # No verdict: it crashed in this one; or a child that was to be killed had begun it, and the program is content.
            word = outcome.get(name, "FAILED")
            if name not in outcome and result == "OK":
                continue
            counts[{"OK": "passed", "SKIPPED": "skipped"}.get(word, "failed")] += 1
    elif UNITTEST_RAN.search(text):
        ran = int(UNITTEST_RAN.search(text).group(1))
        end = UNITTEST_END.search(text)
        words = dict(re.findall(r"(\w+)=(\d+)", (end.group(1) or "") if end else ""))
        counts["failed"] = int(words.get("failures", 0)) + int(words.get("errors", 0))
        counts["skipped"] = int(words.get("skipped", 0))
        counts["passed"] = ran - counts["failed"] - counts["skipped"]
    elif TAP.search(text) and re.search(r"^1\.\.\d+", text, re.M):
        for word, skip in TAP.findall(text):
            counts["skipped" if skip else "passed" if word.lower() == "ok" else "failed"] += 1
    if result == "SKIP":
        return collections.Counter(skipped=max(1, sum(counts.values())))
    if result not in ("OK", "EXPECTEDFAIL") and not counts["failed"]:
        counts["failed"] += 1
    elif not counts:
        counts["passed"] = 1
    return counts


def own_name(result):
    """A test's name as its meson.build has it: logs say "suite / NAME", those of newer mesons "suite - project:NAME"."""
    return re.split(r" / | - [^ /]*:", result["name"])[-1]


def output_of(result):
    return (result.get("stdout") or "") + "\n" + (result.get("stderr") or "")


def may_be_chance(result):
    """Did it fail in a way that a machine which stops for a while can cause? No crash is that, and no finding of a sanitizer."""
    crashed = result["result"] == "FAIL" and result["returncode"] not in range(SANITIZER_EXIT)
    return result["result"] in ("FAIL", "TIMEOUT") and not crashed and not FINDING.search(output_of(result))


class MesonTests:
    def __init__(self, path, jobs, report):
        self.path, self.jobs, self.report = path, jobs, report

    def chosen(self, suites, pattern, without=(), only=("",)):
        """Tests that belong to one of the suites, as meson describes them."""
        listed = json.loads(subprocess.run(["meson", "introspect", "--tests", self.path], check=True, text=True,
                                           capture_output=True).stdout)
        for test in listed:
            mine = {suite.split(":")[-1] for suite in test["suite"]}
            if mine & set(suites) and (not pattern or pattern in test["name"]) \
                    and not test["name"].startswith(tuple(without)) and test["name"].startswith(tuple(only)):
                yield test

    def names(self, *which):
        """By meson's own name."""
        return sorted({test["name"] for test in self.chosen(*which)})

    def depends(self, *which):
        """What must be built for them: meson's ids of programs and libraries."""
        return {target for test in self.chosen(*which) for target in test["depends"]}

    def run(self, suites, pattern=None, environment=None, wrapper=(), slower=1, without=(),
            only=("",)):
        names = self.names(suites, pattern, without, only)
        if not names:
            return
        argv = ["meson", "test", "-C", self.path, "--no-rebuild", "--timeout-multiplier", str(slower), "--logbase", "verbena"]
        if wrapper:
            argv.append("--wrapper=" + " ".join(wrapper))
        log = os.path.join(self.path, "meson-logs", "verbena%s.json" % ("-" + wrapper[0] if wrapper else ""))
        environment = {**os.environ, **(environment or {})}
        results = self.results(argv + ["--num-processes", str(self.jobs)] + names, environment, log)
        missing = set(names) - {own_name(result) for result in results}
        for number, result in enumerate(results, 1):
            if may_be_chance(result):
                self.report.runs_again(own_name(result), output_of(result)[-6000:])
                second = self.results(argv + ["--num-processes", "1", own_name(result)], environment, log)
                if second and second[0]["result"] == "OK":
                    self.report.unsteady(own_name(result))
                    result = second[0]
            self.tell(number, len(results), result)
        for name in sorted(missing):
            self.report.case(name, "failed", detail="meson did not run it")

    @staticmethod
    def results(argv, environment, log):
        if os.path.exists(log):
            os.unlink(log)
        done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        if not os.path.exists(log):
            raise StageFailed(done.stdout[-4000:])
        with open(log, errors="replace") as lines:
            return [json.loads(line) for line in lines]

    def tell(self, number, total, result):
        name, text = own_name(result), output_of(result)
        counts = count_cases(text, result["result"])
        self.report.progress(number, total, name, counts, result["duration"])
        for _ in range(counts["passed"]):
            self.report.case(name, "passed", quiet=True)
        for index in range(counts["failed"]):
            self.report.case(name, "failed", detail=text[-6000:] if index == 0 else None)
        reasons = SKIPPED.findall(text)
        for index in range(counts["skipped"]):
            self.report.case(name, "skipped", detail=reasons[index] if index < len(reasons) else text[-500:])
