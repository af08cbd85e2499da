"""What scripts/bench makes of the programs' output: figures, and the rows that put each of Weft's beside its peers.

No program is run here; bench_runs.py does that. Standard library only.
"""
import dataclasses
import json
import math
import re
import statistics

MIB = 1 << 20
SIZES = {8: "8 B", 4096: "4 KiB", 65_536: "64 KiB", MIB: "1 MiB"}
LATENCY = ("ib_write_lat", "ib_send_lat", "ib_read_lat")
BANDWIDTH = ("ib_write_bw", "ib_send_bw", "ib_read_bw")
UCX_TESTS = ("ucp_put_lat", "tag_lat", "ucp_get", "tag_bw")
UCX_PEER = {"ib_write_lat": "UCX ucp_put_lat", "ib_send_lat": "UCX tag_lat", "ib_read_lat": "UCX ucp_get",
            **dict.fromkeys(BANDWIDTH, "UCX tag_bw")}
MESSAGES_ONLY = 8  # octets: up to this a rate of messages says more than a bandwidth

HOP, LINES, MEMCPY = "cache-line hop", "cache-line stream", "memcpy"
PING_PONG, ROUND_TRIP, STREAM = "TCP ping-pong", "TCP round trip", "TCP stream"
MICROSECONDS, GIGABYTES, MESSAGES = "us", "GB/s", "M/s"


class Unreadable(Exception):
    """A program's output without the figure that it should hold."""


class ClockUnknown(Unreadable):
    """perftest did not find the CPU's clock rate, which it measures itself, and prints inf or nan: worth another run."""


@dataclasses.dataclass
class Figure:
    unit: str
    values: list            # one for each run

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def best(self):
        return min(self.values) if self.unit == MICROSECONDS else max(self.values)


def named(what, size):
    return f"{what} {SIZES[size]}"


def is_latency(what):
    return what.endswith("_lat") or what in ("ucp_get", PING_PONG, ROUND_TRIP)


def unit_of(what, size):
    if is_latency(what):
        return MICROSECONDS
    return MESSAGES if size <= MESSAGES_ONLY else GIGABYTES


def parse_perftest(program, size, output):
    """{unit: value} of perftest's result row for this size; latency is the median, one way but for READ, which is a round trip."""
    row = re.search(rf"^ {size}[ \t]+\d+[ \t]+(\S.*?)[ \t]*$", output, re.MULTILINE)
    columns = 7 if is_latency(program) else 3
    try:
        numbers = [float(word) for word in row.group(1).split()]
    except (AttributeError, ValueError):
        numbers = []
    if len(numbers) != columns:
        raise Unreadable(f"{program}: no result row for {size} octets")
    values = ({MICROSECONDS: numbers[2]} if is_latency(program)
              else {GIGABYTES: numbers[1] * MIB / 1e9, MESSAGES: numbers[2]})
    if not all(math.isfinite(value) for value in values.values()):
        raise ClockUnknown(f"{program}: perftest did not find the CPU's clock rate")
    return values


def parse_ucx(output):
    """{unit: value} of ucx_perftest's last row: the median of latency, and the whole run's bandwidth and rate."""
    row = re.search(r"^Final: +\d+ +([\d. ]+)$", output, re.MULTILINE)
    numbers = [float(word) for word in row.group(1).split()] if row else []
    if len(numbers) != 7:
        raise Unreadable("ucx_perftest: no final row")
    return {MICROSECONDS: numbers[0], GIGABYTES: numbers[4] * MIB / 1e9, MESSAGES: numbers[6] / 1e6}


def parse_json(output):
    try:
        return json.loads(output)
    except ValueError as problem:
        raise Unreadable(f"no JSON: {problem}") from problem


def add(figures, name, unit, value):
    figures.setdefault(name, Figure(unit, [])).values.append(value)


def add_tcp(figures, output):
    for entry in parse_json(output):
        size = entry["size"]
        add(figures, named(PING_PONG, size), MICROSECONDS, entry["one_way_us"])
        add(figures, named(ROUND_TRIP, size), MICROSECONDS, 2 * entry["one_way_us"])
        unit = unit_of(STREAM, size)
        add(figures, named(STREAM, size), unit, entry["gigabytes_per_s" if unit == GIGABYTES else "million_messages_per_s"])


def add_memory_copy(figures, output):
    for entry in parse_json(output):
        add(figures, named(MEMCPY, entry["size"]), GIGABYTES, entry["gigabytes_per_s"])


def add_hop(figures, output):
    """The program has taken the best of its runs already; returns the nearest pair of CPUs, or None when there is one CPU only."""
    hop = parse_json(output)
    if not hop["pairs"]:
        return None
    add(figures, f"{HOP}, nearest pair", MICROSECONDS, hop["best_hop_ns"] / 1e3)
    add(figures, f"{HOP}, median pair", MICROSECONDS, hop["median_hop_ns"] / 1e3)
    add(figures, LINES, MESSAGES, hop["million_lines_per_s"])
    return tuple(hop["nearest_cpus"])


def threads_name(threads):
    return f"weft_thread_rate {threads} thread{'s' if threads > 1 else ''}"


def limit(figures, program, size):
    """(name, value) of what the machine needs for it: hops, and one copy of what is in no private cache; None when not measured."""
    hop, copy = figures.get(f"{HOP}, nearest pair"), figures.get(named(MEMCPY, size))
    if not is_latency(program):
        found, name = (figures.get(LINES), LINES) if size <= MESSAGES_ONLY else (copy, MEMCPY)
        return (name, found.median) if found else None
    if not hop or (size > MESSAGES_ONLY and not copy):
        return None
    hops = 2 if program == "ib_read_lat" else 1
    name = HOP if hops == 1 else f"{hops} {HOP}s"
    if size <= MESSAGES_ONLY:
        return name, hops * hop.median
    return f"{name} and {MEMCPY}", hops * hop.median + size / copy.median / 1e3


def tcp_name(program):
    return ROUND_TRIP if program == "ib_read_lat" else PING_PONG if is_latency(program) else STREAM


def peers(figures, program, size):
    """[(name, value)] of those that were measured: the limit, UCX, TCP."""
    found = [limit(figures, program, size)]
    for name in (UCX_PEER[program], tcp_name(program)):
        peer = figures.get(named(name, size))
        found.append((name, peer.median) if peer else None)
    return found


def weft_names():
    return [(program, size, named(program, size)) for program in LATENCY + BANDWIDTH for size in SIZES]


def thread_peers(figures, threads):
    """The same for the threads: the stream of lines for one, one thread for many."""
    names = ((LINES, LINES), (UCX_PEER["ib_write_bw"], named(UCX_PEER["ib_write_bw"], 8)), (STREAM, named(STREAM, 8)))
    if threads > 1:
        names = (("1 thread", threads_name(1)),)
    return [(shown, figures[name].median) if name in figures else None for shown, name in names]


def row(name, figure, peer=None):
    """One element of the JSON: ratio is value to peer_value, whichever is better."""
    peer_name, peer_value = peer or (None, None)
    return {"name": name, "value": figure.median, "unit": figure.unit, "peer": peer_name, "peer_value": peer_value,
            "ratio": figure.median / peer_value if peer_value else None, "best": figure.best, "runs": len(figure.values)}


def rows(figures, thread_counts):
    """Everything measured: what limits and peers did, then each of Weft's figures once for each of its peers."""
    weft = {name: peers(figures, program, size) for program, size, name in weft_names()}
    weft |= {threads_name(threads): thread_peers(figures, threads) for threads in thread_counts}
    found = [row(name, figure) for name, figure in figures.items() if name not in weft]
    for name, beside in weft.items():
        if name in figures:
            found += [row(name, figures[name], peer) for peer in beside if peer] or [row(name, figures[name])]
    return found


def number(value):
    """Three digits that count."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value))) if 0 < value < 100 else 0}f}" if value < 1e6 else f"{value:.3g}"


def cell(value, peer):
    return f"{number(peer[1]):>8} {number(value / peer[1]):>7}" if peer and peer[1] else f"{'-':>8} {'-':>7}"


def table(figures, thread_counts):
    """Lines for people: each of Weft's figures with its limit, UCX and TCP."""
    heads = [("limit", "ratio"), ("UCX", "ratio"), ("TCP", "ratio")]
    lines = [f"{'':28} {'median':>8} {'best':>8} {'':4}" + "".join(f"  {name:>8} {ratio:>7}" for name, ratio in heads)]
    for program, size, name in weft_names():
        if name in figures:
            lines.append(weft_line(name, figures[name], peers(figures, program, size)))
    for threads in thread_counts:
        name = threads_name(threads)
        if name in figures:
            beside = thread_peers(figures, threads)
            lines.append(weft_line(name, figures[name], beside if threads == 1 else [None] * 3))
            if threads > 1 and beside[0]:
                lines[-1] += f"   {number(figures[name].median / beside[0][1])} of one thread"
    return lines


def weft_line(name, figure, beside):
    return f"{name:28} {number(figure.median):>8} {number(figure.best):>8} {figure.unit:4}" + "".join(
        "  " + cell(figure.median, peer) for peer in beside)


def limits_lines(figures):
    """The same for the machine itself."""
    def shown(names):
        return ", ".join(f"{label} {number(figures[name].median)} {figures[name].unit}" for label, name in names if name in figures)
    return [f"{title}: {text}" for title, text in (
        (f"{HOP}, one way", shown([("nearest pair", f"{HOP}, nearest pair"), ("median pair", f"{HOP}, median pair")])),
        (LINES, shown([("nearest pair", LINES)])),
        (f"{MEMCPY}, one thread", shown([(label, named(MEMCPY, size)) for size, label in SIZES.items()]))) if text]
