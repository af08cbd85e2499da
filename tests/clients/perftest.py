#!/usr/bin/env python3
"""Debian's perftest between two hosts: every transport and every combination of -e, -q 8 and -b that each program accepts.

    perftest.py [--smoke] [--iterations N] [--fabric TOPOLOGY] [--hosts h1 h4] [--jobs N] [--json FILE]

Each runs as both of perftest's code paths: ibv_post_send with the device's own part number, and ibv_wr_* without inline
limits as for part 4119 (ConnectX-5), which WEFT_VENDOR_PART makes the device report.
"""
import argparse
import itertools
import re
import subprocess
import sys

import weft_clients

PROGRAMS = tuple(f"ib_{verb}_{figure}" for verb in ("send", "write", "read", "atomic") for figure in ("lat", "bw"))
PARTS = ({}, {"WEFT_VENDOR_PART": "4119"})
ALL_SIZES = 23                  # -a: 2 to 2^23 octets, doubling
PORT_MTU_SIZES = 12             # the same for a datagram of at most 4,096 octets
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


def case(program, transport, options, part, iterations, sizes):
    arguments = ["-c", transport, *(["-a"] if sizes else []), *options]
    if iterations:
        arguments += ["-n", str(iterations)]
    rows = (PORT_MTU_SIZES if transport == "UD" else ALL_SIZES) if sizes else 1
    return weft_clients.Case(program, arguments, part, timeout_seconds=180, check=rows_at_least(rows))


def cases(smoke, iterations):
    found = []
    for program in PROGRAMS:
        text = help_text(program)
        sizes = accepts(text, "-a")
        choices = [([], option) for option in (["-e"], ["-q", "8"], ["-b"]) if accepts(text, option[0])]
        for transport, part, chosen in itertools.product(transports(text), PARTS, itertools.product(*choices)):
            options = list(itertools.chain(*chosen))
            if smoke and not in_smoke(program, transport, options, part):
                continue
            # perftest measures the CPU's clock anew for each size of -a, 0.4 s a time: in the smoke once for a program is enough.
            every_size = sizes and (not smoke or (transport == "RC" and not part))
            found.append(case(program, transport, options, part, iterations, every_size))
    return found


def in_smoke(program, transport, options, part):
    """Every program and transport plainly, every option once on the new path."""
    if not options:
        return not part or program.startswith("ib_write")
    return bool(part) and transport != "UC" and program in ("ib_send_bw", "ib_read_bw") and len(options) in (1, 4)


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
