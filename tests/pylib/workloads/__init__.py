# SPDX-License-Identifier: MIT
"""Programs of the distribution, with and without Verbena: how each is started and what figure it tells. For tests/applications, which
compares what they moved, and for bench/run, which measures them."""
