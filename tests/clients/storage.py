#!/usr/bin/env python3
"""What moves blocks, memory and messages by RDMA-CM beside rdmacm.py's programs: tgt over iSER with libiscsi, QEMU's migration, uDAPL,
ibacm.

    storage.py [--smoke] [--fabric TOPOLOGY] [--hosts h1 h4] [--json FILE] [--match TEXT] [--list]

A program that is not installed is left out of a part (--smoke), and missed by a whole run.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import acm
import iser
import qemu_migration
import verdicts
import weft_clients

SMOKE_TESTS = ("SCSI.Inquiry.", "SCSI.Read16.", "SCSI.Write16.", "SCSI.ReadCapacity16.", "SCSI.TestUnitReady.", "SCSI.Verify16.")
DAPL_SECONDS = 120               # policy
SERVER_SECONDS = 20              # policy: how long a uDAPL server may take until it listens
DTEST_PORT, DAPLTEST_PORT = 15828, 62000  # built in: dtest's of TCP, by which its ends tell each other where they are
# How a provider connects: its library, and what dat.conf(5) calls the device of a host.
PROVIDERS = {"rdma_cm": ("libdaplofa.so.2", "{address} 0"), "sockets": ("libdaploscm.so.2", "weft0 1"), "datagrams": ("libdaploucm.so.2", "weft0 1")}


# --- tgt

def over_iser(fabric, hosts, smoke):
    try:
        with iser.Target(fabric, hosts[0], weft_clients.Ports().take()) as target:
            for case in iser.programs(smoke):
                yield iser.compared(fabric, target, hosts[1], case)
            tests = [test for test in iser.known_tests() if not smoke or test.startswith(SMOKE_TESTS)]
            yield from iser.conformance(fabric, target, hosts[1], tests)
    except (RuntimeError, OSError, subprocess.SubprocessError) as problem:
        yield weft_clients.Outcome(weft_clients.Case("tgtd", [], aspect="a target by iSER"), "FAILED", 0, str(problem))


# --- uDAPL

def dapl_cases(smoke):
    """(program, server's arguments, client's arguments, what ran)."""
    client = ["-h", "{server}"]
    for provider in PROVIDERS:
        yield "dtest", provider, ["-P", "weft"], ["-P", "weft", *client], f"{provider}: RDMA, messages and atomics", "PASSED"
    common = ["-s", "{server}", "-D", "weft"]
    yield ("dapltest", "rdma_cm", ["-T", "S", "-D", "weft"], ["-T", "T", *common, "-i", "100", "client", "SR", "256", "server", "SR", "256"],
           "transactions: SEND", "End of Work")
    if smoke:
        return
    yield ("dapltest", "rdma_cm", ["-T", "S", "-D", "weft"], ["-T", "T", *common, "-i", "100", "-t", "2", "-w", "2", "client", "SR", "1024", "3", "server", "SR", "1536", "2"],
           "transactions: two threads, two endpoints", "End of Work")
    yield ("dapltest", "rdma_cm", ["-T", "S", "-D", "weft"], ["-T", "T", *common, "-i", "100", "client", "RW", "4096", "server", "RR", "4096", "client", "SR", "256",
                                                              "server", "SR", "256"], "transactions: RDMA WRITE and READ", "End of Work")
    for operation in ("RR", "RW"):
        yield ("dapltest", "rdma_cm", ["-T", "S", "-D", "weft"], ["-T", "P", *common, "-i", "1000", "-p", "16", "-m", "p", operation, "4096", "2"],
               f"performance: {operation}", "End of Work")


def wait_for_dapl(fabric, host, program, server):
    deadline = time.monotonic() + SERVER_SECONDS
    while not (weft_clients.somebody_listens(DTEST_PORT) if program == "dtest" else fabric.has_id(host, DAPLTEST_PORT)):
        if server.poll() is not None or time.monotonic() > deadline:
            return
        time.sleep(0.05)


def run_dapl(fabric, hosts, program, provider, server_arguments, client_arguments, what, wanted):
    library, device = PROVIDERS[provider]
    address = {host: weft_clients.address_of(host) for host in hosts}
    case = weft_clients.Case(program, [word.format(server=address[hosts[0]]) for word in client_arguments], aspect=what)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weft-dapl-") as folder:
        environment = {}
        for host in hosts:
            path = pathlib.Path(folder) / host
            path.write_text(f'weft u2.0 nonthreadsafe default {library} dapl.2.0 "{device.format(address=address[host])}" ""\n', encoding="utf-8")
            environment[host] = {"DAT_OVERRIDE": str(path)}
        server = fabric.start(hosts[0], [program, *server_arguments], environment[hosts[0]])
        wait_for_dapl(fabric, hosts[0], program, server)
        client = fabric.start(hosts[1], [program, *case.arguments], environment[hosts[1]])
        output, in_time = weft_clients.communicate(client, start + DAPL_SECONDS)
        if program == "dapltest":
            weft_clients.end(server)             # it waits for more clients
        server_output, server_in_time = weft_clients.communicate(server, time.monotonic() + 10)
    detail = ("did not end in time" if not in_time else f"exit status {client.returncode}" if client.returncode
              else "the server did not end in time" if not server_in_time else "" if re.search(wanted, output) else f"does not say {wanted}")
    return weft_clients.Outcome(case, "FAILED" if detail else "ok", time.monotonic() - start, detail, server_output, output)


# --- all of it

def parts(smoke):
    """(name, programs that it needs, function of a fabric and hosts that yields outcomes)."""
    return [
        ("iser", ("tgtd", "tgtadm", "iscsi-inq", "iscsi-readcapacity16", "iscsi-perf", "iscsi-test-cu"), lambda fabric, hosts: over_iser(fabric, hosts, smoke)),
        ("migration", (qemu_migration.PROGRAM,), lambda fabric, hosts: (qemu_migration.outcome(fabric, hosts, weft_clients.Ports().take(), pins_all)
                                                                        for pins_all in (False, True))),
        ("udapl", ("dtest", "dapltest"), lambda fabric, hosts: (run_dapl(fabric, hosts, *case) for case in dapl_cases(smoke))),
        ("acm", (acm.SERVICE, acm.PROGRAM), acm.outcomes),
    ]


def main():
    parser = weft_clients.add_options(argparse.ArgumentParser(description=__doc__.split("\n")[0]))
    arguments = parser.parse_args()
    chosen = [part for part in parts(arguments.smoke) if not arguments.match or arguments.match in part[0]]
    if arguments.list:
        print("\n".join(f"{name}: {', '.join(programs)}" for name, programs, _ in chosen))
        return 0
    outcomes = []
    for name, programs, run in chosen:
        weft_clients.need_programs(*programs)
        with weft_clients.Fabric(arguments.fabric) as fabric:
            for outcome in run(fabric, arguments.hosts):
                outcomes.append(outcome)
                if outcome.verdict == "FAILED" or sys.stdout.isatty():
                    print(f"{outcome.verdict:7} {outcome.seconds:6.2f} s  {outcome.case.name}" + (f": {outcome.detail}" if outcome.detail else ""), flush=True)
    if not arguments.match:
        verdicts.store(weft_clients.build_folder(), "storage", verdicts.summarize(outcomes), whole=not arguments.smoke)
    return weft_clients.report(outcomes, "storage", arguments.json)


if __name__ == "__main__":
    sys.exit(main())
