"""Programs in hosts as namespaces (`weft exec --ns`) beside the same programs outside, in turns, so that what else the machine does
meets both. Nothing of the data path differs; what would is found here. Standard library only.
"""
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import tempfile
import time

import bench_rows
import bench_runs
import mpi
import weft_clients

OUTSIDE, INSIDE = "outside", "in namespaces"
RUN_SECONDS = 60            # policy: of any one run
ROUND_TRIPS = 20_000        # policy: of rping and MPI, some tenths of a second
PERFTEST_PORT, UCX_PORT, RPING_PORT = 18_515, 13_337, 7174  # their own
MPI_SOURCE = pathlib.Path(__file__).with_name("mpi_latency.c")
# In a namespace mpirun's remote shell gets a host and a command line for that host's shell.
REMOTE_SHELL = '#!/bin/sh\nhost=$1\nshift\nexec {weft} exec --ns "$host" -- sh -c "$*"\n'


@dataclasses.dataclass
class Figure:
    """One figure of a program both ways."""
    name: str
    unit: str
    values: dict = dataclasses.field(default_factory=lambda: {OUTSIDE: [], INSIDE: []})

    def median(self, way):
        return statistics.median(self.values[way])

    @property
    def ratio(self):
        """Of medians, inside to outside."""
        return self.median(INSIDE) / self.median(OUTSIDE)

    def best(self, way):
        return (min if self.unit == bench_rows.MICROSECONDS else max)(self.values[way])


def listens(pid, port):
    """Whether a process's network namespace has a TCP listener on the port."""
    try:
        lines = [line for table in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]]
    except OSError:
        return False
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


class Programs:
    """Runs each program once, one way."""

    def __init__(self, fabric, hosts, folder):
        self.fabric, self.hosts, self.folder = fabric, hosts, pathlib.Path(folder)
        self.mpi = shutil.copy(self.build_mpi(), self.folder / "mpi_latency")
        self.shell = self.folder / "remote-shell"
        self.shell.write_text(REMOTE_SHELL.format(weft=shlex.quote(str(fabric.weft))), encoding="utf-8")
        self.shell.chmod(0o755)

    def build_mpi(self):
        built = self.folder / "mpi_latency.built"
        subprocess.run(["mpicc", "-O2", "-Wall", "-Werror", "-o", str(built), str(MPI_SOURCE)], check=True, timeout=RUN_SECONDS)
        return built

    def start(self, way, host, command):
        inside = ["--ns"] if way == INSIDE else []
        return subprocess.Popen([self.fabric.weft, "exec", *inside, host, "--", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace", env=self.fabric.environment(), start_new_session=True)

    def pair(self, way, server_command, client_command, is_ready):
        """What the client printed, and its seconds, once the server is ready."""
        name, deadline, children = " ".join([way, *client_command]), time.monotonic() + RUN_SECONDS, []
        try:
            children.append(self.start(way, self.hosts[0], server_command))
            while not is_ready(children[0]):
                if children[0].poll() is not None or time.monotonic() > deadline:
                    weft_clients.end(children[0])
                    raise bench_runs.Failure(name, "the server does not listen", children[0].communicate()[0])
                time.sleep(0.01)
            start = time.monotonic()
            children.append(self.start(way, self.hosts[1], client_command))
            outputs = [weft_clients.communicate(child, deadline)[0] for child in reversed(children)]
            if any(child.returncode for child in children):
                raise bench_runs.Failure(name, "did not end well", "\n== server\n".join(outputs))
            return outputs[0], time.monotonic() - start
        finally:
            for child in children:
                if child.poll() is None:
                    weft_clients.end(child)

    def perftest(self, way, program, size, iterations):
        command = [program, "-F", "-s", str(size), "-n", str(iterations)]
        for _ in range(bench_runs.CLOCK_TRIES):
            output, _ = self.pair(way, command, [*command, weft_clients.address_of(self.hosts[0])], lambda server: listens(server.pid, PERFTEST_PORT))
            try:
                return bench_runs.read(program, output, bench_rows.parse_perftest, program, size)[bench_rows.unit_of(program, size)]
            except bench_rows.ClockUnknown:
                continue
        raise bench_runs.Failure(program, "perftest did not find the CPU's clock rate", output)

    def ucx(self, way, test, size, iterations):
        command = ["env", "UCX_TLS=rc,self", "ucx_perftest"]
        client = [*command, weft_clients.address_of(self.hosts[0]), "-t", test, "-s", str(size), "-n", str(iterations)]
        output, _ = self.pair(way, command, client, lambda server: listens(server.pid, UCX_PORT))
        return bench_runs.read("ucx_perftest", output, bench_rows.parse_ucx)[bench_rows.unit_of(test, size)]

    def rping(self, way):
        """Microseconds of a round of rping: a READ, a WRITE, and four SENDs, each of which wakes its receiver."""
        address = weft_clients.address_of(self.hosts[0])
        common = ["-a", address, "-C", str(ROUND_TRIPS)]
        _, seconds = self.pair(way, ["rping", "-s", *common], ["rping", "-c", *common], lambda server: self.fabric.has_id(self.hosts[0], RPING_PORT))
        return seconds / ROUND_TRIPS * 1e6

    def open_mpi(self, way):
        """Microseconds one way between two ranks, by UCX."""
        settings = {"UCX_TLS": "rc,self", **mpi.DEVICE, **mpi.AS_ROOT}
        if way == OUTSIDE:
            command = ["mpirun", *mpi.OPEN_MPI, *mpi.BY_UCX, *mpi.contexts(self.fabric.weft, self.mpi, self.hosts, 2)]
        else:
            exported = [word for name in ("UCX_TLS", *mpi.DEVICE) for word in ("-x", name)]
            command = [self.fabric.weft, "exec", "--ns", self.hosts[0], "--", "mpirun", "--host", ",".join(self.hosts), "-np", "2", "--oversubscribe",
                       "--bind-to", "none",  # each launcher binds its first rank to the same core
                       "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(self.shell), *mpi.BY_UCX, *exported, str(self.mpi)]
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                 env=self.fabric.environment(settings), start_new_session=True)
        output, in_time = weft_clients.communicate(child, time.monotonic() + RUN_SECONDS)
        found = re.search(r"^one way (\S+) us$", output, re.MULTILINE)
        if not in_time or child.returncode or not found:
            raise bench_runs.Failure(f"{way} mpirun", "did not end well", output)
        return float(found[1])

    def figures(self):
        """(name, unit, run(way)) of each."""
        latency, bandwidth = 20_000, 4000
        return (("ib_send_lat 8 B", bench_rows.MICROSECONDS, lambda way: self.perftest(way, "ib_send_lat", 8, latency)),
                ("ib_write_lat 8 B", bench_rows.MICROSECONDS, lambda way: self.perftest(way, "ib_write_lat", 8, latency)),
                ("ib_write_bw 64 KiB", bench_rows.GIGABYTES, lambda way: self.perftest(way, "ib_write_bw", 65_536, bandwidth)),
                ("ib_send_bw 64 KiB", bench_rows.GIGABYTES, lambda way: self.perftest(way, "ib_send_bw", 65_536, bandwidth)),
                ("rping, a round", bench_rows.MICROSECONDS, self.rping),
                ("UCX tag_lat 8 B", bench_rows.MICROSECONDS, lambda way: self.ucx(way, "tag_lat", 8, latency)),
                ("UCX tag_bw 64 KiB", bench_rows.GIGABYTES, lambda way: self.ucx(way, "tag_bw", 65_536, bandwidth)),
                ("Open MPI 8 B", bench_rows.MICROSECONDS, self.open_mpi))


def measure(topology, runs, say):
    """([Figure], [failure]): each program `runs` times each way, in turns."""
    found, failures = [], []
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder, weft_clients.Fabric(topology, f"bench-ns-{os.getpid()}") as fabric:
        programs = Programs(fabric, ("h1", "h2"), folder)
        for name, unit, run in programs.figures():
            figure = Figure(name, unit)
            try:
                for turn in range(runs):
                    say(name)
                    for way in (OUTSIDE, INSIDE) if turn % 2 == 0 else (INSIDE, OUTSIDE):
                        figure.values[way].append(run(way))
            except bench_runs.Failure as failure:
                failures.append(str(failure))
                continue
            found.append(figure)
    return found, failures


def lines(figures):
    number = bench_rows.number
    head = f"{'':28} {OUTSIDE:>14} {INSIDE:>14} {'':4} {'ratio':>7} {'best':>10} {'best':>10} {'ratio':>7}"
    return [head, *(f"{figure.name:28} {number(figure.median(OUTSIDE)):>14} {number(figure.median(INSIDE)):>14} {figure.unit:4} {number(figure.ratio):>7} "
                    f"{number(figure.best(OUTSIDE)):>10} {number(figure.best(INSIDE)):>10} {number(figure.best(INSIDE) / figure.best(OUTSIDE)):>7}"
                    for figure in figures)]


def rows(figures):
    """For the JSON, in the form of bench_rows.row."""
    return [{"name": f"{figure.name} {INSIDE}", "value": figure.median(INSIDE), "unit": figure.unit, "peer": OUTSIDE, "peer_value": figure.median(OUTSIDE),
             "ratio": figure.ratio, "best": figure.best(INSIDE),
             "runs": len(figure.values[INSIDE])} for figure in figures]
