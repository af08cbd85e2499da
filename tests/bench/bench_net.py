"""IP over the fabric beside a veth pair of the kernel with the same MTU: TCP by iperf3, and ping. ib0 in datagram and in connected mode, and opa0.
Each interface is in network namespaces of hosts, the pair in two of an ordinary user. Standard library only.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import bench_rows
import bench_runs
import bench_ways
import weft_clients

VETH = bench_ways.Way("veth")
SECONDS = 2         # policy: of one run of iperf3
PINGS = 200
READY_SECONDS = 15
SWITCHES = """
[[switch]]
name = "blue"
id = 100
[[switch.port]]
host = "h1"
[[switch.port]]
host = "h2"
"""
# (name, options of weft net up or none for opa0, address of h2, MTU)
INTERFACES = (("ib0, datagram mode", (), "10.77.0.2", 2044), ("ib0, connected mode", ("--mode", "connected"), "10.77.0.2", 65_520), ("opa0", None, "10.78.0.2", 1500))


class Ends:
    """Two network namespaces, and what a command has to be preceded by to run in each; the second one has `address`."""

    def __init__(self, first, second, address):
        self.first, self.second, self.address = first, second, address


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=bench_ways.RUN_SECONDS, **options)
    if done.returncode != 0:
        raise bench_runs.Failure(" ".join(map(str, command)), f"exit status {done.returncode}", done.stdout + done.stderr)
    return done.stdout


@contextlib.contextmanager
def veth(mtu):
    """A pair in a user namespace of its own, as an ordinary user can make it."""
    with contextlib.ExitStack() as stack:
        def hold(*command):
            child = stack.enter_context(subprocess.Popen([*command, "sh", "-c", "echo ready; exec sleep 600"], stdout=subprocess.PIPE, text=True))
            stack.callback(child.kill)
            child.stdout.readline()
            return str(child.pid)
        first = hold("unshare", "--user", "--map-root-user", "--net")
        inside = ["nsenter", "--user", "--preserve-credentials", "-t", first]
        second = hold(*inside, "unshare", "--net")
        ends = [[*inside, f"--net=/proc/{pid}/ns/net"] for pid in (first, second)]
        run([*ends[0], "ip", "link", "add", "v0", "mtu", str(mtu), "type", "veth", "peer", "name", "v1", "mtu", str(mtu), "netns", second])
        for end, name, address in ((ends[0], "v0", "10.79.0.1/24"), (ends[1], "v1", "10.79.0.2/24")):
            run([*end, "ip", "addr", "add", address, "dev", name])
            run([*end, "ip", "link", "set", name, "up"])
        yield Ends(*ends, "10.79.0.2")


def tcp(ends, environment):
    """Gigabytes a second that the second one has received."""
    server = subprocess.Popen([*ends.second, "iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                              start_new_session=True)
    try:
        line, deadline = "", time.monotonic() + READY_SECONDS
        while "listening" not in line.lower():
            line = server.stdout.readline()
            if not line or time.monotonic() > deadline:
                raise bench_runs.Failure("iperf3 -s", "does not listen", line)
        said = json.loads(run([*ends.first, "iperf3", "-c", ends.address, "-t", str(SECONDS), "-J"], env=environment))
        return said["end"]["sum_received"]["bits_per_second"] / 8e9
    finally:
        weft_clients.end(server)


def ping(ends, environment):
    """Microseconds of a round trip on average."""
    said = run([*ends.first, "ping", "-q", "-c", str(PINGS), "-i", "0.002", ends.address], env=environment)
    return float(re.search(r"= [\d.]+/([\d.]+)/", said)[1]) * 1000


def bring_up(fabric, options, folder):
    if options is not None:
        return fabric.run("net", "up", "h1", "h2", *options)
    file = pathlib.Path(folder, "switches.toml")
    file.write_text(SWITCHES, encoding="utf-8")
    fabric.run("em", "up", "h1", str(file))
    return fabric.run("vnic", "up", "h1", "h2")


def measure(runs, say):
    """([Figure], [failure]): each interface `runs` times beside the pair, in turns."""
    found, failures = [], []
    for name, options, address, mtu in INTERFACES:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-bench-"))
            fabric = stack.enter_context(weft_clients.Fabric("pair", f"bench-net-{os.getpid()}"))
            environment = fabric.environment()
            other = bench_ways.Way("over the fabric")
            try:
                bring_up(fabric, options, folder)
                inside = [[fabric.weft, "exec", "--ns", host, "--"] for host in ("h1", "h2")]
                ends = {VETH: stack.enter_context(veth(mtu)), other: Ends(*inside, address)}
            except (bench_runs.Failure, RuntimeError, subprocess.SubprocessError) as failure:
                failures.append(f"{name}: {failure}")
                continue
            figures = ((f"TCP, {name}, MTU {mtu}", bench_rows.GIGABYTES, lambda way: tcp(ends[way], environment)),
                       (f"ping, {name}", bench_rows.MICROSECONDS, lambda way: ping(ends[way], environment)))
            figures, failed = bench_ways.measure(figures, VETH, other, runs, say)
            found += figures
            failures += failed
    return found, failures
