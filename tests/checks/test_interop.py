# SPDX-License-Identifier: MIT
"""What the runner of tests/interop does with a case that fails and with a guest that panics, told by scenes. With real guests:
tests/interop/test_rules."""

import contextlib
import io
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "interop"))

from matrix.cases import Case, Failed                       # noqa: E402
from matrix.runner import MOST_PANICS, Matrix               # noqa: E402


class Nobody:
    def __init__(self):
        self.lines, self.said = [], "of another case"

    def close(self):
        pass

    def run(self, line):
        self.lines.append(line)

    def explanations(self):
        said, self.said = self.said, ""
        return said


class Scene:
    """A rig, and a case whose tries end in turn with these words: ok, fail, panic, gone (the guest has ended without one)."""

    def __init__(self, *words, build=None):
        self.words, self.lives, self.boots = list(words), True, 0
        self.reason = None
        self.log = io.StringIO()
        self.ours, self.kernel = Nobody(), Nobody()
        self.matrix = Matrix(self, self.ours, self.kernel, self.log)
        case = Case("scene", "", "", None)
        case.build = build
        case.run = self.run
        self.tried = 0
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.matrix.one(case, "verbena")
        self.out = out.getvalue()

    def run(self, _server, _client):
        word = self.words[min(self.tried, len(self.words) - 1)]
        self.tried += 1
        if word == "ok":
            return ""
        self.ours.said = "why it was so"
        self.lives = word == "fail"
        self.reason = "double fault" if word == "panic" else None
        raise Failed("so it was")

    def guest_lives(self):
        return self.lives

    def panic(self):
        return self.reason

    def console(self):
        return ""

    def up(self):
        self.boots += 1
        self.lives = True

    def guest_times(self):
        return self.tried, 3 * self.tried

    def set_mtu(self, kernel, mtu):
        pass


class Verdicts(unittest.TestCase):
    def test_pass(self):
        scene = Scene("ok")
        self.assertEqual((scene.matrix.passed, scene.tried, scene.boots), (1, 1, 0))
        self.assertIn(" 1 try ", scene.out)

    def test_failure_is_not_tried_again(self):
        scene = Scene("fail", "ok")
        self.assertEqual((scene.matrix.passed, scene.tried, scene.boots), (0, 1, 0))
        self.assertEqual(scene.matrix.failed, ["scene, verbena -> kernel"])
        self.assertIn("the guest waited for a processor 75 % of the time", scene.out)

    def test_of_a_failure_our_own_explanation_is_kept(self):
        self.assertIn("verbena says:\nwhy it was so", Scene("fail").log.getvalue())
        self.assertNotIn("another case", Scene("fail").log.getvalue())

    def test_panic_is_no_verdict(self):
        scene = Scene("panic", "ok")
        self.assertEqual((scene.matrix.passed, scene.tried, scene.boots), (1, 2, 1))
        self.assertIn("the guest panicked: double fault; it boots again", scene.out)
        self.assertIn(" 2 tries ", scene.out)

    def test_failure_after_a_panic(self):
        scene = Scene("panic", "fail", "ok")
        self.assertEqual((scene.matrix.passed, scene.tried, scene.boots), (0, 2, 1))

    def test_panics_are_bounded(self):
        scene = Scene("panic")
        self.assertEqual((scene.matrix.passed, scene.tried), (0, MOST_PANICS + 1))
        self.assertTrue(scene.lives)

    def test_siw_is_loaded_again_after_a_panic(self):
        self.assertEqual(Scene("panic", "ok", build="p2p").kernel.lines, ["siw-variant p2p"] * 2)
        self.assertEqual(Scene("panic", "ok", build="plain").kernel.lines, [])

    def test_guest_that_ends_without_a_panic(self):
        scene = Scene("gone", "ok")
        self.assertEqual((scene.matrix.passed, scene.tried, scene.boots), (0, 1, 1))


if __name__ == "__main__":
    unittest.main()
