#!/usr/bin/env python3
"""kill -9 of either side of ib_write_bw at random moments: the other side ends as the specification asks, and nothing is left.

    peers.py [--smoke] [--count 200] [--seed N]

A client whose server is killed ends in Transport Retry Exceeded (IBTA vol 1 §9.9.2.1.1); so does either side of a run in both
directions. A server without requests of its own learns of its client's death from perftest's TCP connection.
"""
import collections
import os
import random
import re
import signal
import sys
import time

import crash
import weft_clients

# Those with a count are much longer than MOMENTS_SECONDS on the fastest machine; -N spares perftest a word for each message.
RUNS = (["ib_write_bw", "-D", "30"], ["ib_write_bw", "-n", "20000000", "-q", "4", "-N"], ["ib_write_bw", "-D", "30", "-b"],
        ["ib_write_bw", "-n", "20000000", "-s", "200", "-b", "-N"])
END_SECONDS = 15        # policy: perftest's 7 retries of 67 ms take half a second; the machine may be busy
MOMENTS_SECONDS = 0.5   # policy: kills are spread over so long after the first packets
RETRY_EXCEEDED = re.compile(r"Failed status 12\b|transport retry counter exceeded")
CONNECTION_CLOSED = re.compile(r"Couldn't read|Failed to exchange data|Failed to close connection", re.IGNORECASE)
ANY_STATUS = re.compile(r"Failed status (\d+)")


def judge(run, survivor, status, output):
    """The reason why this is no proper end, or None."""
    statuses = set(ANY_STATUS.findall(output))
    if status == 0:
        return "exit status 0, though its peer was killed"
    if status < 0:
        return f"ended by signal {-status}"
    if statuses - {"12"}:
        return f"completion status {', '.join(sorted(statuses))} instead of 12"
    if survivor == "client" or "-b" in run:
        # Between its last completion and the first of a new request, a side may find the TCP connection closed first.
        return None if RETRY_EXCEEDED.search(output) else "no Transport Retry Exceeded"
    return None if CONNECTION_CLOSED.search(output) else "no word of the closed TCP connection"


def kill_one(fabric, ports, run, victim, delay, before):
    pair = crash.Pair(fabric, ports, run)
    pair.wait_for_traffic()
    time.sleep(delay)
    what = f"{' '.join(pair.command)}, {victim} killed after {delay:.3f} s"
    dead = pair.sides.pop(victim)
    crash.require(dead.poll() is None, lambda: f"{what}: it had ended before\n{crash.tail(dead.communicate()[0])}")
    os.kill(dead.pid, signal.SIGKILL)
    killed_at = time.monotonic()
    dead.communicate(timeout=END_SECONDS)
    ((survivor, (status, output)),) = pair.end_within(END_SECONDS).items()
    reason = judge(run, survivor, status, output)
    crash.require(not reason, f"{what}: {reason}\n{crash.tail(output)}")
    seconds = time.monotonic() - killed_at
    fabric.must_settle(before)
    return seconds


def still_works(fabric, ports):
    ended = crash.Pair(fabric, ports, ["ib_write_bw", "-n", "1000"]).end_within(END_SECONDS)
    crash.require(all(status == 0 for status, _ in ended.values()), f"afterwards: {ended}")


def test(arguments):
    chance, ports = random.Random(arguments.seed), weft_clients.Ports()
    slowest, kills = 0.0, collections.Counter()
    with crash.Fabric() as fabric:
        still_works(fabric, ports)  # and programs leave their files of sysfs
        time.sleep(0.1)
        before = fabric.belongings()
        shared_before = crash.kibibytes(fabric.daemon, "status", "RssShmem")
        for number in range(arguments.count):
            run, victim = RUNS[number % len(RUNS)], chance.choice(("server", "client"))
            slowest = max(slowest, kill_one(fabric, ports, run, victim, chance.uniform(0, MOMENTS_SECONDS), before))
            kills[victim] += 1
        still_works(fabric, ports)
        fabric.must_settle(before)
        shared = crash.kibibytes(fabric.daemon, "status", "RssShmem")
        crash.require(shared <= shared_before + 64, f"weftd had {shared_before} KiB of shared memory, now {shared}")
    return (f"{sum(kills.values())} kills ({kills['server']} of servers, {kills['client']} of clients): every peer ended properly, "
            f"the slowest after {slowest:.2f} s, nothing was left")


if __name__ == "__main__":
    weft_clients.need_programs("ib_write_bw")
    chosen = crash.arguments(__doc__, count=(200, 6))
    print(f"seed {chosen.seed}", flush=True)
    sys.exit(crash.main(lambda: test(chosen)))
