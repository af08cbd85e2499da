#!/usr/bin/env python3
"""Unit tests, many to a process: each has its own outcome, whatever the others and their process do."""
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import unit_tests  # noqa: E402

# A program with the arguments and the output of a gtest program: its tests are A.Passes, A.Fails, and so on by their names.
PROGRAM = """#!{python}
import os, sys, time
names = sys.argv[1].removeprefix("--gtest_filter=").split(":")
open({runs!r}, "a").write("x")
failed = []
for name in names:
    print(f"[ RUN      ] {{name}}", flush=True)
    print(f"words of {{name}}")
    what = name.split(".")[1]
    if what == "Dies":
        sys.stdout.flush(); os.abort()
    if what == "Hangs":
        time.sleep(60)
    if what == "LeavesAChild" and os.fork() == 0:
        time.sleep(60); os._exit(0)
    if what == "IsNotThere":
        continue
    if what == "Fails":
        failed.append(name); print(f"[  FAILED  ] {{name}}, where GetParam() = 3 (1500 ms)")
    elif what == "CannotRun":
        print(f"[  SKIPPED ] {{name}} (0 ms)")
    else:
        print(f"half a line[       OK ] {{name}} (1 ms)")
print("[  PASSED  ] some tests.")
for name in failed:
    print(f"[  FAILED  ] {{name}}, where GetParam() = 3")
sys.exit(1 if failed or any("Leaks" in name for name in names) else 0)
"""


class UnitTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program, self.runs = self.folder / "program", self.folder / "runs"
        self.program.write_text(PROGRAM.format(python=sys.executable, runs=str(self.runs)))
        self.program.chmod(0o755)

    def run_share(self, *names, seconds=20):
        share = unit_tests.Share(str(self.program), str(self.folder), [unit_tests.Test(f"room.{name}", name) for name in names])
        self.outcomes = unit_tests.run_share(share, seconds)
        return {outcome.name.removeprefix("room."): outcome.status for outcome in self.outcomes}

    def output(self, name):
        return next(outcome.output for outcome in self.outcomes if outcome.name == f"room.{name}")

    def test_each_has_its_own_outcome_and_output(self):
        self.assertEqual(self.run_share("A.Passes", "A.Fails", "A.CannotRun", "A.Too"), {"A.Passes": "run", "A.Fails": "fail", "A.CannotRun": "notrun", "A.Too": "run"})
        self.assertIn("words of A.Fails", self.output("A.Fails"))
        self.assertNotIn("words of A.Passes", self.output("A.Fails"))
        self.assertEqual({outcome.name: outcome.seconds for outcome in self.outcomes},
                         {"room.A.Passes": 0.001, "room.A.Fails": 1.5, "room.A.CannotRun": 0.0, "room.A.Too": 0.001})
        self.assertEqual(self.runs.read_text(), "x")  # one process

    def test_a_program_that_dies_costs_the_test_that_ran(self):
        self.assertEqual(self.run_share("A.Passes", "A.Dies", "A.Too"), {"A.Passes": "run", "A.Dies": "fail", "A.Too": "run"})
        self.assertIn("ended the program: status -6", self.output("A.Dies"))
        self.assertEqual(self.runs.read_text(), "xx")

    def test_a_test_that_hangs_is_ended(self):
        self.assertEqual(self.run_share("A.Hangs", "A.Passes", seconds=2), {"A.Hangs": "fail", "A.Passes": "run"})
        self.assertIn("took more than 2 s", self.output("A.Hangs"))

    def test_a_test_that_did_not_run_has_not_passed(self):
        self.assertEqual(self.run_share("A.Passes", "A.IsNotThere"), {"A.Passes": "run", "A.IsNotThere": "fail"})

    def test_a_bad_end_after_good_tests_is_a_failure(self):
        self.assertEqual(self.run_share("A.Passes", "A.Leaks"), {"A.Passes": "run", "A.Leaks": "fail"})

    def test_a_child_that_is_left_is_ended_and_holds_nobody(self):
        self.assertEqual(self.run_share("A.LeavesAChild", "A.Passes", seconds=30), {"A.LeavesAChild": "run", "A.Passes": "run"})

    def test_only_what_ctest_calls_a_unit_test_is_run_and_by_its_program(self):
        def entry(name, labels, program="p"):
            return {"name": name, "command": [program, f"--gtest_filter={name.partition('.')[2]}"],
                    "properties": [{"name": "LABELS", "value": labels}, {"name": "WORKING_DIRECTORY", "value": "/"}]}
        listing = {"tests": [entry("a.S.One", ["unit"]), entry("a.S.Live", ["live"]), entry("b.S.Two", ["unit"], "q"), entry("b.S.Three", ["unit"], "q")]}
        found = unit_tests.programs(listing, without="Three")
        self.assertEqual({key: [test.name for test in tests] for key, tests in found.items()}, {("p", "/"): ["a.S.One"], ("q", "/"): ["b.S.Two"]})
        self.assertEqual([[test.gtest for test in share.tests] for share in unit_tests.shares(unit_tests.programs(listing), 1)], [["S.One"], ["S.Two"], ["S.Three"]])

    def test_what_takes_long_is_begun_first_so_that_all_cpus_end_together(self):
        found = {("a", "."): [unit_tests.Test("a.Words.Are", "Words.Are")], ("b", "."): [unit_tests.Test("b.RcSimulation.Holds", "RcSimulation.Holds")]}
        self.assertEqual([share.program for share in unit_tests.shares(found)], ["b", "a"])

    def test_the_report_is_as_ctest_writes_it(self):
        path = self.folder / "report.xml"
        unit_tests.write_report(path, [unit_tests.Outcome("r.A", "run"), unit_tests.Outcome("r.B", "fail"), unit_tests.Outcome("r.C", "notrun")])
        cases = {case.get("name"): [child.tag for child in case] for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase")}
        self.assertEqual(cases, {"r.A": [], "r.B": ["failure"], "r.C": ["skipped"]})


if __name__ == "__main__":
    unittest.main()
