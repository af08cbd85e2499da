#!/usr/bin/env python3
"""The document of clients and verdicts stands as it is written, and a change of either side is found."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compatibility  # noqa: E402
import perftest  # noqa: E402
import qperf  # noqa: E402
import ucx  # noqa: E402
import verdicts  # noqa: E402


class Compatibility(unittest.TestCase):
    def setUp(self):
        self.text = compatibility.DOCUMENT.read_text(encoding="utf-8")
        self.suites = {suite: (True, rows) for suite, rows in verdicts.parse(self.text).items()}

    def test_runs_that_found_what_the_document_says_agree_with_it(self):
        self.assertEqual(compatibility.check(self.text, self.suites), [])
        self.assertEqual(compatibility.notes(self.text, self.suites), [])

    def test_a_verdict_that_changed_is_found_on_either_side(self):
        self.assertTrue(compatibility.check(self.text.replace(f"| {verdicts.WORKS} |", f"| {verdicts.FAILED} |", 1), self.suites))
        whole, rows = self.suites["mpi"]
        worse = {**self.suites, "mpi": (whole, [verdicts.Row(row.client, row.what, verdicts.FAILED) for row in rows])}
        self.assertEqual(len(compatibility.check(self.text, worse)), len(rows))

    def test_a_suite_that_did_not_run_is_found(self):
        del self.suites["qperf"]
        self.assertEqual(compatibility.check(self.text, self.suites), ["qperf: has not run"])

    def test_words_that_are_added_by_hand_are_found(self):
        self.assertIn("not edited by hand", compatibility.check(self.text + "More.\n", self.suites)[0])

    def test_everything_that_is_run_has_its_row(self):
        for suite, cases in (("qperf", qperf.cases(True)), ("ucx", ucx.cases(True))):
            documented = {(row.client, row.what) for row in self.suites[suite][1]}
            self.assertEqual({(case.program, case.aspect) for case in cases} - documented, set())

    def test_the_matrix_has_every_combination(self):
        text = " -b, --bidirectional\n -e, --events\n -q, --qp=\n -c, --connection=<RC/XRC/UC/UD/DC/SRD>\n"
        self.assertEqual(len(list(perftest.matrix("ib_send_bw", text, 5, False))), 4 * 2 * 3 * 8)
        part = [case.arguments for _, case in perftest.matrix("ib_send_bw", text, 5, True)]
        self.assertEqual(len(part), 4 * 2)
        self.assertIn(["-c", "UD", "-m", "256", "-s", "253", "-e", "-b", "-q", "16", "-n", "5"], part)


if __name__ == "__main__":
    unittest.main()
