#!/usr/bin/env python3
"""Debian's perftest between two hosts: every transport by MTU by every combination of -e, -q 16, -b and -A that a program has.

    perftest.py [--smoke] [--iterations N] [--fabric TOPOLOGY] [--hosts h1 h4] [--jobs N] [--json FILE]

Each runs as both of perftest's code paths: ibv_post_send with the device's own part number, and ibv_wr_* without inline
limits as for part 4119 (ConnectX-5), which WEFT_VENDOR_PART makes the device report; there one-sided operations are packets, where
the first has pages that both programs map. This perftest has no option for several
SGEs; rdma-core's own tests and UCX's lists of buffers have them.
"""
import argparse
import itertools
import re
import subprocess
import sys

import weft_clients

PROGRAMS = tuple(f"ib_{verb}_{figure}" for verb in ("send", "write", "read", "atomic") for figure in ("lat", "bw"))
PARTS = ({}, {"WEFT_VENDOR_PART": "4119", "WEFT_PLACEMENT": "packets"})
ALL_SIZES = 23                  # -a: 2 to 2^23 octets, doubling
PORT_MTU_SIZES = 12             # the same for a datagram of at most 4,096 octets
MTUS = (256, 1024, 4096)
SEVERAL_PACKETS = 9_999         # octets: at no MTU full packets only
MATRIX_ITERATIONS = 100         # policy: more finds no more combinations that do not work
# "inf": perftest divides by its own measure of the CPU's clock, which it takes for 0 when a busy machine spoils that.
RESULT = re.compile(r"^ (\d+)[ \t]+\d+[ \t]+(?:[\d.]+|inf)", re.MULTILINE)


def help_text(program):
    done = subprocess.run([program, "--help"], capture_output=True, text=True)
    return done.stdout + done.stderr


def accepts(text, option):
    return re.search(rf"^ +{option}, ", text, re.MULTILINE) is not None


def transports(text):
    """Of those that Weft has: RC, UC, UD and XRC, as the program's help offers them."""
    offered = re.search(r"--connection=<([^>]*)>", text)
    return [name for name in ("RC", "UC", "UD", "XRC") if offered and name in offered.group(1).split("/")]


def rows_at_least(count):
    def check(output):
        rows = RESULT.findall(output)
        return None if len(rows) >= count else f"{len(rows)} result rows instead of {count}"
    return check


def describe(text):
    """What the runs of a program vary, in words: the same for a part and for the whole."""
    known = (("-e", "polling and events"), ("-q", "1 and 16 QPs"), ("-b", "one way and both"), ("-a", "every size (-a)"),
             ("-A", "fetch-add and compare-swap"))
    return ", ".join([f"MTU {', '.join(str(mtu) for mtu in MTUS)}", *(words for option, words in known if accepts(text, option))])


def size_for(program, transport, mtu):
    """Several packets; a datagram is one, and atomics have a size of their own."""
    if program.startswith("ib_atomic"):
        return []
    return ["-s", str(mtu - 3 if transport == "UD" else SEVERAL_PACKETS)]


def choices(text):
    """Every combination of what a program has, from none to all of it."""
    offered = [([], [option]) for option in ("-e", "-b") if accepts(text, option)]
    offered += [(["-q", "1"], ["-q", "16"])] if accepts(text, "-q") else []
    offered += [(["-A", "FETCH_AND_ADD"], ["-A", "CMP_AND_SWAP"])] if accepts(text, "-A") else []
    return [list(itertools.chain(*chosen)) for chosen in itertools.product(*offered)]


def in_smoke(part, mtu, number, count):
    """Every program and transport with nothing on one code path, and with everything on the other."""
    return (mtu == MTUS[0] and number == count - 1) if part else (mtu == MTUS[-1] and number == 0)


def matrix(program, text, iterations, smoke):
    """Transports by code path by MTU by every choice."""
    every = choices(text)
    for transport, part, mtu, (number, chosen) in itertools.product(transports(text), PARTS, MTUS, enumerate(every)):
        if not smoke or in_smoke(part, mtu, number, len(every)):
            arguments = ["-c", transport, "-m", str(mtu), *size_for(program, transport, mtu), *chosen, "-n", str(iterations)]
            yield transport, weft_clients.Case(program, arguments, part, timeout_seconds=120, check=rows_at_least(1))


def every_size(program, transport, part, iterations):
    rows = PORT_MTU_SIZES if transport == "UD" else ALL_SIZES
    arguments = ["-c", transport, "-a", *(["-n", str(iterations)] if iterations else [])]
    return weft_clients.Case(program, arguments, part, timeout_seconds=180, check=rows_at_least(rows))


def cases(smoke, iterations):
    found = []
    for program in PROGRAMS:
        text = help_text(program)
        chosen = list(matrix(program, text, iterations or MATRIX_ITERATIONS, smoke))
        if accepts(text, "-a"):
            # perftest measures the CPU's clock anew for each size of -a, 0.4 s a time: in the smoke once for a program is enough.
            chosen += [(transport, every_size(program, transport, part, iterations))
                       for transport, part in itertools.product(transports(text), PARTS) if not smoke or (transport == "RC" and not part)]
        for transport, case in chosen:
            case.aspect = f"{transport}: {describe(text)}"
            found.append(case)
    return found


def main():
    parser = weft_clients.add_options(argparse.ArgumentParser(description=__doc__.split("\n")[0]))
    parser.add_argument("--iterations", type=int, metavar="N",
                        help="perftest's -n; 0 leaves the program's own default (default: 200, with --smoke 50)")
    arguments = parser.parse_args()
    iterations = arguments.iterations if arguments.iterations is not None else 50 if arguments.smoke else 200
    weft_clients.need_programs(*PROGRAMS)
    return weft_clients.main("perftest", cases(arguments.smoke, iterations), arguments)


if __name__ == "__main__":
    sys.exit(main())
