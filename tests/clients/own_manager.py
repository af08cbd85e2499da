#!/usr/bin/env python3
"""Weft's own subnet manager as the programs of the field see it: infiniband-diags' every query, osmtest, OpenSM beside it, cut links.

    own_manager.py [--smoke | --only-cut | --only-details]

On a fat tree: each operation of smpquery, each option of perfquery and each record of saquery is answered, or refused by Weft
for a reason that is named; parts of counters add up to them; osmtest's flows pass; OpenSM and the own manager hand over to each
other in both directions, and take over from one that is gone; a link is cut while ib_write_bw crosses it, and the manager finds
another way within 100 ms.
--smoke: without osmtest on OpenSM, and ib_write_bw for 4 s instead of 20.
--only-cut: only the link that is cut, for 20 s. --only-details: only what counters are made of.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time

import management
import verdicts
import weft_clients
from management import FAT_TREE, case_of, counts, outcome_of, says

GUID_OF_H1 = "0x0257461000010001"
GID_OF = "fe80::257:4610:{}:1"
FLOWS = {"c": "an inventory", "v": "its validation", "q": "VLs and arbitration", "e": "forwarded events", "s": "services", "m": "multicast groups"}
OWN = "Weft's own manager"
# The script keeps what it finds in a folder that only root may make.
OWN_CACHE = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -n -t tmpfs tmpfs /var/cache && exec "$@"', "sh"]
REROUTE_MS = 100     # issue 5, acceptance 6
# Why Weft refuses these options of perfquery.
NO_COUNTERS = {
    "links have neither lanes nor FEC that count": ("-T",),
    "packets are on no VL": ("--vloppackets", "--vlopdata", "--vlxmitcounters"),
    "links have no flow control packets": ("--flowctlcounters", "--vlxmitflowctlerrors"),
    "no counters of a chosen opcode": ("--oprcvcounters",),
    "nothing marks congestion": ("--swportvlcong", "--rcvcc", "--slrcvfecn", "--slrcvbecn", "--xmitcc", "--vlxmittimecc"),
}
HANDOVER_SECONDS = 60


def rows():
    """(program, arguments, check, (what the program says where Weft refuses, why)). LIDs: h1 to h8, then s1 to s6."""
    every = [
        ("smpquery", ["nodeinfo", "9"], says(r"NodeType:\.*Switch", r"NumPorts:\.*4$"), ""),
        ("smpquery", ["-c", "nodeinfo", "9", "0,3"], says(r"Guid:\.*0x0257462000050000"), ""),
        ("smpquery", ["-G", "nodedesc", GUID_OF_H1], says(r"Node Description:\.*h1 "), ""),
        ("smpquery", ["-D", "portinfo", "0,1", "3"], says(r"LinkState:\.*Active", r"LocalPort:\.*2$"), ""),
        ("smpquery", ["-x", "portinfo", "1"], says(r"Lid:\.*1$", r"SMLid:\.*1$"), ""),
        ("smpquery", ["switchinfo", "9"], says(r"LinearFdbTop:\.*14$"), ""),
        ("smpquery", ["pkeys", "9"], says(r"0: 0xffff"), ""),
        ("smpquery", ["sl2vl", "9", "3"], counts(r"^ports: in +\d+, out +3", 5), ""),
        ("smpquery", ["vlarb", "9", "3"], says(r"LowCap 8 HighCap 8"), ""),
        ("smpquery", ["guidinfo", "1"], says(GUID_OF_H1), ""),
        ("smpquery", ["pie", "1"], says(r"^CapMask:\.*0x0+$", r"^FECModeActive:\.*0$"), ""),
        ("smpquery", ["pie", "9", "3"], says(r"^CapMask:\.*0x0+$"), ""),
        ("smpquery", ["mepi", "1"], None, ("Mellanox ext port info query failed", "ExtendedPortInfo is Mellanox's own attribute")),
        ("perfquery", ["1"], says(r"Lid 1 port 0", r"PortXmitData:"), ""),
        ("perfquery", ["-a", "1"], says(r"PortSelect:\.*255"), ""),
        ("perfquery", ["-l", "9", "1-3"], counts(r"^# Port counters", 3), ""),
        ("perfquery", ["-x", "-a", "9"], says(r"PortUnicastXmitPkts:", r"PortRcvSwitchRelayErrors:", r"PortXmitWait:"), ""),
        ("perfquery", ["-c", "1", "1"], says(r"SampleStatus:"), ""),
        ("perfquery", ["-e", "9"], says(r"PortRcvErrors:"), ""),
        ("perfquery", ["-r", "1", "1"], says(r"PortXmitData:"), ""),
        ("perfquery", ["-X", "1", "1"], says(r"^XmtDataSL0:\.*[1-9]\d*$", r"^XmtDataSL15:\.*0$"), ""),
        ("perfquery", ["-S", "-a", "9"], says(r"^RcvDataSL0:\.*[1-9]\d*$", r"^RcvDataSL15:\.*0$"), ""),
        ("perfquery", ["-D", "9", "3"], says(r"^PortInactiveDiscards:\.*\d+$", r"^PortSwHOQLifetimeLimitDiscards:\.*\d+$"), ""),
        ("perfquery", ["-E", "9", "3"], says(r"^PortLocalPhysicalErrors:\.*\d+$", r"^PortLoopingErrors:\.*\d+$"), ""),
        ("perfquery", ["-X", "-R", "1", "1"], None, ""),
        ("perfquery", ["-S", "-r", "1", "1"], says("RcvDataSL0:"), ""),
        ("perfquery", ["-D", "-R", "-a", "9"], None, ""),
        ("perfquery", ["-E", "-R", "9", "3"], None, ""),
        ("perfquery", ["-R", "-a", "9"], None, ""),
        ("perfquery", ["-x", "-R", "1", "1"], None, ""),
        ("perfquery", ["-G", GUID_OF_H1, "1"], says(r"Lid 1 port 1"), ""),
        ("ibportstate", ["9", "3"], says(r"LinkState:\.*Active"), ""),
        ("ibsysstat", ["1"], says(r"sysstat ping succeeded"), ""),
        ("ibidsverify", [], None, ""),
        ("ibroute", ["-M", "9"], says(r"^0xc000 "), ""),
        ("dump_lfts", [], counts(r"^Unicast lids", 6), ""),
        ("dump_mfts", [], counts(r"^Multicast mlids", 6), ""),
        ("smpdump", ["1", "0x11"], says(r"^0101 0101"), ""),
        ("ibstatus", [], None, ("No devices", "/sys, which is all that the script reads, is the machine's own")),
    ]
    every += [("perfquery", [option, "1", "1"], None, ("cannot query", why)) for why, options in NO_COUNTERS.items() for option in options]
    return every + [("saquery", arguments, check, "") for arguments, check in (
        (["CPI"], says("SA ClassPortInfo")),
        (["NR", "1"], counts("NodeRecord dump", 1)),
        (["PIR", "9/3"], counts("PortInfoRecord dump", 1)),
        (["SL2VL", "9"], says(r"LID\.+9$")),
        (["--smkey", "1", "PKTR", "1"], says(r"0xFFFF|0xffff")),
        (["VLAR", "1"], counts("VLArbTableRecord dump", 4)),
        (["IIR"], None),
        (["LR", "9/3", "13/1"], counts("LinkRecord dump", 1)),
        (["SR"], None),
        (["PR", "--slid", "1", "--dlid", "5", "--pkey", "0xffff", "--sl", "0", "-r", "1", "-n", "1"], counts("PathRecord dump", 1)),
        (["--src-to-dst", "1:5"], counts("PathRecord dump", 1)),
        (["--sgid-to-dgid", f"{GID_OF.format(1)}-{GID_OF.format(3)}"], counts("PathRecord dump", 1)),
        (["MCMR"], says(r"MGID\.+ff12:401b:ffff::ffff:ffff")),
        (["-g"], says("MCMemberRecord group dump")),
        (["-m", "0xC000"], says("PortGid")),
        (["LFTR", "9"], says("LFT Record dump")),
        (["MFTR"], says("MFT Record dump")),
        (["GIR", "1"], says(f"GUID 0.*{GUID_OF_H1}")),
        (["SWIR", "9"], says("SwitchInfoRecord dump")),
        (["SMIR"], says(r"LID\.+1$")),
        (["-L", "h3 weft0"], says("^3$")),
        (["-O", "3"], says("^h3 weft0$")),
        (["-U", GUID_OF_H1], says("^h1 weft0$")),
        (["-D"], counts(r'"h\d weft0"', 8)),
    )]


def judge(fabric, program, arguments, check, refusal):
    case = case_of(program, arguments, "as Weft's own manager has it")
    case.check = check
    if program == "ibidsverify" and os.geteuid() != 0:
        case.wrapper = OWN_CACHE
    outcome = weft_clients.run_alone(fabric, case, "h2")
    return refused_by_weft(outcome, *refusal) if refusal else outcome


def refused_by_weft(outcome, words, why):
    """The program has to fail, and to say these words."""
    case = outcome.case
    case.refusal, case.refused_by, case.reason = words, "Weft", why
    if not outcome.detail.startswith("exit status"):
        outcome.verdict, outcome.detail = "FAILED", "is not refused"
    elif words not in outcome.client_output:
        outcome.verdict, outcome.detail = "FAILED", f"does not say {words}"
    else:
        outcome.verdict, outcome.detail = "refused", words
    return outcome


def osmtest(fabric, who):
    """osmtest's flows, in an order in which each has what it needs."""
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="weft-osmtest-") as folder, contextlib.chdir(folder):    # it writes where it is
        for flow, what in FLOWS.items():
            case = case_of("osmtest", ["-f", flow, "-i", f"{folder}/inventory"], f"{what}, on {who}")
            case.check, case.timeout_seconds = says(r"OSMTEST: TEST .* PASS"), 60
            outcome = weft_clients.run_alone(fabric, case, "h2")
            if flow == "s" and who == OWN:
                outcome = refused_by_weft(outcome, "Fail to delete service", "a service is removed by its own key only, which OpenSM does not ask for (C15-0.1.14)")
            outcomes.append(outcome)
    return outcomes


def master(fabric):
    """(LID, priority) of the master as h4's port knows it."""
    found = re.search(r"sm lid (\d+) .* priority (\d+) state 3", weft_clients.run_alone(fabric, case_of("sminfo"), "h4").client_output)
    return found and (int(found.group(1)), int(found.group(2)))


class Standing(management.OpenSm):
    """OpenSM on a host, with a priority, that looks often whether the master lives."""

    def __init__(self, fabric, host, priority):
        super().__init__(fabric, "minhop")
        self.host, self.priority = host, priority

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weft-opensm-")
        self.log = pathlib.Path(self.folder.name) / "osm.log"
        options = pathlib.Path(self.folder.name) / "opensm.conf"
        options.write_text("force_log_flush TRUE\nsminfo_polling_timeout 500\npolling_retry_number 2\n")
        self.child = self.fabric.start(self.host, ["opensm", "-F", str(options), "-f", str(self.log), "-p", str(self.priority)],
                                       {"OSM_TMP_DIR": self.folder.name, "OSM_CACHE_DIR": self.folder.name})
        return self


def expect(fabric, what, wanted):
    """The master becomes `wanted` (LID, priority) and stays; then data moves from h5 to h8."""
    start = time.monotonic()
    deadline = start + HANDOVER_SECONDS
    while master(fabric) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.5)     # longer than a handover may be open
    found = master(fabric)
    detail = "" if found == wanted else f"master {found}, not {wanted}"
    if not detail:
        across = weft_clients.Case("ibv_rc_pingpong", ["-n", "100"])
        moved = weft_clients.run_case(fabric, across, weft_clients.Ports(), ("h5", "h8"))
        detail = moved.detail
    return outcome_of(case_of("opensm", [], what), start, detail)


def hand_over():
    outcomes = []
    with weft_clients.Fabric(FAT_TREE) as fabric, Standing(fabric, "h2", 10) as opensm:
        outcomes.append(expect(fabric, "the higher priority: Weft's manager hands over to OpenSM", (2, 10)))
        os.killpg(opensm.child.pid, signal.SIGKILL)
        outcomes.append(expect(fabric, "after kill -9 of OpenSM, Weft's manager takes over", (1, 0)))
    with weft_clients.Fabric(f"{FAT_TREE} --sm-priority 5") as fabric, Standing(fabric, "h2", 3):
        outcomes.append(expect(fabric, "the lower priority: OpenSM stands by", (1, 5)))
        fabric.run("link", "down", "h1:1")
        outcomes.append(expect(fabric, "Weft's manager is gone: OpenSM takes over", (2, 3)))
        fabric.run("link", "up", "h1:1")
        outcomes.append(expect(fabric, "and hands over to Weft's manager that is back", (1, 5)))
    with weft_clients.Fabric(f"{FAT_TREE} --sm-port h3:1") as fabric, Standing(fabric, "h1", 0):
        outcomes.append(expect(fabric, "equal priority: the lower GUID is master", (1, 0)))
    return outcomes


def route(fabric, source, destination):
    """The ports that packets leave switches by: ibtracert's `[3] -> switch port {guid}[1]` names the egress before it."""
    output = weft_clients.run_alone(fabric, case_of("ibtracert", [source, destination]), "h2").client_output
    names = re.findall(r'^\[(\d+)\] -> \S+ port .*"(\S+?)(?: weft\d)?"$', output, re.MULTILINE)
    return [f"{names[i - 1][1]}:{names[i][0]}" for i in range(1, len(names))]


def counters(fabric, option, *where):
    """{counter: number} as perfquery prints it."""
    output = weft_clients.run_alone(fabric, case_of("perfquery", [option, *where]), "h2").client_output
    return {name: int(number) for name, number in re.findall(r"^(\w+):\.*(\d+)$", output, re.MULTILINE)}


def parts_of(fabric, option, *where):
    """The sum of what perfquery prints beside the two selects."""
    return sum(number for name, number in counters(fabric, option, *where).items() if not name.endswith("Select"))


def details():
    """What moves at a service level counts there, what is lost or damaged has its reason, and the parts add up to their counters."""
    start = time.monotonic()
    messages, size, lost = 200, 65536, 3
    with weft_clients.Fabric("star:2") as fabric:
        for rule in ("drop", "corrupt"):
            fabric.run("fault", "add", f"{rule} count={lost} opcode=rc-rdma-write-middle out=h1:1")
        case = weft_clients.Case("ib_write_bw", ["-n", str(messages), "-s", str(size), "-S", "3"])
        moved = weft_clients.run_case(fabric, case, weft_clients.Ports(), ("h2", "h1"))
        before, by_level, after = (counters(fabric, option, "1", "1") for option in ("-x", "-X", "-x"))
        discards, errors = counters(fabric, "-D", "1", "1"), counters(fabric, "-E", "3", "1")
        sums = counters(fabric, "-x", "3", "1")
        all_data = parts_of(fabric, "-X", "1", "1")
        weft_clients.run_alone(fabric, case_of("perfquery", ["-X", "-R", "1", "1", "0x8"]), "h2")
        emptied = counters(fabric, "-X", "1", "1")
    problems = [problem for problem, is_so in (
        (f"ib_write_bw: {moved.detail}", moved.verdict != "ok"),
        (f"level 3 has {by_level.get('XmtDataSL3')} words", by_level.get("XmtDataSL3", 0) < messages * size / 4),
        (f"levels have {all_data} words, the port {before} to {after}", not before["PortXmitData"] <= all_data <= after["PortXmitData"] + 1000),
        (f"discards {discards} of {after['PortXmitDiscards']}", discards.get("PortInactiveDiscards") != lost or after["PortXmitDiscards"] != lost),
        (f"errors {errors} of {sums['PortRcvErrors']}", errors.get("PortLocalPhysicalErrors") != lost or sums["PortRcvErrors"] != lost),
        (f"after the reset of level 3: {emptied}", emptied.get("XmtDataSL3") != 0 or emptied.get("XmtDataSL0", 0) < by_level.get("XmtDataSL0", 1))) if is_so]
    return outcome_of(case_of("perfquery", [], "details add up to the counters: data by service level, discards and errors by reason"), start, "; ".join(problems))


def sent(fabric, port):
    status = json.loads(fabric.run("status", "--json", "--counters"))
    return next((each["counters"]["xmit_data"] for each in status["ports"] if each["name"] == port), None)


def re_route(seconds):
    """A link of the way is cut while ib_write_bw crosses it for so long."""
    start = time.monotonic()
    with weft_clients.Fabric(FAT_TREE) as fabric:
        before = route(fabric, "1", "8")
        port = str(weft_clients.Ports().take())
        server = fabric.start("h8", ["ib_write_bw", "-p", port, "-D", seconds])
        weft_clients.wait_until_listening(server, int(port), time.monotonic() + 20)
        client = fabric.start("h1", ["ib_write_bw", "-p", port, "-D", seconds, weft_clients.address_of("h8")])
        time.sleep(0.4 * int(seconds))
        log = pathlib.Path(json.loads(fabric.run("status", "--json"))["log"])
        old = len(log.read_text())
        fabric.run("link", "down", before[0])
        deadline = time.monotonic() + int(seconds) + 30
        output, in_time = weft_clients.communicate(client, deadline)
        weft_clients.communicate(server, deadline)
        after = route(fabric, "1", "8")
        waits = [float(word) for word in re.findall(r"re-routed ([\d.]+) ms", log.read_text()[old:])]    # each trap of this cut
        words = sent(fabric, after[0]) if after else 0
        status = client.returncode
    problems = [problem for problem, is_so in (
        (f"ib_write_bw: exit status {status}", status != 0 or not in_time), (f"the way stays {before}", not after or after[0] == before[0]),
        ("the log tells of no new route", not waits), (f"re-routed after {waits} ms", bool(waits) and max(waits) > REROUTE_MS),
        (f"the new way's port counts {words} words", not words or words < 1_000_000)) if is_so]
    print(f"re-routed {waits} ms after the trap, from {before} to {after}")
    return outcome_of(case_of("ib_write_bw", ["-D", seconds], "crosses a link that is cut: another way within 100 ms"), start, "; ".join(problems), output)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="without osmtest on OpenSM, and ib_write_bw for 4 s")
    parser.add_argument("--only-cut", action="store_true", help="only the link that is cut under ib_write_bw")
    parser.add_argument("--only-details", action="store_true", help="only what counters are made of")
    arguments = parser.parse_args()
    weft_clients.need_programs("opensm", "osmtest", "ib_write_bw", "ibv_rc_pingpong", *dict.fromkeys(row[0] for row in rows()))
    if arguments.only_cut:
        return weft_clients.report([re_route("20")], "own-manager")
    if arguments.only_details:
        return weft_clients.report([details()], "own-manager")
    with weft_clients.Fabric(FAT_TREE) as fabric:
        outcomes = [judge(fabric, *row) for row in rows()]
        outcomes += [management.ping(fabric, "h1", "h5", "1")] + osmtest(fabric, OWN)
    outcomes += hand_over() + [details(), re_route("4" if arguments.smoke else "20")]
    if not arguments.smoke:
        with weft_clients.Fabric(f"{FAT_TREE} --no-sm") as fabric, management.OpenSm(fabric, "minhop") as opensm:
            opensm.wait_until_up()
            outcomes += osmtest(fabric, "OpenSM over Weft")
    verdicts.store(weft_clients.build_folder(), "own-manager", verdicts.summarize(outcomes), whole=not arguments.smoke)
    return weft_clients.report(outcomes, "own-manager")


if __name__ == "__main__":
    sys.exit(main())
