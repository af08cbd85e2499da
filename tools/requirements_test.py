#!/usr/bin/env python3
"""tools/requirements must find what is planted, and nothing in a tree whose page says what is so."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent
HEADING = "| id | what | state | where | asserted by |\n|---|---|---|---|---|\n"
ROWS = {
    "R-QP-1": "| R-QP-1 | a QP | done | `Qp` in `src/hca/qp.h` | `src/hca/qp_test.cc: Qp.Is, EveryQp.Moves` |",
    "R-QP-2": "| R-QP-2 | a helper | part | `src/hca/qp.h`; lacks: the mask | - |",
    "R-QP-2a": "| R-QP-2a | another | other | `src/hca/qp.h`: by a call | - |",
    "R-QP-3": "| R-QP-3 | a table | not yet | `src/core` | - |",
    "T-QP-1": "| T-QP-1 | it moves | done | `src/hca/qp.h` | `src/hca/qp_test.cc: States/EveryQp.Moves/Rts` |",
    "T-QP-2": "| T-QP-2 | it flies | done | `src/hca/qp.h` | `src/hca/qp_test.cc: Typed/0.Works`, `stage:pingpong` |",
    "T-CQ-1": "| T-CQ-1 | a CQ | not yet | - | - |",
}
TESTS = """// R-QP-1 to R-QP-2 of R-QP
TEST(Qp, Is) {}  // R-QP-2a
TEST_P(EveryQp,
       Moves) {}  // T-QP-1..T-QP-2
TYPED_TEST(Typed, Works) {}
// TEST(Qp, IsInAComment)
"""
CASE = '<testcase name="{}" status="run"/>'
PASSED = [CASE.format(name) for name in ("hca.Qp.Is", "hca.States/EveryQp.Moves/Init", "hca.States/EveryQp.Moves/Rts", "hca.Typed/weft::Lrh.Works")]


class PlantedClaims(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.rows = dict(ROWS)
        self.write("tools/tidy.toml", "[rooms]\ncore = {may_include = []}\nhca = {may_include = []}\n")
        self.write("scripts/test", 'print("rules quick\\npingpong      programs")\n')
        self.write("src/hca/qp.h", "// R-QP-3\n")
        self.write("src/hca/qp_test.cc", TESTS)
        self.write_page()

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def write_page(self, between=""):
        of = {prefix: "\n".join(text for row, text in self.rows.items() if prefix in row) for prefix in ("QP", "CQ")}
        self.write("docs/REQUIREMENTS.md", f"# Requirements\n\n| state | means |\n|---|---|\n| `done` | so |\n\n## 1. Queue pairs (R-QP, T-QP)\n\n{HEADING}{of['QP']}\n{between}"
                                           f"\n## 2. Completion queues (T-CQ)\n\n{HEADING}{of['CQ']}\n")

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, "-B", TOOLS / "requirements", "--root", self.root, *arguments], capture_output=True, text=True)

    def assert_finds(self, message, *arguments, count=1):
        result = self.run_tool(*arguments)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(message, result.stdout)
        self.assertIn(f"{count} findings", result.stdout)

    def assert_clean(self, *arguments):
        result = self.run_tool(*arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def plant(self, row, old, new):
        self.assertIn(old, self.rows[row])
        self.rows[row] = self.rows[row].replace(old, new)
        self.write_page()

    def test_a_page_that_says_what_is_so_is_clean(self):
        self.assert_clean()

    def test_an_id_twice(self):
        self.rows["again QP"] = ROWS["T-QP-2"]
        self.write_page()
        self.assert_finds("T-QP-2: stands in line", count=2)

    def test_a_gap(self):
        del self.rows["R-QP-2"]
        self.rows["R-QP-2a"] = self.rows["R-QP-2a"].replace("2a", "4")
        self.write_page()
        self.write("src/hca/qp_test.cc", TESTS.replace("R-QP-1 to R-QP-2 ", "").replace("R-QP-2a", "R-QP-4"))
        self.assert_finds("R-QP-4: R-QP-2 is expected here", count=2)

    def test_an_id_below_anothers_heading(self):
        self.plant("T-CQ-1", "T-CQ-1", "T-MR-1")
        self.assert_finds("does not have the prefix T-MR", count=2)

    def test_a_heading_without_rows(self):
        self.write_page("\n## 3. Nothing (R-NO)\n")
        self.assert_finds("R-NO of 'Nothing' has no rows")

    def test_a_heading_and_rows_out_of_form(self):
        self.write_page("\n## Nothing\n")
        self.assert_finds("a heading reads")
        self.write_page("| R-QP-4 | four | done |\n")
        self.assert_finds("this one has 3")
        self.write_page("| QP4 | four | done | - | - |\n")
        self.assert_finds("'QP4' is no id")

    def test_a_state_that_is_none(self):
        self.plant("R-QP-3", "not yet", "soon")
        self.assert_finds("'soon' is no state", count=2)

    def test_too_many_words_or_none(self):
        self.plant("R-QP-3", "a table", "x" * 161)
        self.assert_finds("these are 161")
        self.plant("R-QP-3", "x" * 161, "")
        self.assert_finds("these are 0")

    def test_a_file_that_is_not_there(self):
        self.plant("R-QP-2", "src/hca/qp.h", "src/hca/gone.h")
        self.assert_finds("src/hca/gone.h is not there", count=2)

    def test_done_without_a_file(self):
        self.plant("R-QP-2", "`src/hca/qp.h`; lacks", "`src/core`; lacks")
        self.assert_finds("names no file that is there")

    def test_a_room_that_is_none(self):
        self.plant("R-QP-3", "src/core", "src/attic")
        self.assert_finds("src/attic is not there")

    def test_a_test_that_is_done_without_tests(self):
        self.write("src/hca/qp_test.cc", TESTS.replace("T-QP-1..T-QP-2", ""))
        self.plant("T-QP-1", "`src/hca/qp_test.cc: States/EveryQp.Moves/Rts`", "-")
        self.assert_finds("T-QP-1: is done and names no test")

    def test_a_part_that_does_not_say_what_it_lacks(self):
        self.plant("R-QP-2", "lacks: the mask", "mostly")
        self.assert_finds("does not say 'lacks: ...'")

    def test_another_way_that_is_not_said(self):
        self.plant("R-QP-2a", ": by a call", "")
        self.assert_finds("does not say ': in which way'")

    def test_something_for_which_there_is_nothing_but_tests(self):
        self.plant("R-QP-3", "| - |", "| `src/hca/qp_test.cc: Qp.Is` |")
        self.assert_finds("so it is `part` at least")

    def test_a_test_that_does_not_exist(self):
        for name in ("Qp.IsNot", "Qp.IsInAComment", "EveryQp.Is"):
            self.rows = dict(ROWS)
            self.plant("R-QP-1", "Qp.Is,", name + ",")
            self.assert_finds(f"has no test {name}")

    def test_a_test_file_that_is_not_there(self):
        self.plant("R-QP-1", "src/hca/qp_test.cc", "src/hca/cq_test.cc")
        self.assert_finds("src/hca/cq_test.cc is not there")

    def test_a_stage_that_does_not_exist(self):
        self.plant("T-QP-2", "stage:pingpong", "stage:table-tennis")
        self.assert_finds("no stage table-tennis")

    def test_an_assertion_out_of_form(self):
        for cell in ("Qp.Is", "`Qp.Is`", "`src/hca/qp_test.cc`", "`src/hca/qp_test.cc: Qp`"):
            self.rows = dict(ROWS)
            self.plant("R-QP-2", "| - |", f"| {cell} |")
            self.assert_finds("is neither")

    def test_a_citation_of_what_is_not_in_the_page(self):
        self.write("src/hca/qp.h", "\n// R-QP-9\n")
        self.assert_finds("src/hca/qp.h:2: cites R-QP-9")
        self.write("src/hca/qp.h", "// R-QP-1 to R-QP-4\n")
        self.assert_finds("src/hca/qp.h:1: cites R-QP-4")
        self.write("src/hca/qp.h", "// T-QP-1 to 3\n")
        self.assert_finds("src/hca/qp.h:1: cites T-QP-3")
        self.write("src/hca/qp.h", "// all of R-MR\n")
        self.assert_finds("src/hca/qp.h:1: cites R-MR")
        self.write("src/hca/qp.h", "")
        self.write("docs/OTHER.md", "R-QP-7\n")
        self.assert_finds("docs/OTHER.md:1: cites R-QP-7")

    def test_a_test_that_claims_what_the_page_does_not(self):
        self.write("src/hca/cq_test.cc", "TEST(Cq, Is) {}  // T-CQ-1\n")
        self.assert_finds("src/hca/cq_test.cc:1: cites T-CQ-1, whose row names no test of this file")
        self.write("src/hca/cq_test.cc", "// T-QP-1 to T-QP-2\n")
        self.assert_finds("src/hca/cq_test.cc:1: cites T-QP-2, whose row names no test of this file", count=2)

    def ran(self, *cases):
        return "--ran", self.write("results.xml", f"<testsuite>{''.join(cases)}</testsuite>")

    def test_a_test_that_claims_the_whole_of_what_it_does_in_part(self):
        self.rows["T-QP-2"] = self.rows["T-QP-2"].replace("done | `src/hca/qp.h`", "part | `src/hca/qp.h`; lacks: landing")
        self.write_page()
        self.assert_finds("'part of T-QP-2'")
        self.write("src/hca/qp_test.cc", TESTS.replace("T-QP-1..T-QP-2", "T-QP-1, part of T-QP-2"))
        self.assertEqual(self.run_tool().returncode, 0)

    def test_results_in_which_all_passed(self):
        self.assert_clean(*self.ran(*PASSED))

    def test_results_of_several_files(self):
        first = self.write("first.xml", f"<testsuite>{PASSED[0]}</testsuite>")
        self.assert_clean(*self.ran(*PASSED[1:]), first)

    def test_a_test_that_did_not_run(self):
        self.assert_finds("src/hca/qp_test.cc: Qp.Is did not run", *self.ran(*PASSED[1:]))

    def test_a_test_that_failed_with_one_parameter(self):
        failed = '<testcase name="hca.States/EveryQp.Moves/Rtr" status="fail"><failure message="no"/></testcase>'
        self.assert_finds("EveryQp.Moves failed", *self.ran(*PASSED, failed), count=2)

    def test_a_test_that_was_skipped(self):
        skipped = PASSED[0].replace('status="run"/>', 'status="notrun"><skipped message="no"/></testcase>')
        self.assert_finds("Qp.Is was skipped", *self.ran(skipped, *PASSED[1:]))

    def test_another_rooms_test_of_the_same_name_counts_not(self):
        other = '<testcase name="cm.Qp.Is" status="fail"><failure/></testcase>'
        self.assert_clean(*self.ran(*PASSED, other))

    def test_totals(self):
        result = self.run_tool("--totals")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"Queue pairs +1 +1 +1 +1 +2 +0 +0 +0\n")
        self.assertRegex(result.stdout, r"Completion queues +0 +0 +0 +0 +0 +0 +0 +1\n")
        self.assertRegex(result.stdout, r"all +1 +1 +1 +1 +2 +0 +0 +1\n")


if __name__ == "__main__":
    unittest.main()
