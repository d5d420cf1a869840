#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""plays_again.py CAMPAIGN ARGUMENTS...: worlds played twice have the same outcome, so that a seed that fails can be looked at.

In two processes, because the secrets of the kernel's hashes are drawn for each network namespace.
"""

import subprocess
import sys

first, second = (subprocess.run(sys.argv[1:], check=True, capture_output=True, text=True).stdout for _ in range(2))
print(first)
if first != second:
    sys.exit("the second time:\n" + second)
