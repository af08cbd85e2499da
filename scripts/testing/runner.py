"""Runs the stages of scripts/test: no-progress limits, second chances of live tests, the table. Standard library only.

Unit tests and simulation get no second chance. A live test that fails is run twice more, alone: if it passes both times it is
unsteady, which the table and the closing line say and its log shows, and does not fail the run. Stages of live programs that wait
more than they compute run a few at a time; what fails there is run again when they have ended, so that alone means alone. What later
stages build is built ahead while tests wait (build_ahead.py).
"""
import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import os
import re
import signal
import subprocess
import time
import xml.etree.ElementTree

from build_ahead import BuildAhead
from commands import LOGS, ROOT

SKIPPED = 77            # exit status of a check that cannot run here and says why
QUIET_SECONDS = 600     # policy: a command that has printed nothing for so long is stuck; no compiler or test takes half of it
LONGEST_SECONDS = 3600  # policy: nor does one that prints go on for ever
RETRIES = 2
LANES = 4               # policy: stages at a time that wait more than they compute


class Ended(Exception):
    """A command was stopped; the message says why."""


def run_command(command, log, quiet_seconds=None, longest_seconds=None):
    """The exit status; a command that makes no progress, which is output, is ended with its whole process group."""
    quiet_seconds, longest_seconds = quiet_seconds or QUIET_SECONDS, longest_seconds or LONGEST_SECONDS
    log.write(f"\n$ {command.shown()}\n")
    log.flush()
    child = subprocess.Popen(command.argv, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                             env={**os.environ, **command.variables()}, start_new_session=True)
    start = last_progress = time.monotonic()
    size = -1
    try:
        while True:
            try:
                return child.wait(0.2)
            except subprocess.TimeoutExpired:
                pass
            now, grown = time.monotonic(), os.fstat(log.fileno()).st_size
            if grown != size:
                size, last_progress = grown, now
            if now - last_progress > quiet_seconds:
                raise Ended(f"printed nothing for {quiet_seconds:.0f} s")
            if now - start > longest_seconds:
                raise Ended(f"still ran after {longest_seconds:.0f} s")
    except Ended as ended:
        log.write(f"\nscripts/test: ended: it {ended}\n")
        log.flush()
        return 124
    finally:
        end_group(child)


def end_group(child):
    """Ends what a command left behind, itself included."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, how)
            child.wait(5)
        except ProcessLookupError:
            return
        except (PermissionError, subprocess.TimeoutExpired):
            continue


def failed_tests(report):
    """Names of the tests that failed in a JUnit report of ctest; None if there is no such report."""
    try:
        cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    except (OSError, xml.etree.ElementTree.ParseError):
        return None
    return [case.get("name") for case in cases if case.get("status") not in ("run", "disabled", "notrun")
            or case.find("failure") is not None]


def live_tests(preset):
    """Names of the tests of a preset that have the label `live`."""
    shown = subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1"], cwd=ROOT, capture_output=True, text=True)
    names = set()
    for test in json.loads(shown.stdout or "{}").get("tests", ()):
        for property_ in test.get("properties", ()):
            if property_["name"] == "LABELS" and "live" in property_["value"]:
                names.add(test["name"])
    return names


def with_report(command, report):
    return dataclasses.replace(command, argv=(*command.argv, "--output-junit", str(report)))


def alone(command, name):
    """The same ctest command for one test only."""
    kept = list(command.argv)
    for option in ("-R", "-E", "-j", "--output-junit"):
        while option in kept:
            place = kept.index(option)
            del kept[place:place + 2]
    return dataclasses.replace(command, argv=(*kept, "-R", f"^{re.escape(name)}$", "-j", "1"))


def unsteady_of(command, report, log):
    """After a failure: the names of what passes when it is run twice more, alone; empty if the failure stands."""
    if command.live:
        retried = {" ".join(command.argv[2:]): command}
    elif command.ctest:
        failed = failed_tests(report)
        if not failed or not set(failed) <= live_tests(command.ctest):
            return ()
        retried = {name: alone(command, name) for name in failed}
    else:
        return ()
    for name, again in retried.items():
        for attempt in range(1, RETRIES + 1):
            log.write(f"\nscripts/test: {name} failed; alone, try {attempt} of {RETRIES}\n")
            if again.ctest:
                again = with_report(alone(command, name), report.with_suffix(f".again-{len(tuple(report.parent.glob('*.again-*.xml')))}.xml"))
            if run_command(again, log) != 0:
                return ()
    return tuple(retried)


class StageRun:
    """A stage under way. Beside others it goes until a live test fails: that waits until nothing else runs, and is then run again, alone."""

    def __init__(self, stage, ahead):
        self.stage, self.ahead, self.next, self.failed_status = stage, ahead, 0, 0
        self.path, self.report = LOGS / f"{stage.name}.log", LOGS / f"{stage.name}.xml"
        self.path.write_text("", encoding="utf-8")
        self.row = {"stage": stage.name, "verdict": "ok", "build_seconds": 0.0, "test_seconds": 0.0, "unsteady": []}

    def run(self, alone):
        """The row of the table, or nothing if the rest is to be run alone."""
        with open(self.path, "a", encoding="utf-8") as log, contextlib.ExitStack() as own_building:
            while self.next < len(self.stage.commands):
                command = self.stage.commands[self.next]
                if command.builds:
                    own_building.enter_context(self.ahead.held(self.stage))
                else:
                    own_building.close()
                if not self.run_one(command, log, alone):
                    return self.row if "detail" in self.row else None
                self.next += 1
        verdict = {"verdict": "unsteady", "detail": f"{', '.join(self.row['unsteady'])}; see {self.path.relative_to(ROOT)}"} if self.row["unsteady"] else {
            "detail": last_line(self.path)}
        return {**self.row, **verdict}

    def run_one(self, command, log, alone):
        """Whether to go on."""
        start = time.monotonic()
        if not self.failed_status:
            self.failed_status = run_command(with_report(command, self.report) if command.ctest else command, log)
        retried = self.failed_status not in (0, SKIPPED) and (command.live or command.ctest)
        unsteady = ()
        if retried and alone:
            with self.ahead.held():
                unsteady = unsteady_of(command, self.report, log)
        self.row["build_seconds" if command.builds else "test_seconds"] += time.monotonic() - start
        if retried and not alone:
            return False
        status, self.failed_status = self.failed_status, 0
        self.row["unsteady"] += unsteady
        if status == SKIPPED:
            self.row.update(verdict="skipped", detail=last_line(self.path))
        elif status != 0 and not unsteady:
            self.row.update(verdict="FAILED", detail=f"{' '.join(command.argv[-3:])}: exit status {status}; see {self.path.relative_to(ROOT)}")
        return "detail" not in self.row


def run_stage(stage, ahead):
    """A row of the table; the stage's output goes to its log."""
    return StageRun(stage, ahead).run(alone=True)


def run_beside(chosen, lanes, report, ahead):
    """Rows of stages that wait more than they compute, `lanes` at a time; what fails beside others has its second chance when they have ended."""
    runs = [StageRun(stage, ahead) for stage in chosen]

    def one(run):
        row = run.run(alone=len(runs) == 1)
        if row:
            report(row)
        return row

    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        rows = list(pool.map(one, runs))
    for place, run in enumerate(runs):
        if rows[place] is None:
            rows[place] = run.run(alone=True)
            report(rows[place])
    return rows


def last_line(path):
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:100] if lines else ""


def telling(lines):
    """What a log says beside "this test began" and "that test passed", which may be hundreds of lines after the one that failed."""
    return [line[:240] for line in lines if not re.match(r"\s*(Start +\d+: |\d+/\d+ Test +#\d+: .* Passed )", line)]


def with_needs(chosen, every):
    """The chosen stages and what they need, in order."""
    by_name = {stage.name: stage for stage in every}
    wanted, todo = set(), [stage.name for stage in chosen]
    while todo:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo += by_name[name].needs
    return [stage for stage in every if stage.name in wanted]


def groups_of(chosen):
    """The stages in order; neighbours that may run beside each other are one group."""
    return [list(group) for _, group in itertools.groupby(chosen, lambda stage: "beside" if stage.beside else stage.name)]


def run_all(chosen, verbose, lanes=LANES):
    LOGS.mkdir(parents=True, exist_ok=True)
    for old in LOGS.glob("*.xml"):
        old.unlink()
    what = {stage.name: stage.what for stage in chosen}
    results = []

    def report(row):
        print(f"{row['stage']:12} {what[row['stage']]}\n{'':12} {row['verdict']} after {row['build_seconds']:.0f} s of building and {row['test_seconds']:.0f} s of testing"
              + (f": {row['detail']}" if row["verdict"] != "ok" else ""), flush=True)
        if row["verdict"] in ("FAILED", "unsteady") or verbose:
            lines = (LOGS / f"{row['stage']}.log").read_text(encoding="utf-8", errors="replace").splitlines()
            print("\n".join("    | " + line for line in telling(lines)[-60:]), flush=True)

    with BuildAhead(chosen, LOGS / "ahead.log", ROOT) as ahead:
        for group in groups_of(chosen):
            print(f"{'':12} {', '.join(stage.name for stage in group)} ...", flush=True)
            blocked = {}
            for stage in group:
                missing = [row["stage"] for row in results if row["stage"] in stage.needs and row["verdict"] in ("FAILED", "blocked")]
                if missing:
                    blocked[stage.name] = {"stage": stage.name, "verdict": "blocked", "build_seconds": 0.0, "test_seconds": 0.0, "unsteady": [],
                                           "detail": "needs " + ", ".join(missing)}
                    report(blocked[stage.name])
            results += [*blocked.values(), *run_beside([stage for stage in group if stage.name not in blocked], lanes, report, ahead)]
            for row in results:
                if row["verdict"] in ("ok", "unsteady"):
                    ahead.passed(row["stage"])
    (LOGS / "summary.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


def print_table(results, elapsed=0.0):
    """The table; the exit status of the run, which took `elapsed` seconds."""
    print(f"\n{'stage':12} {'verdict':8} {'build':>7} {'test':>7}  last words")
    for row in results:
        print(f"{row['stage']:12} {row['verdict']:8} {row['build_seconds']:5.0f} s {row['test_seconds']:5.0f} s  {row['detail']}")
    bad = [row for row in results if row["verdict"] in ("FAILED", "blocked")]
    skipped = [row for row in results if row["verdict"] == "skipped"]
    unsteady = sum(len(row["unsteady"]) for row in results)
    building, testing = (sum(row[key] for row in results) for key in ("build_seconds", "test_seconds"))
    print(f"{'all':12} {'FAILED' if bad else 'ok':8} {building:5.0f} s {testing:5.0f} s  {len(results)} stages, {len(bad)} bad, {len(skipped)} skipped, {unsteady} unsteady tests, {elapsed:.0f} s in all")
    print(f"stages: {len(results) - len(bad) - len(skipped)} passed, {len(bad)} failed, {len(skipped)} skipped")
    return 1 if bad else 0
