"""Small messages between CPUs that are chosen: what one costs in hops, on a machine whose pairs of CPUs differ.

Both programs' main threads are placed on a pair of CPUs once they talk, their other threads on the CPUs that are left, and the
hop of that pair is measured before and after. Virtual machines move their CPUs while programs run: a run with two different
hops is none. Standard library only.
"""
import dataclasses
import os
import statistics
import time

import bench_rows
import bench_runs
import weft_clients

PROGRAMS = ("ib_send_lat", "ib_write_lat")
SIZE = 8
ITERATIONS = 1_500_000      # policy: far longer than it takes to place the threads, so that the median is of placed ones
SETTLED_SECONDS = 0.08      # policy: by then both talk, and have all of their threads
RUN_SECONDS = 60            # policy
SAME_HOP = 1.25             # policy: two measurements of one hop on a machine that did not move its CPUs
TRIES = 4                   # policy: of a run on CPUs that are moved
FAR = 2                     # policy: pairs with so many times the hop are another kind of pair


@dataclasses.dataclass(frozen=True)
class Sample:
    program: str
    cpus: tuple
    hop: float              # microseconds, as is the latency
    latency: float


def pairs(cpus):
    """Of CPUs, or none where two threads on either side have no CPU each."""
    return [(a, b) for a in cpus for b in cpus if a < b] if len(cpus) >= 4 else []


def descendants(process):
    """A process and all that it started."""
    found = [process]
    for parent in found:
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as file:
                    found += map(int, file.read().split())
        except OSError:  # it has ended
            continue
    return found


def process_of(child, program):
    """The process that runs the program: `child` itself or one that it started."""
    for process in descendants(child.pid):
        with open(f"/proc/{process}/comm", encoding="ascii", errors="replace") as file:
            if file.read().strip() == program[:15]:
                return process
    raise ProcessLookupError(program)


def place(process, cpu, others):
    """The main thread on one CPU, the others on those that are left."""
    for thread in map(int, os.listdir(f"/proc/{process}/task")):
        os.sched_setaffinity(thread, {cpu} if thread == process else others)


def hop_between(cpus):
    output = bench_runs.run_program("weft_cache_line_hop", 2, cpus=cpus)
    return bench_runs.read("weft_cache_line_hop", output, lambda text: bench_rows.parse_json(text)["best_hop_ns"] / 1e3)


def latency_between(weft, program, cpus):
    """Microseconds, the median of a run."""
    command = [program, "-F", "-s", str(SIZE), "-n", str(ITERATIONS), "-p", str(weft.ports.take())]
    name, deadline, children = " ".join(command), time.monotonic() + RUN_SECONDS, []
    try:
        children.append(weft.fabric.start(weft.hosts[0], command))
        if not weft_clients.wait_until_listening(children[0], int(command[-1]), deadline):
            raise bench_runs.Failure(name, "the server does not listen", "")
        children.append(weft.fabric.start(weft.hosts[1], [*command, weft_clients.address_of(weft.hosts[0])]))
        time.sleep(SETTLED_SECONDS)
        others = os.sched_getaffinity(0) - set(cpus)
        for child, cpu in zip(children, cpus):
            place(process_of(child, program), cpu, others)
        outputs = [weft_clients.communicate(child, deadline)[0] for child in reversed(children)]
        if any(child.returncode for child in children):
            raise bench_runs.Failure(name, "did not end well", "\n== server\n".join(outputs))
        return bench_runs.read(name, outputs[0], bench_rows.parse_perftest, program, SIZE)[bench_rows.MICROSECONDS]
    except OSError as problem:
        raise bench_runs.Failure(name, f"ended before its threads were placed: {problem}", "") from problem
    finally:
        for child in children:
            if child.poll() is None:
                weft_clients.end(child)


def sample(weft, program, cpus):
    """A Sample, or None if the hop was never the same before and after."""
    for _ in range(TRIES):
        before = hop_between(cpus)
        latency = latency_between(weft, program, cpus)
        after = hop_between(cpus)
        if max(before, after) <= SAME_HOP * min(before, after):
            return Sample(program, cpus, (before + after) / 2, latency)
    return None


def kinds(samples):
    """[(kind, hop, latency)]: medians of the near pairs, and of the far ones if there are such."""
    nearest = min((one.hop for one in samples), default=0)
    far = [one for one in samples if one.hop >= FAR * nearest]
    near = [one for one in samples if one.hop < FAR * nearest]
    return [(kind, statistics.median(one.hop for one in some), statistics.median(one.latency for one in some))
            for kind, some in (("near", near), ("far", far)) if some]


def lines(samples):
    """For people: by program and kind of pair, and the line through both kinds."""
    found = []
    for program in PROGRAMS:
        measured = kinds([one for one in samples if one.program == program])
        for kind, its_hop, latency in measured:
            found.append(f"{bench_rows.named(program, SIZE)}, {kind} CPUs: hop {its_hop:.3f} us, {latency:.3f} us, {latency / its_hop:.2f} hops")
        if len(measured) == 2:
            (_, near_hop, near), (_, far_hop, far) = measured
            slope = (far - near) / (far_hop - near_hop)
            found.append(f"{bench_rows.named(program, SIZE)}: {near - slope * near_hop:.3f} us and {slope:.2f} hops")
    return found


def rows(samples):
    """The same for the JSON."""
    return [{"name": f"{bench_rows.named(program, SIZE)}, {kind} CPUs", "value": latency, "unit": bench_rows.MICROSECONDS,
             "peer": f"{bench_rows.HOP} of these CPUs", "peer_value": hop, "ratio": latency / hop}
            for program in PROGRAMS for kind, hop, latency in kinds([one for one in samples if one.program == program])]
