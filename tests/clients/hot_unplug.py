#!/usr/bin/env python3
"""A host's devices go while programs use them, and come again.

    hot_unplug.py [--smoke] [--rounds N] [--krping krping.so]

Each round adds host h3, runs on it and against it ib_write_bw, rping as server and as client, an rping that waits for a client, blockd as server and as
client, its form in C as a module of a host, and ibv_asyncwatch, and takes the host away (`weft node remove h3 --force`). Then each of them hears what a
kernel tells of a device that goes: IBV_EVENT_DEVICE_FATAL, RDMA_CM_EVENT_DEVICE_REMOVAL, completions with errors, a module's client that its device goes;
peers on hosts that stay hear that their connections have ended. All end by themselves within a bound, but servers that serve until they are told to end.
Nothing stays: programs and ids of the daemon, its descriptors, files of the run directory and of /dev/shm are those of before; and the hosts that stay
work on. 100 rounds, 3 with --smoke. With --krping, which is krping's source built as docs/ULP.md says, its server runs on h3 and its client on h1, too.
"""
import argparse
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

import blockd
import weft_clients

sys.path.insert(0, str(weft_clients.ROOT / "tests" / "crash"))

import crash  # noqa: E402  (it lies in the folder above)

END_SECONDS = 20        # policy: in which a program ends that has lost its device or its peer
READY_SECONDS = 20      # policy
MANY = "100000000"      # of messages: for longer than a round takes
VICTIM = "h3"


def roomy_star(folder):
    """A topology file: h1 and h2 at a switch with room for others."""
    path = pathlib.Path(folder) / "roomy.toml"
    text = subprocess.run([weft_clients.weft_command(), "topology", "generate", "star:2", "--to", "toml"], capture_output=True, text=True, timeout=60,
                          check=True).stdout
    path.write_text(re.sub(r"ports = 2\b", "ports = 8", text), encoding="utf-8")
    return str(path)


def shared_files():
    """Ours in /dev/shm."""
    return sorted(name for name in os.listdir("/dev/shm") if "weft" in name)


class Round:
    """The programs of one round; `address` is the victim's."""

    def __init__(self, fabric, ports, address, krping=None):
        self.fabric, self.ports, self.address, self.krping = fabric, ports, address, krping
        self.ending, self.served = {}, {}   # by name: who ends by itself, and who serves until it is told to end

    def listen(self, name, host, command, port, ends=True):
        child = self.fabric.start(host, command)
        (self.ending if ends else self.served)[name] = child
        crash.wait_for(lambda: self.fabric.has_id(host, port) or child.poll() is not None, READY_SECONDS, f"{name} does not listen")
        crash.require(child.poll() is None, lambda: f"{name} has ended:\n{crash.tail(child.communicate()[0])}")

    def start(self, name, host, command):
        self.ending[name] = self.fabric.start(host, command)

    def connect(self, name, host, command, port):
        """A client of the victim, until it is connected. ARP may find nobody at first: the victim joins the group of broadcasts when its port is Active."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            self.start(name, host, command)
            child = self.ending[name]
            crash.wait_for(lambda: self.fabric.has_id(VICTIM, port, "CONNECT") or child.poll() is not None, READY_SECONDS, f"{name} does not connect")
            if child.poll() is None:
                return
            crash.require(time.monotonic() < deadline, lambda: f"{name} has ended:\n{crash.tail(child.communicate()[0])}")

    def begin(self):
        fabric, take = self.fabric, self.ports.take
        h1 = weft_clients.address_of("h1")
        port = str(take())
        self.start("ib_write_bw server on h1", "h1", ["ib_write_bw", "-p", port, "-n", MANY])
        listens = weft_clients.wait_until_listening(self.ending["ib_write_bw server on h1"], int(port), time.monotonic() + READY_SECONDS)
        crash.require(listens, "ib_write_bw does not listen")
        self.start("ib_write_bw client", VICTIM, ["ib_write_bw", "-p", port, "-n", MANY, h1])
        port = str(take())
        self.listen("rping that waits", VICTIM, ["rping", "-s", "-p", port], int(port))
        port = str(take())
        self.listen("rping server on h1", "h1", ["rping", "-s", "-a", h1, "-p", port, "-C", MANY], int(port))
        self.start("rping client", VICTIM, ["rping", "-c", "-a", h1, "-p", port, "-C", MANY])
        port = str(take())
        self.listen("rping server", VICTIM, ["rping", "-s", "-p", port, "-C", MANY], int(port))
        self.connect("rping client on h2", "h2", ["rping", "-c", "-a", self.address, "-p", port, "-C", MANY], int(port))
        for name, server, client, address in (("blockd", VICTIM, "h2", self.address), ("blockd on h1", "h1", VICTIM, h1)):
            port = str(take())
            common = ["--port", port, "--bytes", str(blockd.BYTES)]
            self.listen(f"{name}, server", server, [blockd.program(), "serve", *common], int(port), ends=False)
            check = (f"{name}, client on {client}", client, [blockd.program(), "check", address, *common, "--rounds", MANY[:5]])
            if server == VICTIM:
                self.connect(*check, int(port))
            else:
                self.start(*check)
        self.begin_modules()
        self.watch = fabric.start(VICTIM, ["stdbuf", "-oL", "ibv_asyncwatch"])
        self.wait_for_line(self.watch, "async event FD")
        before = fabric.packets()
        crash.wait_for(lambda: all(sent > before[host] + 1_000 for host, sent in fabric.packets().items()), READY_SECONDS, self.silence)
        for name, child in {**self.ending, **self.served}.items():
            crash.require(child.poll() is None, lambda: f"{name} has ended:\n{crash.tail(child.communicate()[0])}")

    def begin_modules(self):
        """Protocols in the kernel's C, each in a process of a host."""
        run = [weft_clients.weft_command(), "module", "run"]
        port = str(self.ports.take())
        self.listen("blockd module", VICTIM, [*run, blockd.module(), f"port={port}", f"bytes={blockd.BYTES}"], int(port), ends=False)
        self.connect("blockd module, client on h2", "h2",
                     [blockd.program(), "check", self.address, "--port", port, "--bytes", str(blockd.BYTES), "--rounds", MANY[:5]], int(port))
        if self.krping is None:
            return
        port = str(self.ports.take())
        for name, host in (("krping module", VICTIM), ("krping module on h1", "h1")):
            self.served[name] = self.fabric.start(host, [*run, "--fast-registration", self.krping])
            crash.wait_for(lambda: f"{host} krping" in self.modules() or self.served[name].poll() is not None, READY_SECONDS, f"{name} is not loaded")
        tell = [run[0], "module", "write", "krping", "krping", "--host"]
        self.listen("krping server", VICTIM, [*tell, VICTIM, f"server,addr={self.address},port={port}"], int(port))
        self.connect("krping client on h1", "h1", [*tell, "h1", f"client,addr={self.address},port={port},count={MANY},validate"], int(port))

    def modules(self):
        """'HOST MODULE' of each that is loaded."""
        return [" ".join(line.split()[:2]) for line in self.fabric.run("module", "list").splitlines()]

    def silence(self):
        """Why there is no traffic: who has ended, and what it said."""
        ended = {name: crash.tail(child.communicate()[0]) for name, child in {**self.ending, **self.served}.items() if child.poll() is not None}
        return "no traffic\n" + "\n".join(f"{name} has ended:\n{text}" for name, text in ended.items())

    def states(self):
        return {name: child.poll() for name, child in {**self.ending, **self.served}.items()}

    def wait_for_line(self, child, words):
        """Until it has printed a line with these words."""
        seen, deadline = "", time.monotonic() + READY_SECONDS
        while words not in seen:
            crash.require(time.monotonic() < deadline and select.select([child.stdout], [], [], deadline - time.monotonic())[0],
                          lambda: f"nothing is said of {words.strip()}:\n{seen}")
            line = os.read(child.stdout.fileno(), 4096).decode()
            crash.require(line, lambda: f"it has ended ({child.wait(READY_SECONDS)}) before it says {words.strip()}:\n{seen}")
            seen += line

    def end(self):
        """Each has heard of the end as it should, and nobody is left."""
        deadline, outputs = time.monotonic() + END_SECONDS, {}
        for name, child in self.ending.items():
            outputs[name], in_time = weft_clients.communicate(child, deadline)
            crash.require(in_time, lambda: f"{name} does not end within {END_SECONDS} s:\n{crash.tail(outputs[name])}\n{self.states()}")
        crash.require("device removal" in outputs["rping that waits"],
                      lambda: f"rping hears nothing of the removal:\n{crash.tail(outputs['rping that waits'])}")
        for name in ("ib_write_bw client", "rping that waits", "rping client", "rping server", "blockd on h1, client on h3", "blockd, client on h2",
                     "blockd module, client on h2"):
            crash.require(self.ending[name].returncode != 0, lambda: f"{name} ends as if nothing was:\n{crash.tail(outputs[name])}")
        self.wait_for_line(self.watch, "IBV_EVENT_DEVICE_FATAL")
        weft_clients.end(self.watch)
        self.watch.stdout.close()
        self.wait_for_line(self.served["blockd module"], " goes\n")  # before it is removed, which tells its client, too
        for name, child in self.served.items():
            child.send_signal(signal.SIGTERM)
            output, in_time = weft_clients.communicate(child, time.monotonic() + END_SECONDS)
            crash.require(in_time and child.returncode == 0, lambda: f"{name} does not end in order: {child.returncode}\n{crash.tail(output)}")
            crash.require("is unregistered:" not in output, lambda: f"{name} leaves objects of its device:\n{crash.tail(output)}")


def ids(fabric):
    """Of RDMA-CM, of all hosts."""
    return fabric.status()["connections"]


def add_victim(fabric, *options):
    fabric.run("node", "add", VICTIM, "--link", "s1:3", *options)
    crash.wait_for(lambda: re.search(rf"^{VICTIM}:1 +Active", fabric.run("status"), re.MULTILINE), READY_SECONDS, f"{VICTIM} is not Active")


def address_of_victim(fabric):
    """By its place among the hosts, which its GUID tells: a host that comes again has another one, or that of one that is gone for good."""
    gid = next(port["gid"] for port in fabric.ports() if port["name"] == f"{VICTIM}:1")
    return weft_clients.address_of(f"h{int(gid.split(':')[-2], 16)}")


def pingpong(fabric):
    case = weft_clients.Case("ibv_rc_pingpong", [])
    outcome = weft_clients.run_cases(fabric, [case], ("h1", "h2"), progress=False)[0]
    crash.require(outcome.verdict == "ok", f"h1 and h2: {outcome.detail}\n{crash.tail(outcome.client_output)}")


def test(rounds, krping):
    ports = weft_clients.Ports()
    with tempfile.TemporaryDirectory() as folder, crash.Fabric(roomy_star(folder), f"unplug-{os.getpid()}") as fabric:
        pingpong(fabric)
        files = shared_files()
        before = fabric.belongings()
        for _ in range(rounds):
            add_victim(fabric)
            programs = Round(fabric, ports, address_of_victim(fabric), krping)
            programs.begin()
            fabric.run("node", "remove", VICTIM, "--force")
            programs.end()
            fabric.must_settle(before)
            crash.require(shared_files() == files, lambda: f"/dev/shm: {shared_files()}, before: {files}")
            crash.wait_for(lambda: not ids(fabric), crash.SETTLE_SECONDS, lambda: f"ids are left: {json.dumps(ids(fabric))}")
            fabric.children = [child for child in fabric.children if child.poll() is None]  # of the others a number may be anybody's soon
        pingpong(fabric)
    return f"{rounds} times a host went with its programs, and came again: all ended, nothing is left"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="3 rounds")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often (default 100)")
    parser.add_argument("--krping", metavar="FILE", help="krping as a module")
    arguments = parser.parse_args()
    weft_clients.need_programs("ib_write_bw", "rping", "ibv_asyncwatch", "ibv_rc_pingpong", "stdbuf")
    return crash.main(lambda: test(arguments.rounds or (3 if arguments.smoke else 100), arguments.krping))


if __name__ == "__main__":
    sys.exit(main())
