#!/usr/bin/env python3
"""The judgement of pyverbs.py, tried on a suite whose tests pass, skip, fail, hang and die, without a fabric."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pyverbs  # noqa: E402

ARGS_PARSER = """
class Parser:
    def parse_args(self):
        pass
parser = Parser()
"""
TESTS = """
import os, time, unittest
class Test(unittest.TestCase):
    def test_a_passes(self): pass
    def test_b_skips(self): self.skipTest("no such thing")
    def test_c_fails(self): self.fail("wrong")
    def test_d_hangs(self): time.sleep(60)
    def test_e_errs(self): raise RuntimeError("broken")
    def test_f_dies(self): os.kill(os.getpid(), 9)
    def test_g_passes(self): pass
"""


class NoFabric:
    def start(self, _host, command, _environment=None):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                start_new_session=True)


class Judgement(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("args_parser", ARGS_PARSER), ("__init__", ""), ("test_x", TESTS)):
            (self.folder / "tests").mkdir(exist_ok=True)
            (self.folder / "tests" / f"{name}.py").write_text(text)
        self.addCleanup(setattr, pyverbs, "TEST_SECONDS", pyverbs.TEST_SECONDS)
        self.addCleanup(setattr, pyverbs, "PYTHON", pyverbs.PYTHON)
        pyverbs.TEST_SECONDS, pyverbs.PYTHON = 2, sys.executable

    def run_tests(self, *names):
        outcomes = pyverbs.run_file(NoFabric(), self.folder, [f"tests.test_x.Test.test_{name}" for name in names])
        return {outcome.name.rsplit("_", 2)[1]: outcome.verdict for outcome in outcomes}, outcomes

    def test_every_test_has_a_verdict_whatever_the_others_do(self):
        verdicts, outcomes = self.run_tests("a_passes", "b_skips", "c_fails", "d_hangs", "e_errs", "f_dies", "g_passes")
        self.assertEqual(verdicts, {"a": "ok", "b": "skipped", "c": "failed", "d": "failed", "e": "error", "f": "failed", "g": "ok"})
        details = {outcome.name.rsplit("_", 2)[1]: outcome.detail for outcome in outcomes}
        self.assertEqual(details["b"], "no such thing")
        self.assertIn("wrong", details["c"])
        self.assertIn("cut off", details["d"])
        self.assertIn("status -9", details["f"])

    def test_a_test_that_is_not_there_is_an_error(self):
        verdicts, _ = self.run_tests("z_missing")
        self.assertEqual(verdicts, {"z": "error"})

    def test_the_frozen_list_must_hold_exactly_what_is_skipped(self):
        ok, skipped = pyverbs.Outcome("tests.test_x.A", "ok"), pyverbs.Outcome("tests.test_x.B", "skipped", "why")

        def complain(skips, all_ran=True):
            return pyverbs.complaints([ok, skipped], skips, all_ran)
        self.assertEqual(complain({"tests.test_x.B": "reason"}), [])
        self.assertEqual(len(complain({})), 1)
        self.assertEqual(len(complain({"tests.test_x.A": "reason", "tests.test_x.B": "reason"})), 1)
        self.assertEqual(complain({"tests.test_x.A": "machine: perhaps", "tests.test_x.B": "machine: perhaps"}), [])
        self.assertEqual(len(complain({"tests.test_x.B": "reason", "tests.test_x.C": "reason"})), 1)
        self.assertEqual(complain({"tests.test_x.B": "reason", "tests.test_x.C": "reason"}, all_ran=False), [])
        failed = pyverbs.Outcome("tests.test_x.B", "failed")
        self.assertEqual(len(pyverbs.complaints([failed], {"tests.test_x.B": "reason"}, True)), 1)

    def test_the_frozen_list_gives_every_test_a_reason(self):
        skips = pyverbs.read_skips(pyverbs.SKIPS)
        self.assertTrue(skips)
        for name, reason in skips.items():
            self.assertRegex(name, r"^tests\.test_\w+\.\w+\.test_\w+$")
            self.assertGreater(len(reason), 10, name)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
