#!/usr/bin/env python3
"""Debian's Open MPI with UCX: four ranks on four simulated hosts pass buffers around a ring, reduce, and write into windows.

    mpi.py [--smoke] [--fabric TOPOLOGY] [--ranks N] [--match TEXT]

mpirun starts `weft exec hN -- program` as one application context for each host, so each rank is on a host of its own; nothing
else is set up. The launcher's own messages go over TCP on loopback. mpi_ring.c checks every word that arrives.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

import verdicts
import weft_clients

SOURCE = pathlib.Path(__file__).with_name("mpi_ring.c")
# One machine plays all hosts: ranks are forked, not sent to others; shared memory (UCX_TLS, no btl) would not be the network.
OPTIONS = ["--mca", "plm", "isolated", "--mca", "oob_tcp_if_include", "lo", "--mca", "pml", "ucx", "--mca", "osc", "ucx",
           "--mca", "btl", "^openib,vader,tcp", "--mca", "opal_common_ucx_devices", "any", "--oversubscribe"]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TRANSPORTS = ("rc,self", "ud,self")
RUN_SECONDS = 120


def contexts(weft, program, hosts, ranks):
    """mpirun's application contexts: ranks are dealt out to hosts like cards."""
    words = []
    for rank in range(ranks):
        words += [*([":"] if words else []), "-np", "1", weft, "exec", hosts[rank % len(hosts)], "--", str(program)]
    return words


def judge(output, hosts, ranks):
    """What is wrong with a run's output; nothing when all ranks ran where they should and every word was right."""
    places = dict(re.findall(r"^rank (\d+) of \d+ is on (\S+)$", output, re.MULTILINE))
    wanted = {str(rank): hosts[rank % len(hosts)] for rank in range(ranks)}
    if places != wanted:
        return f"ranks are on {places} instead of {wanted}"
    if f"ring, all-reduce and windows of {ranks} ranks: correct" not in output:
        return "the ranks do not say that all was correct"
    return None


def build(folder):
    program = folder / "mpi_ring"
    subprocess.run(["mpicc", "-O1", "-Wall", "-Werror", "-o", str(program), str(SOURCE)], check=True, timeout=60)
    return program


def run(fabric, program, transports, hosts, ranks):
    case = weft_clients.Case("mpirun", ["-np", str(ranks), "mpi_ring"], {"UCX_TLS": transports, "UCX_NET_DEVICES": "weft0:1"},
                             aspect=f"UCX PML, UCX_TLS={transports}: ring, all-reduce and windows of ranks on hosts of their own")
    start = time.monotonic()
    child = subprocess.Popen(["mpirun", *OPTIONS, *contexts(fabric.weft, program, hosts, ranks)], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
                             env=fabric.environment({**case.environment, **(AS_ROOT if os.geteuid() == 0 else {})}))
    output, in_time = weft_clients.communicate(child, start + RUN_SECONDS)
    detail = ("did not end in time" if not in_time else f"exit status {child.returncode}" if child.returncode
              else judge(output, hosts, ranks) or "")
    return weft_clients.Outcome(case, "FAILED" if detail else "ok", time.monotonic() - start, detail, "", output)


def data_of_hosts(fabric, hosts):
    """Hosts whose port sent nothing: their ranks used another way than the network."""
    sent = {}
    for line in fabric.run("status", "--counters").splitlines():
        words = line.split()
        if len(words) > 5 and ":" in words[0]:
            sent[words[0].split(":")[0]] = int(words[5])
    return [host for host in hosts if sent.get(host, 0) == 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="the same: it takes seconds")
    parser.add_argument("--fabric", default="star:4", metavar="TOPOLOGY", help="as for weft up (default star:4)")
    parser.add_argument("--ranks", type=int, default=4, help="ranks; hosts h1 to hN, one each (default 4)")
    arguments = parser.parse_args()
    weft_clients.need_programs("mpirun", "mpicc")
    hosts = [f"h{number}" for number in range(1, arguments.ranks + 1)]
    folder = weft_clients.build_folder() / "clients"
    folder.mkdir(parents=True, exist_ok=True)
    program = build(folder)
    outcomes = []
    for transports in TRANSPORTS:
        with weft_clients.Fabric(arguments.fabric) as fabric:
            outcome = run(fabric, program, transports, hosts, arguments.ranks)
            silent = data_of_hosts(fabric, hosts)
            if outcome.verdict == "ok" and silent:
                outcome.verdict, outcome.detail = "FAILED", f"{', '.join(silent)} sent nothing over the fabric"
            outcomes.append(outcome)
    verdicts.store(weft_clients.build_folder(), "mpi", verdicts.summarize(outcomes), whole=True)
    return weft_clients.report(outcomes, "mpi")


if __name__ == "__main__":
    sys.exit(main())
