# SPDX-License-Identifier: MIT
"""A commit of this repository, built beside the work tree, for comparisons. Kept: build-against-<hash>."""

import os
import subprocess

from benchlib import ROOT


class CannotBuild(Exception):
    pass


def _run(*argv, feed=None):
    done = subprocess.run(argv, cwd=ROOT, input=feed, stdin=None if feed is not None else subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise CannotBuild("%s: %s" % (" ".join(argv[:3]), said[-1] if said else "failed"))
    return done.stdout


def build(commit):
    """(its short name, its build directory)"""
    name = _run("git", "rev-parse", "--verify", "--short=12", commit + "^{commit}").decode().strip()
    place = os.path.join(ROOT, "build-against-" + name)
    source, output = os.path.join(place, "source"), os.path.join(place, "build")
    if not os.path.exists(os.path.join(output, "build.ninja")):
        os.makedirs(source, exist_ok=True)
        _run("tar", "-x", "-C", source, feed=_run("git", "archive", name))
        _run("meson", "setup", output, source, "-Dtests=false", "-Dbenchmarks=false")
    _run("ninja", "-C", output)
    return name, output
