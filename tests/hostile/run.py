#!/usr/bin/env python3
"""Programs and a daemon that must not notice a process that lies to them.

    run.py                  every attack, for some seconds each
    run.py --smoke          every attack, for about a second
    run.py --attack NAME    one of them (may be repeated); --list names them
    run.py --hosts h1 h2    where its victims live; --liar h3 where the liar does
    run.py --functions      one victim and the liar are virtual functions of the same port

On one fabric the victims run between two hosts while hostile_peer attacks them or the daemon. All of them must end well with
the right contents, the daemon must answer, and its log must name the liar, in a few lines.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))
import weft_clients  # noqa: E402

# What the log must say of the liar; None where nothing can be said, since nobody can tell who wrote.
EXPECTED = {
    "garbage": "records",
    "lengths": "with lengths that no ring permits",
    "records": "that are no packets",
    "source": "with a forged source address",
    "gid": "with a forged source address",
    "destination": "for an address that is not the receiver's",
    "pkey": "with a P_Key that its port does not have",
    "management": "for QP0 or QP1",
    "qpn": "with the source QP of another process",
    "connection": "for connections of other processes",
    "flood": "for QPs that do not exist",
    "positions": None,
    "wakes": None,
    "lost-wakes": None,
    "seals": None,
    "nobodies": "requests for lanes to processes that do not exist",
    "groups": "times more requests than a process may make",
    "ports-of-others": "requests for groups or ports that it cannot have",
    "malformed": "malformed messages",
    "descriptors": "malformed messages",
    "daemons-words": "messages that it may not send",
    "connections": "connections too many",
    "queries": None,
    "places": None,
    "accusations": "says ",
    "xrc-words": "messages about XRC domains that it does not have open",
    "device-words": "messages about devices that it does not have open",
    "bad-keys": "reports of ports that it does not have",
    "counters": None,
}
NAMED_SECONDS = 20           # policy: victims run again until the liar is named; each may end before it has found them
LIAR_SECONDS = 900           # policy: longer than its victims on a crowded machine; it is ended before
OF_FUNCTIONS = ("records", "gid", "destination", "pkey", "qpn", "flood")  # by default; a foreign LID could be the liar's own there
SAME_HOST = ("connection",)  # attacks that are worse from the host of a victim
MOST_LINES = 12              # of the log for one liar, one kind and one reporter; policy


def liar_program():
    return str(weft_clients.build_folder() / "tests" / "hostile" / "weft_hostile_peer")


def victims(smoke):
    """Programs whose contents or exit status say whether they were hurt."""
    few = 1 if smoke else 20  # beside a busy machine a message that both sides poll for takes milliseconds
    return [
        weft_clients.Case("ibv_rc_pingpong", ["-c", "-n", str(4_000 * few)], timeout_seconds=60),
        weft_clients.Case("ibv_ud_pingpong", ["-c", "-n", str(1_000 * few)], timeout_seconds=60),
        weft_clients.Case("ib_send_lat", ["-n", str(4_000 * few), "-F"], timeout_seconds=60),
        weft_clients.Case("ibv_rc_pingpong", ["-c", "-e", "-n", str(1_000 * few)], timeout_seconds=60),
        weft_clients.Case("ib_write_bw", ["-n", str(1_000 * few), "-F"], timeout_seconds=60),
    ]


def log_of(fabric):
    status = json.loads(fabric.run("status", "--json", "--counters", "--name", fabric.name))
    path = pathlib.Path(status["log"])
    return status, path.read_text(encoding="utf-8").splitlines()


def judge_log(name, host, pid, lines):
    """Why the log is not what it must be, or None."""
    mine = [line for line in lines if f"process {pid} (weft_hostile_p" in line]
    wanted = EXPECTED[name]
    if name == "accusations":  # the innocent are named, and who accuses them
        mine = [line for line in lines if f"says {host} process {pid} (weft_hostile_p" in line]
    if wanted is not None and not any(wanted in line for line in mine):
        return f"the log does not name the liar {pid} with '{wanted}': {mine[-3:]}"
    kinds = {}
    for line in mine:
        words = line.split(": ", 1)[1].split(" ", 1)[1] if ": " in line else line
        kinds[words] = kinds.get(words, 0) + 1
    loud = {kind: count for kind, count in kinds.items() if count > MOST_LINES}
    return f"too many lines: {loud}" if loud else None


def attack(fabric, name, arguments, cases):
    """(verdict, detail)"""
    where = arguments.hosts[1] if name in SAME_HOST else arguments.liar
    liar = fabric.start(where, [liar_program(), name, str(LIAR_SECONDS)])
    first = liar.stdout.readline()
    if not first.startswith("pid "):
        return "FAILED", f"the liar did not start: {first}{liar.communicate()[0]}"
    pid = int(first.split()[1])
    began = time.monotonic()
    outcomes = []
    while time.monotonic() - began < NAMED_SECONDS:
        outcomes += weft_clients.run_cases(fabric, cases, arguments.hosts, jobs=arguments.jobs, progress=False)
        if any(outcome.verdict != "ok" for outcome in outcomes) or judge_log(name, where, pid, log_of(fabric)[1]) is None:
            break
    while time.monotonic() - began < arguments.seconds:  # the daemon's victims may be quick
        time.sleep(0.05)
    alive = liar.poll() is None
    weft_clients.end(liar)
    rest = liar.communicate()[0]
    bad = [f"{outcome.case.name}: {outcome.detail}" for outcome in outcomes if outcome.verdict != "ok"]
    if bad:
        return "FAILED", "; ".join(bad)
    if name == "seals" and not alive or "broken" in rest:
        return "FAILED", rest.strip()
    if not alive:
        return "FAILED", f"the liar ended early: {rest.strip()}"
    try:
        _, lines = log_of(fabric)
    except (RuntimeError, subprocess.TimeoutExpired, OSError) as problem:
        return "FAILED", f"the daemon: {problem}"
    problem = judge_log(name, where, pid, lines)
    return ("FAILED", problem) if problem else ("ok", f"{len([line for line in lines if f'process {pid} (' in line])} lines in the log")


def add_functions(fabric):
    fabric.run("vf", "add", "h1", "h4", "h5")
    deadline = time.monotonic() + 20
    while any(port["node"] in ("h4", "h5") and port["state"] != "Active" for port in fabric.ports()):
        if time.monotonic() > deadline:
            raise RuntimeError("the functions do not become active")
        time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a short run of each")
    parser.add_argument("--attack", action="append", choices=sorted(EXPECTED), metavar="NAME", help="only this one")
    parser.add_argument("--log", action="store_true", help="print the daemon's log")
    parser.add_argument("--list", action="store_true", help="print the attacks")
    parser.add_argument("--hosts", nargs=2, default=("h1", "h2"), metavar="HOST", help="of the victims (default h1 h2)")
    parser.add_argument("--liar", default="h3", metavar="HOST", help="of the liar (default h3)")
    parser.add_argument("--jobs", type=int, default=2, help="victims at a time")
    parser.add_argument("--seconds", type=float, help="how long an attack lasts at least")
    parser.add_argument("--functions", action="store_true", help="virtual functions h4 and h5 of h1's port: a victim and the liar")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(EXPECTED))
        return 0
    arguments.seconds = arguments.seconds or (0.3 if arguments.smoke else 4)
    cases = victims(arguments.smoke)
    weft_clients.need_programs(*{case.program for case in cases})
    failed = 0
    names = arguments.attack or list(OF_FUNCTIONS if arguments.functions else EXPECTED)
    with weft_clients.Fabric("star 3", name=f"hostile-{weft_clients.os.getpid()}") as fabric:
        if arguments.functions:
            arguments.hosts, arguments.liar = ("h4", "h2"), "h5"
            add_functions(fabric)
        for number, name in enumerate(names):
            start = time.monotonic()
            chosen = [cases[number % len(cases)], cases[(number + 2) % len(cases)]] if arguments.smoke else cases
            verdict, detail = attack(fabric, name, arguments, chosen)
            failed += verdict != "ok"
            print(f"{verdict:7} {time.monotonic() - start:6.2f} s  {name}: {detail}", flush=True)
        status, lines = log_of(fabric)
        if status["programs"]:
            failed += 1
            print(f"FAILED: programs are left: {status['programs']}")
        print("\n".join(lines) if arguments.log else f"the log has {len(lines)} lines")
    print(f"hostile: {len(names)} attacks, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
