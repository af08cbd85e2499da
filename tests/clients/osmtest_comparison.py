#!/usr/bin/env python3
"""osmtest's flows side by side: on OpenSM over Debian's ibsim, on OpenSM over Weft, and on Weft's own subnet manager.

    osmtest_comparison.py

The same topology file and the same osmtest, on h2, one flow after the other in an order in which each has what it needs. A flow that passes
over ibsim passes over Weft. It fails otherwise; what ibsim or OpenSM over it makes of a flow is shown and not judged, and a fresh OpenSM
is started for the next flow when it died.
"""
import concurrent.futures
import os
import re
import shlex
import sys
import tempfile
import time

import ibsim
import ibsim_comparison
import management
import own_manager
import weft_clients

SECONDS = 45         # a flow; policy: they take up to 15, and one over ibsim never ends
RANK = {"FAIL": 0, "stopped": 0, "PASS": 1}


def verdict(output, in_time):
    """Of one flow: PASS, FAIL with osmtest's first error, or stopped when it did not end."""
    if re.search(r"OSMTEST: TEST .* PASS", output):
        return "PASS", ""
    if not in_time:
        return "stopped", f"after {SECONDS} s"
    found = re.search(r"ERR \w+: ([^\n]*)", output) or re.search(r"(OSMTEST: TEST [^\n]*)", output)
    return "FAIL", found.group(1).strip() if found else "says nothing"


def run_flow(fabric, flow, folder):
    # It writes files where it is.
    child = fabric.start("h2", ["env", "-C", folder, "osmtest", "-f", flow, "-i", f"{folder}/inventory"])
    output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
    return verdict(output, in_time)


def flows(fabric, with_opensm):
    """{flow: (verdict, why)}"""
    found, opensm = {}, None
    with fabric, tempfile.TemporaryDirectory(prefix="weft-osmtest-") as folder:
        for flow in own_manager.FLOWS:
            if with_opensm and (opensm is None or opensm.child.poll() is not None):
                opensm = management.OpenSm(fabric, "minhop")
                opensm.__enter__()
                opensm.wait_until_up()
            kind, why = run_flow(fabric, flow, folder)
            if opensm and opensm.child.poll() is not None:
                opensm.__exit__()
                kind, why = "FAIL", f"OpenSM ended with status {opensm.child.returncode}"
            found[flow] = kind, why
        if opensm and opensm.child.poll() is None:
            opensm.__exit__()
    return found


def judge(baseline, *others):
    """Findings: flows that one of the others fails and the baseline does not."""
    return [f"flow {flow}: {others_verdict[flow][0]} where ibsim has {kind}: {others_verdict[flow][1]}"
            for flow, (kind, _) in baseline.items() for others_verdict in others if RANK[others_verdict[flow][0]] < RANK[kind]]


def main():
    weft_clients.need_programs("ibsim", "opensm", "osmtest")
    if not os.path.exists(ibsim.PRELOAD):
        sys.exit(f"{ibsim.PRELOAD}: not installed (scripts/bootstrap)")
    topology = ibsim_comparison.TOPOLOGY
    networks = {
        "OpenSM over ibsim": (ibsim_comparison.OnIbsim(str(topology), f"debian-{os.getpid()}"), True),
        "OpenSM over Weft": (weft_clients.Fabric(f"{shlex.quote(str(topology))} --no-sm", f"osmtest-opensm-{os.getpid()}"), True),
        "Weft's own manager": (weft_clients.Fabric(shlex.quote(str(topology)), f"osmtest-own-{os.getpid()}"), False),
    }
    with concurrent.futures.ThreadPoolExecutor(len(networks)) as pool:  # flows mostly wait for what they have timed
        columns = dict(zip(networks, pool.map(flows, *zip(*networks.values()))))
    print(f"{'flow':<24}" + "".join(f"{name:<22}" for name in columns))
    for flow, what in own_manager.FLOWS.items():
        print(f"{flow + ' ' + what:<24}" + "".join(f"{column[flow][0]:<22}" for column in columns.values()))
    print("\n".join(f"{name}, {flow}: {why}" for name, column in columns.items() for flow, (_, why) in column.items() if why))
    findings = judge(*columns.values())
    print("\n".join(findings))
    print(f"osmtest_comparison: {len(own_manager.FLOWS)} flows, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
