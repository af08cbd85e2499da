#!/usr/bin/env python3
"""Debian's libfabric between two hosts: fi_info lists what the verbs provider offers, fi_pingpong runs over every type of endpoint.

    libfabric.py [--smoke] [--fabric TOPOLOGY] [--hosts h1 h4] [--jobs N] [--json FILE] [--match TEXT]

Nothing is set up: libfabric finds the device and the host's address by itself where `weft exec` runs it. Each run is made with the
server on either host.
"""
import argparse
import re
import sys

import weft_clients

PINGPONG, INFO = "fi_pingpong", "fi_info"
DEVICE = "weft0"
LARGEST = "6m"                  # of fi_pingpong's own sizes
LARGEST_DATAGRAM = "4k"         # that the MTU lets through
# Provider, type of endpoint, largest size of -S all, environment; and what carries it, in words.
ENDPOINTS = (
    ("verbs", "msg", LARGEST, {}, "FI_EP_MSG: RC connected by RDMA-CM"),
    ("verbs;ofi_rxm", "rdm", LARGEST, {}, "FI_EP_RDM by ofi_rxm: RC connected by RDMA-CM"),
    ("verbs;ofi_rxm", "rdm", LARGEST, {"FI_OFI_RXM_USE_SRX": "1"}, "FI_EP_RDM by ofi_rxm with shared receive queues"),
    ("verbs", "dgram", LARGEST_DATAGRAM, {}, "FI_EP_DGRAM: UD"),
    ("verbs;ofi_rxd", "rdm", LARGEST, {}, "FI_EP_RDM by ofi_rxd: UD"),
)
# What fi_info shows of each type of endpoint: (provider, domain, protocol).
OFFERED = {
    "FI_EP_MSG": {("verbs", DEVICE, "FI_PROTO_RDMA_CM_IB_RC")},
    "FI_EP_DGRAM": {("verbs", f"{DEVICE}-dgram", "FI_PROTO_IB_UD")},
    "FI_EP_RDM": {("verbs;ofi_rxm", DEVICE, "FI_PROTO_RXM"), ("verbs;ofi_rxd", f"{DEVICE}-dgram", "FI_PROTO_RXD")},
}
# Of the device, and of links of 4x EDR, which fabrics have unless they are told otherwise.
TRUTH = {"name": DEVICE, "vendor_id": "0x5746", "device_id": "0x0001", "firmware": "1.0.0", "mtu": "4096", "speed": "100000000000",
         "state": "FI_LINK_UP", "network_type": "InfiniBand"}


def judge_rows(iterations, largest):
    """Every message of every size was answered, up to the largest."""
    def judge(output):
        rows = re.findall(r"^(\S+) +(\d+) +(\S)(\d+) +\S+ +[\d.]+s ", output, re.MULTILINE)
        lost = [row for row in rows if row[1:] != (str(iterations), "=", str(iterations))]
        if lost:
            return f"{len(lost)} sizes without all answers, the first {lost[0][0]}"
        return None if largest in [row[0] for row in rows] else f"no row of {largest} bytes"
    return judge


def pingpong(endpoint, iterations, arguments, largest):
    provider, kind, _, environment, aspect = endpoint
    return weft_clients.Case(PINGPONG, ["-p", provider, "-e", kind, "-I", str(iterations), *arguments], environment, timeout_seconds=120,
                             check=judge_rows(iterations, largest), aspect=aspect, port_option="-B", port_option_of_client="-P")


def cases(smoke):
    found = []
    for endpoint in ENDPOINTS:
        found.append(pingpong(endpoint, 3, ["-c", "-S", "all"], endpoint[2]))
        if not smoke:
            found.append(pingpong(endpoint, 20, ["-S", "all"], endpoint[2]))
            found.append(pingpong(endpoint, 500, ["-c", "-S", "64"], "64"))
            found.append(pingpong(endpoint, 200, ["-S", "4096"], "4k"))
    return found


def judge_list(kind):
    """`fi_info -t KIND` shows what is there and nothing of another type."""
    def judge(output):
        shown = {(re.search(r"provider: (\S+)", part).group(1), *re.findall(r"(?:domain|protocol): (\S+)", part))
                 for part in re.split(r"^(?=provider)", output, flags=re.MULTILINE) if part.startswith("provider")}
        other = set(re.findall(r"type: (\S+)", output)) - {kind}
        missing = OFFERED[kind] - shown
        return f"does not show {sorted(missing)}" if missing else f"shows {sorted(other)}, too" if other else None
    return judge


def judge_details(address):
    """What -v says of the device and the port is so, and the endpoint is that of the host's address."""
    def judge(output):
        wrong = [f"{name} {re.findall(rf'^ *{name}: (.+)$', output, re.MULTILINE)[:1]} instead of {value}" for name, value in TRUTH.items()
                 if value not in re.findall(rf"^ *{name}: (\S+)$", output, re.MULTILINE)]
        if f"src_addr: fi_sockaddr_in://{address}:" not in output:
            wrong.append(f"no endpoint of {address}")
        return "; ".join(wrong) or None
    return judge


def lists(host):
    for kind in OFFERED:
        yield weft_clients.Case(INFO, ["-p", "verbs", "-t", kind], check=judge_list(kind), aspect=f"-p verbs -t {kind} lists the device's endpoints")
    yield weft_clients.Case(INFO, ["-p", "verbs", "-t", "FI_EP_MSG", "-v"], check=judge_details(weft_clients.address_of(host)),
                            aspect="-v describes device, port and the host's address")


def extra(arguments):
    """The lists, and all cases with the server on the other host."""
    def run(fabric, hosts):
        outcomes = [weft_clients.run_alone(fabric, case, host) for host in hosts for case in lists(host)]
        return outcomes + weft_clients.run_cases(fabric, cases(arguments.smoke), tuple(reversed(hosts)), arguments.jobs)
    return run


def main():
    parser = weft_clients.add_options(argparse.ArgumentParser(description=__doc__.split("\n")[0]))
    arguments = parser.parse_args()
    weft_clients.need_programs(INFO)
    return weft_clients.main("libfabric", cases(arguments.smoke), arguments, extra(arguments))


if __name__ == "__main__":
    sys.exit(main())
