#!/usr/bin/env python3
"""Connections that must not notice what a liar says to their hosts' connection managers, by umad.

    cm.py                   every attack, 100,000 MADs or more
    cm.py --smoke           every attack, some thousands
    cm.py --attack NAME     one of them (may be repeated)

On a star of three hosts a client on h2 is connected to a server on h1 all the time, others come and go, and weft_hostile_cm on h3
lies to h1: it may only hear what the specification has for it, h1 takes new connections at once, nothing of the liar's is left
when it is over, and weftd's memory stays within a bound.
"""
import argparse
import pathlib
import re
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "crash"), str(HERE.parent / "clients")]
import crash  # noqa: E402  (it lies in a folder beside this one)
import weft_clients  # noqa: E402

# What the liar may be told. REJ 3: no resources; 6, 8, 10: communication, service id, stale; 12 to 15 and 18 to 24: fields and paths;
# 28: the user's; 4 and 5: time; 31: class version.
ATTACKS = {
    "lengths": {"REJ", "DREP", "REP", "MRA", "DREQ", "APR", "SIDR_REP"},
    "nonsense": {"REJ", "DREP", "REP", "MRA", "DREQ", "APR", "SIDR_REP"},
    "spoof": {"REJ", "DREP"},
    "flood": {"REJ", "REP", "MRA", "DREQ"},
    "replay": {"REJ", "REP", "MRA", "DREP", "DREQ"},
}
GROWTH_LIMIT_KIB = 64 * 1024    # policy: 12,288 requests of one peer wait at most, 41 MiB with what belongs to them
QUIET_SECONDS = 90              # a peer may ask for so much time; then it is forgotten
NEW_CONNECTIONS = 5
NEW_SECONDS = 20


def live_pair(fabric, port):
    """An rping that goes on until it is ended."""
    server = fabric.start("h1", ["rping", "-s", "-a", weft_clients.address_of("h1"), "-p", port, "-S", "256"])
    wait_until_listening(fabric, port)
    client = fabric.start("h2", ["rping", "-c", "-a", weft_clients.address_of("h1"), "-p", port, "-S", "256", "-V", "-C", "1000000000"])
    crash.wait_for(lambda: any(entry["pid"] == client.pid and entry["state"] == "CONNECT" for entry in fabric.status()["connections"]),
                   NEW_SECONDS, "rping does not connect")
    return server, client


def wait_until_listening(fabric, port):
    def listens():
        return any(entry["state"] == "LISTEN" and entry["source"].endswith(f":{port}") for entry in fabric.status()["connections"])

    crash.wait_for(listens, NEW_SECONDS, f"nobody listens on port {port}")


def new_connections(fabric, port):
    """Made and used while the liar is at work."""
    command = [crash.program("connections"), "client", weft_clients.address_of("h1"), port, "3", "1"]
    start = time.monotonic()
    for _ in range(NEW_CONNECTIONS):
        client = fabric.start("h2", command)
        output, in_time = weft_clients.communicate(client, time.monotonic() + NEW_SECONDS)
        crash.require(in_time and client.returncode == 0 and "cycles 3" in output, lambda: f"a new connection failed: {crash.tail(output)}")
    return (time.monotonic() - start) / NEW_CONNECTIONS


def sent_by(fabric, host):
    return fabric.packets()[host]


def connection_ids(fabric):
    return {entry["host"]: entry["connection_ids"] for entry in fabric.status()["managers"]}


def is_quiet(fabric, before):
    now = connection_ids(fabric)
    return all(now.get(host, 0) <= count for host, count in before.items()) and now.get("h3", 0) == 0


def attack(fabric, name, count, server_port, live, before):
    """`before`: the identifiers of what lives. What an attack left behind would speak to the next liar."""
    port = next(entry for entry in fabric.status()["ports"] if entry["node"] == "h1")
    memory, packets = crash.kibibytes(fabric.daemon, "status", "RssAnon"), sent_by(fabric, "h2")
    service = 0x0106 << 16 | int(server_port)
    liar = fabric.start("h3", [str(weft_clients.build_folder() / "tests" / "hostile" / "weft_hostile_cm"), name, str(port["lid"]),
                               port["guid"], hex(service), str(count)])
    start = time.monotonic()
    seconds = new_connections(fabric, server_port)
    output, in_time = weft_clients.communicate(liar, time.monotonic() + 300)
    took = time.monotonic() - start
    crash.require(in_time and liar.returncode == 0, lambda: f"{name}: the liar ended with {liar.returncode}: {crash.tail(output)}")
    told = re.search(r"^sent (\d+) answered(.*)$", output, re.MULTILINE)
    crash.require(told, lambda: f"{name}: the liar says {crash.tail(output)}")
    answers = {what.split("-")[0] for what in re.findall(r"[A-Z][A-Z_]+(?:-\d+)?", told[2])}
    crash.require(answers <= ATTACKS[name], lambda: f"{name}: answered with {answers - ATTACKS[name]}")
    grown = crash.kibibytes(fabric.daemon, "status", "RssAnon") - memory
    crash.require(grown <= GROWTH_LIMIT_KIB, lambda: f"{name}: weftd grew by {grown} KiB")
    crash.require(all(child.poll() is None for child in live), f"{name}: a live connection ended")
    crash.require(sent_by(fabric, "h2") > packets, f"{name}: the live connection stands still")
    crash.wait_for(lambda: is_quiet(fabric, before), QUIET_SECONDS, lambda: f"{name}: left behind {fabric.status()['managers']}, before {before}")
    return f"{told[1]} MADs in {took:.1f} s, a new connection took {seconds:.2f} s, weftd grew by {grown} KiB, answers:{told[2]}"


def test(arguments):
    ports = weft_clients.Ports()
    with crash.Fabric("star 3", "hostile-cm") as fabric:
        many_port = str(ports.take())
        many = fabric.start("h1", [crash.program("connections"), "server", weft_clients.address_of("h1"), many_port])
        wait_until_listening(fabric, many_port)
        live = [many, *live_pair(fabric, str(ports.take()))]
        before = connection_ids(fabric)
        new_connections(fabric, many_port)
        for name in arguments.attack or ATTACKS:
            start = time.monotonic()
            detail = attack(fabric, name, 3_000 if arguments.smoke else 100_000, many_port, live, before)
            print(f"ok      {time.monotonic() - start:6.2f} s  {name}: {detail}", flush=True)
    return f"{len(arguments.attack or ATTACKS)} attacks on connection managers"


if __name__ == "__main__":
    weft_clients.need_programs("rping")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="some thousand MADs each")
    parser.add_argument("--attack", action="append", choices=sorted(ATTACKS), help="only this attack")
    chosen = parser.parse_args()
    sys.exit(crash.main(lambda: test(chosen)))
