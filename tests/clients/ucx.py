#!/usr/bin/env python3
"""Debian's UCX between two hosts: every test of ucx_perftest over the transports rc and ud, by UCP and by UCT, ucx_info, and a program
of UCP that connects by IP address.

    ucx.py [--smoke] [--fabric TOPOLOGY] [--hosts h1 h4] [--jobs N] [--json FILE]

UCX needs no set-up: it finds the device where `weft exec` runs it. UCX_TLS only keeps it from shared memory, which a machine
of two hosts in one would have. UCT is named its device and transport. ucx_perftest exchanges addresses by TCP, so what UCX does with
RDMA-CM is asked of ucp_connect.c.
"""
import argparse
import pathlib
import re
import subprocess
import sys

import rdmacm
import weft_clients

PROGRAM = "ucx_perftest"
DEVICE = "weft0:1"
UCP_MESSAGES = ("tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "ucp_am_lat", "ucp_am_bw", "stream_lat", "stream_bw")
UCP_MEMORY = ("ucp_put_lat", "ucp_put_bw", "ucp_get")
UCP_ATOMICS = ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")
UCP_TRANSPORTS = ("rc,self", "ud,self")
UCP_SIZES = (1, 8, 1000, 8192, 300_001, 4 << 20)  # short, copied, and by rendezvous
# Beside the plain test: lists of 8 buffers, buffers that arrive unexpected, wake-ups, several threads.
UCP_WAYS = {"tag_bw": (["-D", "iov,iov", "-s", ",".join(["512"] * 8)], ["-U"], ["-C"], ["-I"], ["-T", "2", "-M", "multi"]),
            "stream_bw": (["-r", "recv_data"],),
            "ucp_put_bw": (["-T", "2", "-M", "multi"],)}
UCT_LAYOUTS = {"am_lat": ("short", "shortiov", "bcopy", "zcopy"), "am_bw": ("short", "shortiov", "bcopy", "zcopy"),
               "put_lat": ("short", "bcopy", "zcopy"), "put_bw": ("short", "bcopy", "zcopy"), "get": ("bcopy", "zcopy"),
               "add_lat": ("short",), "add_mr": ("short",), "fadd": ("short",), "cswap": ("short",), "swap": ("short",)}
UCT_SIZES = {"short": (8, 40), "shortiov": (8, 40), "bcopy": (8, 4000), "zcopy": (100, 4000)}
UCT_TRANSPORTS = ("rc_verbs", "ud_verbs")
ATOMICS = ("add_lat", "add_mr", "fadd", "cswap", "swap")
REFUSAL = "does not support"


def final_row(output):
    return None if re.search(r"^Final: +\d+ ", output, re.MULTILINE) else "no final row"


def refused_by_uct(transport, test):
    """InfiniBand has neither swaps nor, over datagrams, access to a peer's memory."""
    return test == "swap" or (transport == "ud_verbs" and not test.startswith("am_"))


def ucp_case(transports, test, options, iterations):
    return weft_clients.Case(PROGRAM, ["-t", test, "-n", str(iterations), "-w", "10", *options],
                             {"UCX_TLS": transports, "UCX_NET_DEVICES": DEVICE}, check=final_row, aspect=f"UCP, UCX_TLS={transports}: {test}")


def ucp_cases(smoke):
    found = []
    for transports in UCP_TRANSPORTS:
        for test in (*UCP_MESSAGES, *UCP_MEMORY, *UCP_ATOMICS):
            sizes = (4, 8) if test in UCP_ATOMICS else UCP_SIZES
            for size in sizes if not smoke else sizes[-1:] if test in UCP_ATOMICS else sizes[-2:-1]:
                found.append(ucp_case(transports, test, ["-s", str(size)], 40 if size > 100_000 else 500))
            for way in () if smoke else UCP_WAYS.get(test, ()):
                found.append(ucp_case(transports, test, way, 500))
    return found


def uct_cases(smoke):
    found = []
    for transport in UCT_TRANSPORTS:
        for test, layouts in UCT_LAYOUTS.items():
            refusal = REFUSAL if refused_by_uct(transport, test) else ""
            for layout in layouts[-1:] if smoke or refusal else layouts:
                sizes = (8,) if test in ATOMICS else UCT_SIZES[layout]
                for size in sizes[-1:] if smoke or refusal else sizes:
                    arguments = ["-d", DEVICE, "-x", transport, "-t", test, "-D", layout, "-s", str(size), "-n", "500", "-w", "10"]
                    found.append(weft_clients.Case(PROGRAM, arguments, check=final_row, refusal=refusal,
                                                   aspect=f"UCT, {transport}: {test}"))
    return found


def cases(smoke):
    return ucp_cases(smoke) + uct_cases(smoke)


def judge_info(output):
    """ucx_info -d, without any set-up: the device by both transports, with atomics."""
    devices = re.findall(r"Transport: (\w+)\n#\s+Device: (\S+)", output)
    missing = [transport for transport in UCT_TRANSPORTS if (transport, DEVICE) not in devices]
    return f"does not show {', '.join(missing)} of {DEVICE}" if missing else None


def build(name, *libraries):
    """A program beside this one, of C, for libraries that Debian has; its path."""
    folder = weft_clients.build_folder() / "clients"
    folder.mkdir(parents=True, exist_ok=True)
    source = pathlib.Path(__file__).with_name(f"{name}.c")
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", str(folder / name), str(source), *libraries], check=True, timeout=60)
    return folder / name


def judge_connected(output):
    """UCX says by which transport it speaks, and that RDMA-CM made the connection; the program that all answers were right."""
    for words in ("all answers are right", "on cm rdmacm"):
        if words not in output:
            return f"does not say {words!r}"
    return None


def connected(program, transports):
    """The server listens on every address of its host, and the client asks for one."""
    environment = {"UCX_TLS": transports, "UCX_NET_DEVICES": DEVICE, "UCX_SOCKADDR_TLS_PRIORITY": "rdmacm", "UCX_LOG_LEVEL": "debug"}
    return rdmacm.Pair(str(program), ["-p", "{port}"], ["-p", "{port}", "{server}"], check=judge_connected, environment=environment,
                       aspect=f"UCP by IP address, UCX_TLS={transports}: RDMA-CM (UCX_SOCKADDR_TLS_PRIORITY=rdmacm) connects")


def run_connected(fabric, program, hosts):
    ports = weft_clients.Ports()
    for transports in UCP_TRANSPORTS:
        for pair in (hosts, tuple(reversed(hosts))):
            outcome = rdmacm.run_pair(fabric, connected(program, transports), ports.take(), pair)
            outcome.case.program = program.name
            yield outcome


def extra(fabric, hosts):
    case = weft_clients.Case("ucx_info", ["-d"], check=judge_info, aspect="lists the device, found without any set-up")
    outcomes = [weft_clients.run_alone(fabric, case, host) for host in hosts[:1]]
    # In one process, as a client and a server.
    case = weft_clients.Case("ucx_info", ["-e", "-u", "t", "-A", weft_clients.address_of(hosts[0])],
                             {"UCX_TLS": "rc,self", "UCX_NET_DEVICES": DEVICE, "UCX_SOCKADDR_TLS_PRIORITY": "rdmacm"}, check=rdmacm.says("rdmacm"),
                             aspect="-A connects by the host's own IP address")
    outcomes.append(weft_clients.run_alone(fabric, case, hosts[0]))
    return outcomes + list(run_connected(fabric, build("ucp_connect", "-lucp", "-lucs"), hosts))


def main():
    parser = weft_clients.add_options(argparse.ArgumentParser(description=__doc__.split("\n")[0]))
    arguments = parser.parse_args()
    return weft_clients.main("ucx", cases(arguments.smoke), arguments, extra)


if __name__ == "__main__":
    sys.exit(main())
