#!/usr/bin/env python3
"""What is built ahead, when, and by what right: against stages that leave marks in a folder."""
import io
import os
import pathlib
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import build_ahead  # noqa: E402
import commands  # noqa: E402
import runner  # noqa: E402

LONG = 20  # seconds that no step takes
ENDLESS = 3 * LONG
WAIT = f"""
import os, pathlib, sys, time
def wait_for(path):
    end = time.monotonic() + {LONG}
    while not pathlib.Path(path).exists():
        time.sleep(0.02)
        if time.monotonic() > end:
            sys.exit(f'no {{path}}')
"""


class BuildsAhead(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        for name in ("LOGS", "ROOT"):
            patch = unittest.mock.patch.object(runner, name, self.path)
            patch.start()
            self.addCleanup(patch.stop)

    def python(self, text, **options):
        return commands.Command((sys.executable, "-c", WAIT + text), **options)

    def run_all(self, *chosen):
        with unittest.mock.patch("sys.stdout", io.StringIO()):
            return {row["stage"]: row["verdict"] for row in runner.run_all(chosen, False)}

    def stage(self, name, *chosen, needs=("first",)):
        return commands.Stage(name, "what it is", chosen, needs=needs)

    def first(self, text="pass"):
        return self.stage("first", self.python(text), needs=())

    def test_while_a_test_waits_and_only_in_time_that_others_leave(self):
        says = ("group = pathlib.Path('/proc/self/autogroup')\n"
                "said = [os.sched_getscheduler(0), int(group.read_text().split()[-1]) if group.exists() else None]\n"
                "pathlib.Path('new').write_text(repr(said)); os.rename('new', f'said{os.path.exists(\"said0\"):d}')")
        waits = self.python("wait_for('said0'); time.sleep(0.2)")
        self.assertEqual(self.run_all(self.first(), self.stage("tests", waits), self.stage("later", self.python(says, builds=True))),
                         {"first": "ok", "tests": "ok", "later": "ok"})
        ahead, by_the_stage = ((self.path / f"said{number}").read_text() for number in (0, 1))
        has_groups = pathlib.Path("/proc/self/autogroup").exists()
        self.assertEqual(ahead, repr([os.SCHED_IDLE, 19 if has_groups else None]))
        self.assertEqual(by_the_stage, repr([os.SCHED_OTHER, 0 if has_groups else None]), "which looks whether all is done")

    def test_not_before_what_it_needs_has_passed(self):
        builds = self.python("open('built', 'w')", builds=True)
        looks = self.python("time.sleep(0.5); sys.exit(os.path.exists('built'))")
        self.assertEqual(self.run_all(self.stage("first", looks, needs=()), self.stage("later", builds)), {"first": "ok", "later": "ok"})
        (self.path / "built").unlink()
        fails = self.stage("first", self.python("sys.exit(1)"), needs=())
        self.assertEqual(self.run_all(fails, self.stage("tests", looks, needs=()), self.stage("later", builds)),
                         {"first": "FAILED", "tests": "ok", "later": "blocked"})
        self.assertFalse((self.path / "built").exists())

    def test_not_beside_a_stages_own_building(self):
        # What is built ahead does not end by itself; a second stage's own building, and its tests, see it gone.
        endless = self.python(f"open(f'pid{{os.getpid()}}', 'w'); time.sleep({ENDLESS} if os.sched_getscheduler(0) == os.SCHED_IDLE else 0)", builds=True)
        sees_none = ("import glob\n"
                     "def running(): return [pid for pid in glob.glob('pid*') if os.path.exists(f'/proc/{pid[3:]}')]\n")
        waits = self.python(sees_none + f"end = time.monotonic() + {LONG}\nwhile not running() and time.monotonic() < end: time.sleep(0.02)\nsys.exit(not running())")
        builds = self.python(sees_none + "sys.exit(len(running()))", builds=True)
        start = time.monotonic()
        self.assertEqual(self.run_all(self.first(), self.stage("waits", waits), self.stage("builds", builds, waits), self.stage("later", endless)),
                         {"first": "ok", "waits": "ok", "builds": "ok", "later": "ok"})
        self.assertLess(time.monotonic() - start, ENDLESS)

    def is_gone(self, pid):
        state = pathlib.Path("/proc", pid, "stat")
        return not state.exists() or state.read_text().split()[2] == "Z"

    def ended(self, endless):
        """Seconds until a build that does not end by itself has ended with the run, and whether the process that it started has."""
        with runner.BuildAhead([self.stage("later", self.python(endless, builds=True))], self.path / "ahead.log", self.path) as ahead:
            ahead.passed("first")
            end = time.monotonic() + LONG
            while not (self.path / "pid").exists() and time.monotonic() < end:
                time.sleep(0.02)
            start = time.monotonic()
        taken, pid, end = time.monotonic() - start, (self.path / "pid").read_text(), time.monotonic() + 1
        while not self.is_gone(pid) and time.monotonic() < end:
            time.sleep(0.02)
        return taken, self.is_gone(pid)

    def test_nothing_is_left_when_the_run_ends(self):
        # As ninja and its compilers are: each of these in a group of its own, which ninja ends.
        ninja = ("import signal, subprocess\n"
                 f"child = subprocess.Popen(['sleep', '{ENDLESS}'], start_new_session=True)\n"
                 "signal.signal(signal.SIGTERM, lambda *_: (child.kill(), sys.exit(2)))\n"
                 "open('new', 'w').write(str(child.pid)); os.rename('new', 'pid')\n"
                 "child.wait()")
        taken, is_gone = self.ended(ninja)
        self.assertTrue(is_gone)
        self.assertLess(taken, LONG)

    def test_what_does_not_end_is_killed(self):
        deaf = ("import signal\n"
                "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                f"open('new', 'w').write(str(os.getpid())); os.rename('new', 'pid'); time.sleep({ENDLESS})")
        with unittest.mock.patch.object(build_ahead, "ENDS_WITHIN", 1):
            taken, is_gone = self.ended(deaf)
        self.assertTrue(is_gone)
        self.assertLess(taken, LONG)


if __name__ == "__main__":
    unittest.main()
