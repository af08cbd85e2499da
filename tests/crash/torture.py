#!/usr/bin/env python3
"""One-sided operations of random kind and size against memory that is registered, bound, unbound, invalidated, deregistered, unmapped and freed meanwhile, by a
target that forks, from initiators that are killed, stopped and continued, while captures come and go: nothing is written after a key has ended, and every octet
has a value that it was given. In each mode of direct placement.

    torture.py [--smoke] [--count N] [--seed N] [--mode direct|cma|auto|packets] [--no-captures]

The two programs (torture_target.cc, torture_initiator.cc) judge; this lets them meet, and troubles them.
"""
import collections
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import time

import crash

MODES = ("direct", "cma", "auto", "packets")
KINDS = ("write", "read", "add")
PATIENCE_SECONDS = 120    # policy: without one more operation
LONGEST_ENDING = 10.0     # policy: seconds to end a key, on a machine that is as busy as can be; 0.1 on an idle one
HEADER = struct.Struct("=7I4x4Q")  # of torture::Journal: what comes before its operations


class Journal:
    def __init__(self, path):
        self.path = path
        path.touch()

    def counts(self):
        """What has ended, by kind."""
        with self.path.open("rb") as file:
            text = file.read(HEADER.size)
        if len(text) < HEADER.size:
            return collections.Counter()
        *_, write, read, add, failures = HEADER.unpack(text)
        return collections.Counter(write=write, read=read, add=add, failures=failures)


def way_of(qp):
    return "shared pages" if qp["why"].startswith("shared pages") else qp["way"]


class Torture:
    def __init__(self, fabric, mode, count, seed, captures):
        self.fabric, self.count, self.random = fabric, count, random.Random(f"{seed} {mode}")
        os.environ["WEFT_PLACEMENT"] = mode  # of all programs from now on
        self.journal = Journal(pathlib.Path(fabric.folder) / f"journal-{mode}")
        self.captures, self.capture, self.happened, self.ways = captures, None, collections.Counter(), set()

    def run(self):
        target = self.fabric.converse("h1", [crash.program("torture_target"), str(self.journal.path), str(self.random.randrange(1 << 32))])
        crash.require(target.stdout.readline().split() == ["ready"], lambda: f"the target ended with {target.wait(10)}")
        initiator = self.start()
        done, deadline = 0, time.monotonic() + PATIENCE_SECONDS
        while True:
            status = initiator.poll()
            crash.require(target.poll() is None, lambda: f"the target ended with {target.returncode} after {self.journal.counts()}")
            if status == 0:
                break
            crash.require(status is None, lambda: f"the initiator ended with {status}: {initiator.stdout.read()}")
            now = sum(self.journal.counts().values())
            if now > done:
                done, deadline = now, time.monotonic() + PATIENCE_SECONDS
            crash.require(time.monotonic() < deadline, lambda: f"no operation for {PATIENCE_SECONDS} s: {self.journal.counts()}")
            initiator = self.trouble(initiator)
            time.sleep(self.random.uniform(0, 0.1))
        self.end_capture()
        target.stdin.close()
        words = target.stdout.read().split()
        crash.require(target.wait(60) == 0, lambda: f"the target ended with {target.returncode}")
        return dict(zip(words[::2], map(int, words[1::2])))

    def start(self):
        command = [crash.program("torture_initiator"), str(self.journal.path), str(self.count), str(self.random.randrange(1 << 32))]
        return self.fabric.start("h2", command)

    def trouble(self, initiator):
        """The initiator afterwards."""
        what = self.random.choices(("nothing", "kill", "stop", "capture", "look"), (60, 3, 6, 6, 10))[0]
        self.happened[what] += 1
        if what == "kill":
            os.killpg(initiator.pid, signal.SIGKILL)
            initiator.communicate()
            return self.start()
        if what == "stop":
            os.killpg(initiator.pid, signal.SIGSTOP)
            time.sleep(self.random.uniform(0, 0.2))
            os.killpg(initiator.pid, signal.SIGCONT)
        elif what == "capture" and self.captures:
            self.toggle_capture()
        elif what == "look":
            self.ways |= {way_of(qp) for qp in self.fabric.status("--qps") if qp["host"] == "h2" and "way" in qp}
        return initiator

    def toggle_capture(self):
        if not self.end_capture():
            self.capture = subprocess.Popen([self.fabric.weft, "capture", "h1", "--output", "/dev/null"],
                                            stdout=subprocess.DEVNULL, env=self.fabric.environment(), start_new_session=True)
            self.fabric.children.append(self.capture)

    def end_capture(self):
        capture, self.capture = self.capture, None
        if capture:
            capture.send_signal(signal.SIGINT)
            capture.wait(timeout=60)
        return capture is not None


def test(arguments):
    print(f"seed {arguments.seed}")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it, as its captures would
    modes = [arguments.mode] if arguments.mode else MODES
    with crash.Fabric() as fabric:
        fabric.run("exec", "h1", "--", "ibv_devinfo")  # leaves its files of sysfs
        fabric.run("exec", "h2", "--", "ibv_devinfo")
        before = fabric.belongings()
        for mode in modes:
            torture = Torture(fabric, mode, arguments.count, arguments.seed, not arguments.no_captures)
            start = time.monotonic()
            result = torture.run()
            counts = torture.journal.counts()
            for kind in KINDS:
                crash.require(counts[kind] > 0, f"no {kind} in {mode}: {counts}")
            crash.require(counts["failures"] > 0, f"no operation met a key that had ended: {counts}")
            crash.require(result["longest_us"] < LONGEST_ENDING * 1e6, f"a key took long to end: {result}")
            print(f"{mode}: {dict(counts)}, {result}, {dict(torture.happened)}, ways {sorted(torture.ways)}, {time.monotonic() - start:.0f} s", flush=True)
            fabric.must_settle(before)
    return f"{arguments.count} operations in {len(modes)} modes, and every octet is as it must be"


if __name__ == "__main__":
    chosen = crash.arguments(__doc__, count=(10_000_000, 200_000), options=[
        ("--mode", {"choices": MODES, "help": "one of them only"}),
        ("--no-captures", {"action": "store_true", "help": "leave captures out"})])
    sys.exit(crash.main(lambda: test(chosen)))
