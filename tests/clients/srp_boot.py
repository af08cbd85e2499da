#!/usr/bin/env python3
"""A Debian kernel whose root file system is a unit of an SRP target: `weft san-boot` boots it in QEMU to a login prompt and a clean end; then the
target is killed in the middle of its writes, and what it had flushed is there at the next boot.

    srp_boot.py [--verbose]

QEMU emulates the processor, so a boot takes some ten seconds.
"""
import argparse
import hashlib
import ipaddress
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import namespaces
import san_image
import srp
import weft_clients

SERVER, CLIENT = "h1", "h2"
BOOT_SECONDS = 180               # policy: a busy machine that emulates one
COMMAND_SECONDS = 60             # policy
STILL_SECONDS = 3                # policy: how long nothing more becomes durable without a target
DURABLE_FILES = 6                # policy: before each kill
# cmpxchg16b is left out, which QEMU's emulation has not always had right.
MACHINE = ["qemu-system-x86_64", "-machine", "pc,accel=tcg", "-cpu", "max,-cx16", "-m", "256", "-display", "none", "-nodefaults", "-no-user-config", "-no-reboot",
           "-serial", "stdio"]
DURABLE = re.compile(r"durable (file\d+) ([0-9a-f]{64})")


class Machine:
    """A virtual machine that `weft san-boot` starts, and its serial console, until the end of a with block."""

    def __init__(self, fabric, root_path):
        self.fabric, self.root_path, self.text, self.changed = fabric, root_path, "", threading.Condition()

    def __enter__(self):
        command = namespaces.preloaded([self.fabric.weft, "san-boot", self.root_path, "--", *MACHINE])
        self.child = subprocess.Popen([self.fabric.weft, "exec", CLIENT, "--", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      env=self.fabric.environment(), start_new_session=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        return self

    def read(self):
        while octets := os.read(self.child.stdout.fileno(), 4096):
            with self.changed:
                self.text += octets.decode(errors="replace").replace("\r", "")
                self.changed.notify_all()

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.kill()
        self.reader.join(COMMAND_SECONDS)
        self.child.stdin.close()
        self.child.stdout.close()

    def kill(self):
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(COMMAND_SECONDS)

    def said(self, pattern, after=0, seconds=COMMAND_SECONDS):
        """The match behind a place of the text, once it is there."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while not (found := re.compile(pattern, re.MULTILINE).search(self.text, after)):
                left = deadline - time.monotonic()
                if left <= 0 or self.child.poll() is not None and not self.reader.is_alive():
                    raise AssertionError(f"the machine does not say {pattern!r}: {self.text[-3000:]}")
                self.changed.wait(min(left, 1))
            return found

    def log_in(self):
        found = self.said(rf"^{san_image.HOST_NAME} login: ", seconds=BOOT_SECONDS)
        self.type("root")
        self.said(r"# ", found.end())
        # From here on without the shell's editing of lines, and nothing is echoed.
        self.type("exec sh -c 'stty -echo; echo ready; while read -r line; do eval \"$line\"; done'")
        self.said(r"^ready$", found.end())

    def type(self, line):
        self.child.stdin.write(line.encode() + b"\n")
        self.child.stdin.flush()

    def run(self, command):
        """(exit status, output) of a command of the shell."""
        with self.changed:
            start = len(self.text)
        self.type(f"{command}; echo \"[$?]\"")
        found = self.said(r"^\[(\d+)\]\n", start)
        return int(found.group(1)), self.text[start:found.start()]

    def power_off(self):
        self.type("poweroff")
        return self.child.wait(COMMAND_SECONDS)


class Boot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="weft-srp-boot-")
        cls.addClassCleanup(cls.place.cleanup)
        cls.disk = pathlib.Path(cls.place.name) / "disk.img"
        san_image.make(cls.disk)
        cls.fabric = weft_clients.Fabric("pair", name=f"srp-boot-{os.getpid()}")
        cls.fabric.__enter__()
        cls.addClassCleanup(cls.fabric.__exit__)

    def target(self):
        return srp.Target(self.fabric, "--lun", str(self.disk))

    def root_path(self):
        """Of gPXE, made of what ibsrpdm says; who the initiator is, and by which port, is left out."""
        deadline = time.monotonic() + COMMAND_SECONDS
        while time.monotonic() < deadline:
            done = subprocess.run([self.fabric.weft, "exec", "--ns", CLIENT, "--", *namespaces.preloaded(["ibsrpdm", "-c"])], capture_output=True, text=True,
                                  timeout=COMMAND_SECONDS, check=False, env=self.fabric.environment(), stdin=subprocess.DEVNULL)
            if done.stdout.startswith("id_ext="):
                said = dict(word.split("=") for word in done.stdout.split()[0].split(","))
                return f"ib_srp::::{said['dgid']}:{said['pkey']}:{said['service_id']}:0:{said['id_ext']}:{said['ioc_guid']}"
            time.sleep(0.1)
        raise AssertionError("ibsrpdm finds nothing")

    def tool(self, *command):
        return subprocess.run(command, capture_output=True, timeout=COMMAND_SECONDS, check=False)

    def check_disk(self, wanted):
        """The file system is clean, without a journal to play, and has these files."""
        partition = san_image.file_system(self.disk)
        done = self.tool("e2fsck", "-f", "-n", partition)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn(b"needs_recovery", self.tool("dumpe2fs", "-h", partition).stdout)
        for name, digest in wanted.items():
            octets = self.tool("debugfs", "-R", f"cat /data/{name}", partition).stdout
            self.assertEqual(hashlib.sha256(octets).hexdigest(), digest, name)

    def test_a_debian_kernel_boots_ends_and_boots_again_after_its_target_was_killed(self):
        with self.target() as target:
            path = self.root_path()
            self.boot_and_end(path)
            durable = self.boot_and_kill(path, target)
        # Killed means killed: the journal has what its file system lacks.
        self.assertIn(b"needs_recovery", self.tool("dumpe2fs", "-h", san_image.file_system(self.disk)).stdout)
        with self.target() as again, Machine(self.fabric, path) as machine:
            self.assertEqual(again.identifier, target.identifier)
            machine.log_in()
            self.assertIn("EXT4-fs (vda1): recovery complete", machine.text)
            for name, digest in durable.items():
                self.assertEqual(machine.run(f"sha256sum < /data/{name}"), (0, f"{digest}  -\n"))
            self.assertEqual(machine.power_off(), 0, machine.text[-3000:])
            self.assertEqual(again.stop()[0], 0)
            self.check_disk(durable)

    def boot_and_end(self, path):
        with Machine(self.fabric, path) as machine:
            machine.log_in()
            self.assertRegex(machine.text, r"Linux version 6\.\d+\.\d+-\d+-cloud-amd64 \(debian-kernel@lists\.debian\.org\)")
            code, mounts = machine.run("cat /proc/mounts")
            self.assertEqual(code, 0)
            self.assertRegex(mounts, r"(?m)^/dev/vda1 / ext4 rw")
            # The boot firmware table is among the ACPI tables, with the port by which the session goes (T-SRPI-5).
            code, octets = machine.run("od -A n -v -t x1 /sys/firmware/acpi/tables/sBFT | tr -d ' \\n'; echo")
            self.assertEqual(code, 0, octets)
            table = bytes.fromhex(octets.strip())
            part = int.from_bytes(table[40:42], "little")
            [gid] = [port["gid"] for port in self.fabric.ports() if port["node"] == CLIENT]
            self.assertEqual(ipaddress.IPv6Address(table[part:part + 16]), ipaddress.IPv6Address(gid))
            self.assertEqual(machine.run("dd if=/dev/urandom of=/data/first bs=64k count=40 2> /dev/null && sync")[0], 0)
            code, digest = machine.run("sha256sum < /data/first")
            self.assertEqual(code, 0)
            self.assertEqual(machine.power_off(), 0, machine.text[-3000:])
            self.assertIn("reboot: Power down", machine.text)
        self.check_disk({"first": digest.split()[0]})

    def boot_and_kill(self, path, target):
        """{name: digest} of what the machine had flushed when its target was killed for the second time, and the machine with it."""
        with Machine(self.fabric, path) as machine:
            machine.log_in()
            self.assertNotIn("recovery complete", machine.text, "the first end was not clean")
            self.assertEqual(machine.run("sha256sum < /data/first")[0], 0)
            machine.type("write-files")
            self.await_files(machine, DURABLE_FILES)
            target.kill()
            with self.target() as second:  # the machine has waited, and goes on
                self.await_files(machine, len(self.durable(machine)) + DURABLE_FILES)
                second.kill()
                known = len(self.durable(machine))
                time.sleep(STILL_SECONDS)
                still = self.durable(machine)
                self.assertLessEqual(len(still), known + 1, "files become durable without a target")
                self.assertIsNone(machine.child.poll(), machine.text[-3000:])
                machine.kill()
        return still

    @staticmethod
    def durable(machine):
        with machine.changed:
            return dict(DURABLE.findall(machine.text))

    def await_files(self, machine, count):
        deadline = time.monotonic() + BOOT_SECONDS
        while len(self.durable(machine)) < count:
            self.assertIsNone(machine.child.poll(), machine.text[-3000:])
            self.assertLess(time.monotonic(), deadline, f"no more files become durable: {machine.text[-3000:]}")
            time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--verbose", action="store_true")
    arguments, rest = parser.parse_known_args()
    weft_clients.need_programs("nbdkit", "ibsrpdm", "qemu-system-x86_64", "mke2fs", "debugfs", "e2fsck", "dumpe2fs", "apt-get", "dpkg-deb")
    start = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], verbosity=2 if arguments.verbose else 1, exit=False).result
    print(f"srp_boot: {time.monotonic() - start:.0f} s")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
