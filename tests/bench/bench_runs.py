"""Runs the programs of scripts/bench: limits, peers, Weft. Each is bounded in time; one that fails is a Failure with its output."""
import pathlib
import shutil
import subprocess
import sys
import time

import bench_rows

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
import weft_clients  # noqa: E402

TIMEOUT_SECONDS = 60       # policy: of any one run
CLOCK_TRIES = 5            # policy: runs of perftest until it knows the CPU's clock rate
# Policy: a run is some tenths of a second, the program's own set-up apart.
ITERATIONS = {8: 100_000, 4096: 20_000, 65_536: 4000, bench_rows.MIB: 500}
LATENCY_ITERATIONS = {8: 20_000, 4096: 10_000, 65_536: 3000, bench_rows.MIB: 200}
THREAD_MESSAGES = 500_000  # policy: of each thread
# Shared memory only, best first: CMA needs the right to trace a process of the same user, System V memory has limits of its own.
UCX_TRANSPORTS = ("posix,cma,self", "posix,self", "sysv,cma,self", "sysv,self")


class Failure(Exception):
    """What ran, what went wrong, and what it printed."""

    def __init__(self, name, detail, output):
        super().__init__(f"{name}: {detail}\n{output.strip()}")


def program_path(program):
    return str(weft_clients.build_folder() / "tests" / "bench" / program)


def run_program(program, *arguments, cpus=None):
    """What a program of this folder prints, on some CPUs or on all."""
    bound = ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
    command = [*bound, program_path(program), *map(str, arguments)]
    name = " ".join([program, *map(str, arguments)])
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             start_new_session=True)
    try:
        output, errors = child.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        weft_clients.end(child)
        raise Failure(name, f"did not end in {TIMEOUT_SECONDS} s", "".join(filter(None, child.communicate()))) from None
    if child.returncode != 0:
        raise Failure(name, f"exit status {child.returncode}", output + errors)
    return output


def read(name, output, parse, *arguments):
    """parse(...), whose complaint becomes a Failure with the output."""
    try:
        return parse(*arguments, output)
    except bench_rows.ClockUnknown:
        raise
    except (bench_rows.Unreadable, KeyError, TypeError) as problem:
        raise Failure(name, f"cannot read its output: {problem!r}", output) from problem


class Ucx:
    """ucx_perftest, two processes over shared memory, each pinned: both spin, and on one CPU each hop would be a time slice."""

    def __init__(self, ports, cpus):
        self.ports, self.cpus, self.transports = ports, cpus, None

    @staticmethod
    def missing():
        return None if shutil.which("ucx_perftest") else "ucx_perftest is not installed (scripts/bootstrap)"

    def choose_transports(self):
        """The first of UCX_TRANSPORTS that carries large messages."""
        failures = []
        for self.transports in UCX_TRANSPORTS:
            try:
                self.run("tag_bw", bench_rows.MIB)
                return self.transports
            except Failure as failure:
                failures.append(str(failure))
        self.transports = None
        raise Failure("ucx_perftest", "no transport over shared memory works", "\n".join(failures))

    def command(self, test, size, port, side):
        iterations = (LATENCY_ITERATIONS if bench_rows.is_latency(test) else ITERATIONS)[size]
        pinned = ["-c", str(self.cpus[side])] if self.cpus else []
        return ["ucx_perftest", *pinned, "-p", str(port), "-t", test, "-s", str(size), "-n", str(iterations),
                "-w", str(iterations // 10), *(["127.0.0.1"] if side == 1 else [])]

    def start(self, command):
        return subprocess.Popen(["env", f"UCX_TLS={self.transports}", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)

    def run(self, test, size):
        """{unit: value}"""
        port, deadline = self.ports.take(), time.monotonic() + TIMEOUT_SECONDS
        name = " ".join(self.command(test, size, port, 1))
        server = self.start(self.command(test, size, port, 0))
        children = [server]
        try:
            if not weft_clients.wait_until_listening(server, port, deadline):
                weft_clients.end(server)
                raise Failure(name, "the server does not listen", server.communicate()[0])
            client = self.start(self.command(test, size, port, 1))
            children.append(client)
            output, client_in_time = weft_clients.communicate(client, deadline)
            server_output, server_in_time = weft_clients.communicate(server, deadline)
        finally:
            for child in children:
                if child.poll() is None:
                    weft_clients.end(child)
        if not client_in_time or not server_in_time or client.returncode or server.returncode:
            detail = f"exit status {client.returncode} (client), {server.returncode} (server)"
            raise Failure(name, detail if client_in_time and server_in_time else f"did not end in {TIMEOUT_SECONDS} s",
                          f"{output}\n== server\n{server_output}")
        return read(name, output, bench_rows.parse_ucx)


class Weft:
    """Programs on two hosts of a fabric."""

    def __init__(self, fabric, ports, hosts, options):
        self.fabric, self.ports, self.hosts, self.options = fabric, ports, hosts, options

    def run_case(self, program, *arguments):
        """(name, what the client printed)"""
        case = weft_clients.Case(program, [*map(str, arguments)], timeout_seconds=TIMEOUT_SECONDS)
        outcome = weft_clients.run_case(self.fabric, case, self.ports, self.hosts)
        if outcome.verdict != "ok":
            raise Failure(case.name, outcome.detail, f"== client\n{outcome.client_output}\n== server\n{outcome.server_output}")
        return case.name, outcome.client_output

    def perftest(self, program, size):
        """{unit: value}"""
        iterations = (LATENCY_ITERATIONS if bench_rows.is_latency(program) else ITERATIONS)[size]
        for _ in range(CLOCK_TRIES):
            name, output = self.run_case(program, "-s", size, "-n", iterations, "-F", *self.options)
            try:
                return read(name, output, bench_rows.parse_perftest, program, size)
            except bench_rows.ClockUnknown as problem:
                reason = problem
        raise Failure(name, f"{reason}, {CLOCK_TRIES} times", output)

    def thread_rate(self, threads):
        """Million messages a second, of all threads together."""
        name, output = self.run_case(program_path("weft_thread_rate"), "-t", threads, "-n", THREAD_MESSAGES)
        result = read(name, output, bench_rows.parse_json)
        if result.get("threads") != threads:
            raise Failure(name, f"not of {threads} threads", output)
        return result["million_messages_per_s"]
