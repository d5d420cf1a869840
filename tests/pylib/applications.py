# SPDX-License-Identifier: MIT
"""Applications as test cases: what they moved is compared, and beside each figure stands that of the same program over TCP or
shared memory, measured in the same run."""

from pylib.clients import ClientCase
from pylib.workloads import ground

# (program, what, unit, over Verbena, beside it, what that is), in the order they were measured.
figures = []


class ApplicationCase(ground.Ground, ClientCase):
    def setUp(self):
        super().setUp()
        self._folder = None              # a case that failed runs again, with a network of its own
        ground.prepare(self.network)

    # Limits that programs meet on adapters, and here under their profiles.
    PROFILES = ("mlx5", "rxe")

    def under(self, profile):
        return lambda *argv: self.verbena("--profile", profile, *argv)

    def figure(self, program, what, unit, ours, theirs, beside):
        figures.append((program, what, unit, ours, theirs, beside))


def table():
    lines = ["%-10s %-34s %12s %12s %8s" % ("program", "what", "Verbena", "beside it", "ratio")]
    for program, what, unit, ours, theirs, beside in figures:
        lines.append("%-10s %-34s %12s %12s %8.2f   %s" % (program, what, "%.4g %s" % (ours, unit), "%.4g %s" % (theirs, unit),
                                                            ours / theirs, beside))
    return lines
