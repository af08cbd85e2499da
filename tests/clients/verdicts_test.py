#!/usr/bin/env python3
"""Rows of runs, and the document of rows: what is written is read back, and a verdict that differs is found."""
import pathlib
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import verdicts  # noqa: E402
from verdicts import Row  # noqa: E402

WORKS = Row("ib_send_bw", "RC", verdicts.WORKS, "perftest 4.5")
REFUSED = Row("ib_send_bw", "RC", "refused by the client itself: no | here", "perftest 4.5")
INTRODUCTIONS = {"perftest": "All of it.", "qperf": "Nothing."}


def outcome(program, aspect, verdict, refusal="", refused_by="the client itself", reason=""):
    case = types.SimpleNamespace(program=program, aspect=aspect, refusal=refusal, refused_by=refused_by, reason=reason)
    return types.SimpleNamespace(verdict=verdict, case=case)


class Verdicts(unittest.TestCase):
    def test_one_failure_makes_a_row_fail(self):
        rows = verdicts.summarize([outcome("a", "RC", "ok"), outcome("a", "RC", "FAILED"), outcome("a", "UC", "ok")])
        self.assertEqual(rows, [Row("a", "RC", verdicts.FAILED), Row("a", "UC", verdicts.WORKS)])

    def test_refusals_have_rows_of_their_own(self):
        rows = verdicts.summarize([outcome("a", "RC", "ok"), outcome("a", "RC", "refused", "too many")])
        self.assertEqual([row.verdict for row in rows], [verdicts.WORKS, "refused by the client itself: too many"])

    def test_what_weft_refuses_is_not_laid_to_the_client(self):
        rows = verdicts.summarize([outcome("a", "RC", "refused", "error status 0xc", "Weft", "no such counters"), outcome("a", "RC", "refused", "too many")])
        self.assertEqual([row.verdict for row in rows], ["refused by Weft: no such counters", "refused by the client itself: too many"])
        self.assertTrue(all(verdicts.is_refusal(row) for row in rows))

    def test_a_refusal_that_was_expected_and_did_not_come_is_a_failure(self):
        self.assertEqual(verdicts.summarize([outcome("a", "RC", "FAILED", "too many")])[0].verdict, verdicts.FAILED)

    def test_documents_are_read_as_they_were_written(self):
        text = verdicts.render({"perftest": [WORKS, REFUSED]}, INTRODUCTIONS)
        self.assertIn("## qperf\n\nNothing.", text)
        self.assertEqual(verdicts.parse(text), {"perftest": sorted([WORKS, REFUSED])})

    def test_a_verdict_that_differs_is_found(self):
        documented = {"perftest": [WORKS, REFUSED]}
        worse = Row("ib_send_bw", "RC", verdicts.FAILED)
        self.assertEqual(verdicts.differences(documented, {"perftest": (True, [WORKS, REFUSED])}), [])
        self.assertIn("the document says: works", verdicts.differences(documented, {"perftest": (False, [worse])})[0])
        self.assertIn("says: nothing", verdicts.differences(documented, {"perftest": (False, [Row("x", "RC", "works")])})[0])
        self.assertIn("does not say so", verdicts.differences({"perftest": [WORKS]}, {"perftest": (False, [REFUSED])})[0])

    def test_only_a_whole_run_must_have_every_row(self):
        documented = {"perftest": [WORKS, Row("ib_read_bw", "RC", verdicts.WORKS)]}
        self.assertEqual(verdicts.differences(documented, {"perftest": (False, [WORKS])}), [])
        self.assertEqual(len(verdicts.differences(documented, {"perftest": (True, [WORKS])})), 1)

    def test_rows_are_kept_with_the_version_of_their_package(self):
        with tempfile.TemporaryDirectory() as folder:
            verdicts.store(folder, "tools", [Row("no-such-program", "runs", verdicts.WORKS), Row("dpkg-query", "runs", "works")], True)
            whole, rows = verdicts.load(folder)["tools"]
        self.assertTrue(whole)
        self.assertEqual([row.version.split(" ")[0] for row in rows], ["dpkg", ""])


if __name__ == "__main__":
    unittest.main()
