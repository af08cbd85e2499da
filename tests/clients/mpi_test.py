#!/usr/bin/env python3
"""What mpi.py makes of mpirun's words, without a fabric."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mpi  # noqa: E402

GOOD = "rank 1 of 2 is on h2\nrank 0 of 2 is on h1\nring, all-reduce and windows of 2 ranks: correct\n"


class Mpi(unittest.TestCase):
    def test_every_rank_has_a_context_on_a_host_of_its_own(self):
        self.assertEqual(mpi.contexts("weft", "ring", ["h1", "h2"], 2),
                         ["-np", "1", "weft", "exec", "h1", "--", "ring", ":", "-np", "1", "weft", "exec", "h2", "--", "ring"])

    def test_ranks_that_sum_up_right_where_they_should_are_right(self):
        self.assertIsNone(mpi.judge(GOOD, ["h1", "h2"], 2))

    def test_wrong_sums_and_wrong_places_are_found(self):
        self.assertIn("do not say", mpi.judge(GOOD.replace("correct", "WRONG"), ["h1", "h2"], 2))
        self.assertIn("instead of", mpi.judge(GOOD.replace("on h2", "on h1"), ["h1", "h2"], 2))
        self.assertIn("instead of", mpi.judge("", ["h1", "h2"], 2))


if __name__ == "__main__":
    unittest.main()
