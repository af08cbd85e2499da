#!/usr/bin/env python3
"""The runner of stages: what makes no progress ends, live tests get a second chance, others do not."""
import io
import pathlib
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import commands  # noqa: E402
import runner  # noqa: E402
import stages  # noqa: E402

REPORT = """<testsuite><testcase name="host.Lane.Works" status="run"/>
<testcase name="host.SharedHca.Shares" status="fail"><failure message=""/></testcase></testsuite>"""


def python(text, **options):
    return commands.Command((sys.executable, "-c", text), **options)


class Logs(unittest.TestCase):
    """A folder for the logs of one test."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        for name, value in (("LOGS", self.path), ("ROOT", self.path)):
            patch = unittest.mock.patch.object(runner, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def log(self):
        return open(self.path / "log", "w+", encoding="utf-8")


class Runner(Logs):
    def stage(self, *chosen):
        return runner.run_stage(commands.Stage("some", "what it is", chosen), runner.BuildAhead((), self.path / "ahead.log", self.path))

    def fails_until(self, runs, **options):
        """Fails in its first `runs` runs, then passes."""
        count = self.path / "count"
        return python(f"import os, sys; p = {str(count)!r}; n = os.path.getsize(p) if os.path.exists(p) else 0\n"
                      f"open(p, 'a').write('x'); print('run', n); sys.exit(n < {runs})", **options)

    def test_what_prints_nothing_is_ended_with_its_children(self):
        with self.log() as log:
            start = time.monotonic()
            status = runner.run_command(python("import subprocess; subprocess.run(['sleep', '60'])"), log, quiet_seconds=1)
            self.assertEqual(status, 124)
            self.assertLess(time.monotonic() - start, 30)
            log.seek(0)
            self.assertIn("printed nothing", log.read())

    def test_a_variable_is_asked_for_when_its_command_runs(self):
        installed = []
        command = python("import os, sys; sys.exit(os.environ['RUNTIME'] != 'there')", environment=(("RUNTIME", lambda: installed[0]),))
        installed.append("there")  # by an earlier stage
        with self.log() as log:
            self.assertEqual(runner.run_command(command, log), 0)
            log.seek(0)
            self.assertIn("RUNTIME=there", log.read())

    def test_what_prints_goes_on_but_not_for_ever(self):
        busy = python("import time\nfor _ in range(8): print('.', flush=True); time.sleep(0.4)")
        with self.log() as log:
            self.assertEqual(runner.run_command(busy, log, quiet_seconds=1.5), 0)
            self.assertEqual(runner.run_command(busy, log, longest_seconds=1), 124)

    def test_a_unit_test_gets_no_second_chance(self):
        self.assertEqual(self.stage(self.fails_until(1))["verdict"], "FAILED")

    def test_a_live_test_that_passes_twice_afterwards_is_unsteady(self):
        row = self.stage(self.fails_until(1, live=True))
        self.assertEqual((row["verdict"], len(row["unsteady"])), ("unsteady", 1))
        with unittest.mock.patch("sys.stdout", io.StringIO()) as shown:
            self.assertEqual(runner.print_table([row]), 0)
        self.assertIn("1 unsteady tests", shown.getvalue())
        self.assertIn("stages: 1 passed, 0 failed, 0 skipped", shown.getvalue())

    def test_a_live_test_that_fails_twice_has_failed(self):
        row = self.stage(self.fails_until(2, live=True))
        self.assertEqual(row["verdict"], "FAILED")
        with unittest.mock.patch("sys.stdout", io.StringIO()):
            self.assertEqual(runner.print_table([row]), 1)

    def test_only_tests_with_the_label_are_run_again(self):
        report = self.path / "report.xml"
        report.write_text(REPORT)
        self.assertEqual(runner.failed_tests(report), ["host.SharedHca.Shares"])
        command = commands.ctest("dev", 2, 60)[-1]
        for labelled, expected in ((set(), ()), ({"host.SharedHca.Shares"}, ("host.SharedHca.Shares",))):
            with self.log() as log, unittest.mock.patch.object(runner, "live_tests", return_value=labelled), \
                    unittest.mock.patch.object(runner, "run_command", return_value=0) as again:
                self.assertEqual(runner.unsteady_of(command, report, log), expected)
                self.assertEqual(again.call_count, 2 * len(expected))

    def test_one_test_alone_keeps_nothing_of_the_choice_before(self):
        command = runner.with_report(commands.ctest("tsan", 2, 60, "^host[.]", "Explorer")[-1], "some.xml")
        argv = runner.alone(command, "host.A/1").argv
        self.assertEqual(argv[-4:], ("-R", "^host\\.A/1$", "-j", "1"))
        self.assertNotIn("--output-junit", argv)
        self.assertNotIn("Explorer", argv)

    def test_no_report_is_no_excuse(self):
        command = commands.ctest("dev", 2, 60)[-1]
        with self.log() as log:
            self.assertEqual(runner.unsteady_of(command, self.path / "absent.xml", log), ())

    def test_a_check_that_cannot_run_is_skipped_and_says_so(self):
        row = self.stage(python("import sys; print('no such device'); sys.exit(77)"))
        self.assertEqual((row["verdict"], row["detail"]), ("skipped", "no such device"))


class Beside(Logs):
    """Stages that may run at the same time as their neighbours."""

    def run_all(self, *chosen, **options):
        with unittest.mock.patch("sys.stdout", io.StringIO()) as shown:
            results = runner.run_all(chosen, False, **options)
        self.shown = shown.getvalue()
        return {row["stage"]: row for row in results}

    def beside(self, name, *chosen, **options):
        return commands.Stage(name, "what it is", chosen, beside=True, **options)

    def waits_for(self, mine, others):
        """Leaves a mark, and waits for another's."""
        return python(f"import os, time\nopen({str(self.path / mine)!r}, 'w')\nend = time.monotonic() + 20\n"
                      f"while not os.path.exists({str(self.path / others)!r}) and time.monotonic() < end: time.sleep(0.02)\n"
                      f"print('met' if time.monotonic() < end else 'alone')")

    def test_neighbours_run_at_the_same_time(self):
        rows = self.run_all(self.beside("a", self.waits_for("1", "2")), self.beside("b", self.waits_for("2", "1")), lanes=2)
        self.assertEqual([rows[name]["detail"] for name in "ab"], ["met", "met"])

    def test_others_wait_until_they_have_ended(self):
        late = python(f"import os, time; time.sleep(0.5); open({str(self.path / 'late')!r}, 'w')")
        looks = python(f"import os; print(os.path.exists({str(self.path / 'late')!r}))")
        rows = self.run_all(self.beside("a", late), self.beside("b", late), commands.Stage("c", "what it is", (looks,)), lanes=2)
        self.assertEqual(rows["c"]["detail"], "True")

    def test_what_fails_beside_others_is_run_again_alone_and_then_goes_on(self):
        gone = python(f"import os, time; time.sleep(1); open({str(self.path / 'gone')!r}, 'w')")
        # Fails while the other stage runs.
        meets = python(f"import os, sys; there = os.path.exists({str(self.path / 'gone')!r}); print('there', there); sys.exit(not there)", live=True)
        rows = self.run_all(self.beside("a", meets, python("print('the end')")), self.beside("b", gone), lanes=2)
        self.assertEqual((rows["a"]["verdict"], len(rows["a"]["unsteady"])), ("unsteady", 1))
        self.assertIn("the end", (self.path / "a.log").read_text())

    def test_what_fails_alone_too_has_failed(self):
        rows = self.run_all(self.beside("a", python("raise SystemExit(3)", live=True)), self.beside("b", python("print('well')")), lanes=2)
        self.assertEqual((rows["a"]["verdict"], rows["b"]["verdict"]), ("FAILED", "ok"))

    def test_what_needs_a_failed_stage_is_blocked_and_its_neighbours_are_not(self):
        fails = commands.Stage("first", "what it is", (python("raise SystemExit(3)"),))
        rows = self.run_all(fails, self.beside("a", python("print(1)"), needs=("first",)), self.beside("b", python("print(2)")))
        self.assertEqual({name: row["verdict"] for name, row in rows.items()}, {"first": "FAILED", "a": "blocked", "b": "ok"})


class Stages(unittest.TestCase):
    def test_neighbours_do_not_need_each_other(self):
        for group in runner.groups_of(stages.stages(2)):
            self.assertFalse({stage.name for stage in group} & {need for stage in group for need in stage.needs})

    def test_needs_are_stages_before_their_users(self):
        for long in (False, True):
            seen = set()
            for stage in stages.stages(2, long):
                self.assertLessEqual(set(stage.needs), seen, stage.name)
                seen.add(stage.name)

    def test_long_runs_do_the_whole_of_what_short_ones_do_a_part_of(self):
        def parts(long):
            return sum("--smoke" in command.argv for stage in stages.stages(2, long) for command in stage.commands)
        self.assertGreater(parts(False), 10)
        self.assertLessEqual(parts(True), 1)  # under the sanitizers a part is enough


if __name__ == "__main__":
    unittest.main()
