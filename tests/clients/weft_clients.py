"""Shared by the runners beside it: a fabric that lives as long as a with block, and two-sided programs run on its hosts.

Every child is bounded by a timeout and ended by its own process group; ports are distinct, so that jobs can run side by side.
Standard library only.
"""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import verdicts

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77                     # exit status: cannot run here, and the last line says why
SHOWN_FAILURES, SHOWN_LINES = 3, 40  # policy: of a report
LISTEN_SECONDS = 20              # policy: how long a server may take until it listens
FIRST_PORT, LAST_PORT = 20000, 30000  # policy: below the range of ephemeral ports


# Debian has programs of administrators where an ordinary user's PATH does not look; `weft exec` finds them there, too.
os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def build_folder():
    return pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build" / "release")).resolve()


def weft_command():
    path = build_folder() / "src" / "cli" / "weft"
    if not path.exists():
        sys.exit(f"{path} is not there: build it first (scripts/weft --version does)")
    return str(path)


def need_programs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        sys.exit(f"{', '.join(missing)}: not installed (scripts/bootstrap)")


def address_of(host):
    """Host N answers to 127.77.x.y with x.y = N; hosts are named h1, h2, ..."""
    number = int(host.lstrip("h"))
    return f"127.77.{number >> 8}.{number & 255}"


def end(child):
    """Ends a child that was started in its own session, and what it started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, how)
            child.wait(2)
            return
        except ProcessLookupError:
            child.wait(2)
            return
        except subprocess.TimeoutExpired:
            continue


class Fabric:
    """weft up ... weft down; with Fabric("pair") as fabric: fabric.start("h1", ["ibv_devices"])."""

    def __init__(self, topology, name=None):
        self.topology, self.name = topology, name or f"clients-{os.getpid()}"
        self.weft = weft_command()

    def __enter__(self):
        self.run("up", *shlex.split(self.topology), "--name", self.name)
        return self

    def __exit__(self, *_):
        subprocess.run([self.weft, "down", "--name", self.name], timeout=60, capture_output=True)

    def environment(self, extra=None):
        return {**os.environ, "WEFT_FABRIC": self.name, **(extra or {})}

    def run(self, *arguments, timeout=60):
        """A weft command that must succeed; returns what it printed."""
        done = subprocess.run([self.weft, *arguments], capture_output=True, text=True, timeout=timeout, env=self.environment())
        if done.returncode != 0:
            raise RuntimeError(f"weft {' '.join(arguments)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def has_id(self, host, port, state="LISTEN"):
        """An RDMA-CM id of that host, on that port, that listens or is in another state."""
        return any(entry["host"] == host and entry["state"] == state and entry["source"].endswith(f":{port}")
                   for entry in json.loads(self.run("status", "--json"))["connections"])

    def ports(self):
        return json.loads(self.run("status", "--json"))["ports"]

    def start(self, host, command, environment=None, pass_fds=()):
        preload = os.environ.get("WEFT_CLIENT_PRELOAD")
        if preload:
            command = ["env", f"LD_PRELOAD={preload}", *command]
        return subprocess.Popen([self.weft, "exec", host, "--", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace", env=self.environment(environment),
                                start_new_session=True, pass_fds=pass_fds)


class Ports:
    """TCP ports that nobody listens on, each given out once."""

    def __init__(self):
        self.next, self.lock = FIRST_PORT + os.getpid() * 37 % 5000, threading.Lock()

    def take(self):
        with self.lock:
            for _ in range(FIRST_PORT, LAST_PORT):
                self.next = self.next + 1 if self.next < LAST_PORT else FIRST_PORT
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    try:
                        probe.bind(("", self.next))
                        return self.next
                    except OSError:
                        continue
        raise RuntimeError("no free TCP port")


def somebody_listens(port):
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as file:
            if any(line.split()[1].endswith(wanted) and line.split()[3] == "0A" for line in list(file)[1:]):
                return True
    return False


@dataclasses.dataclass
class Case:
    """One run of a two-sided program: PROGRAM -p PORT ARGUMENTS on the server, and the server's address behind it on the client,
    which ARGUMENTS_OF_CLIENT follow."""
    program: str
    arguments: list
    environment: dict = dataclasses.field(default_factory=dict)
    timeout_seconds: float = 60
    refusal: str = ""            # what the program says when it does not accept these arguments; then that is expected
    refused_by: str = "the client itself"
    reason: str = ""             # of a refusal, in words of docs/COMPATIBILITY.md; none: what the program says
    check: object = None         # a function from the client's output to a reason of failure, or None
    aspect: str = ""             # which row of docs/COMPATIBILITY.md this run belongs to, in words
    port_option: str = "-p"
    port_option_of_client: str = ""  # where it has another
    arguments_of_client: list = dataclasses.field(default_factory=list)
    wrapper: list = dataclasses.field(default_factory=list)  # words before a program that runs alone

    @property
    def name(self):
        prefix = "".join(f"{key}={value} " for key, value in self.environment.items())
        return prefix + " ".join([self.program, *self.arguments, *self.arguments_of_client])


@dataclasses.dataclass
class Outcome:
    case: Case
    verdict: str                 # ok, refused, FAILED
    seconds: float
    detail: str = ""
    server_output: str = ""
    client_output: str = ""


def wait_until_listening(server, port, deadline):
    while not somebody_listens(port):
        if server.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def communicate(child, deadline):
    """(output, in time)."""
    try:
        return child.communicate(timeout=max(deadline - time.monotonic(), 0.1))[0], True
    except subprocess.TimeoutExpired:
        end(child)
        return child.communicate()[0], False


def run_case(fabric, case, ports, hosts):
    """Server on hosts[0], client on hosts[1]; both must end with exit status 0."""
    port = ports.take()
    command = [case.program, case.port_option, str(port), *case.arguments]
    start = time.monotonic()
    deadline = start + case.timeout_seconds
    server = fabric.start(hosts[0], command, case.environment)
    if not wait_until_listening(server, port, min(deadline, start + LISTEN_SECONDS)):
        return judge_without_listener(case, server, start)
    command[1] = case.port_option_of_client or case.port_option
    client = fabric.start(hosts[1], [*command, address_of(hosts[0]), *case.arguments_of_client], case.environment)
    try:
        client_output, client_in_time = communicate(client, deadline)
        # Who refuses as the client may leave its server waiting.
        patience = 1 if case.refusal and case.refusal in client_output else 10
        server_output, server_in_time = communicate(server, time.monotonic() + patience if client_in_time else deadline)
    finally:
        for child in (client, server):
            if child.poll() is None:
                end(child)
    outcome = Outcome(case, "ok", time.monotonic() - start, "", server_output, client_output)
    both = server_output + client_output
    if case.refusal and case.refusal in both and client.returncode != 0:
        outcome.verdict = "refused"
    elif not client_in_time or not server_in_time:
        outcome.verdict, outcome.detail = "FAILED", f"{'server' if client_in_time else 'client'} did not end in time"
    elif client.returncode or server.returncode:
        outcome.verdict = "FAILED"
        outcome.detail = f"exit status {client.returncode} (client), {server.returncode} (server)"
    elif case.refusal:
        outcome.verdict, outcome.detail = "FAILED", f"expected to be refused with '{case.refusal}'"
    elif case.check and (reason := case.check(client_output)):
        outcome.verdict, outcome.detail = "FAILED", reason
    return outcome


def judge_without_listener(case, server, start):
    in_time = server.poll() is not None
    if not in_time:
        end(server)
    output = server.communicate()[0]
    if case.refusal and case.refusal in output:
        return Outcome(case, "refused", time.monotonic() - start, "", output)
    detail = f"server ended with exit status {server.returncode}" if in_time else "server did not listen in time"
    return Outcome(case, "FAILED", time.monotonic() - start, detail, output)


def run_alone(fabric, case, host):
    """A case of one program on one host, without a port and without a peer."""
    start = time.monotonic()
    child = fabric.start(host, [*case.wrapper, case.program, *case.arguments], case.environment)
    output, in_time = communicate(child, start + case.timeout_seconds)
    detail = ("did not end in time" if not in_time else f"exit status {child.returncode}" if child.returncode
              else case.check(output) or "" if case.check else "")
    return Outcome(case, "FAILED" if detail else "ok", time.monotonic() - start, detail, "", output)


def run_cases(fabric, cases, hosts=("h1", "h2"), jobs=1, progress=True):
    ports, done, lock = Ports(), [0], threading.Lock()

    def one(case):
        try:
            outcome = run_case(fabric, case, ports, hosts)
        except (OSError, RuntimeError) as problem:
            outcome = Outcome(case, "FAILED", 0, str(problem))
        with lock:
            done[0] += 1
            if progress and (outcome.verdict == "FAILED" or sys.stdout.isatty()):
                print(f"[{done[0]}/{len(cases)}] {outcome.verdict:7} {outcome.seconds:6.2f} s  {case.name}"
                      + (f": {outcome.detail}" if outcome.detail else ""), flush=True)
        return outcome

    with concurrent.futures.ThreadPoolExecutor(max(jobs, 1)) as pool:
        return list(pool.map(one, cases))


def as_json(outcomes):
    return [{"command": outcome.case.name, "program": outcome.case.program, "aspect": outcome.case.aspect,
             "arguments": outcome.case.arguments, "environment": outcome.case.environment, "verdict": outcome.verdict, "seconds": round(outcome.seconds, 3),
             "detail": outcome.detail} for outcome in outcomes]


def report(outcomes, suite, json_path=None):
    """The table, the logs of what failed, JSON on demand; returns the exit status."""
    logs = build_folder() / "client-logs" / suite
    shutil.rmtree(logs, ignore_errors=True)
    for number, outcome in enumerate(outcomes):
        if outcome.verdict == "FAILED":
            logs.mkdir(parents=True, exist_ok=True)
            (logs / f"{number:04}-{outcome.case.program}.log").write_text(
                f"{outcome.case.name}\n{outcome.detail}\n\n== server\n{outcome.server_output}\n== client\n{outcome.client_output}\n")
    print(f"\n{'program':20} {'runs':>5} {'ok':>5} {'refused':>8} {'FAILED':>7} {'slowest':>9}")
    for program in dict.fromkeys(outcome.case.program for outcome in outcomes):
        rows = [outcome for outcome in outcomes if outcome.case.program == program]
        count = {verdict: sum(outcome.verdict == verdict for outcome in rows) for verdict in ("ok", "refused", "FAILED")}
        print(f"{program:20} {len(rows):5} {count['ok']:5} {count['refused']:8} {count['FAILED']:7} "
              f"{max(outcome.seconds for outcome in rows):7.2f} s")
    failed = [outcome for outcome in outcomes if outcome.verdict == "FAILED"]
    for number, outcome in enumerate(failed[:20]):
        print(f"FAILED: {outcome.case.name}: {outcome.detail}")
        if number < SHOWN_FAILURES:  # the files are gone when the suite runs again
            for end, output in (("server", outcome.server_output), ("client", outcome.client_output)):
                print(f"== its {end}'s last words\n" + "\n".join(output.splitlines()[-SHOWN_LINES:]))
    if failed:
        print(f"logs of what failed: {logs}")
    if json_path:
        pathlib.Path(json_path).write_text(json.dumps(as_json(outcomes), indent=1) + "\n")
    print(f"{suite}: {len(outcomes)} runs, {len(failed)} failed, "
          f"{sum(outcome.verdict == 'refused' for outcome in outcomes)} refused")
    return 1 if failed or not outcomes else 0


def add_options(parser):
    parser.add_argument("--smoke", action="store_true", help="a small part of the combinations")
    parser.add_argument("--fabric", default="pair", metavar="TOPOLOGY", help="as for weft up: pair (default), star:4, fat-tree:4:2, FILE")
    parser.add_argument("--hosts", nargs=2, default=("h1", "h2"), metavar="HOST", help="server and client (default h1 h2)")
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) // 2), help="runs at a time")
    parser.add_argument("--json", metavar="FILE", help="write every run with its verdict")
    parser.add_argument("--match", metavar="TEXT", help="only the runs whose command line holds this text")
    parser.add_argument("--list", action="store_true", help="print the command lines, run nothing")
    return parser


def main(suite, cases, arguments, extra=None):
    """What the suites have in common once they know their cases; `extra` is a function from a fabric and hosts to more outcomes."""
    cases = [case for case in cases if not arguments.match or arguments.match in case.name]
    if arguments.list:
        print("\n".join(case.name for case in cases))
        return 0
    need_programs(*{case.program for case in cases})
    with Fabric(arguments.fabric) as fabric:
        outcomes = run_cases(fabric, cases, arguments.hosts, arguments.jobs)
        outcomes += extra(fabric, arguments.hosts) if extra and not arguments.match else []
    if not arguments.match:
        verdicts.store(build_folder(), suite, verdicts.summarize(outcomes), whole=not arguments.smoke)
    return report(outcomes, suite, arguments.json)
