#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is shipped is built as distributions ask for (meson.build, option hardening)?

    tests/abi/check-hardening.py MACHINE FORTIFIED ARCHIVE FILE...

Of each program and library: position independent, all of the loader's tables read-only before main, no executable stack, no
segment that is both writable and executable, no text relocations, stack guards and (FORTIFIED is 1) checked calls. ARCHIVE, code of ours
before it is linked, says that jumps go only to where functions begin: the C library's own parts may not, and then the whole
is not marked. Reads the ELF files by readelf(1).
"""

import subprocess
import sys


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True, text=True).stdout


def problems(path, fortified):
    header, segments, dynamic, names = (readelf(option, path) for option in ("-h", "-l", "-d", "--dyn-syms"))
    rows = [line.split() for line in segments.splitlines()]
    if "Type:                              DYN" not in header:
        yield "not position independent"
    if not any(row and row[0] == "GNU_RELRO" for row in rows):
        yield "no RELRO"
    if "BIND_NOW" not in dynamic and "NOW" not in dynamic.split("(FLAGS_1)")[-1].split("\n")[0]:
        yield "lazily bound: part of the loader's tables stays writable"
    if "TEXTREL" in dynamic:
        yield "text relocations"
    stack = [row for row in rows if row and row[0] == "GNU_STACK"]
    if not stack or "E" in "".join(stack[0][6:-1]):
        yield "executable stack"
    for row in rows:
        if row and row[0] == "LOAD" and {"W", "E"} <= set("".join(row[6:-1])):
            yield "a segment is writable and executable"
    if "__stack_chk_fail" not in names:
        yield "no stack guards"
    if fortified and "_chk@" not in names.replace("__stack_chk_fail", ""):
        yield "no checked calls (_FORTIFY_SOURCE)"


def main():
    machine, fortified, unlinked, files = sys.argv[1], sys.argv[2] == "1", sys.argv[3], sys.argv[4:]
    found = ["%s: %s" % (path, problem) for path in files for problem in problems(path, fortified)]
    wanted = {"x86_64": ("IBT", "SHSTK"), "aarch64": ("BTI",)}.get(machine, ())
    notes = readelf("-n", unlinked)
    found += ["%s: not marked %s" % (unlinked, word) for word in wanted if word not in notes]
    print("\n".join(found) or "%d files" % len(files))
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
