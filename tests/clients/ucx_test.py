#!/usr/bin/env python3
"""What ucx.py runs and what it makes of the output, without a fabric."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ucx  # noqa: E402

INFO = "#      Transport: rc_verbs\n#         Device: weft0:1\n#      Transport: ud_verbs\n#         Device: weft0:1\n"


class Ucx(unittest.TestCase):
    def test_a_part_has_every_row_of_the_whole(self):
        self.assertEqual({case.aspect for case in ucx.cases(True)}, {case.aspect for case in ucx.cases(False)})

    def test_refusals_are_those_of_infiniband(self):
        refused = {(case.arguments[3], case.arguments[5]) for case in ucx.uct_cases(False) if case.refusal}
        self.assertIn(("rc_verbs", "swap"), refused)
        self.assertIn(("ud_verbs", "put_bw"), refused)
        self.assertNotIn(("rc_verbs", "fadd"), refused)
        self.assertNotIn(("ud_verbs", "am_bw"), refused)

    def test_a_run_without_its_last_row_is_no_pass(self):
        self.assertIsNone(ucx.final_row("[thread 0]  12\nFinal:                   200      0.181\n"))
        self.assertEqual(ucx.final_row("[thread 0]  12\n"), "no final row")

    def test_the_list_must_show_the_device_by_every_transport(self):
        self.assertIsNone(ucx.judge_info(INFO))
        self.assertIn("ud_verbs", ucx.judge_info(INFO.replace("ud_verbs", "tcp")))


if __name__ == "__main__":
    unittest.main()
