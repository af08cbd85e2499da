"""A virtual function beside the port that it shares: the same programs on h1 and on a function of h1's port, with h2. A function's QPs are the
engine's, like any: what the multiplexer costs is paid when programs connect. Standard library only.
"""
import os
import time

import bench_rows
import bench_ways
import weft_clients

PHYSICAL, VIRTUAL = bench_ways.Way("h1", hosts=("h2", "h1")), bench_ways.Way("a function of it", hosts=("h2", "v1"))
ACTIVE_SECONDS = 20  # policy: until SA has the function's GUID, on a busy machine


def add_function(fabric):
    fabric.run("vf", "add", "h1", "v1")
    deadline = time.monotonic() + ACTIVE_SECONDS
    while True:
        ports = [port for port in fabric.ports() if port["node"] == "v1"]
        if ports and ports[0]["state"].lower() == "active":
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"the function's port is not Active after {ACTIVE_SECONDS} s: {ports}")
        time.sleep(0.05)


def measure(topology, runs, say):
    """([Figure], [failure]): each program `runs` times each way, in turns."""
    latency, bandwidth = 20_000, 4000
    with weft_clients.Fabric(topology, f"bench-vf-{os.getpid()}") as fabric:
        add_function(fabric)
        programs = bench_ways.Programs(fabric)
        figures = [(bench_rows.named(program, size), bench_rows.unit_of(program, size),
                    lambda way, program=program, size=size, count=count: programs.perftest(way, program, size, count))
                   for program, size, count in (("ib_send_lat", 8, latency), ("ib_write_lat", 8, latency), ("ib_write_bw", 65_536, bandwidth))]
        return bench_ways.measure(figures, PHYSICAL, VIRTUAL, runs, say)
