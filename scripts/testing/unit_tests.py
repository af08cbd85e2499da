#!/usr/bin/env python3
"""Runs a preset's unit tests many to a process, where ctest starts one for each: most of those seconds were the start of sanitized programs.

    scripts/testing/unit_tests.py PRESET --jobs N --report FILE [--only REGEX] [--except REGEX]

What ctest knows under the label `unit` is run, under the same names, and told in FILE in the form of ctest's JUnit. A program that ends
in the middle of a test is begun again at the next: one crash costs one test. Standard library only.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
AT_ONCE = 25        # tests of a process: few enough that all CPUs end together
TEST_SECONDS = 300  # policy: what ctest gives one test
# What takes long, and is begun first, so that all CPUs end together.
LONG = re.compile(r"Planted|Interleaving|Simulation|EveryState|Reroute|LargeFabric|Routing|Orders")
LINE = re.compile(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] (\S+?)(?:,? |$)")
TOOK = re.compile(r"\((\d+) ms\)$")


@dataclasses.dataclass
class Test:
    name: str     # ctest's: room.Suite.Case
    gtest: str    # what the program calls it: Suite.Case


@dataclasses.dataclass
class Outcome:
    name: str
    status: str   # "run", "fail" or "notrun", as ctest has it
    output: str = ""
    seconds: float = 0.0


@dataclasses.dataclass
class Share:
    """Tests of one program that one process runs."""
    program: str
    folder: str
    tests: list


def programs(listing, only=None, without=None):
    """{(program, folder): [Test]} of what `ctest --show-only=json-v1` says of tests with the label `unit`."""
    found = collections.defaultdict(list)
    for test in listing["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", ())}
        name = test["name"]
        if "unit" not in properties.get("LABELS", ()) or (only and not re.search(only, name)) or (without and re.search(without, name)):
            continue
        command = test.get("command")
        if not command:
            raise SystemExit(f"unit_tests: {name} is not built")
        gtest = next(word.removeprefix("--gtest_filter=") for word in command if word.startswith("--gtest_filter="))
        found[command[0], properties["WORKING_DIRECTORY"]].append(Test(name, gtest))
    return found


def shares(found, at_once=AT_ONCE):
    every = [Share(program, folder, tests[first:first + at_once])
             for (program, folder), tests in found.items() for first in range(0, len(tests), at_once)]
    return sorted(every, key=lambda share: not any(LONG.search(test.name) for test in share.tests))


class Listener:
    """Takes a process's lines: which test they belong to, and how it ended. A test that takes too long ends the process."""

    def __init__(self, process, tests, seconds):
        self.process, self.seconds = process, seconds
        self.names = {test.gtest for test in tests}
        self.lines, self.status, self.took = collections.defaultdict(list), {}, {}
        self.current, self.timed_out = "", False
        self.timer = None
        self.arm()
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def arm(self):
        self.disarm()
        self.timer = threading.Timer(self.seconds, self.end)
        self.timer.daemon = True
        self.timer.start()

    def disarm(self):
        if self.timer:
            self.timer.cancel()

    def end(self):
        self.timed_out = True
        kill_group(self.process)

    def listen(self):
        for line in self.process.stdout:
            for word, name in LINE.findall(line):
                if name not in self.names:
                    continue
                if word == "RUN":
                    self.current = name
                    self.arm()
                elif name not in self.status or word == "FAILED":  # which its summary at the end repeats
                    self.status[name] = {"OK": "run", "FAILED": "fail", "SKIPPED": "notrun"}[word]
                    if took := TOOK.search(line.rstrip()):
                        self.took[name] = int(took[1]) / 1000
            self.lines[self.current].append(line)


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_process(share, seconds):
    """What one process said, and its exit status; nothing of it is left."""
    command = [share.program, "--gtest_filter=" + ":".join(test.gtest for test in share.tests), "--gtest_also_run_disabled_tests"]
    process = subprocess.Popen(command, cwd=share.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    listener = Listener(process, share.tests, seconds)
    status = process.wait()
    listener.disarm()
    kill_group(process)  # a child that still held the pipe
    listener.thread.join(10)
    process.stdout.close()
    return listener, status


def run_share(share, seconds=TEST_SECONDS):
    """The outcomes of the share's tests, in as many processes as it takes."""
    outcomes, left = [], list(share.tests)
    while left:
        said, exit_status = run_process(dataclasses.replace(share, tests=left), seconds)
        ended = [test for test in left if test.gtest in said.status]
        outcomes += [Outcome(test.name, said.status[test.gtest], "".join(said.lines[test.gtest]), said.took.get(test.gtest, 0.0)) for test in ended]
        left = [test for test in left if test.gtest not in said.status]
        if left:
            why = f"took more than {seconds} s" if said.timed_out else f"ended the program: status {exit_status}"
            blamed = next((test for test in left if test.gtest == said.current), left[0])
            outcomes.append(Outcome(blamed.name, "fail", "".join(said.lines[said.current]) + f"\nunit_tests: {blamed.name} {why}\n"))
            left.remove(blamed)
        elif exit_status != 0 and all(outcome.status != "fail" for outcome in outcomes):  # such as what LeakSanitizer finds at the end
            last = outcomes[-1]
            last.status, last.output = "fail", last.output + f"\nunit_tests: status {exit_status} after the last of: {' '.join(test.name for test in share.tests)}\n"
    return outcomes


def write_report(path, outcomes):
    suite = xml.etree.ElementTree.Element("testsuite", name="unit", tests=str(len(outcomes)))
    for outcome in outcomes:
        case = xml.etree.ElementTree.SubElement(suite, "testcase", name=outcome.name, status=outcome.status, time=f"{outcome.seconds:.3f}")
        if outcome.status == "fail":
            xml.etree.ElementTree.SubElement(case, "failure", message="failed")
        elif outcome.status == "notrun":
            xml.etree.ElementTree.SubElement(case, "skipped")
    xml.etree.ElementTree.ElementTree(suite).write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at a time (default: CPUs)")
    parser.add_argument("--report", type=pathlib.Path, required=True, help="JUnit file to write")
    parser.add_argument("--only", metavar="REGEX", help="only tests whose name has this")
    parser.add_argument("--except", metavar="REGEX", dest="without", help="no test whose name has this")
    arguments = parser.parse_args()
    listing = subprocess.run(["ctest", "--preset", arguments.preset, "--show-only=json-v1"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    every_share = shares(programs(json.loads(listing.stdout), arguments.only, arguments.without))
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for share, ended in zip(every_share, pool.map(run_share, every_share)):
            outcomes += ended
            failed = [outcome for outcome in ended if outcome.status == "fail"]
            print(f"{pathlib.Path(share.program).name}: {len(ended) - len(failed)} of {len(ended)} from {share.tests[0].name}", flush=True)
            for outcome in failed:
                print(f"{outcome.output}\nFAILED: {outcome.name}", flush=True)
    write_report(arguments.report, outcomes)
    failed = sum(outcome.status == "fail" for outcome in outcomes)
    skipped = sum(outcome.status == "notrun" for outcome in outcomes)
    print(f"{len(outcomes)} unit tests in {len(every_share)} shares: {failed} failed, {skipped} skipped")
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
