"""The same programs two ways, in turns, so that what else the machine does meets both: one of ways, as hosts, beside the other.
Standard library only.
"""
import contextlib
import dataclasses
import os
import pathlib
import statistics
import subprocess
import time

import bench_rows
import bench_runs
import weft_clients

RUN_SECONDS = 60            # policy: of any one run
PERFTEST_PORT, UCX_PORT = 18_515, 13_337  # their own


@dataclasses.dataclass(frozen=True)
class Way:
    """Where a program's server and its client run."""
    name: str
    hosts: tuple = ("h1", "h2")
    options: tuple = ()     # of weft exec


@dataclasses.dataclass
class Figure:
    """One figure of a program both ways."""
    name: str
    unit: str
    usual: Way
    other: Way
    values: dict = dataclasses.field(default_factory=dict)  # of each way, one a run

    def add(self, way, value):
        self.values.setdefault(way, []).append(value)

    def median(self, way):
        return statistics.median(self.values[way])

    @property
    def ratio(self):
        """Of medians, the other way to the usual one."""
        return self.median(self.other) / self.median(self.usual)

    def best(self, way):
        return (min if self.unit == bench_rows.MICROSECONDS else max)(self.values[way])


def listens(pid, port):
    """Whether a process's network namespace has a TCP listener on the port."""
    try:
        lines = [line for table in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]]
    except OSError:
        return False
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


def half_of_cpus(which):
    """The first half of those that this process may use, or the second; all of one."""
    cpus = sorted(os.sched_getaffinity(0))
    return set(cpus[which * len(cpus) // 2:(which + 1) * len(cpus) // 2]) or set(cpus)


@contextlib.contextmanager
def on_cpus(cpus):
    """What starts meanwhile has these."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Programs:
    """Runs each program once, one way."""

    def __init__(self, fabric):
        self.fabric = fabric

    def start(self, way, host, command):
        """Server and client on CPUs of their own, so that the scheduler gives both ways the same."""
        with on_cpus(half_of_cpus(way.hosts.index(host))):
            return subprocess.Popen([self.fabric.weft, "exec", *way.options, host, "--", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, errors="replace", env=self.fabric.environment(), start_new_session=True)

    def pair(self, way, server_command, client_command, is_ready):
        """What the client printed, and its seconds, once the server is ready."""
        name, deadline, children = " ".join([way.name, *client_command]), time.monotonic() + RUN_SECONDS, []
        try:
            children.append(self.start(way, way.hosts[0], server_command))
            while not is_ready(children[0]):
                if children[0].poll() is not None or time.monotonic() > deadline:
                    weft_clients.end(children[0])
                    raise bench_runs.Failure(name, "the server does not listen", children[0].communicate()[0])
                time.sleep(0.01)
            start = time.monotonic()
            children.append(self.start(way, way.hosts[1], client_command))
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
            output, _ = self.pair(way, command, [*command, weft_clients.address_of(way.hosts[0])], lambda server: listens(server.pid, PERFTEST_PORT))
            try:
                return bench_runs.read(program, output, bench_rows.parse_perftest, program, size)[bench_rows.unit_of(program, size)]
            except bench_rows.ClockUnknown:
                continue
        raise bench_runs.Failure(program, "perftest did not find the CPU's clock rate", output)

    def ucx(self, way, test, size, iterations):
        command = ["env", "UCX_TLS=rc,self", "ucx_perftest"]
        client = [*command, weft_clients.address_of(way.hosts[0]), "-t", test, "-s", str(size), "-n", str(iterations)]
        output, _ = self.pair(way, command, client, lambda server: listens(server.pid, UCX_PORT))
        return bench_runs.read("ucx_perftest", output, bench_rows.parse_ucx)[bench_rows.unit_of(test, size)]


def measure(figures, usual, other, runs, say):
    """([Figure], [failure]): each of (name, unit, run(way)) `runs` times each way, in turns."""
    found, failures = [], []
    for name, unit, run in figures:
        figure = Figure(name, unit, usual, other)
        try:
            for turn in range(runs):
                say(name)
                for way in (usual, other) if turn % 2 == 0 else (other, usual):
                    figure.add(way, run(way))
        except bench_runs.Failure as failure:
            failures.append(str(failure))
            continue
        found.append(figure)
    return found, failures


def lines(figures):
    number = bench_rows.number
    usual, other = figures[0].usual, figures[0].other
    head = f"{'':28} {usual.name:>18} {other.name:>18} {'':4} {'ratio':>7} {'best':>10} {'best':>10} {'ratio':>7}"
    return [head, *(f"{figure.name:28} {number(figure.median(usual)):>18} {number(figure.median(other)):>18} {figure.unit:4} {number(figure.ratio):>7} "
                    f"{number(figure.best(usual)):>10} {number(figure.best(other)):>10} {number(figure.best(other) / figure.best(usual)):>7}"
                    for figure in figures)]


def rows(figures):
    """For the JSON, in the form of bench_rows.row."""
    return [{"name": f"{figure.name} {figure.other.name}", "value": figure.median(figure.other), "unit": figure.unit, "peer": figure.usual.name,
             "peer_value": figure.median(figure.usual), "ratio": figure.ratio, "best": figure.best(figure.other),
             "runs": len(figure.values[figure.other])} for figure in figures]
