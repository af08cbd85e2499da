#!/usr/bin/env python3
"""What qperf.py runs and what it makes of the output, without a fabric."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import qperf  # noqa: E402


class Qperf(unittest.TestCase):
    def test_a_part_has_every_row_of_the_whole(self):
        self.assertEqual({case.aspect for case in qperf.cases(True)}, {case.aspect for case in qperf.cases(False)})

    def test_every_figure_must_be_there(self):
        self.assertIsNone(qperf.measured("uc_bw:\n    send_bw  =  3.25 GB/sec\n    recv_bw  =  3.14 GB/sec\nquit:\n"))
        self.assertIsNotNone(qperf.measured("uc_bw:\n    send_bw  =  3.25 GB/sec\n    recv_bw  =  0 bytes/sec\n"))
        self.assertIsNotNone(qperf.measured("quit:\n"))

    def test_datagrams_fit_a_packet(self):
        sizes = {int(size) for test in qperf.UD for size in qperf.sizes_of(test)}
        self.assertLessEqual(max(sizes), 4096)


if __name__ == "__main__":
    unittest.main()
