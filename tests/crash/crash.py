"""Shared by the tests beside it: a fabric of their own whose daemon they may look into and kill, and programs with a pulse.

Everything waits within bounds; programs are ended by their process groups. Linux and the standard library only.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))

import weft_clients  # noqa: E402  (it lies in the folder above)

SETTLE_SECONDS = 5      # policy: how long the daemon may take to forget a program
REST_SECONDS = 0.3      # policy: how long it has become no fewer
MOST_MADS = 30          # policy: that a host of a pair sends while programs begin
FILES_OF_FABRIC = {"control", "lock", "log", "sys"}
CHARACTERS_SHOWN = 1500


class Failure(Exception):
    """What a test found; the message says all that is known."""


def require(condition, message):
    """The message may be a function, when it costs something to know it."""
    if not condition:
        raise Failure(message() if callable(message) else message)


def tail(output):
    return output[-CHARACTERS_SHOWN:]


def wait_for(condition, seconds, what):
    """The condition's first true value; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        require(time.monotonic() < deadline, lambda: f"not within {seconds:.1f} s: {what() if callable(what) else what}")
        time.sleep(0.01)


def threads(pid):
    """The folders of a process's threads; none when it has ended."""
    try:
        return [pathlib.Path(f"/proc/{pid}/task/{thread}") for thread in os.listdir(f"/proc/{pid}/task")]
    except FileNotFoundError:
        return []


def cpu_seconds(pid):
    """CPU time of all threads that live, to the nanosecond."""
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads(pid)) / 1e9


def kibibytes(pid, file, field):
    return int(re.search(rf"^{field}:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)[1])


def descriptors(pid):
    """How many descriptors a process has, by what they are: {'socket': 3, '/memfd:weft-tables': 1, ...}"""
    kinds = collections.Counter()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            kinds[re.sub(r":?\[.*| \(deleted\)", "", os.readlink(f"/proc/{pid}/fd/{descriptor}"))] += 1
    return dict(kinds)


def is_running(pid):
    """False too for a process that has ended and waits to be reaped."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def group_is_empty(pid):
    try:
        os.killpg(pid, 0)
        return False
    except ProcessLookupError:
        return True


class Fabric(weft_clients.Fabric):
    """A fabric in a run directory that nobody else uses; knows its daemon's process."""

    def __init__(self, topology="pair", name="crash"):
        super().__init__(topology, name)
        self.folder = tempfile.mkdtemp(prefix="weft-crash-")
        os.environ["WEFT_RUN"] = self.run_directory = f"{self.folder}/run"
        self.children, self.daemon = [], None

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *_):
        for child in self.children:
            weft_clients.end(child)
        super().__exit__()
        if self.daemon and is_running(self.daemon):
            os.kill(self.daemon, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def up(self):
        self.daemon = int(re.search(r"process (\d+)", self.run("up", *self.topology.split(), "--name", self.name))[1])

    def start(self, host, command, environment=None):
        child = super().start(host, command, environment)
        self.children.append(child)
        return child

    def converse(self, host, command):
        """A program that is told on its standard input and answers on its standard output, line by line."""
        child = subprocess.Popen([self.weft, "exec", host, "--", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True, env=self.environment(), start_new_session=True)
        self.children.append(child)
        return child

    def status(self, *options):
        return json.loads(self.run("status", "--json", *options))

    def programs(self):
        return {program["pid"] for program in self.status()["programs"]}

    def packets(self):
        """What each host has sent since the fabric came up."""
        return {port["node"]: port["counters"]["xmit_packets"] for port in self.status("--counters")["ports"] if port["kind"] == "host"}

    def files(self):
        return sorted(os.listdir(self.run_directory))

    def belongings(self):
        """What a fabric without programs has; a program that is forgotten leaves it as it was."""
        inside = set(os.listdir(f"{self.run_directory}/{self.name}"))
        return {"run directory": self.files(), "foreign files": sorted(inside - FILES_OF_FABRIC),
                "programs": sorted(self.programs()), "descriptors": self.descriptors_at_rest()}

    def descriptors_at_rest(self):
        """The daemon's when it has closed what the question for its programs came by: the fewest, when they become no fewer."""
        fewest, until = descriptors(self.daemon), time.monotonic() + REST_SECONDS
        while time.monotonic() < until:
            time.sleep(0.02)
            now = descriptors(self.daemon)
            if sum(now.values()) < sum(fewest.values()):
                fewest, until = now, time.monotonic() + REST_SECONDS
        return fewest

    def must_settle(self, before):
        """Everything of programs that have ended is gone."""
        state = {}

        def same():
            state.update(self.belongings())
            return state == before

        wait_for(same, SETTLE_SECONDS, lambda: f"left behind: {state}, before: {before}")


class Pair:
    """A two-sided program of perftest or rdma-core: server on h1, client on h2."""

    def __init__(self, fabric, ports, command, environment=None):
        port = ports.take()
        self.command, self.fabric = [command[0], "-p", str(port), *command[1:]], fabric
        self.before = fabric.packets()
        self.server = fabric.start("h1", self.command, environment)
        listens = weft_clients.wait_until_listening(self.server, port, time.monotonic() + weft_clients.LISTEN_SECONDS)
        require(listens, f"{' '.join(self.command)} does not listen")
        self.client = fabric.start("h2", [*self.command, weft_clients.address_of("h1")], environment)
        self.sides = {"server": self.server, "client": self.client}

    def wait_for_traffic(self):
        """Until both hosts have sent something, and not MADs only: connected, and beyond the first messages."""
        def flows():
            sent = self.fabric.packets()
            return all(sent[host] > self.before[host] + MOST_MADS for host in ("h1", "h2"))

        wait_for(flows, weft_clients.LISTEN_SECONDS, f"no traffic of {' '.join(self.command)}")

    def end_within(self, seconds):
        """{side: (exit status, output)}; both must end by themselves."""
        deadline = time.monotonic() + seconds
        ended = {}
        for side, child in self.sides.items():
            output, in_time = weft_clients.communicate(child, deadline)
            require(in_time, f"{side} of {' '.join(self.command)} did not end within {seconds} s:\n{tail(output)}")
            require(group_is_empty(child.pid), f"{side} left processes behind")
            ended[side] = (child.returncode, output)
        return ended


def arguments(description, count=None, options=()):
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="a small part, in seconds")
    if count:
        parser.add_argument("--count", type=int, metavar="N", help=f"how often (default {count[0]}, with --smoke {count[1]})")
        parser.add_argument("--seed", type=int, help="of the random moments (default: another each time; it is printed)")
    for name, settings in options:
        parser.add_argument(name, **settings)
    parsed = parser.parse_args()
    if count:
        parsed.count = parsed.count or count[1 if parsed.smoke else 0]
        parsed.seed = random.SystemRandom().randrange(1 << 32) if parsed.seed is None else parsed.seed
    return parsed


def program(name):
    """A program of this folder, as it was built."""
    path = weft_clients.build_folder() / "tests" / "crash" / name
    if not path.exists():
        sys.exit(f"{path} is not there: build the target crash_programs first")
    return str(path)


def main(test):
    """The exit status; a failure is one message, not a traceback."""
    start = time.monotonic()
    try:
        summary = test()
    except (Failure, RuntimeError, subprocess.TimeoutExpired) as problem:
        print(f"FAILED: {problem}")
        return 1
    print(f"{summary}; {time.monotonic() - start:.1f} s")
    return 0
