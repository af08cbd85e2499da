#!/usr/bin/env python3
"""Programs that connect by librdmacm between two hosts: Debian's rdmacm-utils, perftest -R and qperf's RDMA-CM.

    rdmacm.py [--smoke] [--fabric TOPOLOGY] [--hosts h1 h4] [--jobs N] [--json FILE] [--match TEXT]

A server counts as ready when the fabric says that an id of it listens, or for datagram sockets is bound (`weft status --json`).
At last a session of rping is captured: tshark must know each message from REQ to DREP, and call no packet malformed.
"""
import argparse
import dataclasses
import filecmp
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import time

import fat_tree
import verdicts
import weft_clients

READY_SECONDS = 20      # policy
LINES = ["stdbuf", "-oL"]
COPIED_BYTES = 8 << 20
COM_MGT = 7
SESSION = {"REQ": 0x10, "REP": 0x13, "RTU": 0x14, "DREQ": 0x15, "DREP": 0x16}  # in this order (IBTA vol 1 §12.6)
CAPTURE_SECONDS = 0.5   # policy: for what comes after the programs' end


@dataclasses.dataclass
class Pair:
    """A server and a client. {port}, {server} and {file} in arguments are filled in; a server that never ends by itself is ended."""
    program: str
    server: list
    client: list
    aspect: str = ""
    client_program: str = ""
    check: object = None            # a function from the client's output to a reason of failure, or None
    is_ended: bool = False          # the server waits for more clients for ever
    port_space: str = "TCP"
    ready_state: str = "LISTEN"
    clients: int = 1                # each is started once the one before printed something
    timeout_seconds: float = 60
    environment: dict = dataclasses.field(default_factory=dict)
    files: tuple = ()               # of the folder: the first is made, and the second must become its copy
    port: int = 0                   # that the program has built in; 0: it is told one
    arguments: list = dataclasses.field(default_factory=list)

    @property
    def name(self):
        return " ".join([self.program, *self.server, "<-", self.client_program or self.program, *self.client])


def says(pattern):
    return lambda output: None if re.search(pattern, output, re.MULTILINE) else f"does not say {pattern!r}"


def rping():
    common = ["-p", "{port}"]
    for options, aspect in (
            (["-C", "10", "-V"], "validates"),
            (["-C", "10", "-v", "-S", "100"], "prints what it got"),
            (["-C", "3", "-V", "-S", "65535"], "largest size"),
            (["-C", "10", "-V", "-q"], "queue pairs of its own")):
        yield Pair("rping", ["-s", "-a", "{server}", *common, *options], ["-c", "-a", "{server}", *common, *options], aspect)
    yield Pair("rping", ["-s", "-a", "{server6}", *common, "-C", "10", "-V"], ["-c", "-a", "{server6}", *common, "-C", "10", "-V"], "IPv6")
    yield Pair("rping", ["-s", *common, "-C", "10", "-V"], ["-c", "-a", "{server}", *common, "-C", "10", "-V"], "listens on every address")
    yield Pair("rping", ["-s", "-P", "-a", "{server}", *common, "-V"], ["-c", "-a", "{server}", *common, "-C", "200", "-v", "-V"], "many clients",
               is_ended=True, clients=4)


def utilities(smoke):
    port = ["-p", "{port}"]
    for size in ("100", "4096"):
        yield Pair("ucmatose", ["-b", "{server}", *port, "-C", "10", "-S", size], ["-s", "{server}", *port, "-C", "10", "-S", size], f"10 messages of {size} bytes",
                   check=says("return status 0"))
    yield Pair("ucmatose", ["-b", "{server}", *port, "-c", "20"], ["-s", "{server}", *port, "-c", "20"], "20 connections", check=says("return status 0"))
    yield Pair("ucmatose", ["-b", "{server}", *port, "-m"], ["-s", "{server}", *port, "-m"], "ids move to another channel", check=says("return status 0"))
    yield Pair("udaddy", ["-b", "{server}"], ["-s", "{server}"], "datagrams to a resolved service", check=says("return status 0"), port=7174)
    yield Pair("udaddy", ["-b", "{server}", "-c", "10"], ["-s", "{server}", "-c", "10"], "10 services", check=says("return status 0"), port=7174)
    yield Pair("mckey", ["-m", "239.1.1.{port_low}", "-b", "{server}"], ["-s", "-m", "239.1.1.{port_low}", "-b", "{client}"], "a multicast group",
               check=says("return status 0"), port_space="")
    yield Pair("rdma_server", ["-s", "{server}", *port], ["-s", "{server}", *port], "one message each way", client_program="rdma_client", check=says("end 0"))
    yield Pair("rdma_xserver", [*port, "-c", "r"], ["-s", "{server}", *port, "-c", "r"], "RC", client_program="rdma_xclient", check=says("end 0"))
    yield Pair("rdma_xserver", [*port, "-c", "x"], ["-s", "{server}", *port, "-c", "x"], "XRC", client_program="rdma_xclient", check=says("end 0"))
    yield Pair("cmtime", ["-b", "{server}", *port, "-c", "100"], ["-s", "{server}", *port, "-c", "100"], "100 connections, timed",
               check=says("^(connect|destroy)"), is_ended=True)
    if not smoke:
        yield Pair("cmtime", ["-b", "{server}", *port, "-c", "10000"], ["-s", "{server}", *port, "-c", "10000"], "10,000 connections at once, timed",
                   check=says("^(connect|destroy)"), is_ended=True, timeout_seconds=300)


def perftests(smoke):
    programs = ("ib_send_lat", "ib_write_bw") if smoke else ("ib_send_lat", "ib_send_bw", "ib_write_lat", "ib_write_bw", "ib_read_lat", "ib_read_bw")
    for program in programs:
        yield Pair(program, ["-R", "-p", "{port}", "-n", "100"], ["-R", "-p", "{port}", "-n", "100", "{server}"], "-R, RC", check=perftest_row)
    for program in ("ib_send_lat", "ib_send_bw"):
        yield Pair(program, ["-R", "-c", "UD", "-p", "{port}", "-n", "100"], ["-R", "-c", "UD", "-p", "{port}", "-n", "100", "{server}"], "-R, UD", check=perftest_row)


def perftest_row(output):
    return None if re.search(r"^ *\d+ +\d+ +[\d.]+", output, re.MULTILINE) else "no row of results"


def verified(program, port, size, transfers, iterations, more, aspect):
    """Both ends check what they receive (-T v), and the client has a row of what it transferred. Who gets other data says so and returns."""
    arguments = ["-S", size, "-C", transfers, "-I", iterations, "-T", "v", *more]
    row = says(rf"^custom +\S+ +{transfers} +{iterations} +\S+ +[\d.]+s ")

    def check(output):
        return "verification failed" if "verif" in output else row(output)
    return Pair(program, ["-b", "{server}", *port, *arguments], ["-s", "{server}", *port, *arguments], aspect, check=check)


def rsockets():
    """rstream and riostream listen on the port that they are told; rcopy has one built in."""
    port = ["-p", "{port}"]
    ways = (("64", "100", "10", [], "messages of 64 bytes"), ("65536", "20", "5", [], "messages of 64 KiB"), ("4096", "20", "5", ["-T", "n"], "non-blocking"),
            ("64", "20", "5", ["-T", "a"], "asynchronous"))
    for size, transfers, iterations, more, aspect in ways:
        yield verified("rstream", port, size, transfers, iterations, more, aspect)
    yield verified("riostream", port, "4096", "20", "5", [], "remote I/O")
    yield Pair("rcopy", [], ["{folder}/sent", "{server}:{folder}/copied"], "copies a file of 8 MiB", is_ended=True, port=7427, files=("sent", "copied"))


def datagrams():
    """udpong's server never ends; of what floods it, it may lose some, as of any datagrams."""
    for arguments, aspect in ((["-T", "e", "-C", "200", "-S", "64"], "datagrams there and back"), (["-T", "b", "-C", "500", "-S", "1000"], "blocking"),
                              (["-T", "a", "-C", "500", "-S", "2000"], "asynchronous")):
        yield Pair("udpong", ["-b", "{server}", "-p", "{port}"], ["-s", "{server}", "-p", "{port}", *arguments], aspect, check=says(r"^custom +[0-9]"),
                   is_ended=True, ready_state="ADDR_BOUND")
    yield Pair("udpong", ["-p", "{port}"], ["-s", "{server}", "-p", "{port}", "-T", "e", "-C", "200", "-S", "64"], "a server that names no address",
               check=says(r"^custom +[0-9]"), is_ended=True, ready_state="ADDR_BOUND")


def fio():
    """`send` connects with an rnr_retry of 0 and has no credits, so a receiver that is late for once ends it: the sender says "RNR retry counter
    exceeded" and waits for ever. A receiver that posts everything at once (16 MiB are 256 blocks) is never late."""
    for verb, depth in (("write", 8), ("read", 8), ("send", 256)):
        server = ["--ioengine=rdma", "--port={port}", "--name=s", "--rw=read", "--bs=64k", "--size=16m", f"--iodepth={depth}"]
        client = ["--ioengine=rdma", "--hostname={server}", "--port={port}", f"--verb={verb}", "--name=c", "--rw=write", "--bs=64k", "--size=16m",
                  "--iodepth=8"]
        yield Pair("fio", server, client, f"--ioengine=rdma, {verb}", check=says(r"WRITE: .*io=16\.0MiB|io=16"))


def cases(smoke):
    return [*rping(), *utilities(smoke), *perftests(smoke), *rsockets(), *datagrams(), *fio()]


def wait_until_ready(fabric, host, port, state, server):
    deadline = time.monotonic() + READY_SECONDS
    while not fabric.has_id(host, port, state):
        if server.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def wait_for_member(fabric, host, server):
    """Of a multicast group, for programs that do not listen: they have printed that they joined."""
    time.sleep(0.1)
    return server.poll() is None


def wait_for_output(clients, deadline):
    """Of the client before. The server of `rping -P` remembers one id that asks: of two that ask before its main thread looks, it serves the second twice
    and the first never, on any device (rping.c, rping_cma_event_handler)."""
    for client in clients:
        select.select([client.stdout], [], [], max(deadline - time.monotonic(), 0))


def run_pair(fabric, pair, port, hosts):
    with tempfile.TemporaryDirectory(prefix="weft-rdmacm-") as folder:
        numbers = [int(host.lstrip("h")) for host in hosts]
        words = {"port": port, "port_low": port % 250 + 1, "server": weft_clients.address_of(hosts[0]), "client": weft_clients.address_of(hosts[1]),
                 "server6": f"fd77::{numbers[0]:x}", "folder": folder}
        fill = lambda arguments: [argument.format(**words) for argument in arguments]  # noqa: E731
        if pair.files:
            (pathlib.Path(folder) / pair.files[0]).write_bytes(os.urandom(COPIED_BYTES))
        start = time.monotonic()
        deadline = start + pair.timeout_seconds
        server = fabric.start(hosts[0], [*LINES, pair.program, *fill(pair.server)], pair.environment)
        clients, outputs, in_time, detail = [], [], True, ""
        try:
            ready = wait_until_ready(fabric, hosts[0], port, pair.ready_state, server) if pair.port_space else wait_for_member(fabric, hosts[0], server)
            if ready:
                command = [*LINES, pair.client_program or pair.program, *fill(pair.client)]
                for _ in range(pair.clients):
                    wait_for_output(clients[-1:], deadline)
                    clients.append(fabric.start(hosts[1], command, pair.environment))
                for client in clients:
                    output, ended = weft_clients.communicate(client, deadline)
                    outputs.append(output)
                    in_time = in_time and ended
            if pair.is_ended or not ready:
                weft_clients.end(server)
            server_output, server_in_time = weft_clients.communicate(server, time.monotonic() + 10)
        finally:
            for child in (*clients, server):
                if child.poll() is None:
                    weft_clients.end(child)
        if not ready:
            detail = "the server did not listen"
        elif not in_time or not server_in_time:
            detail = f"{'server' if in_time else 'client'} did not end in time"
        elif any(client.returncode for client in clients) or (server.returncode and not pair.is_ended):
            detail = f"exit status {[client.returncode for client in clients]} (clients), {server.returncode} (server)"
        else:
            detail = next((reason for reason in (pair.check(output) for output in outputs) if reason), "") if pair.check else ""
            if pair.files and not filecmp.cmp(*(pathlib.Path(folder) / name for name in pair.files), shallow=False):
                detail = "the copy is another file"
        return weft_clients.Outcome(pair, "FAILED" if detail else "ok", time.monotonic() - start, detail, server_output, "\n".join(outputs))


def connection_messages(path):
    """[(attribute, tshark's words)] of the class ComMgt, in the order of the capture."""
    fields = subprocess.run(["tshark", "-n", "-r", str(path), "-Y", f"infiniband.mad.mgmtclass == {COM_MGT}", "-T", "fields",
                             "-e", "infiniband.mad.attributeid", "-e", "_ws.col.Info"], capture_output=True, text=True, timeout=60, check=True)
    rows = [line.split("\t") for line in fields.stdout.splitlines()]
    return [(int(attribute, 0), info) for attribute, info in rows]


def captured_session(fabric, hosts, port):
    """What is wrong with the capture of a whole session of rping, in words; nothing when it is as it should be."""
    words = ["-a", weft_clients.address_of(hosts[0]), "-p", str(port), "-C", "5", "-S", "100", "-V"]
    with tempfile.TemporaryDirectory(prefix="weft-rdmacm-") as folder:
        capture = fat_tree.Capture(fabric, (hosts[1], 1), folder)
        with capture:
            pair = Pair("rping", ["-s", *words], ["-c", *words])
            outcome = run_pair(fabric, pair, port, hosts)
            time.sleep(CAPTURE_SECONDS)  # what the managers say last
        if outcome.verdict != "ok":
            return f"rping: {outcome.detail}"
        packets, malformed = fat_tree.tshark_verdict(capture.path)
        if malformed:
            return f"{malformed} of {packets} packets are malformed for tshark"
        said = connection_messages(capture.path)
    attributes = [attribute for attribute, _ in said]
    missing = [name for name, attribute in SESSION.items() if attribute not in attributes]
    if missing:
        return f"tshark sees no {', '.join(missing)}: {said}"
    order = [attributes.index(SESSION[name]) for name in SESSION]
    if order != sorted(order):
        return f"the messages are in the wrong order: {said}"
    unnamed = [info for attribute, info in said if attribute in SESSION.values() and "CM: " not in info]
    return f"tshark has no name for {unnamed}" if unnamed else ""


def run_captured_session(fabric, hosts, port):
    start = time.monotonic()
    detail = captured_session(fabric, hosts, port)
    pair = Pair("rping", [], [], "captured, from REQ to DREP")
    return weft_clients.Outcome(pair, "FAILED" if detail else "ok", time.monotonic() - start, detail)


def main():
    parser = weft_clients.add_options(argparse.ArgumentParser(description=__doc__.split("\n")[0]))
    arguments = parser.parse_args()
    pairs = [pair for pair in cases(arguments.smoke) if not arguments.match or arguments.match in pair.name]
    if arguments.list:
        print("\n".join(pair.name for pair in pairs))
        return 0
    weft_clients.need_programs("tshark", *{pair.program for pair in pairs})
    outcomes, ports = [], weft_clients.Ports()
    with weft_clients.Fabric(arguments.fabric) as fabric:
        for number, pair in enumerate(pairs, 1):
            try:
                outcome = run_pair(fabric, pair, pair.port or ports.take(), arguments.hosts)
            except (OSError, RuntimeError, subprocess.SubprocessError) as problem:
                outcome = weft_clients.Outcome(pair, "FAILED", 0, str(problem))
            outcomes.append(outcome)
            print(f"[{number}/{len(pairs)}] {outcome.verdict:7} {outcome.seconds:6.2f} s  {pair.name}"
                  + (f": {outcome.detail}" if outcome.verdict == "FAILED" else ""), flush=True)
        if not arguments.match or arguments.match in "captured":
            outcomes.append(run_captured_session(fabric, arguments.hosts, ports.take()))
    if not arguments.match:
        verdicts.store(weft_clients.build_folder(), "rdmacm", verdicts.summarize(outcomes), whole=not arguments.smoke)
    return weft_clients.report(outcomes, "rdmacm", arguments.json)


if __name__ == "__main__":
    sys.exit(main())
