#!/usr/bin/env python3
"""Programs preloaded with Debian's libumad2sim.so, as set-ups for ibsim have them, on a fabric of `weft up --ibsim`.

    ibsim.py

OpenSM with --no-sm, then the fabric's own subnet manager; each time infiniband-diags on a host and on a switch. The same by UDP, as
`ibsim -r` has it, a few of them. Of an answer by RMPP
libumad2sim takes the first 200 bytes, from ibsim as from Weft, so what lists records is not asked here.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

import management
import weft_clients

PRELOAD = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
TOPOLOGY, SHAPE = management.FAT_TREE, management.FABRICS[management.FAT_TREE]
BY_RMPP = {("saquery", kind) for kind in ("NR", "PIR", "PR", "LR", "-s")}
NOT_ON_THIS = {"ibstat"}     # of the port as it was when the program began: libumad2sim asks once


class PreloadedFabric(weft_clients.Fabric):
    """Its programs are started as for ibsim: they know the name of its sockets and of their node."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weft-ibsim-")    # the library writes its own /sys where the program is
        return super().__enter__()

    def __exit__(self, *what):
        super().__exit__(*what)
        self.folder.cleanup()

    def environment(self, extra=None):
        return {**super().environment(extra), "IBSIM_SOCKNAME": self.name}

    def start(self, host, command, environment=None):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                env={**self.environment(environment), "LD_PRELOAD": PRELOAD, "SIM_HOST": host}, cwd=self.folder.name,
                                start_new_session=True)


class UdpFabric(PreloadedFabric):
    """As with `ibsim -r -l PORT`."""

    def __init__(self, topology):
        self.port = weft_clients.Ports().take()
        super().__init__(f"{topology} --ibsim-port {self.port}")

    def environment(self, extra=None):
        return {**super().environment(extra), "IBSIM_SERVER_NAME": "127.0.0.1", "IBSIM_SERVER_PORT": str(self.port)}


def ask(fabric, node, program, *arguments):
    return weft_clients.run_alone(fabric, management.case_of(program, arguments), node).client_output


def diagnose(fabric, manager):
    known = management.lids(ask(fabric, "h2", "ibnetdiscover", "-p"))
    words = {"last": known.get(f"h{SHAPE[0]}", "0"), "switch": known.get("s1", "0")}
    outcomes = []
    for node in ("h2", "s1"):
        for program, arguments, check, what in management.queries(*SHAPE):
            wanted = node == "h2" or program in management.ON_SWITCHES
            if not wanted or program in NOT_ON_THIS or (program, " ".join(arguments)) in BY_RMPP:
                continue
            case = management.case_of(program, [word.format(**words) for word in arguments], f"{what}, on {node}, {manager}")
            case.check = check
            outcomes.append(weft_clients.run_alone(fabric, case, node))
    return outcomes


def is_sm_goes(fabric, opensm):
    """IsSM is set while OpenSM lives, and not after its kill -9, which it cannot say itself."""
    start = time.monotonic()

    def mask():
        return "IsSM" in ask(fabric, "h1", "smpquery", "-D", "portinfo", "0", "1")

    before = mask()
    os.killpg(opensm.child.pid, signal.SIGKILL)
    opensm.child.wait(5)
    deadline = time.monotonic() + 5
    while (after := mask()) and time.monotonic() < deadline:
        time.sleep(0.05)
    detail = "" if before and not after else f"IsSM is {before} before and {after} after the kill"
    return management.outcome_of(management.case_of("opensm", [], "IsSM goes with it"), start, detail)


def with_opensm():
    with PreloadedFabric(f"{TOPOLOGY} --no-sm --ibsim") as fabric, management.OpenSm(fabric, "minhop") as opensm:
        start = time.monotonic()
        up = management.outcome_of(management.case_of("opensm", [], "SUBNET UP"), start, opensm.wait_until_up(), opensm.text())
        return [up, *diagnose(fabric, "OpenSM"), is_sm_goes(fabric, opensm)]


def with_own_manager():
    with PreloadedFabric(f"{TOPOLOGY} --ibsim") as fabric:
        outcomes = diagnose(fabric, "Weft's own subnet manager")
        lost = management.case_of("smpquery", ["-t", "300", "nodeinfo", "999"], "what nobody answers is handed back")
        start = time.monotonic()
        output = weft_clients.run_alone(fabric, lost, "h1").client_output
        outcomes.append(management.outcome_of(lost, start, management.says("failed")(output), output))
    return outcomes


def by_udp():
    outcomes = []
    with UdpFabric(TOPOLOGY) as fabric:
        for node in ("h2", "s1"):
            for program, arguments, check, what in management.queries(*SHAPE):
                if program in ("ibnetdiscover", "sminfo", "iblinkinfo"):
                    case = management.case_of(program, arguments, f"{what}, on {node}, by UDP")
                    case.check = check
                    outcomes.append(weft_clients.run_alone(fabric, case, node))
    return outcomes


def main():
    weft_clients.need_programs("opensm", *dict.fromkeys(row[0] for row in management.queries(1, 1, 1)))
    if not os.path.exists(PRELOAD):
        sys.exit(f"{PRELOAD}: not installed (scripts/bootstrap)")
    return weft_clients.report(with_opensm() + with_own_manager() + by_udp(), "ibsim")


if __name__ == "__main__":
    sys.exit(main())
