#!/usr/bin/env python3
"""Tests of osmtest_comparison's own judgement, on what osmtest printed."""
import unittest

import osmtest_comparison

PASSED = "OSMTEST: TEST \"Service Flow\" PASS\n"
REFUSED = "Nov 22 06:12:01 [7F40] 0x01 -> osmt_run: ERR 4A2C: Fail to delete service: name: x\nOSMTEST: TEST \"Service Flow\" FAIL\n"


class Verdicts(unittest.TestCase):
    def test_a_flow_passes_fails_with_its_first_error_or_does_not_end(self):
        self.assertEqual(osmtest_comparison.verdict(PASSED, True), ("PASS", ""))
        self.assertEqual(osmtest_comparison.verdict(REFUSED, True), ("FAIL", "Fail to delete service: name: x"))
        self.assertEqual(osmtest_comparison.verdict("", True), ("FAIL", "says nothing"))
        self.assertEqual(osmtest_comparison.verdict("", False)[0], "stopped")

    def test_what_passes_over_ibsim_and_not_over_weft_is_a_finding(self):
        ibsim = {"c": ("PASS", ""), "s": ("FAIL", "x"), "v": ("stopped", "")}
        self.assertEqual(osmtest_comparison.judge(ibsim, ibsim), [])
        self.assertEqual(osmtest_comparison.judge(ibsim, {**ibsim, "s": ("PASS", "")}), [])
        self.assertEqual(osmtest_comparison.judge(ibsim, ibsim, {**ibsim, "c": ("FAIL", "ERR 1")}), ["flow c: FAIL where ibsim has PASS: ERR 1"])


if __name__ == "__main__":
    unittest.main()
