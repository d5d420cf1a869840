# SPDX-License-Identifier: MIT
"""hot-script.py LIST: a linker script that puts the functions of the list side by side, in that order, before all others.

INSERT makes it an addition to the linker's own script. Clones that the compiler made of a function have a suffix."""

import sys

with open(sys.argv[1]) as file:
    names = [line.strip() for line in file if line.strip() and not line.startswith("#")]
print("SECTIONS\n{\n  .text.hot_path : ALIGN(4096)\n  {")
for name in names:
    print("    *(.text.%s .text.%s.*)" % (name, name))
print("  }\n}\nINSERT BEFORE .text;")
