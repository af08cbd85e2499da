#!/usr/bin/env python3
"""fio writes, reads and verifies disks of `weft iser target` and `weft iscsi target` while links flap, connections are cut off, targets are killed and
come again, and sessions are reinstated: no lost or wrong block. By iSER our initiator (nbdkit's plugin) and, without faults, QEMU's `iser://`; by TCP ours
with several connections and QEMU's `iscsi://`; all of them beside each other.

    iscsi_soak.py [--seconds N] [--only iser|qemu-iser|ours|qemu]...

fio goes over its disk in rounds. In every other one each block is verified soon after it was written, in those between all of them at the round's end, so
that a block that is lost, or overwritten by an older write that comes late, is found when the fault is long over. The last round ends without faults.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import iscsi
import iscsi_attach
import iscsi_proxy
import iser
import iser_target
import weft_clients

DISK_BYTES = 32 << 20            # policy
PAUSE_SECONDS = (1.0, 4.0)       # policy: between two faults of a way
DOWN_SECONDS = 1.5               # policy: how long a link is down, or a target away
END_SECONDS = 120                # policy: until a round is over, when no fault comes any more
SAY_SECONDS = 60                 # policy
SAID_CHARACTERS = 4000           # policy: of what our initiator said at last, when a round went wrong
SERVER, CLIENT = iser_target.SERVER, iser_target.CLIENT


def fio_job(uri, number, report):
    """A round: blocks of several sizes, each written once and verified. Other rounds have other content."""
    return ["fio", "--name=soak", "--ioengine=nbd", f"--uri={uri}", "--rw=randrw", "--rwmixread=30", "--bsrange=4k-64k", "--iodepth=8", "--size=24M",
            "--verify=crc32c", "--verify_fatal=1", *(["--verify_backlog=64"] if number % 2 == 0 else []), "--serialize_overlap=1", f"--randseed={number + 1}",
            "--group_reporting", "--output-format=json", f"--output={report}"]


class Way:
    """One disk with its target, its faults and the fio that uses it."""

    name, faults, ports = "", (), weft_clients.Ports()
    attached = None              # our initiator, where it is that
    patience = "--fast-fail", str(END_SECONDS)  # a target that comes late on a busy machine is no lost block

    def __init__(self, folder, number):
        self.folder = pathlib.Path(folder) / str(number)
        self.folder.mkdir()
        self.disk = iscsi_attach.empty_disk(self.folder, size=DISK_BYTES)
        self.counts, self.octets, self.random = collections.Counter(), collections.Counter(), random.Random(number)

    def trouble(self, ends):
        """Faults until `ends` is set; each is over when this returns."""
        while self.faults and not ends.wait(self.random.uniform(*PAUSE_SECONDS)):
            fault = self.random.choice(self.faults)
            getattr(self, fault)()
            self.counts[fault] += 1

    def restart(self):
        """The target dies, and comes again for the same file."""
        self.target.child.send_signal(signal.SIGKILL)
        self.target.child.wait(iscsi.READY_SECONDS)
        self.target.__exit__()
        time.sleep(self.random.uniform(0, DOWN_SECONDS))
        self.start_target()

    def reinstate(self):
        """The target drops all sessions, as when its disks are others (SIGHUP), and initiators log in anew."""
        self.write_configuration()
        self.target.child.send_signal(signal.SIGHUP)

    def write_configuration(self):
        """Each time with one unit more or less, so that the target begins anew."""
        self.units = 3 - getattr(self, "units", 1)
        luns = f'[[target.lun]]\npath = "{self.disk}"\n' + '[[target.lun]]\nram = "1M"\n' * (self.units - 1)
        (self.folder / "targets.toml").write_text(f'[[target]]\nname = "{iscsi.NAME}"\n{luns}', encoding="utf-8")


class TcpWay(Way):
    """Over a proxy, which cuts connections off."""

    faults = ("cut", "cut", "restart", "reinstate")

    def open(self, stack):
        self.port = None
        self.start_target()
        stack.callback(lambda: self.target.__exit__())
        self.proxy = stack.enter_context(iscsi_proxy.Proxy(self.port))
        return self.export(stack, f"iscsi://{self.proxy.address}/{iscsi.NAME}/0")

    def start_target(self):
        self.write_configuration()
        self.target = iscsi.Target("--config", str(self.folder / "targets.toml"), name="", port=self.port or 0).__enter__()
        self.port = self.target.ports[0]

    def cut(self):
        self.proxy.cut()


class OurTcpWay(TcpWay):
    name = "TCP by weft iscsi attach, 3 connections, level 2"

    def export(self, stack, url):
        self.attached = stack.enter_context(iscsi_attach.Attached(self.folder, url, "--connections", "3", "--recovery-level", "2", "--digests",
                                                                       *self.patience))
        return self.attached.nbd


def qemu_nbd(stack, folder, url, prefix=(), environment=None):
    """The unit of that URL, as NBD: its URI."""
    socket = folder / "nbd"
    child = subprocess.Popen([*prefix, "qemu-nbd", "--format=raw", "--persistent", "--shared=4", f"--socket={socket}", url], stdin=subprocess.DEVNULL,
                             env=environment)
    stack.callback(lambda: (child.terminate(), child.wait(iscsi.READY_SECONDS)))
    deadline = time.monotonic() + iscsi.READY_SECONDS
    while not iscsi_attach.is_listening(socket):
        if child.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("qemu-nbd does not listen")
        time.sleep(0.05)
    return f"nbd+unix:///?socket={socket}"


class QemuTcpWay(TcpWay):
    name = "TCP by QEMU's iscsi://"

    def export(self, stack, url):
        return qemu_nbd(stack, self.folder, url)


class IserWay(Way):
    """On two hosts of a fabric, whose link flaps."""

    name, faults = "iSER by weft iser attach", ("flap", "flap", "restart", "reinstate")

    def open(self, stack):
        self.fabric = stack.enter_context(weft_clients.Fabric("pair", name=f"soak-{os.getpid()}-{self.folder.name}"))
        self.tcp_port = self.ports.take()
        self.start_target()
        stack.callback(lambda: self.target.__exit__())
        return self.export(stack, self.target.url())

    def export(self, stack, url):
        self.attached = stack.enter_context(iscsi_attach.Attached(
            self.folder, url, *self.patience, command=[self.fabric.weft, "exec", CLIENT, "--", self.fabric.weft, "iser"], environment=self.fabric.environment()))
        return self.attached.nbd

    def start_target(self):
        self.write_configuration()
        self.target = iser_target.Target(self.fabric, "--config", str(self.folder / "targets.toml"), tcp_port=self.tcp_port, name="").__enter__()

    def restart(self):
        os.killpg(self.target.child.pid, signal.SIGKILL)
        self.target.child.wait(iscsi.READY_SECONDS)
        self.target.__exit__()
        time.sleep(self.random.uniform(0, DOWN_SECONDS))
        self.start_target()

    def reinstate(self):
        self.write_configuration()
        os.kill(self.target.child.pid, signal.SIGHUP)

    def flap(self):
        self.fabric.run("link", "down", CLIENT)
        time.sleep(self.random.uniform(0, DOWN_SECONDS))
        self.fabric.run("link", "up", CLIENT)


class QemuIserWay(IserWay):
    """Without faults: libiscsi 1.19.0 makes a lost session again by TCP, whatever it was by (iscsi_reconnect() of its lib/connect.c)."""

    name, faults = "iSER by QEMU's iser://", ()

    def export(self, stack, url):
        return qemu_nbd(stack, self.folder, url, [self.fabric.weft, "exec", CLIENT, "--"], self.fabric.environment(iser.HELP))


def make_trouble(way, ends, failures):
    try:
        way.trouble(ends)
    except Exception as error:  # of whatever kind: no fault has come since, so that fio proves nothing
        failures.append(f"{way.name}: after {dict(way.counts)}: {error!r}")


def run_round(way, uri, number, deadline):
    """What is wrong with it; empty: each block came back as it was written."""
    log, report = way.folder / "fio.log", way.folder / "fio.json"
    report.unlink(missing_ok=True)
    with open(log, "w", encoding="utf-8") as output:
        child = subprocess.Popen(fio_job(uri, number, report), cwd=way.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            child.wait(max(deadline - time.monotonic(), 0) + END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    said = log.read_text(encoding="utf-8", errors="replace")
    if child.returncode != 0 or "verify:" in said:
        return f"fio's round {number} ended with status {child.returncode}\n{said}"
    job = json.loads(report.read_text(encoding="utf-8"))["jobs"][0]
    for direction in ("read", "write"):
        way.octets[direction] += job[direction]["io_bytes"]
    return f"fio's round {number} wrote nothing" if job["write"]["io_bytes"] == 0 else ""


def soak(way, seconds, failures):
    with contextlib.ExitStack() as stack:
        uri = way.open(stack)
        ends, deadline = threading.Event(), time.monotonic() + seconds
        trouble = threading.Thread(target=make_trouble, args=(way, ends, failures))
        clock = threading.Timer(seconds, ends.set)
        trouble.start()
        clock.start()
        wrong, rounds = "", 0
        while not wrong and (rounds == 0 or not ends.is_set()):
            wrong = run_round(way, uri, rounds, deadline)
            rounds += 1
        clock.cancel()
        ends.set()
        trouble.join()
        print(f"{way.name}: {rounds} rounds, {way.octets['write'] >> 20} MiB written, {way.octets['read'] >> 20} MiB read; "
              + (", ".join(f"{count} {fault}" for fault, count in sorted(way.counts.items())) or "no faults"), flush=True)
        if wrong:
            failures.append(f"{way.name}: {wrong}{way.attached.text()[-SAID_CHARACTERS:] if way.attached else ''}")
        if not all(way.counts[fault] for fault in way.faults):
            failures.append(f"{way.name}: not every fault has come: {dict(way.counts)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long fio writes; default 60")
    parser.add_argument("--only", choices=("iser", "qemu-iser", "ours", "qemu"), action="append", help="this way alone")
    arguments = parser.parse_args()
    weft_clients.need_programs("fio", "nbdkit", "qemu-nbd")
    ways = {"iser": IserWay, "qemu-iser": QemuIserWay, "ours": OurTcpWay, "qemu": QemuTcpWay}
    failures, start = [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weft-soak-") as folder:
        threads = [threading.Thread(target=run_way, args=(ways[name], folder, number, arguments.seconds, failures))
                   for number, name in enumerate(arguments.only or ways)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            until = time.monotonic() + SAY_SECONDS
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))
            print(f"{time.monotonic() - start:.0f} s", flush=True)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def run_way(kind, folder, number, seconds, failures):
    try:
        soak(kind(folder, number), seconds, failures)
    except Exception as error:  # of whatever kind: the other ways go on, and this one has failed
        failures.append(f"{kind.name}: {error!r}")


if __name__ == "__main__":
    sys.exit(main())
