#!/usr/bin/env python3
"""Debian's ibv_{rc,uc,ud,srq,xsrq}_pingpong between two hosts, over every combination of -e, -c, -m and -s that they accept.

    pingpong.py [--smoke] [--fabric TOPOLOGY] [--hosts h1 h4] [--jobs N] [--json FILE]
"""
import argparse
import itertools
import re
import subprocess
import sys

import weft_clients

PROGRAMS = ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "ibv_xsrq_pingpong")
MTUS = (256, 512, 1024, 2048, 4096)
SIZES = (1, 2, 7, 64, 255, 256, 257, 1000, 2048, 4095, 4096, 4097, 65_536, 300_001, 1_000_000)
PORT_MTU = 4096                 # of every simulated port; a datagram holds no more (IBTA vol 1 §9.8.3)
LARGE, LARGE_ITERATIONS = 65_536, 100  # policy: 1,000 exchanges of 1 MB say nothing that 100 do not


def accepts(program, option):
    """Whether the program's own usage text names the option."""
    usage = subprocess.run([program, "--help"], capture_output=True, text=True)
    return re.search(rf"^\s+{option}\b", usage.stdout + usage.stderr, re.MULTILINE) is not None


def finished(output):
    return None if re.search(r"^(\d+ iters in |success$)", output, re.MULTILINE) else "no result line"


def describe(program, events, checks, mtus):
    if program == "ibv_ud_pingpong":
        sizes = f"1 to {PORT_MTU} octets, and more"
    else:
        sizes = "1 octet to 1 MB"
    return ", ".join([sizes, *(["polling and events"] if events else []), *(["data checked"] if checks else []),
                      *(["MTU 256 to 4096"] if mtus else [])])


def cases(smoke):
    found = []
    for program in PROGRAMS:
        events = ([], ["-e"]) if accepts(program, "-e") else ([],)
        checks = ([], ["-c"]) if accepts(program, "-c, --chk") else ([],)
        mtus = [["-m", str(mtu)] for mtu in MTUS] if accepts(program, "-m") else [[]]
        for event, check, mtu, size in itertools.product(events, checks, mtus, SIZES):
            if smoke and (size not in (1, 4096, 1_000_000) or (mtu and mtu[1] not in ("256", "4096")) or bool(event) == bool(check)):
                continue
            arguments = [*event, *check, *mtu, "-s", str(size)]
            if size >= LARGE:
                arguments += ["-n", str(LARGE_ITERATIONS)]
            too_large = program == "ibv_ud_pingpong" and size > PORT_MTU
            found.append(weft_clients.Case(program, arguments, refusal="larger than port MTU" if too_large else "", check=finished,
                                           aspect=describe(program, len(events) > 1, len(checks) > 1, len(mtus) > 1)))
    return found


def main():
    parser = weft_clients.add_options(argparse.ArgumentParser(description=__doc__.split("\n")[0]))
    arguments = parser.parse_args()
    weft_clients.need_programs(*PROGRAMS)
    return weft_clients.main("pingpong", cases(arguments.smoke), arguments)


if __name__ == "__main__":
    sys.exit(main())
