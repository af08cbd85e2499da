#!/usr/bin/env python3
"""docs/COMPATIBILITY.md: written from what the runners beside this found, and checked against it.

    compatibility.py             the document says what the last runs found; exit status 1 when it does not
    compatibility.py --write     writes it anew; of a runner that has not run as a whole (without --smoke) since, what it says stays
    compatibility.py --rows      prints the rows of the last runs
"""
import argparse
import pathlib
import sys

import verdicts
import weft_clients

DOCUMENT = weft_clients.ROOT / "docs" / "COMPATIBILITY.md"
HEAD = """# Compatibility

Programs of Debian 12, unmodified, between simulated hosts. Each row is a verdict of the runners in `tests/clients`, which write
this page (`tests/clients/compatibility.py --write` after whole runs); `scripts/test` runs a part of each and fails when a verdict
differs from what stands here. "Refused by the client itself" quotes what the client says on any InfiniBand network; "refused by
Weft" says why Weft does not have it. Programs are started by `weft exec` or `weft run` as an ordinary program is, without any
set-up but what a section names.
"""
SECTIONS = {
    "tools": "ibverbs-utils: what lists and watches devices.",
    "pingpong": "ibverbs-utils between two hosts, over every combination of events (`-e`), checked data (`-c`), MTU (`-m`) and size.",
    "perftest": "Every combination of what a program's own help offers, by MTU 256, 1024 and 4096, on both of perftest's code paths "
                "(`ibv_post_send`, and `ibv_wr_*` as on a ConnectX-5). perftest itself offers `-q` and `-b` only for bandwidths, no `-e` "
                "for WRITE (its latency test polls memory), READ and atomics over RC and XRC alone, WRITE not over UD, and no option "
                "for several SGEs: these combinations cannot be asked for.",
    "qperf": "All tests of verbs, with events and polling (`-cp1`), for several sizes of messages; those of RC also by RDMA-CM (`-cm1`), which "
             "qperf uses for no others.",
    "ucx": "`ucx_perftest` by UCP (`UCX_TLS` keeps it from shared memory, `UCX_NET_DEVICES=weft0:1` from TCP) with short, copied and "
           "rendezvous messages, lists of buffers, unexpected messages, wake-ups and threads; and by UCT with short, copied and "
           "zero-copy layouts. UCX finds the device by itself. `ucx_perftest` exchanges addresses by TCP; `ucp_connect` "
           "(`tests/clients/ucp_connect.c`) asks UCX for a connection to an IP address, which its RDMA-CM makes, and checks every octet.",
    "libfabric": "`fi_info` and `fi_pingpong` with every type of endpoint of the verbs provider, every size, data checked, the server on "
                 "either host. libfabric finds the device and the host's address by itself: its `getifaddrs()` lists `ib0` with 127.77.0.1 on h1.",
    "mpi": "Open MPI and MPICH, each rank on a host of its own: `mpirun --mca plm isolated --mca pml ucx ... -np 1 weft exec h1 -- "
           "PROGRAM : -np 1 weft exec h2 -- PROGRAM` (all options: `tests/clients/mpi.py`). The program, `mpi_ring.c`, checks every word. Over UCX "
           "both exchange addresses by their launcher: neither `mca_pml_ucx.so` nor `libmpich.so` has a link to `ucp_listener_create`, so RDMA-CM "
           "is no way of theirs there. Debian's `mca_btl_openib.so` is built without RDMA-CM (`btl_openib_cpc_include rdmacm`: \"cpc name not found\").",
    "pyverbs": "rdma-core's own test suite on one host, by file. Tests of other vendors' devices are left out; what is skipped, and why, is "
               "in `tests/clients/pyverbs_skips.txt`.",
    "rdmacm": "What connects by librdmacm, between two hosts by their IP addresses: rdmacm-utils with rsockets' programs, perftest with `-R`, fio.",
    "storage": "What else connects by librdmacm: Debian's tgt with iSER on one host and libiscsi's programs on another, QEMU's live migration over "
               "`rdma:`, uDAPL by each of its three providers, ibacm on both hosts. tgt runs as an ordinary user (`TGT_IPC_SOCKET`). Every SCSI and iSCSI test of "
               "iscsi-test-cu runs over iSER and over TCP, on disks of 512 KiB, since libiscsi's iSER moves at most 256 KiB at a time and its "
               "tests move up to half of the disk. libiscsi 1.19 uses memory over iSER that it has not set and frees memory to another "
               "allocator than it came from; `MALLOC_PERTURB_=255 GLIBC_TUNABLES=glibc.malloc.tcache_count=0 LIBISCSI_CACHE_ALLOCATIONS=0` keep "
               "it alive. What remains and is not the network's has a row with its reason (`tests/clients/iser.py`).",
    "management": "OpenSM with each of its routing engines on fabrics without a subnet manager of their own (`weft up --no-sm`), and "
                  "infiniband-diags over the routes that it made, on hosts and on switches.",
    "own-manager": "Weft's own subnet manager and SA: infiniband-diags with every operation, record and option, osmtest, and OpenSM as "
                   "another manager of the same fabric, master and standby by turns.",
}


def document(suites):
    return HEAD + verdicts.render(suites, SECTIONS)


def check(text, suites):
    """What is wrong with the document, in words."""
    documented = verdicts.parse(text)
    found = [] if document(documented) == text else ["the document is not as --write writes it: it is not edited by hand"]
    found += [f"{suite}: has not run" for suite in SECTIONS if suite not in suites]
    return found + verdicts.differences(documented, {suite: suites[suite] for suite in SECTIONS if suite in suites})


def notes(text, suites):
    """Packages of other versions than the document's: no fault, but worth a word."""
    documented = {row.client: row.version for rows in verdicts.parse(text).values() for row in rows}
    here = {row.client: row.version for _, rows in suites.values() for row in rows}
    return [f"note: {client} is of {here[client]} here, of {version} in the document"
            for client, version in documented.items() if client in here and here[client] != version]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the document from the last runs")
    parser.add_argument("--rows", action="store_true", help="print the rows of the last runs")
    arguments = parser.parse_args()
    suites = verdicts.load(weft_clients.build_folder())
    if arguments.rows:
        for suite, (whole, rows) in suites.items():
            for row in rows:
                print(f"{suite}{'' if whole else ' (a part)'}: {row.client}: {row.what}: {row.verdict}")
        return 0
    text = pathlib.Path(DOCUMENT).read_text(encoding="utf-8")
    if arguments.write:
        known = verdicts.parse(text)
        known.update({suite: rows for suite, (whole, rows) in suites.items() if whole})
        lacking = [suite for suite in SECTIONS if suite not in known]
        if lacking:
            print(f"not written: no whole run of {', '.join(lacking)}")
            return 1
        DOCUMENT.write_text(document(known), encoding="utf-8")
        return 0
    found = check(text, suites)
    for line in (*notes(text, suites), *found):
        print(line)
    print(f"compatibility: {sum(len(rows) for _, rows in suites.values())} rows of {len(suites)} suites, {len(found)} differ from the document")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
