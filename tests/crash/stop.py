#!/usr/bin/env python3
"""SIGSTOP of either side of ib_write_bw and ib_write_lat for longer than every timeout, then SIGCONT: no error, the run completes.

    stop.py [--smoke] [--seconds 10]

A descheduled peer is not a lost packet. perftest's QPs give up after 7 retries of 67 ms, so a timer that counted would end the run. That concerns packets;
WRITEs that are placed directly go on although the server is stopped, as they do with an adapter.
"""
import re
import signal
import sys
import time

import crash
import weft_clients

RUNS = (["ib_write_bw", "-n", "100000", "-s", "65536"], ["ib_write_lat", "-f", "1", "-D"])  # -D ends by the clock, whatever else runs
PACKETS, DIRECT = {"WEFT_PLACEMENT": "packets"}, {"WEFT_PLACEMENT": "direct"}
PLACED = ["ib_write_bw", "-s", "65536", "-f", "1", "-D"]
COMPLETE_SECONDS = 60   # policy: seconds on a quiet machine


def stop_one(fabric, ports, run, side, seconds, environment):
    """What each host sent meanwhile, in packets."""
    pair = crash.Pair(fabric, ports, [*run, str(int(seconds) + 3)] if run[-1] == "-D" else run, environment)
    what = f"{' '.join(pair.command)}, {side} stopped for {seconds} s"
    pair.wait_for_traffic()
    stopped = pair.sides[side]
    stopped.send_signal(signal.SIGSTOP)
    time.sleep(0.5)  # what was under way has arrived
    before = fabric.packets()
    time.sleep(seconds)
    after = fabric.packets()
    for name, child in pair.sides.items():
        crash.require(child.poll() is None, lambda: f"{what}: the {name} ended meanwhile\n{crash.tail(child.communicate()[0])}")
    stopped.send_signal(signal.SIGCONT)
    for name, (status, output) in pair.end_within(COMPLETE_SECONDS).items():
        crash.require(status == 0 and "rror" not in output, f"{what}: {name} ended with {status}\n{crash.tail(output)}")
        if name == "client":
            row = re.search(r"^ *\d+ +(\d+) +\d+\.\d+ ", output, re.MULTILINE)
            wanted = int(run[run.index("-n") + 1]) if "-n" in run else 1
            crash.require(row and int(row[1]) >= wanted, f"{what}: no row of {wanted} iterations\n{crash.tail(output)}")
    return what, {host: after[host] - before[host] for host in after}


def test(arguments):
    ports, seconds = weft_clients.Ports(), 2.0 if arguments.smoke else arguments.seconds
    cases = [(run, side) for run in RUNS for side in ("server", "client")]
    if arguments.smoke:
        cases = [cases[0], cases[3]]
    with crash.Fabric() as fabric:
        for run, side in cases:
            # A counted retry would send the window again; acknowledgements that were due may still go.
            what, sent = stop_one(fabric, ports, run, side, seconds, PACKETS)
            crash.require(max(sent.values()) <= 64, f"{what}: packets were sent meanwhile: {sent}")
        what, sent = stop_one(fabric, ports, PLACED, "server", seconds, DIRECT)
        crash.require(sent["h2"] > 64, f"{what}: WRITEs that are placed waited for it: {sent}")
    return f"{len(cases) + 1} stops of {seconds:g} s: no error, every run completed"


if __name__ == "__main__":
    weft_clients.need_programs("ib_write_bw", "ib_write_lat")
    chosen = crash.arguments(__doc__, options=[("--seconds", {"type": float, "default": 10.0, "help": "how long (default 10)"})])
    sys.exit(crash.main(lambda: test(chosen)))
