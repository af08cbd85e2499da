#!/usr/bin/env python3
"""A fabric that changes and is watched while Debian's programs run on it.

    live_changes.py [--keep FOLDER]

1. MADs are packets: while ibnetdiscover and saquery run, `weft capture` of a switch's port holds their packets, QP0 on VL15;
   tshark finds none malformed, and crc_check.py, which shares no code with Weft, finds every CRC right. perfquery sees them.
2. They meet rules of faults: with one MAD of ten lost on each link a cable is pulled and put back, and data flows again.
3. `weft node add` and `remove`: ibv_rc_pingpong runs to a host that came while another pair of hosts went on, and what runs on
   a host that is removed ends with an error.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import crc_check
import fat_tree
import weft_clients

PATIENCE_SECONDS = 30    # policy: for what takes a moment


def tool(fabric, host, *command, timeout=60):
    """The output of a program that must succeed on a host."""
    return fabric.run("exec", host, "--", *command, timeout=timeout)


def fields(path, *names):
    """A row for each packet, as tshark has these fields."""
    command = ["tshark", "-n", "-r", str(path), "-T", "fields"]
    for name in names:
        command += ["-e", name]
    listing = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [line.split("\t") for line in listing.stdout.splitlines()]


def pingpong(fabric, hosts, arguments=()):
    """Problems of ibv_rc_pingpong between two hosts."""
    case = weft_clients.Case("ibv_rc_pingpong", list(arguments))
    outcome = weft_clients.run_cases(fabric, [case], hosts, progress=False)[0]
    return [] if outcome.verdict == "ok" else [f"ibv_rc_pingpong {hosts[0]} {hosts[1]}: {outcome.detail}\n{outcome.client_output}"]


def mads_are_packets(folder):
    problems = []
    with weft_clients.Fabric("fat-tree:4:2") as fabric:
        with fat_tree.Capture(fabric, ("s1", 2), folder) as capture:
            tool(fabric, "h2", "ibnetdiscover")
            tool(fabric, "h2", "saquery", "NR")
        checked = crc_check.check_file(capture.path)
        packets, malformed = fat_tree.tshark_verdict(capture.path)
        rows = fields(capture.path, "infiniband.bth.destqp", "infiniband.lrh.vl", "infiniband.lrh.slid", "infiniband.mad.mgmtclass")
        directed = [row for row in rows if int(row[3], 0) == 0x81]
        by_sa = [row for row in rows if int(row[3], 0) == 0x03]
        if malformed or checked["wrong"] or not checked["packets"] == packets == len(rows):
            problems.append(f"{malformed} of {packets} packets are malformed, {checked['wrong']} have a wrong CRC")
        if not directed or any(int(row[0], 0) != 0 or int(row[1], 0) != 15 or int(row[2], 0) != 0xFFFF for row in directed):
            problems.append("not all SMPs by directed route go to QP0 on VL15 from the permissive LID")
        if not by_sa or any(int(row[0], 0) != 1 or int(row[1], 0) == 15 for row in by_sa):
            problems.append("not all MADs of SA go to QP1 on a data VL")
        lid = re.search(r"base lid:\s+(\S+)", tool(fabric, "h2", "ibstat"), re.IGNORECASE).group(1)
        received = [int(re.search(r"PortRcvPkts:\.*(\d+)", tool(fabric, "h2", "perfquery", "-x", lid, "1")).group(1)) for _ in range(2)]
        if received[0] < packets // 2:
            problems.append(f"perfquery says {received[0]} packets came to h2, the capture holds {packets}")
    print(f"MADs in a capture: {packets} packets, {len(directed)} by directed route, {len(by_sa)} of SA; {malformed} malformed")
    return problems


def comes_true(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def mads_are_lost():
    with weft_clients.Fabric("fat-tree:4:2") as fabric:
        fabric.run("fault", "add", "drop", "p=0.1", "qp=0")
        fabric.run("link", "down", "s1:3")
        fabric.run("link", "up", "s1:3")
        if not comes_true(lambda: re.search(r"^s1:3 +Active", fabric.run("status"), re.MULTILINE)):
            return ["with one SMP of ten lost, a link that came back is not Active"]
        print("one SMP of ten lost: " + fabric.run("fault", "list").strip().splitlines()[-1])
        return pingpong(fabric, ("h1", "h8"))


def add_node(fabric, name, *arguments):
    """Until the subnet manager has swept; the problem if it does not."""
    fabric.run("node", "add", *arguments)
    active = comes_true(lambda: re.search(rf"^{name}:1 +Active", fabric.run("status"), re.MULTILINE))
    return [] if active else [f"{name} is added and not Active"]


def start_pair(fabric, server, client, port, *arguments):
    """ibv_rc_pingpong on two hosts, for longer than anything here takes."""
    command = ["ibv_rc_pingpong", "-p", str(port), "-n", "100000000", *arguments]
    first = fabric.start(server, command)
    weft_clients.wait_until_listening(first, port, time.monotonic() + PATIENCE_SECONDS)
    second = fabric.start(client, [*command, weft_clients.address_of(server)])
    return first, second


def nodes_come_and_go(folder):
    topology = pathlib.Path(folder) / "roomy.toml"
    text = subprocess.run([weft_clients.weft_command(), "topology", "generate", "star:2", "--to", "toml"], capture_output=True, text=True,
                          timeout=60, check=True).stdout
    topology.write_text(re.sub(r"ports = 2\b", "ports = 8", text))
    problems = []
    with weft_clients.Fabric(str(topology)) as fabric:
        long_run, client = start_pair(fabric, "h1", "h2", 21999)
        try:
            problems += add_node(fabric, "h9", "h9", "--link", "s1:7")
            problems += add_node(fabric, "s5", "switch", "s5", "--ports", "4", "--link", "s1:8")
            problems += add_node(fabric, "h10", "h10", "--link", "s5:4")
            problems += pingpong(fabric, ("h9", "h10"))
            problems += pingpong(fabric, ("h10", "h1"))
            server, peer = start_pair(fabric, "h9", "h10", 21998, "-e")     # they sleep until events come
            comes_true(lambda: re.search(r"^h10.*pingpong|pingpong.*h10", fabric.run("status"), re.MULTILINE))
            refused = subprocess.run([fabric.weft, "node", "remove", "h9"], capture_output=True, text=True, timeout=60,
                                     env=fabric.environment())
            if refused.returncode == 0 or "--force" not in refused.stderr:
                problems.append(f"a host with a program is removed without --force: {refused.stderr}")
            fabric.run("node", "remove", "h9", "--force")
            if not comes_true(lambda: server.poll() is not None) or server.returncode == 0:
                problems.append(f"what runs on a host that is removed does not end with an error: {server.returncode}")
            weft_clients.end(server)
            weft_clients.end(peer)      # it may wait for a message that nobody sends any more, as on any network
            fabric.run("node", "remove", "s5")
            if re.search(r"^(h9|s5):", fabric.run("status"), re.MULTILINE):
                problems.append("weft status shows nodes that were removed")
            problems += add_node(fabric, "h9", "h9", "--link", "s1:7")
            problems += pingpong(fabric, ("h2", "h9"))
            if client.poll() is not None or long_run.poll() is not None:
                problems.append(f"ibv_rc_pingpong between h1 and h2 has ended meanwhile: {client.communicate()[0]}")
        finally:
            for child in (client, long_run):
                weft_clients.end(child)
    print("nodes came and went" if not problems else "nodes came and went, with problems")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", metavar="FOLDER", help="keep captures there")
    arguments = parser.parse_args()
    weft_clients.need_programs("tshark", "ibnetdiscover", "saquery", "perfquery", "ibstat", "ibv_rc_pingpong")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(arguments.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        problems = mads_are_packets(folder) + mads_are_lost() + nodes_come_and_go(folder)
    for problem in problems:
        print("FAILED: " + problem)
    print(f"live changes: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
