#!/usr/bin/env python3
"""Eight busy loops beside programs whose every message waits for the other side: they finish in time, without a single retry.

    busy.py [--smoke]

ibv_rc_pingpong and ib_send_lat send an exact number of packets: the requests of their messages and one acknowledgement each. What
the fabric counted beyond that was sent twice.
"""
import math
import subprocess
import sys

import crash
import weft_clients

BUSY_LOOPS = 8
FINISH_SECONDS = 60     # policy: a hop may wait for a whole time slice of the scheduler, some milliseconds
# Program and messages that each side sends, of so many bytes, in packets of so many.
RUNS = ((["ibv_rc_pingpong", "-n", "500"], 500, 4096, 1024), (["ib_send_lat", "-n", "500", "-s", "10000", "-m", "4096"], 500, 10000, 4096),
        (["ibv_rc_pingpong", "-n", "1000", "-e"], 1000, 4096, 1024), (["ib_send_lat", "-n", "2000"], 2000, 2, 4096))


class BusyLoops:
    def __enter__(self):
        self.loops = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"], stdin=subprocess.DEVNULL) for _ in range(BUSY_LOOPS)]
        return self

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def run_one(fabric, ports, run, messages, message_bytes, mtu_bytes):
    pair = crash.Pair(fabric, ports, run)
    for side, (status, output) in pair.end_within(FINISH_SECONDS).items():
        crash.require(status == 0, f"{side} of {' '.join(pair.command)} ended with {status}\n{crash.tail(output)}")
    sent = fabric.packets()
    expected = messages * (math.ceil(message_bytes / mtu_bytes) + 1)
    found = {host: sent[host] - pair.before[host] for host in ("h1", "h2")}
    crash.require(set(found.values()) == {expected}, f"{' '.join(pair.command)}: {expected} packets were expected of each host, {found} counted")


def test(arguments):
    ports, runs = weft_clients.Ports(), RUNS[:2] if arguments.smoke else RUNS
    with crash.Fabric() as fabric, BusyLoops() as busy:
        for run in runs:
            run_one(fabric, ports, *run)
        crash.require(all(loop.poll() is None for loop in busy.loops), "a busy loop ended")
    return f"{len(runs)} runs beside {BUSY_LOOPS} busy loops: all finished, no packet was sent twice"


if __name__ == "__main__":
    weft_clients.need_programs("ibv_rc_pingpong", "ib_send_lat")
    chosen = crash.arguments(__doc__)
    sys.exit(crash.main(lambda: test(chosen)))
