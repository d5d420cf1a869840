# SPDX-License-Identifier: MIT
"""What the benchmarks share. Importing it makes the tests' `pylib` (hosts, clients) importable."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))

from pylib.hosts import SYSTEM_PATH                         # noqa: E402

PROGRAM_PATHS = SYSTEM_PATH.split(":")


class BenchFailed(Exception):
    pass
