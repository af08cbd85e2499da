"""QEMU's live migration over `rdma:`, from one host to another: the guest's memory arrives and the guest runs on.

The guest has no operating system: its memory holds what is not random and what is, and the two machines' memories are compared before the
guest goes on.
"""
import filecmp
import json
import os
import pathlib
import queue
import subprocess
import tempfile
import threading
import time

import weft_clients

PROGRAM = "qemu-system-x86_64"
MEGABYTES = 128
LOADED_BYTES = 32 << 20          # random, from 16 MiB on
ANSWER_SECONDS = 60              # policy
MIGRATION_SECONDS = 120          # policy


class Machine:
    """A QEMU that is spoken to by its monitor, until the end of a with block."""

    def __init__(self, fabric, host, arguments):
        self.fabric, self.host, self.arguments = fabric, host, arguments
        self.output = []

    def __enter__(self):
        command = [self.fabric.weft, "exec", self.host, "--", PROGRAM, "-machine", "pc,accel=tcg", "-m", str(MEGABYTES), "-display", "none", "-nodefaults",
                   "-qmp", "stdio", *self.arguments]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                      env=self.fabric.environment(), start_new_session=True)
        self.answers = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.ask("qmp_capabilities")
        return self

    def __exit__(self, *_):
        weft_clients.end(self.child)
        self.reader.join(5)
        self.child.stdin.close()
        self.child.stdout.close()

    def read(self):
        """Answers, between events and lines that are not for the monitor's user."""
        for line in self.child.stdout:
            self.output.append(line)
            if line.startswith("{"):
                said = json.loads(line)
                if "return" in said or "error" in said:
                    self.answers.put(said)
        self.answers.put({"error": {"desc": "QEMU has ended"}})

    def ask(self, command, **arguments):
        """What QEMU returns; RuntimeError when it refuses."""
        self.child.stdin.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.child.stdin.flush()
        try:
            said = self.answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise RuntimeError(f"{self.host}: no answer to {command}") from None
        if "error" in said:
            raise RuntimeError(f"{self.host}: {command}: {said['error']['desc']}")
        return said["return"]

    def text(self):
        return "".join(self.output)


def wait_for_end(source):
    deadline = time.monotonic() + MIGRATION_SECONDS
    while True:
        state = source.ask("query-migrate")
        if state.get("status") in ("completed", "failed", "cancelled"):
            return state
        if time.monotonic() > deadline:
            raise RuntimeError(f"still {state.get('status')} after {MIGRATION_SECONDS} s")
        time.sleep(0.1)


def migrate(source, destination, address, pins_all, folder):
    """A reason of failure, or an empty string."""
    for machine in (source, destination):
        machine.ask("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": pins_all}])
    destination.ask("migrate-incoming", uri=f"rdma:{address}")
    source.ask("migrate", uri=f"rdma:{address}")
    state = wait_for_end(source)
    if state["status"] != "completed":
        return f"the migration {state['status']}: {state.get('error-desc', 'no reason given')}"
    memories = [folder / name for name in ("source", "destination")]
    for machine, memory in zip((source, destination), memories):
        machine.ask("pmemsave", val=0, size=MEGABYTES << 20, filename=str(memory))
    if not filecmp.cmp(*memories, shallow=False):
        return "the memories differ"
    destination.ask("cont")
    running = destination.ask("query-status")["status"], source.ask("query-status")["status"]
    return "" if running == ("running", "postmigrate") else f"the destination is {running[0]}, the source {running[1]}"


def outcome(fabric, hosts, port, pins_all):
    case = weft_clients.Case(PROGRAM, [f"migrate rdma:, pin-all {'on' if pins_all else 'off'}"],
                             aspect=f"live migration over rdma:, rdma-pin-all {'on' if pins_all else 'off'}")
    start = time.monotonic()
    address = f"{weft_clients.address_of(hosts[0])}:{port}"
    with tempfile.TemporaryDirectory(prefix="weft-qemu-") as name:
        folder = pathlib.Path(name)
        (folder / "loaded").write_bytes(os.urandom(LOADED_BYTES))
        loaded = ["-device", f"loader,file={folder / 'loaded'},addr=0x1000000,force-raw=on"]
        with Machine(fabric, hosts[0], ["-S", "-incoming", "defer"]) as destination, Machine(fabric, hosts[1], loaded) as source:
            try:
                detail = migrate(source, destination, address, pins_all, folder)
            except (RuntimeError, OSError) as problem:
                detail = str(problem)
    return weft_clients.Outcome(case, "FAILED" if detail else "ok", time.monotonic() - start, detail, destination.text(), source.text())
