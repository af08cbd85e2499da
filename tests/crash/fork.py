#!/usr/bin/env python3
"""A program that forks with requests in flight: its transfer is right, its children harm nobody, and its death is noticed though
a child of it lives on.

    fork.py [--smoke]
"""
import os
import pathlib
import signal
import sys

import crash

ANSWER_SECONDS = 20     # policy: for each line of a program
ROUNDS = 60


def line_of(child, what):
    """The next line, within a bound: a program that hangs is ended by an alarm of ours."""
    def expired(*_):
        raise crash.Failure(f"no answer: {what}")

    signal.signal(signal.SIGALRM, expired)
    signal.alarm(ANSWER_SECONDS)
    try:
        line = child.stdout.readline()
    finally:
        signal.alarm(0)
    crash.require(line, lambda: f"{what}: ended with {child.wait(5)}")
    return line.split()


def tell(child, *words):
    child.stdin.write(" ".join(words) + "\n")
    child.stdin.flush()


def connect(fabric, rounds):
    target = fabric.converse("h1", [crash.program("fork_in_flight"), "target"])
    parent = fabric.converse("h2", [crash.program("fork_in_flight"), "parent", str(rounds)])
    target_address = line_of(target, "address of the target")
    tell(target, *line_of(parent, "address of the parent"))
    tell(parent, *target_address)
    crash.require(line_of(target, "connection of the target") == ["connected"], "the target is not connected")
    return target, parent


def holds_a_socket(pid):
    return any(os.readlink(fd).startswith("socket:") for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir())


def run_one(fabric, is_killed, before):
    target, parent = connect(fabric, 0 if is_killed else ROUNDS)
    word, sleeper = line_of(parent, "child that sleeps")
    crash.require(word == "sleeper", f"unexpected word {word}")
    sleeper = int(sleeper)
    try:
        crash.require(line_of(parent, "children that end") == ["children", "ended"], "unexpected words")
        crash.require(parent.pid in fabric.programs(), "weft status does not know the parent")
        if is_killed:
            parent.kill()
        else:
            crash.require(line_of(parent, "transfer") == ["right"], "the transfer went wrong")
            parent.stdin.close()
        status = parent.wait(ANSWER_SECONDS)
        crash.require(status == (-signal.SIGKILL if is_killed else 0), f"the parent ended with {status}")
        crash.wait_for(lambda: parent.pid not in fabric.programs(), crash.SETTLE_SECONDS, "weftd keeps a parent whose child lives on")
        crash.require(crash.is_running(sleeper) and holds_a_socket(sleeper), "the child does not hold its parent's connection")
    finally:
        os.kill(sleeper, signal.SIGKILL)
    target.stdin.close()
    crash.require(target.wait(ANSWER_SECONDS) == 0, "the target failed")
    fabric.must_settle(before)


def test():
    with crash.Fabric() as fabric:
        fabric.run("exec", "h1", "--", "ibv_devinfo")  # leaves its files of sysfs
        fabric.run("exec", "h2", "--", "ibv_devinfo")
        before = fabric.belongings()
        run_one(fabric, False, before)
        run_one(fabric, True, before)
    return f"6 children of fork() in {ROUNDS} rounds and a killed parent: transfers right, parents forgotten while a child lived"


if __name__ == "__main__":
    crash.arguments(__doc__)  # --smoke is all of it
    sys.exit(crash.main(test))
