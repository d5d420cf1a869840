# SPDX-License-Identifier: MIT
"""Words for numbers, and the place in a page of docs/ where a program's table belongs."""

import os
import platform
import re
import time

from benchlib import ROOT


def size_name(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return "%d %s" % (size // unit, name)
    return "%d B" % size


def processor():
    try:
        with open("/proc/cpuinfo") as info:
            found = re.search(r"^model name\s*:\s*(.*)$", info.read(), re.M)
        return found.group(1) if found else platform.machine()
    except OSError:
        return platform.machine()


def machine(repeat):
    """The line above a table."""
    return "%s, %d cores, Linux %s, %s; medians of %d." % (processor(), os.cpu_count(), platform.release().split("-")[0],
                                                         time.strftime("%Y-%m-%d"), repeat)


def is_x86():
    return platform.machine() == "x86_64"


def update_docs(program, text, page=None):
    """Put the text between the marks of that program. Each architecture has a page of its own, or on a page that is everybody's marks of its
    own: figures of two machines are not to replace each other."""
    if page and is_x86():
        program += " on x86-64"
    page = page or ("performance-x86-64.md" if is_x86() else "performance.md")
    begin, end = "<!-- %s writes from here -->" % program, "<!-- %s writes to here -->" % program
    path = os.path.join(ROOT, "docs", page)
    with open(path) as file:
        before = file.read()
    head, tail = before.split(begin)[0], before.split(end)[1]
    with open(path, "w") as file:
        file.write("%s%s\n\n%s\n\n%s%s" % (head, begin, text, end, tail))
