"""IP over the fabric beside a veth pair of the kernel with the same MTU, and beside two network namespaces that each have a pasta of their own: TCP by
iperf3, ping, and a UDP request of 64 octets with its answer by qperf. ib0 in datagram and in connected mode, and opa0. Each interface is in network
namespaces of hosts, the pairs in those of an ordinary user. Standard library only.
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
PASTAS = bench_ways.Way("two pastas")
SECONDS = 2         # policy: of one run of iperf3 or qperf
PINGS = 200
READY_SECONDS = 15
REQUEST_BYTES = 64
TCP_PORT, QPERF_PORT, UDP_PORT = 5201, 19_765, 19_766  # iperf3's and qperf's own, and one for qperf's datagrams
SWITCHES = """
[[switch]]
name = "blue"
id = 100
mtu = {mtu}
[[switch.port]]
host = "h1"
[[switch.port]]
host = "h2"
"""
# Both ends speak to the outer namespace's address: the second one is reached there, by sockets of its pasta, which are no sockets of loopback, since
# those of loopback pass pasta without its interface. Each pasta has one of the addresses beside it.
PAIR_OF_PASTAS = f"""
set -e
mount -t tmpfs none /run
ip link set lo up
ip link add outer0 type veth peer name outer1
ip link set outer1 up
ip link set outer0 up
ip addr add 10.80.0.1/24 dev outer0
ip route add default via 10.80.0.254
echo 0 0 > /proc/sys/net/ipv4/ping_group_range
ip netns add first
ip netns add second
pasta="pasta --foreground --stderr --quiet --config-net --ipv4-only --netmask 24 --mtu $1 --tcp-ns none --udp-ns none"
$pasta --address 10.80.0.2 --tcp-ports none --udp-ports none --netns first &
$pasta --address 10.80.0.3 --tcp-ports {TCP_PORT},{QPERF_PORT} --udp-ports {UDP_PORT} --netns second &
tries=0
while [ -z "$(ip netns exec first ip route)" ] || [ -z "$(ip netns exec second ip route)" ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ]  # else this ends
    sleep 0.05
done
echo ready
exec sleep 600
"""
# (name, topology, options of weft net up or none for opa0, address of h2, MTU)
INTERFACES = (("ib0, datagram mode", "pair", (), "10.77.0.2", 2044), ("ib0, connected mode", "pair", ("--mode", "connected"), "10.77.0.2", 65_520),
              ("opa0", "pair", None, "10.78.0.2", 1500), ("opa0, Omni-Path", "opa:pair", None, "10.78.0.2", 10_238))


class Ends:
    """Two network namespaces, and what a command has to be preceded by to run in each; the second one has `address`."""

    def __init__(self, first, second, address):
        self.first, self.second, self.address = first, second, address


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=bench_ways.RUN_SECONDS, **options)
    if done.returncode != 0:
        raise bench_runs.Failure(" ".join(map(str, command)), f"exit status {done.returncode}", done.stdout + done.stderr)
    return done.stdout


def hold(stack, *command):
    """The PID of a command that says when it is ready, and stays until the stack is unwound."""
    child = stack.enter_context(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                                 start_new_session=True))
    stack.callback(weft_clients.end, child)
    if child.stdout.readline() != "ready\n":
        raise bench_runs.Failure(" ".join(command[:3]), "is not ready", "")
    return str(child.pid)


@contextlib.contextmanager
def veth(mtu):
    """A pair in a user namespace of its own, as an ordinary user can make it."""
    with contextlib.ExitStack() as stack:
        wait = ("sh", "-c", "echo ready; exec sleep 600")
        first = hold(stack, "unshare", "--user", "--map-root-user", "--net", *wait)
        inside = ["nsenter", "--user", "--preserve-credentials", "-t", first]
        second = hold(stack, *inside, "unshare", "--net", *wait)
        ends = [[*inside, f"--net=/proc/{pid}/ns/net"] for pid in (first, second)]
        run([*ends[0], "ip", "link", "add", "v0", "mtu", str(mtu), "type", "veth", "peer", "name", "v1", "mtu", str(mtu), "netns", second])
        for end, name, address in ((ends[0], "v0", "10.79.0.1/24"), (ends[1], "v1", "10.79.0.2/24")):
            run([*end, "ip", "addr", "add", address, "dev", name])
            run([*end, "ip", "link", "set", name, "up"])
        yield Ends(*ends, "10.79.0.2")


@contextlib.contextmanager
def pastas(mtu):
    """Two namespaces that each reach an outer one by a pasta. A ping crosses the first one's alone: pasta asks for its namespace, and does not
    carry what others ask it.
    """
    with contextlib.ExitStack() as stack:
        outer = hold(stack, "unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                     PAIR_OF_PASTAS, "sh", str(mtu))
        inside = ["nsenter", "--user", "--mount", "--preserve-credentials", "-t", outer, "ip", "netns", "exec"]
        yield Ends([*inside, "first"], [*inside, "second"], "10.80.0.1")


@contextlib.contextmanager
def serving(ends, environment, port, *command):
    """A server of the second end that listens."""
    server = subprocess.Popen([*ends.second, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
                              start_new_session=True)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not bench_ways.listens(server.pid, port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise bench_runs.Failure(" ".join(command), "does not listen", "")
            time.sleep(0.01)
        yield
    finally:
        weft_clients.end(server)


def tcp(ends, environment):
    """Gigabytes a second that the second one has received."""
    with serving(ends, environment, TCP_PORT, "iperf3", "-s", "-1"):
        said = json.loads(run([*ends.first, "iperf3", "-c", ends.address, "-t", str(SECONDS), "-J"], env=environment))
    return said["end"]["sum_received"]["bits_per_second"] / 8e9


def parse_qperf(said):
    """Microseconds of a round trip, which it prints as two ways of `latency  =  12.3 us`."""
    found = re.search(r"latency\s+=\s+([\d.]+) (ns|us|ms)\b", said)
    if not found:
        raise bench_rows.Unreadable("no latency of qperf")
    return 2 * float(found[1]) * {"ns": 1e-3, "us": 1, "ms": 1e3}[found[2]]


def udp(ends, environment):
    """Microseconds from a request to its answer."""
    with serving(ends, environment, QPERF_PORT, "qperf", "--listen_port", str(QPERF_PORT)):
        said = run([*ends.first, "qperf", ends.address, "--listen_port", str(QPERF_PORT), "--ip_port", str(UDP_PORT),
                    "--msg_size", str(REQUEST_BYTES), "--time", str(SECONDS), "udp_lat"], env=environment)
    return bench_runs.read("qperf", said, parse_qperf)


def ping(ends, environment):
    """Microseconds of a round trip on average."""
    said = run([*ends.first, "ping", "-q", "-c", str(PINGS), "-i", "0.002", ends.address], env=environment)
    return float(re.search(r"= [\d.]+/([\d.]+)/", said)[1]) * 1000


def bring_up(fabric, options, folder, mtu):
    if options is not None:
        return fabric.run("net", "up", "h1", "h2", *options)
    file = pathlib.Path(folder, "switches.toml")
    file.write_text(SWITCHES.format(mtu=mtu), encoding="utf-8")
    fabric.run("em", "up", "h1", str(file))
    return fabric.run("vnic", "up", "h1", "h2")


def measure(runs, say):
    """([Figure], [failure]): each interface `runs` times beside each pair, in turns."""
    found, failures = [], []
    for name, topology, options, address, mtu in INTERFACES:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-bench-"))
            fabric = stack.enter_context(weft_clients.Fabric(topology, f"bench-net-{os.getpid()}"))
            environment = fabric.environment()
            other = bench_ways.Way("over the fabric")
            try:
                bring_up(fabric, options, folder, mtu)
                inside = [[fabric.weft, "exec", "--ns", host, "--"] for host in ("h1", "h2")]
                ends = {VETH: stack.enter_context(veth(mtu)), PASTAS: stack.enter_context(pastas(mtu)), other: Ends(*inside, address)}
            except (bench_runs.Failure, RuntimeError, subprocess.SubprocessError) as failure:
                failures.append(f"{name}: {failure}")
                continue
            figures = ((f"TCP, {name}, MTU {mtu}", bench_rows.GIGABYTES, lambda way: tcp(ends[way], environment)),
                       (f"ping, {name}", bench_rows.MICROSECONDS, lambda way: ping(ends[way], environment)),
                       (f"UDP, {name}", bench_rows.MICROSECONDS, lambda way: udp(ends[way], environment)))
            for peer in (VETH, PASTAS):
                beside, failed = bench_ways.measure(figures, peer, other, runs, say)
                found += beside
                failures += failed
    return found, failures


def by_peer(figures):
    """The same in groups that have one peer."""
    return [[figure for figure in figures if figure.usual is peer] for peer in (VETH, PASTAS)]
