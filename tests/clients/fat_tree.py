#!/usr/bin/env python3
"""Debian's clients across a fat tree of two levels: hosts on different leaves, every hop counted, captured and checked.

    fat_tree.py [--smoke] [--topology fat-tree:4:2] [--hosts h1 h4] [--json FILE] [--keep FOLDER]

1. pingpong and perftest between the two hosts (all combinations, or with --smoke a few).
2. The counters of weft status --counters --json add up: what one end of a link sent, the other received; what enters a switch
   leaves it; what one host sent, the other received; nobody else had traffic; and no hop of the path is without any.
3. Captures at both hosts and at every spine port towards the server's leaf hold as many packets as the counters of their ports
   say, tshark finds none malformed, and crc_check.py, which shares no code with Weft, finds every CRC right.
"""
import argparse
import collections
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import crc_check
import perftest
import pingpong
import weft_clients

MADS = 100                  # policy: of the subnet manager on its rounds, which count as others do, at a port meanwhile
CAPTURE_READY_SECONDS = 10  # policy: how long weft capture may take to write the head of its file
CAPTURED_RUNS = (            # small enough that tshark reads every packet in seconds
    ("ibv_rc_pingpong", ["-c", "-s", "4097", "-n", "50"]),
    ("ibv_uc_pingpong", ["-c", "-m", "256", "-s", "1000", "-n", "50"]),
    ("ibv_ud_pingpong", ["-c", "-s", "2048", "-n", "50"]),
    ("ibv_srq_pingpong", ["-c", "-s", "300", "-n", "20"]),
    ("ib_write_bw", ["-s", "65536", "-n", "20"]),
    ("ib_read_bw", ["-s", "65536", "-n", "20"]),
    ("ib_send_bw", ["-s", "10000", "-n", "50", "-b"]),
    ("ib_atomic_lat", ["-n", "50"]),
)


def ports_of(fabric):
    """{(node, port): {'peer': (node, port) or None, 'is_switch': bool, counters...}} from weft status --counters --json.

    Expected: {"ports": [{"node": "s1", "kind": "switch", "port": 1, "peer": {"node": "h1", "port": 1},
                          "counters": {"xmit_packets": 0, "rcv_packets": 0, "xmit_data": 0, "rcv_data": 0, "xmit_discards": 0, ...}}]}
    """
    ports = {}
    for port in json.loads(fabric.run("status", "--counters", "--json"))["ports"]:
        peer = port.get("peer")
        ports[port["node"], port["port"]] = {"peer": (peer["node"], peer["port"]) if peer else None,
                                             "is_switch": port["kind"] == "switch", **port["counters"]}
    return ports


def difference(before, after):
    """After minus before, counter by counter."""
    return {key: {name: value - before[key][name] if isinstance(value, int) and not isinstance(value, bool) else value
                  for name, value in port.items()} for key, port in after.items()}


def of_node(ports, node):
    return {key: port for key, port in ports.items() if key[0] == node}


def total(ports, counter):
    return sum(port[counter] for port in ports.values())


def leaf_of(ports, host):
    return next(port["peer"][0] for port in of_node(ports, host).values() if port["peer"])


def switches(ports):
    return sorted({node for (node, _), port in ports.items() if port["is_switch"]})


def spines(ports):
    """Switches whose every neighbour is a switch."""
    names = set(switches(ports))
    return [name for name in sorted(names)
            if all(port["peer"][0] in names for port in of_node(ports, name).values() if port["peer"])]


def check_links(ports):
    """What one end sent, the other received."""
    problems = []
    for key, port in ports.items():
        peer = ports.get(port["peer"])
        for sent, received in (("xmit_packets", "rcv_packets"), ("xmit_data", "rcv_data")):
            if peer and port[sent] != peer[received]:
                problems.append(f"{key} {sent} is {port[sent]}, but {port['peer']} {received} is {peer[received]}")
    return problems


def check_nodes(ports, hosts, mads):
    """What enters a switch leaves it; only the two hosts have traffic, and what one sent the other received."""
    problems = []
    for name in switches(ports):
        mine = of_node(ports, name)
        into, out_of, lost = (total(mine, counter) for counter in ("rcv_packets", "xmit_packets", "xmit_discards"))
        if abs(into - out_of - lost) > mads:
            problems.append(f"{name}: {into} packets came in, {out_of} went out, {lost} were discarded")
    one, other = (of_node(ports, host) for host in hosts)
    for sender, receiver in ((one, other), (other, one)):
        sent, received = total(sender, "xmit_packets"), total(receiver, "rcv_packets")
        if abs(sent - received) > mads or sent <= mads:
            problems.append(f"{next(iter(sender))[0]} sent {sent} packets, {next(iter(receiver))[0]} received {received}")
    for (node, number), port in ports.items():
        if not port["is_switch"] and node not in hosts and port["xmit_packets"] + port["rcv_packets"] > mads:
            problems.append(f"({node}, {number}) has traffic, though none of its own")
    return problems


def check_hops(ports, hosts, mads):
    """Both leaves and at least one spine carried packets."""
    names = [leaf_of(ports, host) for host in hosts]
    problems = [f"{hosts[0]} and {hosts[1]} are on the same leaf {names[0]}"] if names[0] == names[1] else []
    problems += [f"leaf {name} carried no packet" for name in names if total(of_node(ports, name), "xmit_packets") <= mads]
    if not any(total(of_node(ports, name), "xmit_packets") > mads for name in spines(ports)):
        problems.append(f"no spine ({', '.join(spines(ports))}) carried a packet")
    return problems


def check_counters(ports, hosts, mads=0):
    return check_links(ports) + check_nodes(ports, hosts, mads) + check_hops(ports, hosts, mads)


class Capture:
    """weft capture NODE:PORT -o FILE for the length of a with block."""

    def __init__(self, fabric, point, folder, *options):
        self.fabric, self.point, self.options = fabric, point, options
        self.path = pathlib.Path(folder) / f"{point[0]}-{point[1]}.pcap"

    def __enter__(self):
        self.path.unlink(missing_ok=True)  # an earlier capture's file would say that this one has begun
        self.child = subprocess.Popen([self.fabric.weft, "capture", f"{self.point[0]}:{self.point[1]}", "-o", str(self.path), *self.options],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      env=self.fabric.environment(), start_new_session=True)
        deadline = time.monotonic() + CAPTURE_READY_SECONDS
        while not self.path.exists() or self.path.stat().st_size < 24:
            if self.child.poll() is not None or time.monotonic() > deadline:
                weft_clients.end(self.child)
                raise RuntimeError(f"weft capture {self.point} did not start: {self.child.communicate()[0]}")
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        self.child.send_signal(signal.SIGINT)
        try:
            self.child.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            weft_clients.end(self.child)


def tshark_verdict(path):
    """(packets, malformed ones) as tshark dissects them."""
    listing = subprocess.run(["tshark", "-n", "-r", str(path), "-T", "fields", "-e", "frame.protocols", "-e", "_ws.malformed"],
                             capture_output=True, text=True, timeout=600)
    if listing.returncode != 0:
        raise RuntimeError(f"tshark cannot read {path}: {listing.stderr.strip()}")
    lines = listing.stdout.splitlines()
    bad = [line for line in lines if "infiniband" not in line or "malformed" in line or line.partition("\t")[2].strip()]
    return len(lines), len(bad)


def check_capture(path, port):
    """(row for the table, problems) of one capture against the counters of its port."""
    expected = port["xmit_packets"] + port["rcv_packets"]
    checked = crc_check.check_file(path)
    packets, malformed = tshark_verdict(path)
    problems = [f"{path.name}: {problem}" for problem in checked["problems"]]
    if malformed:
        problems.append(f"{path.name}: tshark calls {malformed} of {packets} packets malformed or not InfiniBand")
    if checked["packets"] != packets or abs(packets - expected) > MADS:  # some between readings and captures
        problems.append(f"{path.name}: {checked['packets']} records, {packets} packets for tshark, {expected} by the counters")
    row = {"capture": path.name, "packets": packets, "counters": expected, "malformed": malformed, "wrong_crcs": checked["wrong"]}
    return row, problems


def captured_runs(fabric, hosts, folder):
    """The small runs under captures; returns (outcomes, rows, problems)."""
    before = ports_of(fabric)
    leaf = leaf_of(before, hosts[0])
    points = [key for host in hosts for key, port in of_node(before, host).items() if port["peer"]]
    points += [key for name in spines(before) for key, port in of_node(before, name).items() if port["peer"] and port["peer"][0] == leaf]
    captures = [Capture(fabric, point, folder) for point in points]
    started = []
    try:
        for capture in captures:
            started.append(capture.__enter__())
        cases = [weft_clients.Case(program, arguments) for program, arguments in CAPTURED_RUNS]
        outcomes = weft_clients.run_cases(fabric, cases, hosts, jobs=1)
    finally:
        for capture in started:
            capture.__exit__()
    delta = difference(before, ports_of(fabric))
    rows, problems = [], check_counters(delta, hosts, MADS)
    for capture in captures:
        row, found = check_capture(capture.path, delta[capture.point])
        rows.append(row)
        problems += found
    spine_packets = sum(row["packets"] for row, capture in zip(rows, captures) if capture.point[0] not in hosts)
    if not spine_packets:
        problems.append("no capture at a spine holds a packet")
    return outcomes, rows, problems


def client_cases(smoke):
    cases = pingpong.cases(smoke) + perftest.cases(smoke, 20 if smoke else 200)
    return cases[::6] if smoke else cases


def print_hops(ports):
    table = collections.defaultdict(list)
    for (node, number), port in sorted(ports.items()):
        if port["xmit_packets"] + port["rcv_packets"]:
            table[node].append(f"{number}: {port['xmit_packets']} out, {port['rcv_packets']} in")
    for node, entries in table.items():
        print(f"  {node:5} " + "; ".join(entries))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="a few of the combinations before the captured runs")
    parser.add_argument("--topology", default="fat-tree:4:2", help="as for weft up (default fat-tree:4:2)")
    parser.add_argument("--hosts", nargs=2, default=("h1", "h4"), help="on different leaves (default h1 h4)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time before the captures")
    parser.add_argument("--json", metavar="FILE", help="write runs, counters and captures")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the captures there")
    arguments = parser.parse_args()
    weft_clients.need_programs("tshark", *pingpong.PROGRAMS, *perftest.PROGRAMS)
    with tempfile.TemporaryDirectory() as scratch, weft_clients.Fabric(arguments.topology) as fabric:
        folder = pathlib.Path(arguments.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        before = ports_of(fabric)
        outcomes = weft_clients.run_cases(fabric, client_cases(arguments.smoke), arguments.hosts, arguments.jobs)
        all_ports = difference(before, ports_of(fabric))
        problems = check_counters(all_ports, arguments.hosts, MADS)
        captured, rows, found = captured_runs(fabric, arguments.hosts, folder)
    problems += found
    print("packets on each hop before the captures:")
    print_hops(all_ports)
    for row in rows:
        print("capture {capture:14} {packets:7} packets, {counters:7} by the counters, {malformed} malformed, {wrong_crcs} wrong CRCs".format(**row))
    for problem in problems:
        print("FAILED: " + problem)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(
            {"runs": weft_clients.as_json(outcomes + captured), "captures": rows, "problems": problems}, indent=1) + "\n")
    status = weft_clients.report(outcomes + captured, "fat-tree")
    print(f"fat tree: {len(rows)} captures, {len(problems)} problems with counters and captures")
    return 1 if problems else status


if __name__ == "__main__":
    sys.exit(main())
