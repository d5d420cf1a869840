# SPDX-License-Identifier: MIT
"""Does clang, as the project is built with it, refuse code that forgets a lock? (src/base/thread_safety.h)"""

import json
import os
import shlex
import subprocess
import tempfile

HEAD = """#include "base/lock.h"
#include "base/mutex.h"
struct object {
	struct vb_lock lock;
	struct vb_mutex mutex;
	int value;
};
void change(struct object *object) VB_NEEDS(object->lock);
int number(struct object *object, int value);
"""
BODIES = {
    "a lock that is given back": ("vb_lock_take(&object->lock); change(object); vb_lock_release(&object->lock); return value;", True),
    "a lock that is tried": ("if (!vb_lock_try(&object->lock)) return 0; vb_lock_release(&object->lock); return value;", True),
    "a lock that one path does not give back":
        ("vb_lock_take(&object->lock); if (value) return 1; vb_lock_release(&object->lock); return 0;", False),
    "a mutex that is not given back": ("vb_mutex_lock(&object->mutex); return value;", False),
    "a mutex that is given back twice":
        ("vb_mutex_lock(&object->mutex); vb_mutex_unlock(&object->mutex); vb_mutex_unlock(&object->mutex); return value;", False),
    "a function called without the lock that it needs": ("change(object); return value;", False),
}


def judge(build):
    """What each body is, and whether clang judged it as it should. The options are those of the build."""
    with open(os.path.join(build, "compile_commands.json")) as file:
        command = next(entry for entry in json.load(file) if entry["file"].endswith("src/verbs/session.c"))
    options = [word for word in shlex.split(command["command"])[1:] if word.startswith(("-W", "-I", "-D", "-std="))]
    for name, (body, is_right) in BODIES.items():
        with tempfile.NamedTemporaryFile("w", suffix=".c") as source:
            source.write(HEAD + "int number(struct object *object, int value)\n{\n\t%s\n}\n" % body)
            source.flush()
            done = subprocess.run(["clang", "-fsyntax-only", *options, source.name], cwd=command["directory"], capture_output=True, text=True)
        yield name, (done.returncode == 0) == is_right, done.stderr
