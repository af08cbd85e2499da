#!/usr/bin/env python3
"""rdma-core's own tests, as Debian's python3-pyverbs and rdma-core ship them, on one host of a pair fabric, by an ordinary user.

    pyverbs.py [--match TEXT] [--list] [--json FILE] [--verbose]

Every test must pass or stand in pyverbs_skips.txt, which says why it is skipped; a test that stands there and passes is as wrong
as one that is skipped and does not. The tests of other vendors' drivers (mlx5, efa) are left out.
"""
import argparse
import dataclasses
import gzip
import json
import os
import pathlib
import pwd
import re
import subprocess
import sys
import tempfile
import time

import verdicts
import weft_clients

SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"     # Debian's, which finds Debian's pyverbs
HERE = pathlib.Path(__file__).resolve().parent
SKIPS = HERE / "pyverbs_skips.txt"
TEST_SECONDS = 60               # policy: the longest a test may take; most take less than one
FILE_SECONDS = 300              # policy: the same for all tests of a file
MOST_SKIPPED = 30               # whatever the frozen list says
BAD = ("failed", "error")
VERDICTS = ("ok", "skipped", "failed", "error")
# A skip that only the machine decides about, not Weft: it may happen or not.
MACHINE = "machine: "


@dataclasses.dataclass
class Outcome:
    name: str                    # tests.test_x.Class.test_y
    verdict: str
    detail: str = ""

    @property
    def file(self):
        return self.name.split(".")[1]


def is_generic(name):
    """Of a file of the suite: one that says nothing of a vendor's driver, or that those need."""
    return not re.match(r"test_(mlx5|efa)", name)


def unpack(folder):
    """The suite as a package `tests` below the folder."""
    package = folder / "tests"
    package.mkdir()
    for path in sorted(SUITE.iterdir()):
        name = path.name.removesuffix(".gz")
        if name.endswith(".py") and is_generic(name):
            text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            (package / name).write_bytes(text)


def run_inside(fabric, folder, results, names, seconds):
    """What the process said, after its end or once it is cut off: no test may take TEST_SECONDS, all together `seconds`."""
    child = fabric.start("h1", [PYTHON, "-B", str(HERE / "pyverbs_inside.py"), str(folder), str(results), weft_clients.address_of("h1"), *names])
    deadline, size, moved = time.monotonic() + seconds, -1, time.monotonic()
    with child:
        while True:
            try:
                output = child.communicate(timeout=0.2)[0]
                return output, f"the program ended with status {child.returncode}"
            except subprocess.TimeoutExpired:
                now = time.monotonic()
                new_size = results.stat().st_size if results.exists() else 0
                if new_size != size:
                    size, moved = new_size, now
                if now > deadline or now > moved + TEST_SECONDS:
                    weft_clients.end(child)
                    return child.communicate()[0], f"cut off after {now - moved:.0f} s without an end"


def read_results(path):
    """The verdicts so far and the test that has begun and not ended."""
    outcomes, begun = [], None
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        said = json.loads(line)
        if said["verdict"] == "begun":
            begun = said["test"]
        else:
            outcomes.append(Outcome(said["test"], said["verdict"], said["detail"]))
            begun = None
    return outcomes, begun


def run_file(fabric, folder, names):
    """All tests of one file, in order; what hangs or dies counts as failed, and the others still run."""
    outcomes, left, start = [], list(names), time.monotonic()
    while left:
        seconds = FILE_SECONDS - (time.monotonic() - start)
        if seconds <= 0:
            outcomes += [Outcome(name, "failed", f"no time left: the file took {FILE_SECONDS} s") for name in left]
            break
        results = pathlib.Path(tempfile.mkstemp(dir=folder, suffix=".json")[1])
        output, end = run_inside(fabric, folder, results, left, seconds)
        done, begun = read_results(results)
        if begun:
            done.append(Outcome(begun, "failed", f"{end}\n{output}"))
        ran = {outcome.name for outcome in done}
        if not ran & set(left):
            done, ran = [Outcome(name, "error", f"never begun: {end}\n{output}") for name in left], set(left)
        outcomes += done
        left = [name for name in left if name not in ran]
    return outcomes


def every_test(fabric, folder):
    """{file: [test name]} of the generic files, as the suite's own loader finds them."""
    script = ("import sys, unittest; sys.path[:0] = [sys.argv[1], sys.argv[1] + '/tests']; from args_parser import parser; "
              "sys.argv[1:] = []; parser.parse_args(); import tests\n"
              "for module in tests.__test_modules__:\n"
              "  for suite in unittest.defaultTestLoader.loadTestsFromModule(module):\n"
              "    for test in suite: print('TEST', test.id())")
    child = fabric.start("h1", [PYTHON, "-B", "-c", script, str(folder)])
    output = child.communicate(timeout=TEST_SECONDS)[0]
    found = {}
    for name in re.findall(r"^TEST (\S+)$", output, re.MULTILINE):
        found.setdefault(name.split(".")[1], []).append(name)
    if not found:
        raise RuntimeError(f"the suite does not load:\n{output}")
    return found


def read_skips(path):
    """{test name: reason} of the frozen list."""
    skips = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, reason = line.split(None, 1)
            skips[name] = reason
    return skips


def complaints(outcomes, skips, all_ran):
    """What is wrong with a run, in words; nothing when it is as the frozen list says."""
    found = [f"{outcome.verdict}: {outcome.name}" for outcome in outcomes if outcome.verdict in BAD]
    for outcome in outcomes:
        reason = skips.get(outcome.name)
        if outcome.verdict == "skipped" and reason is None:
            found.append(f"skipped, but not in {SKIPS.name}: {outcome.name}: {outcome.detail}")
        if outcome.verdict == "ok" and reason is not None and not reason.startswith(MACHINE):
            found.append(f"passes, so it must go from {SKIPS.name}: {outcome.name}")
    ran = {outcome.name for outcome in outcomes}
    if all_ran:
        found += [f"in {SKIPS.name}, but there is no such test: {name}" for name in skips if name not in ran]
    return found


def table(outcomes):
    lines = [f"{'file':24} {'tests':>5} {'ok':>5} {'skipped':>8} {'failed':>7} {'error':>6}"]
    files = {}
    for outcome in outcomes:
        files.setdefault(outcome.file, []).append(outcome.verdict)
    for name, found in [*sorted(files.items()), ("all", [outcome.verdict for outcome in outcomes])]:
        ok, skipped, failed, error = (found.count(verdict) for verdict in VERDICTS)
        lines.append(f"{name:24} {len(found):5} {ok:5} {skipped:8} {failed:7} {error:6}")
    return "\n".join(lines)


def rows_of(outcomes, skips):
    """For docs/COMPATIBILITY.md, by file. What a machine's own lack skips is no property of ours."""
    files = {}
    for outcome in outcomes:
        files.setdefault(outcome.file, []).append(outcome)
    rows = []
    for name, tests in files.items():
        counted = [test for test in tests if not skips.get(test.name, "").startswith(MACHINE)]
        if not counted:
            continue
        if any(test.verdict in BAD for test in counted):
            verdict = verdicts.FAILED
        elif not any(test.verdict == "skipped" for test in counted):
            verdict = verdicts.WORKS
        else:
            verdict = f"works in part, see {SKIPS.name}" if any(test.verdict == "ok" for test in counted) else f"not yet, see {SKIPS.name}"
        rows.append(verdicts.Row("pyverbs", f"rdma-core's tests/{name}.py", verdict, verdicts.version_of_package("python3-pyverbs")))
    return rows


def become_ordinary(folder):
    """RDMA in user space must need no privileges: root runs all of this as nobody."""
    if os.geteuid() == 0:
        user = pwd.getpwnam(os.environ.get("WEFT_DEMO_USER", "nobody"))
        os.chown(folder, user.pw_uid, user.pw_gid)
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--match", metavar="TEXT", default="", help="only the tests whose name holds this text")
    parser.add_argument("--list", action="store_true", help="print the tests' names, run nothing")
    parser.add_argument("--json", metavar="FILE", help="write every test with its verdict")
    parser.add_argument("--verbose", action="store_true", help="print every verdict as it comes, and the reasons of skips")
    arguments = parser.parse_args()
    if not SUITE.is_dir() or subprocess.run([PYTHON, "-c", "import pyverbs"], capture_output=True).returncode != 0:
        sys.exit("python3-pyverbs or rdma-core's tests: not installed (scripts/bootstrap)")
    skips = read_skips(SKIPS)
    report = open(arguments.json, "w", encoding="utf-8") if arguments.json else None
    whole = not arguments.match and not arguments.list
    kept = verdicts.open_for(weft_clients.build_folder(), "pyverbs") if whole else None
    with tempfile.TemporaryDirectory(prefix="weft-pyverbs-") as name:
        folder = pathlib.Path(name)
        become_ordinary(folder)
        os.environ["WEFT_RUN"] = str(folder / "run")
        unpack(folder)
        with weft_clients.Fabric("pair", "pyverbs") as fabric:
            chosen = {file: [test for test in tests if arguments.match in test] for file, tests in every_test(fabric, folder).items()}
            if arguments.list:
                print("\n".join(test for tests in chosen.values() for test in tests))
                return 0
            outcomes = []
            for tests in chosen.values():
                for outcome in run_file(fabric, folder, tests):
                    outcomes.append(outcome)
                    if outcome.verdict in BAD or arguments.verbose:
                        print(f"{outcome.verdict:8} {outcome.name}" + (f": {outcome.detail}" if outcome.detail else ""), flush=True)
    if report:
        json.dump([dataclasses.asdict(outcome) for outcome in outcomes], report, indent=1)
    if kept:
        verdicts.write(kept, rows_of(outcomes, skips), whole)
        kept.close()
    print("\n" + table(outcomes))
    found = complaints(outcomes, skips, not arguments.match)
    skipped = [outcome for outcome in outcomes if outcome.verdict == "skipped"]
    if len(skipped) > MOST_SKIPPED:
        found.append(f"{len(skipped)} tests were skipped; at most {MOST_SKIPPED} may be")
    for complaint in found:
        print(complaint)
    print(f"pyverbs: {len(outcomes)} tests, {sum(outcome.verdict == 'ok' for outcome in outcomes)} ok, "
          f"{sum(outcome.verdict == 'skipped' for outcome in outcomes)} skipped, {len(found)} complaints")
    return 1 if found or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
