#!/usr/bin/env python3
"""What storage.py and iser.py make of the words of libiscsi's programs, without a fabric."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import iser  # noqa: E402
import storage  # noqa: E402
import verdicts  # noqa: E402

SUMMARY = """
Suite: Inquiry
  Test: BlockLimits ...{words}
Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      1      1    n/a      0        0
               tests      1      {ran}      {passed}      {failed}        0
"""


def said(words="passed", ran=1, failed=0):
    return SUMMARY.format(words=words, ran=ran, passed=ran - failed, failed=failed)


def found(**over):
    """One test with the verdicts of both transports."""
    return {transport: (verdict, f"log of {transport}\n") for transport, verdict in over.items()}


class Storage(unittest.TestCase):
    def test_a_clock_that_ran_past_its_end_is_seen(self):
        self.assertFalse(iser.missed_its_end("00:00:01 - lba 512, iops current 10288 (643 MB/s), iops average 10288 (643 MB/s), in_flight 64, busy 0"))
        self.assertTrue(iser.missed_its_end("5124095576030431:00:15 - lba 896, iops current 18824 (1176 MB/s), in_flight 64, busy 0"))

    def test_a_test_that_says_nothing_of_its_end_has_died(self):
        self.assertEqual(iser.verdict_of(0, said()), "passed")
        self.assertEqual(iser.verdict_of(0, said("    [SKIPPED] not implemented\npassed")), "skipped")
        self.assertEqual(iser.verdict_of(0, said("[SKIPPED] first\nFAILED", failed=1)), "failed")
        self.assertEqual(iser.verdict_of(-11, "Suite: Inquiry\n  Test: BlockLimits ..."), "died")
        self.assertEqual(iser.verdict_of(None, said()), "died")
        self.assertEqual(iser.verdict_of(0, said(ran=0)), "died", "a name that no test has")

    def test_a_difference_without_a_reason_is_a_failure(self):
        outcomes = list(iser.summarize({"SCSI.Read6.Simple": found(iser="failed", iscsi="passed"), "SCSI.Read6.Rest": found(iser="failed", iscsi="failed")}, 1))
        self.assertEqual([outcome.verdict for outcome in outcomes], ["FAILED"])
        self.assertIn("SCSI.Read6.Simple: failed, over TCP passed", outcomes[0].detail)
        self.assertNotIn("Rest", outcomes[0].detail)

    def test_a_known_difference_has_a_row_with_its_reason(self):
        everything = {"SCSI.Read10.Async": found(iser="died", iscsi="failed"), "SCSI.Read10.Simple": found(iser="passed", iscsi="passed")}
        rows = verdicts.summarize(iser.summarize(everything, 1))
        self.assertEqual({row.verdict for row in rows}, {"works", f"refused by the client itself: {iser.why_it_differs('SCSI.Read10.Async')}"})

    def test_an_excused_test_that_ends_otherwise_than_it_is_excused_for_is_a_failure(self):
        for said in ({"iser": "passed", "iscsi": "passed"}, {"iser": "failed", "iscsi": "passed"}, {"iser": "died", "iscsi": "passed"}):
            outcomes = list(iser.summarize({"SCSI.Inquiry.BlockLimits": found(**said)}, 1))
            self.assertEqual([outcome.verdict for outcome in outcomes], ["FAILED"], said)
        self.assertFalse(iser.why_it_differs("SCSI.Inquiry.BlockLimitsToo"), "a name that only begins so")

    def test_a_part_names_the_same_rows_as_the_whole(self):
        part = {"SCSI.Inquiry.BlockLimits": found(iser="failed", iscsi="skipped")}
        whole = {**part, "SCSI.ModeSense6.Residuals": found(iser="failed", iscsi="passed")}
        self.assertEqual(verdicts.summarize(iser.summarize(part, 1)), verdicts.summarize(iser.summarize(whole, 1)))
        aspects = [{(case[0], case[4]) for case in storage.dapl_cases(smoke)} for smoke in (True, False)]
        self.assertLess(*aspects)

    def test_a_performance_of_nothing_is_none(self):
        self.assertIsNone(iser.has_figures("iops average 81 (5 MB/s)\nfinished.\n"))
        self.assertIsNotNone(iser.has_figures("iops average 0 (0 MB/s)\nfinished.\n"))
        self.assertIsNotNone(iser.has_figures("iops average 81 (5 MB/s)\n"))


if __name__ == "__main__":
    unittest.main()
