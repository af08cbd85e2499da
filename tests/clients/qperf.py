#!/usr/bin/env python3
"""Debian's qperf between two hosts: all its tests of verbs, with events and polling, and connected by RDMA-CM.

    qperf.py [--smoke] [--fabric TOPOLOGY] [--hosts h1 h4] [--jobs N] [--json FILE]
"""
import argparse
import re
import sys

import weft_clients

PROGRAM = "qperf"
RC = ("rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_lat", "rc_rdma_read_bw", "rc_rdma_write_lat", "rc_rdma_write_bw",
      "rc_rdma_write_poll_lat")
UC = ("uc_lat", "uc_bw", "uc_bi_bw", "uc_rdma_write_lat", "uc_rdma_write_bw", "uc_rdma_write_poll_lat")
UD = ("ud_lat", "ud_bw", "ud_bi_bw")
ATOMICS = ("rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add")
XRC = ("xrc_lat", "xrc_bw", "xrc_bi_bw")     # Debian's qperf knows their names and has them not
SIZES = ("1", "4095", "300001")
DATAGRAMS = ("1", "2048")
WAYS = (("events", []), ("polling", ["-cp1"]))
SECONDS = "2"                   # policy: in one, a machine whose CPUs are all taken may not come to run both sides


def measured(output):
    """A figure that is not zero; the tests of verification say themselves what was wrong."""
    figures = re.findall(r"= +([\d.,]+) ", output)
    if not figures or any(float(figure.replace(",", "")) == 0 for figure in figures):
        return "no figure, or one that is zero"
    return None


def sizes_of(test):
    if test in ATOMICS:
        return ("",)
    return DATAGRAMS if test.startswith("ud_") else SIZES


def cases(smoke):
    found = []
    for test in (*RC, *UC, *UD, *ATOMICS):
        sizes = sizes_of(test)
        for way, options in WAYS[:1] if smoke else WAYS:
            for size in sizes[-1:] if smoke else sizes:
                found.append(case(test, [*options, *(["-m", size] if size else [])]))
    found += [case(test, ["-cm1"], how="connected by RDMA-CM") for test in (*RC, *ATOMICS)]
    return found + [case(test, [], "bad test") for test in XRC]


def case(test, options, refusal="", how="events and polling"):
    """The server takes no options; the last word makes it end. UC and UD know no -cm1: qperf says that it is not used."""
    return weft_clients.Case(PROGRAM, [], port_option="-lp", arguments_of_client=["-t", SECONDS, *options, test, "quit"],
                             check=measured, refusal=refusal, timeout_seconds=30, aspect=f"{test}, {how}")


def main():
    parser = weft_clients.add_options(argparse.ArgumentParser(description=__doc__.split("\n")[0]))
    arguments = parser.parse_args()
    return weft_clients.main("qperf", cases(arguments.smoke), arguments)


if __name__ == "__main__":
    sys.exit(main())
