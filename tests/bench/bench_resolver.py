"""Paths from a host's resolver beside paths from SA, OpenSM's and Weft's own manager's, on a fat tree of 648 hosts: from `weft resolver` where
it shows them in shared memory, as the host's kernel side looks first, and by netlink, as it asks for all others; and how many look-ups a second the resolver answers from its cache, while daemon, resolver and asker share one CPU. The same for a
second of their CPU time, which others on that CPU change less. Standard library only.
"""
import contextlib
import json
import os
import statistics
import subprocess
import time

import bench_runs
import bench_ways
import management
import weft_clients

TOPOLOGY, HOSTS = "fat-tree:36:2", 648
ASKER = "h100"                  # far from the managers, which are on h1
RESOLVER_SECONDS = 60           # policy: until it listens
RUN_SECONDS = 120               # policy: of one run
RATE_SECONDS = 2                # policy: of one rate
RATES = ((32, 1), (64, 1), (64, 32))  # requests outstanding, and how many of them a datagram holds; the issue asks for at least 32 outstanding
OPENSM, OWN = "OpenSM's SA", "Weft's own SA"
GOAL_RATE, GOAL_RATIO = 100_000, 5


def gid_of(host):
    return f"fe80::257:4610:{host:x}:1"


@contextlib.contextmanager
def resolver(fabric):
    program = str(weft_clients.build_folder() / "src" / "programs" / "resolver" / "weft-resolver")
    child = subprocess.Popen([fabric.weft, "exec", "--ns", ASKER, "--", program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, env=fabric.environment(), start_new_session=True)
    try:
        deadline = time.monotonic() + RESOLVER_SECONDS
        line = child.stdout.readline()
        if "listens" not in line or time.monotonic() > deadline:
            raise bench_runs.Failure("weft resolver", "does not begin", line)
        yield
    finally:
        weft_clients.end(child)
        child.stdout.close()


def ask(fabric, *words):
    """What the asker prints, once the host has a GID."""
    command = [fabric.weft, "exec", "--ns", ASKER, "--", bench_runs.program_path("weft_resolver_lookups"), *map(str, words),
               *(gid_of(host) for host in range(1, HOSTS + 1) if f"h{host}" != ASKER)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_SECONDS, env=fabric.environment())
    if done.returncode != 0:
        raise bench_runs.Failure(f"weft_resolver_lookups {words[0]}", f"exit status {done.returncode}", done.stdout + done.stderr)
    return bench_runs.read("weft_resolver_lookups", done.stdout, json.loads)


def rate_name(outstanding, each):
    return f"look-ups, {outstanding} outstanding, {each} a datagram"


def too_slow_a_path(found):
    """A path from the resolver that is not five times quicker than from OpenSM's SA, as a failure: the median of each, of runs side by side."""
    mine, theirs = (statistics.median(found.get(name, [0])) for name in (f"resolver, beside {OPENSM}", OPENSM))
    return [f"a path: {mine:.2f} us from the resolver, {theirs:.1f} us from {OPENSM}, asked: {GOAL_RATIO} times quicker"] if mine * GOAL_RATIO > theirs else []


def too_slow(found):
    """Rates of one CPU below what is asked (T-NL-7), each as a failure."""
    medians = {name: statistics.median(values) for name, values in found.items() if name.endswith("of CPU time")}
    return [f"{name}: {value:,.0f}, asked: {GOAL_RATE:,}" for name, value in medians.items() if value < GOAL_RATE]


def measure(runs, say):
    """({name: [values]}, [failure]): look-ups a second, and microseconds of a path."""
    found, failures = {}, []

    def times(fabric, whose):
        with resolver(fabric):
            for _ in range(runs):
                said = ask(fabric, "times")
                found.setdefault(f"resolver, beside {whose}", []).append(said["memory_us"])
                found.setdefault(f"resolver by netlink, beside {whose}", []).append(said["netlink_us"])
                found.setdefault(whose, []).append(said["sa_us"])

    def rates(fabric):
        with resolver(fabric):
            for _ in range(runs):
                for outstanding, each in RATES:
                    said = ask(fabric, "rate", outstanding, each, RATE_SECONDS)
                    found.setdefault(rate_name(outstanding, each), []).append(said["lookups_per_s"])
                    found.setdefault(f"{rate_name(outstanding, each)}, a second of CPU time", []).append(said["lookups_per_cpu_s"])
        failures.extend(too_slow(found))
    try:
        say("look-ups on one CPU")
        with bench_ways.on_cpus({max(os.sched_getaffinity(0))}), weft_clients.Fabric(TOPOLOGY, f"bench-resolver-{os.getpid()}") as fabric:
            rates(fabric)
        say("paths from the resolver and Weft's own SA")
        with weft_clients.Fabric(TOPOLOGY, f"bench-resolver-{os.getpid()}") as fabric:
            times(fabric, OWN)
        say("paths from the resolver and OpenSM's SA")
        with weft_clients.Fabric(f"{TOPOLOGY} --no-sm", f"bench-resolver-{os.getpid()}") as fabric, management.OpenSm(fabric, "minhop") as opensm:
            problem = opensm.wait_until_up()
            if problem:
                raise bench_runs.Failure("opensm", problem, opensm.text()[-2000:])
            times(fabric, OPENSM)
        failures.extend(too_slow_a_path(found))
    except (bench_runs.Failure, RuntimeError, OSError, subprocess.SubprocessError) as failure:
        failures.append(str(failure))
    return found, failures


def rows(found):
    """For the JSON, in the form of bench_rows.row: a path from the resolver has SA's time as its peer."""
    medians = {name: statistics.median(values) for name, values in found.items()}
    out = []
    for name, values in found.items():
        is_rate = name.startswith("look-ups")
        whose = name.rpartition("beside ")[2] if name.startswith("resolver") else None
        out.append({"name": f"a path: {name}" if not is_rate else name, "value": medians[name], "unit": "/s" if is_rate else "us", "peer": whose,
                    "peer_value": medians.get(whose), "ratio": medians[name] / medians[whose] if whose in medians else None,
                    "best": (max if is_rate else min)(values), "runs": len(values)})
    return out


def lines(found):
    """For people."""
    medians = {name: statistics.median(values) for name, values in found.items()}
    out = [f"{HOSTS} hosts; look-ups: daemon, resolver and asker on one CPU"]
    out += [f"{name:58} {value:>12,.0f} /s (asked: {GOAL_RATE:,})" for name, value in medians.items() if name.startswith("look-ups")]
    for whose in (OWN, OPENSM):
        for how in ("resolver", "resolver by netlink"):
            mine = medians.get(f"{how}, beside {whose}")
            if mine and whose in medians:
                asked = f" (asked: {GOAL_RATIO})" if (whose, how) == (OPENSM, "resolver") else ""
                out.append(f"a path: {mine:.2f} us from the {how}, {medians[whose]:.1f} us from {whose}: {medians[whose] / mine:.1f} times quicker{asked}")
    return out
