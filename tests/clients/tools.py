#!/usr/bin/env python3
"""Debian's ibverbs-utils on one host: what ibv_devices and ibv_devinfo list, and what ibv_asyncwatch sees when the fabric ends.

    tools.py [--smoke] [--match TEXT]
"""
import argparse
import re
import sys
import threading
import time

import verdicts
import weft_clients

DEVICE = "weft0"
WATCH_SECONDS = 20


def lists_device(output):
    return None if re.search(rf"^ +{DEVICE}\s+[0-9a-f]{{16}}$", output, re.MULTILINE) else f"does not list {DEVICE}"


def describes_device(output):
    """Every attribute with a meaning for programs, of an active port with a LID and a GID."""
    wanted = (rf"hca_id:\s+{DEVICE}", r"transport:\s+InfiniBand", r"state:\s+PORT_ACTIVE", r"link_layer:\s+InfiniBand", r"active_mtu:\s+4096",
              r"port_lid:\s+[1-9]", r"GID\[ *0\]:\s+fe80:", r"max_sge:\s+[1-9]", r"max_srq:\s+[1-9]", r"rc_odp_caps:")
    missing = [pattern for pattern in wanted if not re.search(pattern, output)]
    return f"does not say {', '.join(missing)}" if missing else None


def cases():
    return [weft_clients.Case("ibv_devices", [], check=lists_device, aspect="lists the device"),
            weft_clients.Case("ibv_devinfo", ["-v"], check=describes_device, aspect="-v describes device and port, extended attributes included"),
            weft_clients.Case("ibv_devinfo", ["-l"], check=lambda output: None if DEVICE in output else "no device", aspect="-l lists the device")]


WATCH = weft_clients.Case("ibv_asyncwatch", [], aspect="sees the device fail when its fabric ends")


def watch(fabric):
    """It waits for events for ever, so it is ended when it has had one."""
    start = time.monotonic()
    child = fabric.start("h1", ["stdbuf", "-oL", WATCH.program])
    guard = threading.Timer(WATCH_SECONDS, weft_clients.end, [child])  # then its last line is read
    guard.start()
    lines = [child.stdout.readline()]
    fabric.run("down", "--name", fabric.name)
    while not saw_failure("".join(lines)):
        line = child.stdout.readline()
        if not line:
            break
        lines.append(line)
    guard.cancel()
    weft_clients.end(child)
    output = "".join(lines)
    detail = "" if saw_failure(output) else "no event of a failed device"
    return weft_clients.Outcome(WATCH, "FAILED" if detail else "ok", time.monotonic() - start, detail, "", output)


def saw_failure(output):
    return re.search(r"event_type .*\(8\)", output) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="the same: it takes a second")
    parser.parse_args()
    weft_clients.need_programs("ibv_devices", "ibv_devinfo", "ibv_asyncwatch")
    with weft_clients.Fabric("pair") as fabric:
        outcomes = [weft_clients.run_alone(fabric, case, "h1") for case in cases()]
        outcomes.append(watch(fabric))
    verdicts.store(weft_clients.build_folder(), "tools", verdicts.summarize(outcomes), whole=True)
    return weft_clients.report(outcomes, "tools")


if __name__ == "__main__":
    sys.exit(main())
