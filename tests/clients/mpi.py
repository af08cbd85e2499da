#!/usr/bin/env python3
"""Debian's Open MPI, over UCX and over libfabric, and MPICH: four ranks on four simulated hosts pass buffers around a ring, reduce, and
write into windows.

    mpi.py [--smoke] [--fabric TOPOLOGY] [--ranks N]

mpirun starts `weft exec hN -- program` as one application context for each host, so each rank is on a host of its own; nothing
else is set up. The launcher's own messages go over TCP on loopback. mpi_ring.c checks every word that arrives.
"""
import argparse
import dataclasses
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
OPEN_MPI = ["--mca", "plm", "isolated", "--mca", "oob_tcp_if_include", "lo", "--oversubscribe"]
BY_UCX = ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "^openib,vader,tcp", "--mca", "opal_common_ucx_devices", "any"]
BY_LIBFABRIC = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs", "--mca", "osc", "pt2pt", "--mca", "btl", "self"]
MPICH = ["-hosts", "127.0.0.1", "-launcher", "fork", "-iface", "lo"]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
DEVICE = {"UCX_NET_DEVICES": "weft0:1"}
RUN_SECONDS = 120


@dataclasses.dataclass
class Way:
    """One way of ranks to each other."""
    program: str
    compiler: str
    options: list
    environment: dict
    aspect: str


WAYS = (
    Way("mpirun", "mpicc", BY_UCX, {"UCX_TLS": "rc,self", **DEVICE}, "UCX PML, UCX_TLS=rc,self: "),
    Way("mpirun", "mpicc", BY_UCX, {"UCX_TLS": "ud,self", **DEVICE}, "UCX PML, UCX_TLS=ud,self: "),
    Way("mpirun", "mpicc", BY_LIBFABRIC, {}, "OFI MTL, libfabric's verbs;ofi_rxm by RDMA-CM: "),
    Way("mpirun.mpich", "mpicc.mpich", MPICH, {"UCX_TLS": "rc,self", "MPIR_CVAR_NOLOCAL": "1", **DEVICE}, "ch4:ucx, UCX_TLS=rc,self: "),
)


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


def build(folder, compiler):
    """The program, by the compiler of the library that it is to run with."""
    program = folder / f"mpi_ring.{compiler}"
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-o", str(program), str(SOURCE)], check=True, timeout=60)
    return program


def run(fabric, folder, way, hosts, ranks):
    case = weft_clients.Case(way.program, ["-np", str(ranks), "mpi_ring"], way.environment,
                             aspect=f"{way.aspect}ring, all-reduce and windows of ranks on hosts of their own")
    start = time.monotonic()
    options = way.options if way.options is MPICH else OPEN_MPI + way.options
    child = subprocess.Popen([way.program, *options, *contexts(fabric.weft, build(folder, way.compiler), hosts, ranks)], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
                             env=fabric.environment({**case.environment, **(AS_ROOT if os.geteuid() == 0 else {})}))
    output, in_time = weft_clients.communicate(child, start + RUN_SECONDS)
    detail = ("did not end in time" if not in_time else f"exit status {child.returncode}" if child.returncode
              else judge(output, hosts, ranks) or "")
    return weft_clients.Outcome(case, "FAILED" if detail else "ok", time.monotonic() - start, detail, "", output)


def data_of_hosts(fabric, hosts):
    """Hosts whose port sent nothing: their ranks used another way than the network."""
    counters = fabric.run("status", "--counters")
    sent = {host: int(data) for host, data in re.findall(r"^(h\d+):\d+ +\S+ +\d+ \S+ +\d+ +(\d+) ", counters, re.MULTILINE)}
    return [host for host in hosts if sent.get(host, 0) == 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="the same: it takes seconds")
    parser.add_argument("--fabric", default="star:4", metavar="TOPOLOGY", help="as for weft up (default star:4)")
    parser.add_argument("--ranks", type=int, default=4, help="ranks; hosts h1 to hN, one each (default 4)")
    arguments = parser.parse_args()
    weft_clients.need_programs(*{name for way in WAYS for name in (way.program, way.compiler)})
    hosts = [f"h{number}" for number in range(1, arguments.ranks + 1)]
    folder = weft_clients.build_folder() / "clients"
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for way in WAYS:
        with weft_clients.Fabric(arguments.fabric) as fabric:
            outcome = run(fabric, folder, way, hosts, arguments.ranks)
            silent = data_of_hosts(fabric, hosts)
            if outcome.verdict == "ok" and silent:
                outcome.verdict, outcome.detail = "FAILED", f"{', '.join(silent)} sent nothing over the fabric"
            outcomes.append(outcome)
    verdicts.store(weft_clients.build_folder(), "mpi", verdicts.summarize(outcomes), whole=True)
    return weft_clients.report(outcomes, "mpi")


if __name__ == "__main__":
    sys.exit(main())
