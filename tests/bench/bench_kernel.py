"""What the kernel's RDMA API costs (weft_kernel_costs), each figure beside the same done by hand. Standard library only."""
import statistics

import bench_rows
import bench_runs

PROGRAM = "weft_kernel_costs"


def measure(runs, say):
    """({name: (unit, peer, [(value, the peer's or None)])}, [failure])"""
    found, failures = {}, []
    for _ in range(runs):
        say("the kernel's API")
        try:
            for entry in bench_runs.read(PROGRAM, bench_runs.run_program(PROGRAM), parse):
                found.setdefault(entry["name"], (entry["unit"], entry["peer"], []))[2].append((entry["value"], entry["peer_value"]))
        except bench_runs.Failure as failure:
            failures.append(str(failure))
            break
    return found, failures


def parse(output):
    """The program's rows; each is whole."""
    entries = bench_rows.parse_json(output)
    for entry in entries:
        if not entry["value"] > 0 or (entry["peer"] is not None and not entry["peer_value"] > 0):
            raise bench_rows.Unreadable(f"{entry['name']}: {entry['value']} beside {entry['peer_value']}")
    if not entries:
        raise bench_rows.Unreadable("no figures")
    return entries


def rows(found):
    """For the JSON, in the form of bench_rows.row; ratios of medians."""
    out = []
    for name, (unit, peer, values) in found.items():
        value = statistics.median(own for own, _ in values)
        other = statistics.median(theirs for _, theirs in values) if peer else None
        best = (min if unit == bench_rows.MICROSECONDS else max)(own for own, _ in values)
        out.append({"name": f"kernel: {name}", "value": value, "unit": unit, "peer": peer, "peer_value": other, "ratio": value / other if peer else None,
                    "best": best, "runs": len(values)})
    return out


def lines(found):
    """For people."""
    out = ["the kernel's API, in one process"] if found else []
    for row in rows(found):
        beside = f"{row['ratio']:8.2f} times {row['peer_value']:.3g} {row['unit']} {row['peer']}" if row["peer"] else ""
        out.append(f"{row['name'].removeprefix('kernel: '):58} {row['value']:>10.3f} {row['unit']:4}{beside}")
    return out
