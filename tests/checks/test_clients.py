# SPDX-License-Identifier: MIT
"""What tests of clients read out of what programs say."""

import math
import unittest

from pylib.clients import perftest_measured, perftest_rows

HEAD = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
# perftest 4.5 on a machine that stood still while it looked at its clock: all of it by one descriptor, as it comes.
DOUBTED = (HEAD + " 2          30               0.14               0.13   \t\t   0.065582Correlation coefficient r^2: 0.750635 < 0.9\n"
           "\n 4          30               0.00               0.00   \t\t   0.000000\n"
           " 8          30               0.04               0.04   \t\t   0.005345\n")
LATENCY = ("Correlation coefficient r^2: 0.304429 < 0.9\n #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
           "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
           " 256     10          inf            inf          inf      \t       inf         \t0.00   \t\tinf     \t\tinf    \n")


class Perftest(unittest.TestCase):
    def test_no_row_is_lost_for_a_remark(self):
        self.assertEqual([row[:2] for row in perftest_rows(DOUBTED)], [[2, 30], [4, 30], [8, 30]])
        self.assertEqual([row[:3] for row in perftest_rows(LATENCY)], [[256, 10, math.inf]])

    def test_rows_that_it_could_not_measure(self):
        self.assertEqual([row[0] for row in perftest_measured(DOUBTED)], [2, 8])
        self.assertEqual(perftest_measured(LATENCY), [])

    def test_figures_of_nothing_without_a_remark(self):
        for out in (DOUBTED, LATENCY):
            said = "".join(part for part in out.splitlines(True) if "Correlation" not in part)
            with self.assertRaises(AssertionError):
                perftest_measured(HEAD + said)


if __name__ == "__main__":
    unittest.main()
