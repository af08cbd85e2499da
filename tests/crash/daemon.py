#!/usr/bin/env python3
"""kill -9 of weftd at random moments: every program ends by itself and says why, and the next weft command clears what is left.

    daemon.py [--smoke] [--count 50] [--seed N]

Programs see a device that failed as a whole: their work is flushed (IBTA vol 1 §10.10.2.3), IBV_EVENT_DEVICE_FATAL comes, and one
line on standard error names the fabric and what to do.
"""
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import crash
import weft_clients

END_SECONDS = 5         # what a user is promised
MOMENTS_SECONDS = 0.4   # policy: kills are spread over so long after the first packets
NEXT_COMMANDS = (["status"], ["up", "pair"], ["exec", "h1", "--", "true"], ["down"], ["run", "--", "true"],
                 ["capture", "h1", "-o", os.devnull])
WRONG_STATUS = re.compile(r"Failed status (?!5\b)\d+|transport retry counter exceeded")


def told(fabric, output):
    return output.count(f"weft: fabric {fabric.name} is gone") == 1 and f"weft up --name {fabric.name}" in output


class TwoSided(crash.Pair):
    """perftest or pingpong: both sides end with an error, none with another status than that of flushed work."""

    def begin(self):
        self.wait_for_traffic()

    def judge(self, fabric):
        for side, (status, output) in self.end_within(END_SECONDS).items():
            what = f"{side} of {' '.join(self.command)}"
            crash.require(status > 0, f"{what}: exit status {status}\n{crash.tail(output)}")
            crash.require(told(fabric, output), f"{what} does not say once what happened\n{crash.tail(output)}")
            crash.require(not WRONG_STATUS.search(output), f"{what}: not flushed\n{crash.tail(output)}")


class Waiter:
    """A program that only waits for a receive, then for an asynchronous event."""

    def __init__(self, fabric, _ports, command):
        self.child = fabric.start("h1", command)

    def begin(self):
        line = self.child.stdout.readline()
        crash.require(line == "waiting\n", f"wait_for_receive says {line}")

    def judge(self, fabric):
        output, in_time = weft_clients.communicate(self.child, time.monotonic() + END_SECONDS)
        crash.require(in_time and self.child.returncode == 0, f"wait_for_receive: status {self.child.returncode}\n{output}")
        crash.require(told(fabric, output), f"wait_for_receive does not say once what happened\n{output}")


def workloads():
    return ((TwoSided, ["ib_write_bw", "-D", "30"]), (TwoSided, ["ib_send_bw", "-D", "30"]),
            (TwoSided, ["ibv_rc_pingpong", "-e", "-n", "10000000"]), (Waiter, [crash.program("wait_for_receive")]),
            (TwoSided, ["ibv_srq_pingpong", "-e", "-n", "10000000"]), (TwoSided, ["ib_send_bw", "-n", "2000000", "-e", "-b"]),
            (TwoSided, ["ibv_ud_pingpong", "-n", "10000000"]), (TwoSided, ["ib_write_bw", "-D", "30", "-b"]))


def clears(fabric, command):
    """The next weft command says what it clears; then a fabric of the same name comes up."""
    crash.require(fabric.files() == [fabric.name], f"expected what the dead daemon left, found {fabric.files()}")
    done = subprocess.run([fabric.weft, *command], capture_output=True, text=True, timeout=60, env=fabric.environment())
    says = f"weft: cleared what fabric {fabric.name} left behind"
    crash.require(done.stderr.count(says) == 1, f"weft {' '.join(command)} does not say what it clears: {done.stdout}{done.stderr}")
    if command[0] == "up":
        fabric.daemon = int(re.search(r"process (\d+)", done.stdout)[1])
    else:
        crash.require(fabric.files() == [], f"weft {' '.join(command)} left {fabric.files()}")
        crash.require((done.returncode == 0) == (command[0] == "run"), f"weft {' '.join(command)}: exit status {done.returncode}")
        fabric.up()


def kill_one(fabric, ports, workload, command, delay):
    kind, words = workload
    work = kind(fabric, ports, words)
    work.begin()
    time.sleep(delay)
    os.kill(fabric.daemon, signal.SIGKILL)
    killed_at = time.monotonic()
    try:
        work.judge(fabric)
    except crash.Failure as failure:
        raise crash.Failure(f"weftd killed {delay:.3f} s after the first packets: {failure}") from None
    seconds = time.monotonic() - killed_at
    crash.wait_for(lambda: not crash.threads(fabric.daemon), END_SECONDS, "weftd, which was killed, is still there")
    clears(fabric, command)
    return seconds


def child_named(parent, name):
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f"({name})" in fields and int(fields.rpartition(")")[2].split()[1]) == parent:
            return int(fields.split()[0])
    return None


def kill_daemon_of_run(fabric):
    """weft run: its programs end, and it says why and leaves nothing."""
    child = subprocess.Popen([fabric.weft, "run", "--", "ib_write_bw", "-D", "30", "-p", str(weft_clients.Ports().take())],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             start_new_session=True)
    fabric.children.append(child)
    name = f"run-{child.pid}"

    def flows():
        done = subprocess.run([fabric.weft, "status", "--name", name, "--counters"], capture_output=True, text=True, timeout=60)
        return re.search(r"^h2:1 .*? [1-9]\d{3,} +[1-9]\d{3,} ", done.stdout, re.MULTILINE)  # more than its manager's MADs

    crash.wait_for(flows, weft_clients.LISTEN_SECONDS, "no traffic under weft run")
    os.kill(crash.wait_for(lambda: child_named(child.pid, "weftd"), 1, "weft run has no daemon"), signal.SIGKILL)
    output, in_time = weft_clients.communicate(child, time.monotonic() + END_SECONDS)
    crash.require(in_time and child.returncode > 0, f"weft run: exit status {child.returncode}\n{crash.tail(output)}")
    for words in (f"weft: fabric {name} is gone", "weftd, the daemon of this run, ended before", f"cleared what fabric {name} left"):
        crash.require(words in output, f"weft run does not say '{words}'\n{crash.tail(output)}")
    crash.require(fabric.files() == [fabric.name], f"weft run left {fabric.files()}")


def test(arguments):
    chance, ports, work = random.Random(arguments.seed), weft_clients.Ports(), workloads()
    slowest = 0.0
    with crash.Fabric() as fabric:
        for number in range(arguments.count):
            command = NEXT_COMMANDS[number % len(NEXT_COMMANDS)]
            workload = work[(number + number // len(work)) % len(work)]
            slowest = max(slowest, kill_one(fabric, ports, workload, command, chance.uniform(0, MOMENTS_SECONDS)))
        kill_daemon_of_run(fabric)
        ended = crash.Pair(fabric, ports, ["ib_write_bw", "-n", "1000"]).end_within(END_SECONDS)
        crash.require(all(status == 0 for status, _ in ended.values()), f"the fabric that came up again: {ended}")
    return (f"{arguments.count + 1} kills of weftd: every program ended by itself and said why, the slowest after {slowest:.2f} s, "
            "and the next command cleared what was left")


if __name__ == "__main__":
    weft_clients.need_programs("ib_write_bw", "ib_send_bw", "ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_ud_pingpong")
    chosen = crash.arguments(__doc__, count=(50, 8))
    print(f"seed {chosen.seed}", flush=True)
    sys.exit(crash.main(lambda: test(chosen)))
