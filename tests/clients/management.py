#!/usr/bin/env python3
"""OpenSM and infiniband-diags, as Debian ships them: OpenSM manages a fabric that nobody else does, the diagnostics then read it.

    management.py [--smoke] [--match TEXT]

OpenSM runs on h1 with each of its routing engines, on a pair, a fat tree and a torus (--smoke: min-hop on the fat tree), until it
says SUBNET UP without an error in its log. On the fat tree every program of infiniband-diags runs on a host, and on a switch
where it can; ibping in both roles; perftest crosses the routes that OpenSM made; and IsSM goes with the process.
"""
import argparse
import os
import pathlib
import re
import signal
import sys
import tempfile
import time

import verdicts
import weft_clients

FAT_TREE = "fat-tree:4:2"
FABRICS = {"pair": (2, 0, 1), FAT_TREE: (8, 6, 16), "torus:3x3": (9, 9, 27)}   # hosts, switches, cables
ENGINES = {"pair": ("minhop",), FAT_TREE: ("minhop", "updn", "ftree", "sssp", "dfsssp", "lash"), "torus:3x3": ("minhop", "updn", "dfsssp", "lash")}
UP_SECONDS = 30      # policy: OpenSM takes a fraction of a second for these fabrics
IS_SM = 0x2          # PortInfo CapabilityMask


def counts(pattern, wanted):
    """A check: that many lines match."""
    def check(output):
        found = len(re.findall(pattern, output, re.MULTILINE))
        return None if found == wanted else f"{found} of {wanted} lines match {pattern}"
    return check


def says(*patterns):
    """A check: each pattern matches somewhere."""
    def check(output):
        missing = [pattern for pattern in patterns if not re.search(pattern, output, re.MULTILINE)]
        return f"does not say {', '.join(missing)}" if missing else None
    return check


def errors_of(log):
    """Errors that OpenSM logged, each once and without its time and numbers."""
    return sorted(set(re.findall(r"(\w+: ERR \w+: [^\n]*)", log)))


def capability_mask(output):
    """Of ibstat's first port."""
    match = re.search(r"Capability mask: (0x[0-9a-f]+)", output)
    return int(match.group(1), 16) if match else None


def queries(hosts, switches, cables):
    """(program, arguments, check, what it does) of infiniband-diags; LID 1 is the host of OpenSM."""
    nodes = hosts + switches
    ends = 2 * cables
    every_switch = "Switch\t: 0x"
    return [
        ("ibstat", [], says(r"State: Active", r"SM lid: 1", r"Link layer: InfiniBand"), "says what the port is"),
        ("sminfo", [], says(r"sm lid 1 .*SMINFO_MASTER"), "finds the subnet manager"),
        ("ibnetdiscover", [], counts(r"^(Switch|Ca)\t\d+ ", nodes), "discovers every node"),
        ("ibnetdiscover", ["-p"], counts(r"^(CA|SW) +\d+ +\d+ 0x", ends), "discovers every cable"),
        ("iblinkinfo", [], counts(r"Active/ +LinkUp", ends), "finds every link active"),
        ("ibhosts", [], counts(r"^Ca\t: 0x", hosts), "lists every host"),
        ("ibswitches", [], counts(f"^{every_switch}", switches), "lists every switch"),
        ("ibtracert", ["1", "{last}"], says(r"^From ca .*lid 1-1", rf"^To ca .*\"h{hosts} "), "follows a route"),
        ("ibroute", ["{switch}"], says(rf"^{nodes} valid lids dumped"), "reads a forwarding table"),
        ("ibaddr", ["{last}"], says(r"GID fe80::.* LID start"), "finds addresses"),
        ("smpquery", ["nodeinfo", "1"], says(r"NodeType:\.*Channel Adapter"), "NodeInfo by LID"),
        ("smpquery", ["-D", "nodeinfo", "0,1"], says(r"NodeType:\.*Switch"), "NodeInfo along a route"),
        ("smpquery", ["nodedesc", "1"], says(r"Node Description:\.*h1 "), "NodeDescription"),
        ("smpquery", ["portinfo", "1"], says(r"LinkState:\.*Active", r"SMLid:\.*1$"), "PortInfo"),
        ("smpquery", ["switchinfo", "{switch}"], says(r"LinearFdbTop"), "SwitchInfo"),
        ("smpquery", ["pkeys", "1"], says(r"0xffff"), "P_KeyTable"),
        ("smpquery", ["sl2vl", "1"], says(r"^ports: "), "SLtoVLMappingTable"),
        ("smpquery", ["vlarb", "1"], says(r"VLArbitration tables"), "VLArbitrationTable"),
        ("smpquery", ["guidinfo", "1"], says(r"guids capacity"), "GUIDInfo"),
        ("perfquery", [], says(r"PortXmitData:", r"PortRcvData:"), "PortCounters of the own port"),
        ("perfquery", ["-x", "1", "1"], says(r"PortXmitData:", r"PortUnicastRcvPkts:"), "PortCountersExtended"),
        ("ibqueryerrors", [], says(r"## Summary: "), "reads the errors of every port"),
        ("saquery", ["NR"], counts(r"NodeRecord dump", nodes), "NodeRecords, by RMPP"),
        ("saquery", ["PIR"], says(r"PortInfoRecord dump"), "PortInfoRecords, by RMPP"),
        ("saquery", ["PR"], counts(r"PathRecord dump", nodes * nodes), "PathRecords, by RMPP"),
        ("saquery", ["LR"], counts(r"LinkRecord dump", ends), "LinkRecords, by RMPP"),
        ("saquery", ["CPI"], says(r"SA ClassPortInfo"), "ClassPortInfo"),
        ("saquery", ["-s"], says(r"IsSM ports", r"EndPortLid\.+1$"), "lists the ports with a subnet manager"),
    ]


ON_SWITCHES = ("ibstat", "sminfo", "ibnetdiscover", "iblinkinfo", "saquery")


def lids(output):
    """{name: LID} of what ibnetdiscover -p prints."""
    found = {}
    for line in output.splitlines():
        match = re.match(r"(?:CA|SW) +(\d+) .*\( '(\S+)", line)
        if match:
            found[match.group(2).rstrip("'")] = match.group(1)
    return found


class OpenSm:
    """OpenSM on h1 of a fabric, until the end of a with block."""

    def __init__(self, fabric, engine):
        self.fabric, self.engine = fabric, engine

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weft-opensm-")
        self.log = pathlib.Path(self.folder.name) / "osm.log"
        options = pathlib.Path(self.folder.name) / "opensm.conf"
        options.write_text("force_log_flush TRUE\n")       # or what it says comes late
        self.child = self.fabric.start("h1", ["opensm", "-F", str(options), "-f", str(self.log), "-R", self.engine],
                                       {"OSM_TMP_DIR": self.folder.name, "OSM_CACHE_DIR": self.folder.name})
        return self

    def __exit__(self, *_):
        weft_clients.end(self.child)
        self.child.stdout.close()
        self.folder.cleanup()

    def kill(self):
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(5)

    def text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def wait_until_up(self):
        """A reason of failure, or None."""
        deadline = time.monotonic() + UP_SECONDS
        while "SUBNET UP" not in self.text():
            if self.child.poll() is not None:
                return f"ended with exit status {self.child.returncode}"
            if time.monotonic() > deadline:
                return f"no SUBNET UP within {UP_SECONDS} s"
            time.sleep(0.05)
        found = errors_of(self.text())
        return f"logged {'; '.join(found[:3])}" if found else None


def case_of(program, arguments=(), aspect=""):
    return weft_clients.Case(program, list(arguments), aspect=aspect, timeout_seconds=30)


def outcome_of(case, start, detail, output=""):
    return weft_clients.Outcome(case, "FAILED" if detail else "ok", time.monotonic() - start, detail or "", "", output)


def bring_up(fabric, name, engine):
    """OpenSM by itself: SUBNET UP, and it ends."""
    start = time.monotonic()
    with OpenSm(fabric, engine) as opensm:
        detail, log = opensm.wait_until_up(), opensm.text()
    return outcome_of(case_of("opensm", ["-R", engine], f"SUBNET UP on {name} with {engine}"), start, detail, log)


def diagnose(fabric, shape):
    """Every query on a host, and those that can on a switch."""
    listing = weft_clients.run_alone(fabric, case_of("ibnetdiscover", ["-p"]), "h2").client_output
    known = lids(listing)
    words = {"last": known.get(f"h{shape[0]}", "0"), "switch": known.get("s1", "0")}
    outcomes = []
    for node in ("h2", "s1"):
        for program, arguments, check, what in queries(*shape):
            if node == "s1" and program not in ON_SWITCHES:
                continue
            case = case_of(program, [word.format(**words) for word in arguments], what + (", on a switch" if node == "s1" else ""))
            case.check = check
            outcomes.append(weft_clients.run_alone(fabric, case, node))
    return outcomes


def ping(fabric, server_node, client_node, lid):
    start = time.monotonic()
    server = fabric.start(server_node, ["ibping", "-S"])
    time.sleep(0.5)    # it says nothing when it listens
    case = case_of("ibping", ["-c", "3", lid], f"from {client_node} to a server on {server_node}")
    case.check = says(r"3 packets transmitted, 3 received, 0% packet loss")
    outcome = weft_clients.run_alone(fabric, case, client_node)
    weft_clients.end(server)
    outcome.server_output = server.communicate()[0]
    outcome.seconds = time.monotonic() - start
    return outcome


def is_sm_goes(fabric, opensm):
    """IsSM is set while OpenSM lives, and not after its kill -9."""
    start = time.monotonic()

    def mask():
        return capability_mask(weft_clients.run_alone(fabric, case_of("ibstat"), "h1").client_output) or 0

    before = mask()
    opensm.kill()
    deadline = time.monotonic() + 5
    while (after := mask()) & IS_SM and time.monotonic() < deadline:
        time.sleep(0.05)
    detail = "" if before & IS_SM and not after & IS_SM else f"capability mask {before:#x} before and {after:#x} after the kill"
    return outcome_of(case_of("opensm", [], "IsSM is set while it lives, and gone after kill -9"), start, detail)


def on_fat_tree():
    shape = FABRICS[FAT_TREE]
    with weft_clients.Fabric(f"{FAT_TREE} --no-sm") as fabric, OpenSm(fabric, "minhop") as opensm:
        start = time.monotonic()
        outcomes = [outcome_of(case_of("opensm", ["-R", "minhop"], f"SUBNET UP on {FAT_TREE} with minhop"), start, opensm.wait_until_up(), opensm.text())]
        outcomes += diagnose(fabric, shape)
        outcomes += [ping(fabric, "h1", "h5", "1"), ping(fabric, "h1", "s3", "1")]
        across = weft_clients.Case("ib_write_bw", ["-n", "200"], aspect="crosses the routes that OpenSM made")
        outcomes.append(weft_clients.run_case(fabric, across, weft_clients.Ports(), ("h1", f"h{shape[0]}")))
        outcomes.append(is_sm_goes(fabric, opensm))
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="min-hop on the fat tree alone, and what reads it")
    parser.add_argument("--match", metavar="TEXT", help="only the fabrics whose name holds this text")
    arguments = parser.parse_args()
    weft_clients.need_programs("opensm", *dict.fromkeys(row[0] for row in queries(1, 1, 1)), "ibping", "ib_write_bw")
    outcomes = on_fat_tree() if not arguments.match or arguments.match in FAT_TREE else []
    for name in [] if arguments.smoke else FABRICS:
        for engine in ENGINES[name]:
            if (not arguments.match or arguments.match in name) and (name, engine) != (FAT_TREE, "minhop"):
                with weft_clients.Fabric(f"{name} --no-sm") as fabric:
                    outcomes.append(bring_up(fabric, name, engine))
    if not arguments.match:
        verdicts.store(weft_clients.build_folder(), "management", verdicts.summarize(outcomes), whole=not arguments.smoke)
    return weft_clients.report(outcomes, "management")


if __name__ == "__main__":
    sys.exit(main())
