#!/usr/bin/env python3
"""Weft beside Debian's ibsim: the same topology file, the same OpenSM, the same diagnostics; what they print is the same but for DIFFERENCES.

    ibsim_comparison.py [--show]

--show prints every difference that was found, explained or not. A difference that is not explained fails, and so does an explanation
that nothing needs any more.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import time

import ibsim
import management
import weft_clients

TOPOLOGY = weft_clients.ROOT / "tests" / "golden" / "management" / "fat-tree.net"   # as ibnetdiscover printed it
NODES = {"host": ("1", ("", "1")), "leaf": ("2", ("", "0", "1", "3")), "spine": ("6", ("", "2"))}    # LID, and ports
OF_NODES, OF_PORTS = ("nodeinfo", "nodedesc", "switchinfo", "guidinfo"), ("portinfo", "pkeys", "sl2vl", "vlarb", "mepi")

VENDOR = "ibsim takes the vendor of the file, or pretends to be one; Weft says who it is"
ABLE = "what the hardware can do, of which each simulates its own"
KEPT = "OpenSM has set it, and ibsim answers what it had at first"
BY_LID = "the port of the switch that the SMP came in by (IBTA vol 1 §14.2.5.3, §14.2.5.6); ibsim says 0"
PORT0 = "ibsim's switches have a port 0 of another kind than their other ports"
ZEROS = "( ?0x0000){8}"
SWITCH = "(leaf|spine)"

MADE = "says when it was made"  # which may be the same second

# What they may say differently: (queries, field, of ibsim, of Weft, why), regular expressions of the whole.
DIFFERENCES = [
    ("ibnetdiscover", "# Topology file", ".*", ".*", MADE),
    ("ibnetdiscover", "vendid", "0x2c9", "0x5746", VENDOR),
    ("ibnetdiscover", "devid", "0xc738|0x1003", "0x[12]", VENDOR),
    ("iblinkinfo", ".*LinkUp.*", "Could be 12X Could be 53.125 Gbps", " ", ABLE),
    ("nodeinfo .*", "VendorId", "0x0002c9", "0x005746", VENDOR),
    ("nodeinfo .*", "DevId", "0xc738|0x1003", "0x000[12]", VENDOR),
    ("nodeinfo .*", "Revision", "0x000000a1", "0x00000001", VENDOR),
    ("nodeinfo .*", "PartCap", "64|8", "128", ABLE),
    (f"nodeinfo {SWITCH}", "LocalPort", "0", "[1-4]", BY_LID),
    ("switchinfo .*", "LinearFdbCap", "30720", "49152", ABLE),
    ("switchinfo .*", "PartEnforceCap", "64", "0", ABLE),
    ("switchinfo .*", "FilterRaw(In|Out)bound", "1", "0", ABLE),
    ("portinfo .*", "CapMask", ".*", "0x661ca.*", ABLE),
    ("portinfo .*", "CapabilityMask2", "0x30 .*", "0x433 .*", ABLE),
    ("portinfo .*", "LinkWidthSupported", "1X or 4X or 8X or 12X or 2X", "1X or 4X", ABLE),
    ("portinfo .*", "LinkSpeedExtSupported", ".* or 53.125 Gbps", "14.0625 Gbps or 25.78125 Gbps", ABLE),
    ("portinfo .*", "MtuCap|NeighborMTU", "2048", "4096", ABLE),
    (f"portinfo {SWITCH}( 0)?", "MtuCap", "1024", "4096", ABLE),
    (f"portinfo {SWITCH}( 0)?", "NeighborMTU", "256", "4096", KEPT),
    (f"portinfo {SWITCH}( 0)?", "LinkWidthEnabled", "4X", "1X or 4X", PORT0),
    (f"portinfo {SWITCH}( 0)?", "LinkSpeedActive", "2.5 Gbps", "10.0 Gbps", PORT0),
    (f"portinfo {SWITCH}( 0)?", "LinkSpeedEnabled", "2.5 Gbps", "2.5 Gbps or 5.0 Gbps or 10.0 Gbps", PORT0),
    (f"portinfo {SWITCH}( 0)?", "LinkSpeedExt(Supported|Enabled)", "0", "14.0625 Gbps or 25.78125 Gbps", PORT0),
    (f"portinfo {SWITCH}( 0)?", "RespTimeVal", "8", "0", "agents answer at once"),
    (f"portinfo {SWITCH}.*", "LocalPort", "0", "[1-4]", BY_LID),
    ("portinfo .*", "MkeyLeasePeriod", "4089", "0", KEPT),
    ("portinfo .*", "SubnetTimeout", "31", "18", KEPT),
    ("portinfo .*", "LocalPhysErr|OverrunErr", "0", "8", KEPT),
    (f"portinfo {SWITCH}.*", "VLStallCount", "0", "7", KEPT),
    ("pkeys .*", "pkeys capacity", "64|8", "128|0", ABLE),
    ("pkeys .*", r"\d+", "nothing", ZEROS, ABLE + ", so that the table has more rows"),
    (f"pkeys {SWITCH} [1-4]", r"\d+", f"(0xffff)?{ZEROS}|0xffff( 0x0000){{7}}", "nothing", "no partition enforcement, so that those ports have no table"),
    ("mepi .*", ".*", "0x00|said", "nothing", "an attribute of Mellanox's alone, " + VENDOR),
    ("mepi .*", "smpquery", "nothing", ".*ext port info query failed", "an attribute of Mellanox's alone, " + VENDOR),
]


def fields(output):
    """[(field or line, value)]; what is indented below a field belongs to it."""
    found = []
    for line in output.splitlines():
        match = re.match(r"(# Topology file|[\w ]+?)(?::\.+|=|: )(.*)$|(.*LinkUp.*) \((.*)\)$", line)
        table = re.match(r"(\d+) (\w+ capacity)", line)
        if line.startswith("\t\t\t") and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        elif table:
            found.append((table.group(2), table.group(1)))
        elif match:
            found.append(((match.group(1) or match.group(3)).strip(), match.group(2) or match.group(4) or ""))
        elif line.strip():
            found.append((line.rstrip(), ""))
    return found


def explanation(query, field, theirs, ours):
    """The number of the row, or None."""
    for number, (queries, name, of_ibsim, of_weft, _) in enumerate(DIFFERENCES):
        if re.fullmatch(queries, query) and re.fullmatch(name, field) and re.fullmatch(of_ibsim, theirs) and re.fullmatch(of_weft, ours):
            return number
    return None


def differences(query, theirs, ours):
    """[(field, of ibsim, of Weft)]; lines that only one has stand alone, those that both have are compared in their order."""
    left, right, found = fields(theirs), fields(ours), []
    while left or right:
        if left and right and left[0][0] == right[0][0]:
            (field, of_ibsim), (_, of_weft) = left.pop(0), right.pop(0)
            if of_ibsim != of_weft:
                found.append((field, of_ibsim, of_weft))
        elif left and (not right or left[0][0] not in [field for field, _ in right]):
            found.append((left[0][0], left.pop(0)[1] or "said", "nothing"))
        else:
            found.append((right[0][0], "nothing", right.pop(0)[1] or "said"))
    return found


class OnWeft(ibsim.PreloadedFabric):
    """Nodes have the names by which either finds them: as in the file."""

    def start(self, host, command, environment=None):
        return super().start(re.search(rf'"([HS]-\w+)"\t+# "{host}\b', TOPOLOGY.read_text(encoding="utf-8")).group(1), command, environment)


class OnIbsim(OnWeft):
    def __enter__(self):
        self.folder = ibsim.tempfile.TemporaryDirectory(prefix="weft-ibsim-")
        with open(f"{self.folder.name}/log", "w", encoding="utf-8") as log:
            self.child = subprocess.Popen(["ibsim", "-s", "-n", self.topology], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          env=self.environment(), start_new_session=True)
        deadline = time.monotonic() + 10
        while f"@{self.name}:ctl" not in open("/proc/net/unix", encoding="utf-8").read() and time.monotonic() < deadline:
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        weft_clients.end(self.child)
        self.folder.cleanup()


def queries():
    """(name, program, arguments)"""
    yield from (("ibnetdiscover", "ibnetdiscover", []), ("ibnetdiscover -p", "ibnetdiscover", ["-p"]), ("iblinkinfo", "iblinkinfo", []))
    for kind, (lid, ports) in NODES.items():
        yield from ((f"{what} {kind}", "smpquery", [what, lid]) for what in OF_NODES if (kind, what) != ("host", "switchinfo"))
        yield from ((f"{what} {kind} {port}".strip(), "smpquery", [what, lid, *port.split()]) for what in OF_PORTS for port in ports)


def outputs(fabric):
    """{query: what was printed}, and OpenSM's verdict."""
    with fabric, management.OpenSm(fabric, "minhop") as opensm:
        reason = opensm.wait_until_up()
        if reason:
            raise RuntimeError(f"OpenSM: {reason}")
        return {name: ibsim.ask(fabric, "h2", program, *arguments) for name, program, arguments in queries()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--show", action="store_true", help="every difference that was found")
    arguments = parser.parse_args()
    weft_clients.need_programs("ibsim", "opensm", "ibnetdiscover", "iblinkinfo", "smpquery")
    theirs = outputs(OnIbsim(str(TOPOLOGY), f"debian-{os.getpid()}"))
    ours = outputs(OnWeft(f"{shlex.quote(str(TOPOLOGY))} --no-sm --ibsim"))
    explained, bad = {}, [f"says nothing on ibsim: {query}" for query, output in theirs.items() if len(output.splitlines()) < 1 or "iberror" in output]
    for query in theirs:
        for field, of_ibsim, of_weft in differences(query, theirs[query], ours[query]):
            number = explanation(query, field, of_ibsim, of_weft)
            line = f"{query}: {field}: ibsim {of_ibsim}, Weft {of_weft}"
            if number is None:
                bad.append(f"not explained: {line}")
            else:
                explained[number] = explained.get(number, 0) + 1
            if arguments.show:
                print(line + ("" if number is None else f" ({DIFFERENCES[number][4]})"))
    bad += [f"explains nothing: {row}" for number, row in enumerate(DIFFERENCES) if number not in explained and row[4] != MADE]
    print("\n".join(bad))
    print(f"ibsim_comparison: {len(theirs)} queries, {sum(explained.values())} differences explained by {len(explained)} of {len(DIFFERENCES)} rows, {len(bad)} findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
