# SPDX-License-Identifier: MIT
"""What the benchmarks share. Importing it makes the tests' `pylib` (hosts, clients) importable."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))


class BenchFailed(Exception):
    pass
