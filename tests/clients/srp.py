#!/usr/bin/env python3
"""`weft srp target` on a simulated host, and `weft srp attach` on another, whose disks nbdcopy, qemu-io and nbdinfo use as NBD.

    srp.py [--verbose]
"""
import argparse
import contextlib
import hashlib
import ipaddress
import json
import os
import pathlib
import queue
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import iscsi
import iscsi_attach
import fat_tree
import namespaces
import placement
import rc_capture
import srp_tables
import weft_clients

GUIDE = weft_clients.ROOT / "docs" / "guide" / "srp.md"
PORT = 5555
READY_SECONDS = 20               # policy
SECONDS = 60                     # policy: of one client
RECONNECT_SECONDS = 1            # policy of the initiator: between two logins
MORE_SECONDS = 5                 # policy: what a busy machine takes beyond what is promised
SERVER, CLIENT = "h1", "h2"
INITIATOR = "0x" + "00" * 15 + "77"
TOKEN = b"weft srp payload"      # all that the files of the file system hold, each block of it
ADD_TARGET = "/sys/class/infiniband_srp/srp-weft0-1/add_target"
LONGEST_UNIT = 1024              # policy of the initiator: a command with its descriptors, without data


class Target:
    """`weft srp target` on a host until the end of a with block; `before` is what runs it, as words of a command."""

    def __init__(self, fabric, *arguments, before=(), host=SERVER):
        self.fabric, self.host, self.address, self.arguments, self.before = fabric, host, weft_clients.address_of(host), arguments, before

    def __enter__(self):
        self.child = self.fabric.start(self.host, [*self.before, self.fabric.weft, "srp", "target", "--portal", f"{self.address}:{PORT}", *self.arguments])
        lines = [self.child.stdout.readline() for _ in range(2)]
        found = re.fullmatch(r"target 0x([0-9a-f]{32})\n", lines[0])
        if not found or lines[1] != f"listening on {self.address}:{PORT}\n":
            weft_clients.end(self.child)
            raise RuntimeError("no target: " + "".join(lines) + self.child.stdout.read())
        self.identifier = found.group(1)
        return self

    def stop(self):
        """(exit status, what it said) after SIGTERM; None as status when it had to be killed."""
        os.kill(self.child.pid, signal.SIGTERM)
        output, in_time = weft_clients.communicate(self.child, time.monotonic() + READY_SECONDS)
        return (self.child.returncode if in_time else None), output

    def kill(self):
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(READY_SECONDS)

    def __exit__(self, *_):
        if self.child.poll() is None:
            weft_clients.end(self.child)
        self.child.stdout.close()

    def url(self, lun=0):
        return f"srp://{self.address}:{PORT}/{self.identifier}/{lun}"


@contextlib.contextmanager
def storage_daemon(folder, nbd, size):
    """The path of a file that is the disk behind `nbd`, by FUSE, for the length of a with block. As root the mount is the daemon's own, which other
    tests of this machine do not see."""
    path = pathlib.Path(folder) / "fuse"
    path.touch()
    apart = ["unshare", "--mount"] if os.geteuid() == 0 else []
    child = subprocess.Popen([*apart, "qemu-storage-daemon", "--blockdev", f"driver=nbd,node-name=disk,server.type=unix,server.path={nbd.partition('socket=')[2]}",
                              "--export", f"type=fuse,id=file,node-name=disk,mountpoint={path},writable=on"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    seen = pathlib.Path(f"/proc/{child.pid}/root{path}")
    try:
        deadline = time.monotonic() + READY_SECONDS
        while seen.stat().st_size != size:
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("no file by FUSE: " + (child.stdout.read() if child.poll() is not None else "it does not appear"))
            time.sleep(0.02)
        yield str(seen)
    finally:
        weft_clients.end(child)
        child.stdout.close()


class Hosts(unittest.TestCase):
    """Two hosts, and what tests of both ends need there."""

    @classmethod
    def setUpClass(cls):
        cls.fabric = weft_clients.Fabric("pair", name=f"srp-{os.getpid()}")
        cls.fabric.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.fabric.__exit__()

    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="weft-srp-")
        self.addCleanup(place.cleanup)
        self.folder, self.units = place.name, []

    def attached(self, url, *arguments):
        unit = iscsi_attach.Attached(self.folder, url, *arguments, command=[self.fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "srp"])],
                                     environment=self.fabric.environment())
        self.units.append(unit)
        return unit

    def copy(self, source, destination):
        done = subprocess.run(["nbdcopy", "--flush", source, destination], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.units[-1].text())

    def good(self, attached, *commands):
        status, output = attached.qemu_io(*commands)
        self.assertEqual(status, 0, output)
        self.assertNotIn("verification failed", output)

    def until(self, holds, otherwise):
        deadline = time.monotonic() + READY_SECONDS
        while not holds():
            self.assertLess(time.monotonic(), deadline, otherwise)
            time.sleep(0.05)

    def start_load(self, attached, image, disk):
        """nbdcopy in small requests, some of which are in the file when this returns."""
        load = subprocess.Popen(["nbdcopy", "--flush", "--requests=4", "--request-size=4096", str(image), attached.nbd], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.until(lambda: disk.stat().st_blocks > 64, "nothing is written")
        self.assertIsNone(load.poll(), "the load has ended already")
        return load

    def asked(self, host, *arguments, ns=False):
        """(exit status, output, errors) of `weft srp status` on a host."""
        done = subprocess.run([self.fabric.weft, "exec", *(["--ns"] if ns else []), host, "--", *namespaces.preloaded([self.fabric.weft, "srp", "status", *arguments])],
                              capture_output=True, text=True, timeout=SECONDS, check=False, env=self.fabric.environment(), stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def status(self, host, ns=False):
        code, output, errors = self.asked(host, "--json", ns=ns)
        self.assertEqual(code, 0, output + errors)
        return json.loads(output)


class Srp(Hosts):
    def test_an_image_comes_back_and_is_in_the_file(self):
        disk = iscsi_attach.empty_disk(self.folder)
        image, back = iscsi_attach.random_image(self.folder), pathlib.Path(self.folder) / "back"
        with Target(self.fabric, "--lun", str(disk)) as target:
            with self.attached(target.url()) as attached:
                self.copy(str(image), attached.nbd)
                self.copy(attached.nbd, str(back))
            self.assertEqual(target.stop()[0], 0)
        self.assertEqual(back.read_bytes(), image.read_bytes())
        self.assertEqual(disk.read_bytes(), image.read_bytes())

    def test_small_and_large_requests_on_two_units_by_two_initiators(self):
        with Target(self.fabric, "--lun", "ram:16M", "--lun", "ram:8M,bs=4096") as target:
            with self.attached(target.url(0)) as first, self.attached(target.url(1)) as second:
                self.good(first, "write -P 0x11 0 512", "write -P 0x12 1M 4M", "write -P 0x13 512 16k", "flush")
                self.good(second, "write -P 0x21 0 4k", "write -z 4k 8k")
                self.good(first, "read -P 0x11 0 512", "read -P 0x12 1M 4M", "read -P 0x13 512 16k")
                self.good(second, "read -P 0x21 0 4k", "read -P 0 4k 8k")

    def test_a_unit_that_is_read_only_is_not_written(self):
        with Target(self.fabric, "--lun", "ram:1M,ro") as target, self.attached(target.url()) as attached:
            status, output = attached.qemu_io("write 0 4k")
            self.assertNotEqual(status, 0, output)

    def test_who_is_not_on_the_list_is_refused(self):
        with Target(self.fabric, "--lun", "ram:1M", "--allow", INITIATOR) as target:
            with self.assertRaisesRegex(RuntimeError, "refuses the login"):
                self.attached(target.url()).__enter__()
            with self.attached(target.url(), "--initiator", INITIATOR) as attached:
                self.good(attached, "read 0 4k")

    def test_an_address_may_be_on_the_list(self):
        with Target(self.fabric, "--lun", "ram:1M", "--allow", weft_clients.address_of(CLIENT)) as target, self.attached(target.url()) as attached:
            self.good(attached, "read 0 4k")

    def test_another_targets_name_is_refused(self):
        with Target(self.fabric, "--lun", "ram:1M", "--name", "5") as target:
            self.assertTrue(target.identifier.startswith("0000000000000005"))
            with self.assertRaisesRegex(RuntimeError, "refuses the login"):
                self.attached(target.url().replace(target.identifier, "6" * 32)).__enter__()

    def test_sighup_takes_a_name_off_the_list_and_ends_its_session(self):
        config = pathlib.Path(self.folder) / "srp.toml"
        text = f'[[target]]\nname = "1"\ninitiators = ["{INITIATOR}"]\n[[target.lun]]\nram = "1M"\n'
        config.write_text(text, encoding="utf-8")
        with Target(self.fabric, "--config", str(config)) as target:
            with self.attached(target.url(), "--initiator", INITIATOR, "--fast-fail", "2") as attached:
                self.good(attached, "read 0 4k")
                config.write_text(text.replace(INITIATOR, "0x01"), encoding="utf-8")
                os.kill(target.child.pid, signal.SIGHUP)
                self.assertIn("reloaded\n", target.child.stdout)  # reads until then: refused logins may be told before
                status, output = attached.qemu_io("read 0 4k")
                self.assertIsNotNone(status, "it waits for ever")
                self.assertIn("Input/output error", output)

    def test_a_target_killed_under_load_is_logged_in_to_when_it_comes_again(self):
        disk, image = iscsi_attach.empty_disk(self.folder), iscsi_attach.random_image(self.folder)
        with Target(self.fabric, "--lun", str(disk)) as target, self.attached(target.url()) as attached:
            load = self.start_load(attached, image, disk)
            target.kill()
            with Target(self.fabric, "--lun", str(disk)) as again:
                start = time.monotonic()
                self.until(lambda: self.status(SERVER)[0]["targets"][0]["sessions"], "nobody logs in")
                self.assertLess(time.monotonic() - start, RECONNECT_SECONDS + MORE_SECONDS)
                output, in_time = weft_clients.communicate(load, time.monotonic() + SECONDS)
                self.assertTrue(in_time, output)
                self.assertEqual(load.returncode, 0, output)
                self.assertEqual(disk.read_bytes(), image.read_bytes())
                self.assertEqual(again.stop()[0], 0)

    def test_a_target_killed_under_load_that_stays_away_gives_errors(self):
        disk, image = iscsi_attach.empty_disk(self.folder), iscsi_attach.random_image(self.folder)
        with Target(self.fabric, "--lun", str(disk)) as target, self.attached(target.url(), "--fast-fail", "2") as attached:
            load = self.start_load(attached, image, disk)
            target.kill()
            start = time.monotonic()
            output, in_time = weft_clients.communicate(load, start + SECONDS)
            self.assertTrue(in_time, "it waits for ever")
            self.assertIn("Input/output error", output)
            self.assertLess(time.monotonic() - start, 2 + MORE_SECONDS, "fast-fail is 2 s")

    def test_an_initiator_killed_under_load_leaves_nothing(self):
        disk, image = iscsi_attach.empty_disk(self.folder), iscsi_attach.random_image(self.folder)
        with Target(self.fabric, "--lun", str(disk)) as target:
            attached = self.attached(target.url()).__enter__()
            load = self.start_load(attached, image, disk)
            attached.child.kill()
            attached.child.wait(READY_SECONDS)
            attached.log.close()
            _, in_time = weft_clients.communicate(load, time.monotonic() + SECONDS)
            self.assertTrue(in_time, "nbdcopy waits for a server that is gone")
            self.until(lambda: not self.fabric.has_id(SERVER, PORT, "CONNECT"), "the connection of a killed initiator stays")
            with self.attached(target.url()) as another:
                self.copy(str(image), another.nbd)
            self.assertEqual(target.stop(), (0, ""))
        self.assertEqual(disk.read_bytes(), image.read_bytes())

    def test_a_link_that_is_cut_and_mended_is_a_new_login(self):
        disk, image = iscsi_attach.empty_disk(self.folder), iscsi_attach.random_image(self.folder)
        with Target(self.fabric, "--lun", str(disk)) as target, self.attached(target.url()) as attached:
            load = self.start_load(attached, image, disk)
            self.fabric.run("link", "down", SERVER)
            time.sleep(1)
            self.assertIsNone(load.poll(), "the load has ended without a link")
            self.fabric.run("link", "up", SERVER)
            output, in_time = weft_clients.communicate(load, time.monotonic() + SECONDS)
            self.assertTrue(in_time, "it waits for ever")
            self.assertEqual(load.returncode, 0, output)
            self.assertEqual(disk.read_bytes(), image.read_bytes())

    def test_a_target_that_sleeps_longer_than_the_timeout_answers_in_the_end(self):
        with Target(self.fabric, "--lun", "ram:4M") as target, self.attached(target.url(), "--timeout", "1") as attached:
            self.good(attached, "write -P 1 2M 64k")
            self.aborted(target, attached)

    def found(self, *command):
        """What one of srptools on the other host, as a machine of its own, lists of targets."""
        done = subprocess.run([self.fabric.weft, "exec", "--ns", CLIENT, "--", *namespaces.preloaded(command)], capture_output=True, text=True,
                              timeout=SECONDS, check=False, env=self.fabric.environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [line for line in done.stdout.splitlines() if line.startswith("id_ext=")]

    def test_a_port_of_another_agent_is_had_once_that_has_gone_and_the_port_is_active_anew(self):
        """Of a class a port has one agent: the second target logs that it is not found. After an event of the port it tries again."""
        with Target(self.fabric, "--lun", "ram:1M", "--name", "5"):
            later = self.fabric.start(SERVER, [self.fabric.weft, "srp", "target", "--portal", f"{weft_clients.address_of(SERVER)}:{PORT + 1}",
                                               "--lun", "ram:1M", "--name", "6"])
            self.addCleanup(lambda: (weft_clients.end(later), later.stdout.close()))
            said = ""
            while "listening on" not in said:
                line = later.stdout.readline()
                self.assertTrue(line, said)
                said += line
            self.assertIn("srp_daemon will not find targets here", said)
        self.until(lambda: not self.found("ibsrpdm", "-c"), "the first target is found")
        self.fabric.run("link", "down", SERVER)
        self.fabric.run("link", "up", SERVER)
        self.until(lambda: any(line.startswith("id_ext=0000000000000006,") for line in self.found("ibsrpdm", "-c")), "the second target is not found")

    def test_srptools_find_the_target_while_it_runs(self):
        with Target(self.fabric, "--lun", "ram:1M", "--name", "5") as target:
            guid = target.identifier[16:]
            expected = re.compile(f"id_ext=0000000000000005,ioc_guid={guid},dgid=fe80[0-9a-f]{{28}},pkey=ffff,service_id={0x13F0000 | PORT:016x}")
            self.until(lambda: self.found("ibsrpdm", "-c"), "ibsrpdm finds nothing")  # SA knows when the manager has looked
            for command in (("ibsrpdm", "-c"), ("srp_daemon", "-o", "-c")):
                listed = self.found(*command)
                self.assertEqual(len(listed), 1, listed)
                self.assertRegex(listed[0], expected)
            target.kill()
            self.until(lambda: not self.found("ibsrpdm", "-c"), "a killed target is found")

    def discover(self, *arguments):
        """What `weft srp discover` says on the other host."""
        done = subprocess.run([self.fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "srp", "discover", *arguments])],
                              capture_output=True, text=True, timeout=SECONDS, check=False, env=self.fabric.environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_discovery_reads_unit_controller_and_services_to_the_octet(self):
        """T-SRPT-1: by our tool, octet for octet as IBTA vol 1 16.3.3 has it, and beside ibsrpdm and srp_daemon."""
        config = pathlib.Path(self.folder) / "srp.toml"
        names = [1, 2, 3, 4, 5]
        config.write_text("".join(f'[[target]]\nname = "{name}"\n[[target.lun]]\nram = "1M"\n' for name in names), encoding="utf-8")
        child = self.fabric.start(SERVER, [self.fabric.weft, "srp", "target", "--portal", f"{weft_clients.address_of(SERVER)}:{PORT}", "--config", str(config)])
        self.addCleanup(lambda: (weft_clients.end(child), child.stdout.close()))
        said = ""
        while "listening on" not in said:
            line = child.stdout.readline()
            self.assertTrue(line, said)
            said += line
        self.until(lambda: self.discover("-c"), "nothing is found")
        [port] = json.loads(self.discover("--json"))
        guid = re.search(r"target 0x[0-9a-f]{16}([0-9a-f]{16})", said).group(1)
        self.assertIn(SERVER, port["node"])
        self.assertIn(port["lid"], [int(entry["lid"], 0) if isinstance(entry["lid"], str) else entry["lid"] for entry in self.fabric.ports() if entry["node"] == SERVER])
        service_id = 0x13F0000 | PORT
        read = {(entry["attribute"], entry["modifier"]): bytes.fromhex(entry["octets"]) for entry in port["attributes"]}
        self.assertEqual(set(read), {(0x10, 0), (0x11, 1), (0x12, 0x1_03_00), (0x12, 0x1_04_04)})
        self.assertEqual(read[0x10, 0], bytes([0, 1, 16, 0, 0x10]) + bytes(192 - 5))
        profile = read[0x11, 1]
        self.assertEqual(profile[:8].hex(), guid)
        vendor, device, version = struct.unpack(">IIH", profile[8:18])
        self.assertEqual((vendor, device, version), (port["controllers"][0]["vendor_id"], port["controllers"][0]["device_id"], port["controllers"][0]["device_version"]))
        self.assertNotEqual((vendor, device), (0, 0))
        expected = struct.pack(">IIH2xIIHHHHHHHxBIIBBB9x", vendor, device, version, vendor, 0, 0x0100, 0x609E, 0x0108, 1, 0, 0xFFFF, 128, 4, 8260, 1 << 20, 0x2B, 0, len(names))
        self.assertEqual(profile[8:].hex(), (expected + b"Weft SRP target".ljust(64, b"\0")).ljust(192 - 8, b"\0").hex())
        entries = b"".join(f"SRP.T10:{name:016x}".encode().ljust(40, b"\0") + service_id.to_bytes(8, "big") for name in names)
        self.assertEqual(read[0x12, 0x1_03_00] + read[0x12, 0x1_04_04], entries.ljust(2 * 192, b"\0"))
        lines = self.discover("-c").splitlines()
        self.assertEqual(len(lines), len(names))
        for command in (("ibsrpdm", "-c"), ("srp_daemon", "-o", "-c")):
            self.assertEqual(sorted(self.found(*command)), sorted(lines))
        self.assertEqual(port["targets"], lines)
        text = self.discover()
        for words in (f"controller {guid} in slot 1: Weft SRP target\n", "class 0x0100, subclass 0x609e, protocol 0x0108 version 1", *lines):
            self.assertIn(words, text)
        with self.attached(lines[4]) as attached:
            self.good(attached, "read 0 4k")
        # What Debian's tool reads of the same, in its own words; of the vendor it shows the upper 24 bits.
        done = subprocess.run([self.fabric.weft, "exec", "--ns", CLIENT, "--", *namespaces.preloaded(["ibsrpdm"])], capture_output=True, text=True,
                              timeout=SECONDS, check=False, env=self.fabric.environment(), stdin=subprocess.DEVNULL)
        for words in (guid, "Weft SRP target", f"vendor ID: {vendor >> 8:06x}", f"device ID: {device:06x}", f"service entries: {len(names)}", f"SRP.T10:{5:016x}"):
            self.assertIn(words, done.stdout)

    def test_discovery_waits_for_targets_by_notices_of_the_subnet_manager(self):
        watcher = subprocess.Popen([self.fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "srp", "discover", "--watch", "--interval", "3600"])],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.fabric.environment(), start_new_session=True)
        self.addCleanup(lambda: (weft_clients.end(watcher), watcher.stdout.close()))
        lines = queue.Queue()
        threading.Thread(target=lambda: [lines.put(line) for line in watcher.stdout], daemon=True).start()
        self.assertIn("waits for notices", lines.get(timeout=READY_SECONDS))
        with Target(self.fabric, "--lun", "ram:1M", "--name", "5") as target:
            self.assertRegex(lines.get(timeout=READY_SECONDS), rf"^\+ id_ext=0000000000000005,ioc_guid={target.identifier[16:]},dgid=fe80[0-9a-f]+,pkey=ffff,service_id=")
            target.kill()
            self.assertRegex(lines.get(timeout=READY_SECONDS), "^- id_ext=0000000000000005,")
        # Of a port one program has the reports; the next one asks at an interval.
        second = subprocess.Popen([self.fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "srp", "discover", "--watch", "--interval", "1"])],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.fabric.environment(), start_new_session=True)
        self.addCleanup(lambda: (weft_clients.end(second), second.stdout.close()))
        self.assertIn("asks every 1 s, since no notices are to be had", second.stdout.readline())
        with Target(self.fabric, "--lun", "ram:1M", "--name", "7"):
            self.assertRegex(second.stdout.readline(), r"^\+ id_ext=0000000000000007,")

    def test_the_line_that_ibsrpdm_prints_logs_in(self):
        """By its service ID, without RDMA-CM's header in the REQ, as by IB CM."""
        disk = iscsi_attach.empty_disk(self.folder)
        with Target(self.fabric, "--lun", "ram:1M", "--lun", str(disk)) as target:
            self.until(lambda: self.found("ibsrpdm", "-c"), "ibsrpdm finds nothing")
            [line] = self.found("ibsrpdm", "-c")
            with self.attached(line + ",lun=1") as attached:
                self.good(attached, "write -P 0x31 0 4k", "write -P 0x32 1M 1M", "flush", "read -P 0x31 0 4k", "read -P 0x32 1M 1M")
            self.assertEqual(disk.read_bytes()[:4096], b"\x31" * 4096)
            with self.assertRaisesRegex(RuntimeError, "refuses the login"):
                self.attached(line.replace("id_ext=0", "id_ext=7")).__enter__()
            with self.assertRaisesRegex(RuntimeError, "has a DGID"):
                self.attached(line.partition(",dgid")[0]).__enter__()
            self.assertEqual(target.stop()[0], 0)

    def inside(self, *command):
        """(exit status, output) on the other host as a machine of its own."""
        done = subprocess.run([self.fabric.weft, "exec", "--ns", CLIENT, "--", *namespaces.preloaded(command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=SECONDS, check=False, env=self.fabric.environment(), stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout

    @contextlib.contextmanager
    def initiator(self, sockets):
        """`weft srp initiator` on the other host, with the lines that it says."""
        child = subprocess.Popen([self.fabric.weft, "exec", "--ns", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "srp", "initiator", "--nbd", str(sockets)])],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.fabric.environment(),
                                 start_new_session=True)
        lines = queue.Queue()
        threading.Thread(target=lambda: [lines.put(line) for line in child.stdout], daemon=True).start()
        try:
            said = lines.get(timeout=READY_SECONDS)
            self.assertEqual(said, f"lines are taken by {ADD_TARGET}\n")
            yield child, lines
        finally:
            if child.poll() is None:
                weft_clients.end(child)

    def test_srp_daemon_logs_our_initiator_in(self):
        """What Debian's srp_daemon writes into add_target; and what a line that is wrong gets."""
        sockets, hosts = pathlib.Path(self.folder) / "sockets", "/sys/class/scsi_host"
        with Target(self.fabric, "--lun", "ram:4M", "--lun", "ram:2M,bs=4096", "--name", "5") as target, self.initiator(sockets) as (child, lines):
            self.until(lambda: self.found("ibsrpdm", "-c"), "ibsrpdm finds nothing")
            [line] = self.found("ibsrpdm", "-c")
            self.assertEqual(self.inside("cat", f"{os.path.dirname(ADD_TARGET)}/ibdev", f"{os.path.dirname(ADD_TARGET)}/port"), (0, "weft0\n1\n"))
            self.assertEqual(self.found("srp_daemon", "-o", "-c"), [line], "it is not connected")
            code, output = self.inside("srp_daemon", "-o", "-e", "-n")
            self.assertEqual(code, 0, output)
            for lun in (0, 1):
                nbd = f"nbd+unix:///?socket={sockets}/host0-lun{lun}.sock"
                status, output = iscsi.run("qemu-io", "-f", "raw", "-c", "write -P 9 0 64k", "-c", "flush", "-c", "read -P 9 0 64k", nbd, seconds=SECONDS)
                self.assertEqual(status, 0, output)
            # Both units are channels of one session, of the initiator that the line names.
            said = dict(word.split("=") for word in line.split(","))
            [session] = self.status(SERVER)[0]["targets"][0]["sessions"]
            self.assertEqual(len(session["channels"]), 2)
            self.assertEqual(session["initiator"][:18], f"0x{said['dgid'][16:]}", "srp_daemon -n takes the target's port for the extension")
            code, output = self.inside("sh", "-c", f"cd {hosts}/host0 && cat id_ext ioc_guid service_id pkey local_ib_device local_ib_port dgid")
            self.assertEqual(code, 0, output)
            gid = said["dgid"]
            self.assertEqual(output.split(), [*(f"0x{said[name]}" for name in ("id_ext", "ioc_guid", "service_id", "pkey")), "weft0", "1",
                                              ":".join(gid[at:at + 4] for at in range(0, 32, 4))])
            # It knows what is connected.
            self.assertEqual(self.found("srp_daemon", "-o", "-c"), [])
            self.assertEqual(len(self.found("srp_daemon", "-o", "-a", "-c")), 1)
            self.assertEqual(self.inside("srp_daemon", "-o", "-e", "-n")[0], 0)
            self.assertEqual(self.inside("ls", hosts)[1].split(), ["host0"])
            extension = f",initiator_ext={gid[16:]}"
            for wrong, reason in (("id_ext=5", "Invalid argument"), (line + ",retries=1", "Invalid argument"), (line + extension, "File exists"),
                                  (line.replace("id_ext=0", "id_ext=7"), "Connection reset by peer")):
                code, output = self.inside("bash", "-c", f"echo '{wrong}' > {ADD_TARGET}")
                self.assertNotEqual(code, 0)
                self.assertIn(reason, output, wrong)
            # Another initiator of the same host, by a line with another extension.
            code, output = self.inside("sh", "-c", f"echo '{line},initiator_ext=77' > {ADD_TARGET}")
            self.assertEqual(code, 0, output)
            self.assertEqual(self.inside("ls", hosts)[1].split(), ["host0", "host1"])
            self.assertEqual(len(self.status(SERVER)[0]["targets"][0]["sessions"]), 2)
            os.kill(child.pid, signal.SIGTERM)
            self.assertEqual(child.wait(READY_SECONDS), 0, list(lines.queue))
            self.assertEqual(self.inside("sh", "-c", f"ls {hosts}; ls /sys/class/infiniband_srp 2> /dev/null || echo none"), (0, "none\n"))
            self.until(lambda: not self.status(SERVER)[0]["targets"][0]["sessions"], "sessions stay")
            self.assertEqual(target.stop()[0], 0)

    def test_an_initiator_that_is_killed_leaves_no_session_and_another_begins_anew(self):
        sockets = pathlib.Path(self.folder) / "sockets"
        with Target(self.fabric, "--lun", "ram:4M", "--name", "5") as target:
            self.until(lambda: self.found("ibsrpdm", "-c"), "ibsrpdm finds nothing")
            with self.initiator(sockets) as (child, _):
                self.assertEqual(self.inside("srp_daemon", "-o", "-e")[0], 0)
                self.until(lambda: len(self.status(SERVER)[0]["targets"][0]["sessions"]) == 1, "nobody logs in")
                with self.assertRaisesRegex(AssertionError, "one initiator per host"), self.initiator(sockets):
                    pass
                os.kill(child.pid, signal.SIGKILL)
                child.wait(READY_SECONDS)
                self.until(lambda: not self.status(SERVER)[0]["targets"][0]["sessions"], "a session stays")
            with self.initiator(sockets):
                self.assertEqual(self.inside("srp_daemon", "-o", "-e")[0], 0)
                self.assertEqual(self.inside("ls", "/sys/class/scsi_host")[1].split(), ["host0"])
                # A unit whose process ends takes its host with it.
                [unit] = self.status(CLIENT, ns=True)
                os.kill(unit["pid"], signal.SIGTERM)
                self.until(lambda: not self.inside("ls", "/sys/class/scsi_host")[1], "the host stays")
            self.assertEqual(target.stop()[0], 0)

    def test_status_tells_sessions_disks_and_counters(self):
        disk = iscsi_attach.empty_disk(self.folder)
        with Target(self.fabric, "--lun", str(disk), "--lun", "ram:1M,ro", "--allow", INITIATOR) as target:
            [process] = self.status(SERVER)
            self.assertEqual((process["role"], process["portals"]), ("target", [f"{target.address}:{PORT}"]))
            [seen] = process["targets"]
            self.assertEqual(seen["ports"], [{"id": f"0x{target.identifier}", "device": "weft0"}])
            self.assertEqual([(unit["lun"], unit["disk"], unit["bytes"], unit["read_only"]) for unit in seen["units"]],
                             [(0, str(disk), disk.stat().st_size, False), (1, "ram", 1 << 20, True)])
            self.assertEqual((seen["sessions"], seen["logins"], seen["refusals"]), ([], 0, {}))
            with self.attached(target.url(), "--initiator", INITIATOR) as attached:
                before = self.status(SERVER)[0]["targets"][0]["counters"]
                self.good(attached, "write -P 1 0 256k", "write -P 2 1M 4k", "flush", "read -P 1 0 256k")
                [seen] = self.status(SERVER)[0]["targets"]
                [session] = seen["sessions"]
                self.assertEqual((session["initiator"], session["ip"]), (INITIATOR, weft_clients.address_of(CLIENT)))
                [channel] = session["channels"]
                self.assertEqual((channel["state"], channel["outstanding"], channel["waiting"]), ("LIVE", 0, 0))
                self.assertEqual(channel["credits"], channel["limit"])
                after = seen["counters"]
                self.assertEqual(after["written_bytes"] - before["written_bytes"], (256 + 4) << 10)
                self.assertGreaterEqual(after["writes"] - before["writes"], 2)
                self.assertGreaterEqual(after["read_bytes"] - before["read_bytes"], 256 << 10)
                [client] = self.status(CLIENT)
                self.assertEqual((client["role"], client["pid"], client["lun"]), ("attach", attached.child.pid, 0))
                [path] = client["paths"]
                self.assertEqual((path["target"], path["where"], path["initiator"]), (f"0x{target.identifier}", f"{target.address}:{PORT}", INITIATOR))
                self.assertEqual((path["state"], path["in_use"], path["logins"], path["losses"]), ("live", True, 1, 0))
                for host, words in ((SERVER, f"session of {INITIATOR} from {weft_clients.address_of(CLIENT)}"), (CLIENT, "live, in use")):
                    code, text, _ = self.asked(host)
                    self.assertEqual(code, 0, text)
                    self.assertIn(words, text)
            with self.assertRaisesRegex(RuntimeError, "refuses the login"):
                self.attached(target.url(), "--initiator", "0x78").__enter__()
            self.until(lambda: not self.status(SERVER)[0]["targets"][0]["sessions"], "a session that has ended is shown")
            [seen] = self.status(SERVER)[0]["targets"]
            self.assertEqual(seen["refusals"], {"RDMA channel limit reached": 1})
            self.assertGreaterEqual(seen["counters"]["writes"], after["writes"], "what ended channels did is forgotten")
            code, _, errors = self.asked(CLIENT)
            self.assertEqual(code, 1, errors)
            self.assertIn("no 'weft srp target' or 'weft srp attach' runs on this host", errors)

    def test_status_of_a_host_as_a_namespace_and_of_two_targets_that_are_killed(self):
        with contextlib.ExitStack() as all_of_them:
            children = []
            for port in (PORT, PORT + 1):
                child = subprocess.Popen([self.fabric.weft, "exec", "--ns", SERVER, "--", *namespaces.preloaded([self.fabric.weft, "srp", "target", "--portal", f"0.0.0.0:{port}",
                                                                                            "--lun", "ram:1M", "--name", str(port)])],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.fabric.environment(),
                                         start_new_session=True)
                children.append(child)
                all_of_them.callback(child.stdout.close)
                all_of_them.callback(weft_clients.end, child)
                said = ""
                while "listening on" not in said:
                    line = child.stdout.readline()
                    self.assertTrue(line, said)
                    said += line
            self.assertEqual(sorted(process["portals"] for process in self.status(SERVER, ns=True)), [[f"0.0.0.0:{PORT}"], [f"0.0.0.0:{PORT + 1}"]])
            done = subprocess.run([self.fabric.weft, "srp", "status", "--host", SERVER, "--name", self.fabric.name, "--json"], capture_output=True, text=True,
                                  timeout=SECONDS, check=False)
            self.assertEqual(len(json.loads(done.stdout)), 2, done.stderr)
            os.killpg(children[0].pid, signal.SIGKILL)
            self.until(lambda: [process["portals"] for process in self.status(SERVER, ns=True)] == [[f"0.0.0.0:{PORT + 1}"]], "a killed target is shown")

    def test_sessions_share_receive_buffers_where_the_target_may(self):
        for options, shared in (([], True), (["--no-srq"], False)):
            with self.subTest(options), contextlib.ExitStack() as ends, Target(self.fabric, "--lun", "ram:16M", *options) as target:
                units = [ends.enter_context(self.attached(target.url())) for _ in range(4)]
                for number, unit in enumerate(units):
                    self.good(unit, f"write -P {number + 1} {number}M 1M", f"write -P {number + 1} {8 + number}M 4k", "flush")
                for number, unit in enumerate(reversed(units)):
                    number = len(units) - 1 - number
                    self.good(unit, *(f"read -P {each + 1} {each}M 1M" for each in range(4)), f"read -P {number + 1} {8 + number}M 4k")
                [process] = self.status(SERVER)
                self.assertEqual(len(process["targets"][0]["sessions"]), len(units))
                if shared:
                    self.assertEqual((process["devices"][0]["srq"]["errors"], process["devices"][0]["srq"]["buffers"]), (0, 256), "buffers follow the number of sessions")
                    self.assertIn("shared receives: 256 buffers", self.asked(SERVER)[1])
                else:
                    self.assertIsNone(process["devices"][0]["srq"])
                units[0].child.kill()  # one that ends takes no buffer with it
                self.until(lambda: len(self.status(SERVER)[0]["targets"][0]["sessions"]) == len(units) - 1, "the session of a killed initiator stays")
                self.good(units[1], "read -P 1 0 1M")
                if shared:
                    self.until(lambda: self.status(SERVER)[0]["devices"][0]["srq"]["posted"] > 256 * 7 // 8 - 1, "a session that ended keeps buffers")
                ends.close()
                self.assertEqual(target.stop()[0], 0)

    def boot_disk(self):
        """A disk of 4 MiB with the boot sector and random octets after it."""
        boot = pathlib.Path(self.folder) / "boot"
        subprocess.run(["as", "--32", "-o", f"{boot}.o", str(weft_clients.ROOT / "tests" / "clients" / "boot_sector.s")], check=True, timeout=SECONDS)
        subprocess.run(["ld", "-m", "elf_i386", "-Ttext=0x7c00", "--oformat=binary", "-o", str(boot), f"{boot}.o"], check=True, timeout=SECONDS)
        self.assertEqual(boot.stat().st_size, 512)
        disk = iscsi_attach.random_image(self.folder, 4 << 20)
        with open(disk, "r+b") as file:
            file.write(boot.read_bytes())
        return disk

    def root_path(self, lun="1", source=""):
        """Of gPXE, made of what ibsrpdm says."""
        self.until(lambda: self.found("ibsrpdm", "-c"), "ibsrpdm finds nothing")
        said = dict(word.split("=") for word in self.found("ibsrpdm", "-c")[0].split(","))
        return f"ib_srp:{source}:77::{said['dgid']}:{said['pkey']}:{said['service_id']}:{lun}:{said['id_ext']}:{said['ioc_guid']}"

    def san_boot(self, *arguments):
        return subprocess.run([self.fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "san-boot", *arguments])], capture_output=True,
                              text=True, timeout=SECONDS, check=False, env=self.fabric.environment(), stdin=subprocess.DEVNULL)

    def test_a_boot_stub_loads_an_image_and_the_next_stage_goes_on_by_its_table(self):
        """T-SRPI-5."""
        disk, table = self.boot_disk(), pathlib.Path(self.folder) / "sbft"
        octets = disk.read_bytes()
        # Who may log in is the initiator of the root path only, so the second stage has to be the same one.
        with Target(self.fabric, "--lun", "ram:1M", "--lun", str(disk), "--allow", INITIATOR[:2] + "77".rjust(16, "0") + "0" * 16) as target:
            done = self.san_boot(self.root_path(), "--table", str(table))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"loaded 1048576 octets, sha256 {hashlib.sha256(octets[:1 << 20]).hexdigest()}\n", done.stdout)
            self.assertEqual(table.read_bytes()[:4], b"sBFT")
            [gid] = [port["gid"] for port in self.fabric.ports() if port["node"] == CLIENT]
            part = int.from_bytes(table.read_bytes()[40:42], "little")  # of InfiniBand, which begins with the SGID
            self.assertEqual(ipaddress.IPv6Address(table.read_bytes()[part:part + 16]), ipaddress.IPv6Address(gid))
            self.assertEqual(sum(table.read_bytes()) & 0xFF, 0)
            with self.assertRaisesRegex(RuntimeError, "refuses the login"):
                self.attached(self.root_path().replace(":77:", ":78:")).__enter__()
            back = pathlib.Path(self.folder) / "back"
            with self.attached(f"sbft:{table}") as attached:
                self.copy(attached.nbd, str(back))
            self.assertEqual(back.read_bytes(), octets)
            self.assertEqual(target.stop()[0], 0)

    def test_a_virtual_machine_boots_from_the_session_that_is_handed_over(self):
        disk = self.boot_disk()
        octets = disk.read_bytes()
        wanted = f"sum {sum(octets[512:512 + 64 * 512]) & 0xFFFF:04x}\n"
        with Target(self.fabric, "--lun", "ram:1M", "--lun", str(disk)) as target:
            path = self.root_path()
            done = self.san_boot(path, "--", "qemu-system-x86_64", "-machine", "accel=tcg", "-m", "32", "-display", "none", "-serial", "stdio",
                                 "-nodefaults", "-no-user-config", "-device", "isa-debug-exit,iobase=0xf4,iosize=1")
            self.assertEqual(done.returncode, 0x31 << 1 | 1, done.stdout + done.stderr)
            self.assertTrue(done.stdout.endswith(wanted), f"{wanted}: {done.stdout}{done.stderr}")
            self.until(lambda: not self.fabric.has_id(SERVER, PORT, "CONNECT"), "the session stays")
            # LUN 0 has no boot sector.
            self.assertIn("no boot sector", self.san_boot(self.root_path("0"), "--", "qemu-system-x86_64").stderr)
            self.assertEqual(target.stop()[0], 0)
        self.assertEqual(disk.read_bytes()[100 * 512:][:len(wanted)].decode("latin-1"), wanted)

    def test_root_paths_that_lead_nowhere_are_refused_in_words(self):
        with Target(self.fabric, "--lun", "ram:1M"):
            path = self.root_path("0")
            for wrong, reason in ((path.replace("ib_srp", "ib"), "does not begin"), ("ib_srp:", "has a DGID"), (path[:-1] + "9", "refuses the login"),
                                  (self.root_path("5"), "no such logical unit"), (self.root_path("0", "fe80" + "0" * 27 + "9"), "SGID")):
                done = self.san_boot(wrong)
                self.assertIn(done.returncode, (1, 2), done.stdout)
                self.assertIn(reason, done.stderr)

    def check_traffic(self, packets, immediate):
        """Only the target moves data (T-SRPI-1), and it has; immediate data go with the commands where they are wanted."""
        lids = {port["node"]: int(port["lid"], 0) if isinstance(port["lid"], str) else port["lid"] for port in self.fabric.ports()}
        target, initiator = lids[SERVER], lids[CLIENT]
        found = rc_capture.sums(packets)
        for kind in ("write", "read request"):
            self.assertNotIn((initiator, kind), found, found)
            self.assertIn((target, kind), found, found)
        sends = [packet.payload for packet in packets if packet.kind == "send" and packet.slid == initiator]
        self.assertTrue(sends)
        self.assertEqual(any(TOKEN in payload for payload in sends), immediate)
        if not immediate:
            self.assertLess(max(map(len, sends)), LONGEST_UNIT)
        for kind, whose in (("write", target), ("read response", initiator)):
            self.assertTrue(any(TOKEN in packet.payload for packet in packets if (packet.slid, packet.kind) == (whose, kind)), f"no data as a {kind}")

    def file_system(self, folder, attached, size):
        """mkfs, files written and read again, fsck, all on the disk that the export is, by e2fsprogs."""
        def run(*command, given=""):
            done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=SECONDS, check=False)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
            return done.stdout + done.stderr

        texts = {f"/folder/file{length}": (TOKEN * (length // len(TOKEN) + 1))[:length] for length in (1, 100, 4096, 5000, 70_000, 1_000_000, 3_000_000)}
        with storage_daemon(folder, attached.nbd, size) as disk:
            run("mke2fs", "-q", "-t", "ext4", "-F", disk)
            self.assertRegex(run("e2fsck", "-f", "-n", disk), r": 11/\d+ files")
            for name, octets in texts.items():
                (folder / pathlib.Path(name).name).write_bytes(octets)
            commands = ["mkdir /folder", "mkdir /empty", *(f"write {folder / pathlib.Path(name).name} {name}" for name in texts),
                        "rm /folder/file5000", "symlink /empty/to /folder/file1"]
            self.assertNotRegex(run("debugfs", "-w", "-f", "-", disk, given="\n".join(commands)), "(?i)error|not found|exists")
            run("e2fsck", "-f", "-n", disk)
        del texts["/folder/file5000"]
        with storage_daemon(folder, attached.nbd, size) as disk:  # a new one, without what the first has cached
            for name, octets in texts.items():
                back = folder / "back"
                back.unlink(missing_ok=True)
                run("debugfs", "-R", f"dump {name} {back}", disk)
                self.assertEqual(back.read_bytes(), octets, name)
            run("e2fsck", "-f", "-n", disk)
        return texts

    @unittest.skipUnless(os.access("/dev/fuse", os.R_OK | os.W_OK), "a file system's tools reach NBD by FUSE, and there is no /dev/fuse")
    def test_a_file_system_is_made_filled_and_checked_and_only_the_target_moves_its_data(self):
        """T-SRPI-1."""
        image, folder = iscsi_attach.empty_disk(self.folder, size=32 << 20), pathlib.Path(self.folder)
        with Target(self.fabric, "--lun", str(image)) as target:
            with fat_tree.Capture(self.fabric, (CLIENT, 1), self.folder) as capture, self.attached(target.url(), "--no-immediate-data") as attached:
                texts = self.file_system(folder, attached, image.stat().st_size)
            self.check_traffic(list(rc_capture.packets_of(capture.path)), immediate=False)
            self.assertEqual(target.stop()[0], 0)
        # What the target has in its file is that file system, without SRP between.
        self.assertEqual(subprocess.run(["e2fsck", "-f", "-n", str(image)], capture_output=True, timeout=SECONDS, check=False).returncode, 0)
        for name, octets in texts.items():
            done = subprocess.run(["debugfs", "-R", f"cat {name}", str(image)], capture_output=True, timeout=SECONDS, check=False)
            self.assertEqual(done.stdout, octets, name)

    def test_small_writes_go_with_their_commands_unless_that_is_not_wanted(self):
        """The same look at a capture as of the file system's finds data in SENDs where there are."""
        data = pathlib.Path(self.folder) / "data"
        data.write_bytes(TOKEN * 4096)
        for options, immediate in (([], True), (["--no-immediate-data"], False)):
            with self.subTest(options), Target(self.fabric, "--lun", "ram:1M") as target:
                capture = fat_tree.Capture(self.fabric, (CLIENT, 1), self.folder)
                capture.path.unlink(missing_ok=True)
                with capture, self.attached(target.url(), *options) as attached:
                    self.good(attached, f"write -s {data} 0 4k", f"write -s {data} 64k 64k", "read 0 128k")
                self.check_traffic(list(rc_capture.packets_of(capture.path)), immediate)

    def test_a_whole_conversation_is_right_by_the_tables_alone(self):
        """Login, reads, writes, an abort and logout, in both forms of the login; and a refusal. The judge reads Linux's captures alike (srp_tables_test.py)."""
        with Target(self.fabric, "--lun", "ram:16M", "--name", "5") as target:
            self.until(lambda: self.found("ibsrpdm", "-c"), "ibsrpdm finds nothing")
            [line] = self.found("ibsrpdm", "-c")
            for form, unit, options in (("RDMA-CM", target.url(), []), ("IB CM", line, []), ("no immediate data", target.url(), ["--no-immediate-data"])):
                with self.subTest(form):
                    with fat_tree.Capture(self.fabric, (CLIENT, 1), self.folder) as capture:
                        with self.attached(unit, "--timeout", "1", *options) as attached:
                            self.good(attached, "write -P 1 0 1M", "write -P 2 1M 4k", "flush", "read -P 1 0 1M", "read -P 2 1M 4k")
                            self.aborted(target, attached)
                        with self.assertRaisesRegex(RuntimeError, "refuses the login"):
                            self.attached(target.url().replace(target.identifier, "6" * 32)).__enter__()
                    sums, faults = srp_tables.judge([capture.path])
                    self.assertEqual(faults, [])
                    for what in ("login", "refusal", "read", "write", "marker", "abort", "logout", "end"):
                        self.assertGreater(sums[what], 0, f"{what}: {sums}")
                    self.assertEqual(sums["immediate"] > 0, not options, sums)

    def aborted(self, target, attached):
        """A write that a sleeping target does not answer in time, so that it is aborted; it is good in the end."""
        os.kill(target.child.pid, signal.SIGSTOP)
        writer = subprocess.Popen(["qemu-io", "-f", "raw", "-c", "write -P 3 2M 64k", attached.nbd], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(2.5)
        os.kill(target.child.pid, signal.SIGCONT)
        output, in_time = weft_clients.communicate(writer, time.monotonic() + SECONDS)
        self.assertTrue(in_time, "it waits for ever")
        self.assertEqual(writer.returncode, 0, output)
        self.good(attached, "read -P 3 2M 64k")

    @staticmethod
    def keys_of(path):
        """Of the memory that commands in a capture give to the target, in their order, those of each connection."""
        keys = {}
        for each in srp_tables.messages(path):
            if isinstance(each, srp_tables.Message) and each.kind == "send" and each.octets[0] == 0x02:
                buffers = srp_tables.decode_unit(each.octets)[1]["buffers"].values()
                keys.setdefault(each.qp, []).extend(piece[1] for _, pieces in buffers for piece in pieces)
        return keys

    def test_memory_has_a_new_key_for_each_command_where_the_device_registers_it(self):
        """R-SRPI-6: windows stand for fast registration where they are asked for; without it a buffer keeps its key."""
        commands = [f"{what} -P {number} 0 64k" for number in range(1, 21) for what in ("write", "read")]
        with Target(self.fabric, "--lun", "ram:1M") as target:
            for asked in (True, False):
                with self.subTest(asked):
                    with fat_tree.Capture(self.fabric, (CLIENT, 1), self.folder) as capture:
                        with iscsi_attach.Attached(self.folder, target.url(), command=[self.fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "srp"])],
                                                   environment=self.fabric.environment({"WEFT_FAST_REGISTRATION": "1"} if asked else {})) as attached:
                            self.good(attached, *commands)
                    self.assertEqual(srp_tables.judge([capture.path])[1], [])
                    # The first connection looks at the unit, the second one serves. Each begins with a key of its own choice.
                    connections = self.keys_of(capture.path)
                    keys = max(connections.values(), key=len)
                    self.assertGreaterEqual(len(keys), len(commands))
                    if asked:
                        for each in connections.values():
                            self.assertEqual(len(set(each)), len(each), [hex(key) for key in each])
                    else:
                        self.assertLess(len(set(keys)), len(commands) // 2)
            self.assertEqual(target.stop()[0], 0)

    def test_long_reads_are_placed_in_the_initiators_memory(self):
        """By the target's own hand, in pages that both map, though before the data of each stands the response of another as a SEND."""
        with Target(self.fabric, "--lun", "ram:64M") as target:
            child = self.fabric.start(CLIENT, [self.fabric.weft, "srp", "load", target.url(), "--json", "--bytes", str(1 << 20), "--depth", "4", "--sequential",
                                               "--seconds", str(MORE_SECONDS)])
            self.addCleanup(child.stdout.close)
            self.addCleanup(weft_clients.end, child)
            shown = []
            self.assertTrue(namespaces.eventually(lambda: placement.are_placed_in_pages(self.fabric, SERVER, shown), MORE_SECONDS), shown)
            found = json.loads(child.communicate(timeout=SECONDS)[0])
            self.assertEqual((found["failed"], found["lost"]), (0, 0), found)
            self.assertEqual(target.stop()[0], 0)

    def regions(self, host):
        """Lengths of the memory regions of a host's programs, in bytes."""
        shown = subprocess.run([self.fabric.weft, "exec", host, "--", "rdma", "-j", "res", "show", "mr"], capture_output=True, text=True, timeout=SECONDS, check=True,
                               env=self.fabric.environment(), stdin=subprocess.DEVNULL).stdout
        return [region["mrlen"] for region in json.loads(shown)]

    def test_the_heap_is_registered_beside_a_key_for_all_memory(self):
        """So that no use of it asks the kernel for its pages; under sanitizers, whose heap is their own, all stays under the one key."""
        with Target(self.fabric, "--lun", "ram:64M") as target:
            child = self.fabric.start(CLIENT, [self.fabric.weft, "srp", "load", target.url(), "--json", "--seconds", str(MORE_SECONDS)])
            self.addCleanup(child.stdout.close)
            self.addCleanup(weft_clients.end, child)
            for host, others in ((SERVER, 0), (CLIENT, 1)):  # a slab of buffers
                lengths = []

                def has_pieces():
                    lengths[:] = self.regions(host)
                    return sum(length < 1 << 30 for length in lengths) > others
                self.assertEqual(namespaces.eventually(has_pieces, MORE_SECONDS), "WEFT_CLIENT_PRELOAD" not in os.environ, lengths)
                self.assertGreater(max(lengths), 1 << 40, "a key reaches all memory")
            self.assertEqual(json.loads(child.communicate(timeout=SECONDS)[0])["failed"], 0)
            self.assertEqual(target.stop()[0], 0)

    def test_memory_is_registered_as_it_is_used_where_no_key_reaches_all_of_it(self):
        """As on devices without on-demand paging: both ends have a region for each megabyte of the heap that requests use, and few more."""
        disk = iscsi_attach.empty_disk(self.folder)
        image, back = iscsi_attach.random_image(self.folder), pathlib.Path(self.folder) / "back"
        asked = {"WEFT_REGISTER_ON_USE": "1"}
        with Target(self.fabric, "--lun", str(disk), before=("env", *(f"{name}={value}" for name, value in asked.items()))) as target:
            with iscsi_attach.Attached(self.folder, target.url(), command=[self.fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "srp"])],
                                       environment=self.fabric.environment(asked)) as attached:
                self.units.append(attached)
                self.copy(str(image), attached.nbd)
                self.copy(attached.nbd, str(back))
                for host in (SERVER, CLIENT):
                    lengths = self.regions(host)
                    self.assertGreater(len(lengths), 2, host)
                    self.assertLess(len(lengths), 300, host)
                    self.assertLessEqual(max(lengths), 64 << 20, host)  # nothing reaches all memory
            self.assertEqual(target.stop()[0], 0)
        self.assertEqual(back.read_bytes(), image.read_bytes())
        self.assertEqual(disk.read_bytes(), image.read_bytes())

    def test_a_command_that_comes_before_the_rtu_is_answered_before_it(self):
        """R-SRPT-3, R-SRPT-7: the QP's event says that the connection is there, and RDMA-CM is told."""
        self.addCleanup(self.fabric.run, "fault", "clear")
        with Target(self.fabric, "--lun", "ram:1M") as target, fat_tree.Capture(self.fabric, (SERVER, 1), self.folder) as capture:
            # MADs of the initiator's port, the RTU among them, arrive late, its SENDs do not. A capture shows when they leave.
            self.fabric.run("fault", "add", "reorder", "by=800ms", "opcode=ud-send-only", "qp=1", f"out={CLIENT}:1")
            with self.attached(target.url()) as attached:
                self.good(attached, "write -P 1 0 64k", "read -P 1 0 64k")
            self.fabric.run("fault", "clear")
            self.assertEqual(target.stop()[0], 0)
        said = [each for each in srp_tables.messages(capture.path) if isinstance(each, srp_tables.Message)]
        rtu = next(each for each in said if each.kind == "RTU")
        answer = next(each for each in said if each.kind == "send" and each.octets[0] == 0xC1)
        self.assertLess(answer.at - rtu.at, 0.6, "the command is answered once the RTU is there")

    def test_commands_whose_rtu_is_lost_are_executed_in_their_order(self):
        """T-SRPT-5: no RTU comes, so that the QP's event alone says that the connection is there."""
        self.addCleanup(self.fabric.run, "fault", "clear")
        with Target(self.fabric, "--lun", "ram:1M") as target:
            with self.attached(target.url()):
                pass  # which asks for the path
            # It logs in once to ask for the size: REQ, RTU and DREQ; then REQ, and the RTU that is lost.
            self.fabric.run("fault", "add", "drop", "after=4", "count=1", "opcode=ud-send-only", "qp=1", f"out={CLIENT}:1")
            with fat_tree.Capture(self.fabric, (SERVER, 1), self.folder) as capture, self.attached(target.url()) as attached:
                self.good(attached, *(f"aio_write -P {number} {number * 4}k 4k" for number in range(1, 9)), "aio_flush",
                          *(f"read -P {number} {number * 4}k 4k" for number in range(1, 9)))
                [rule] = json.loads(self.fabric.run("fault", "list", "--json"))
                self.fabric.run("fault", "clear")
            self.assertEqual(target.stop()[0], 0)
        self.assertEqual(rule["hit"], 1)
        said = [each for each in srp_tables.messages(capture.path) if isinstance(each, srp_tables.Message)]
        kinds = [each.kind for each in said]
        self.assertEqual((kinds.count("REP"), kinds.count("RTU")), (2, 1), "only the first login's RTU has come")
        commands, answers = ([each.octets[8:16] for each in said if each.kind == "send" and each.octets[0] == opcode] for opcode in (0x02, 0xC1))
        self.assertGreater(len(commands), 16)
        self.assertEqual(answers, commands, "tags, in the order of the commands")

    def test_device_management_is_right_by_the_tables_alone(self):
        with Target(self.fabric, "--lun", "ram:1M", "--name", "5"):
            self.until(lambda: self.found("ibsrpdm", "-c"), "ibsrpdm finds nothing")
            with fat_tree.Capture(self.fabric, (CLIENT, 1), self.folder) as capture:
                self.found("ibsrpdm", "-c")
            found, faults = srp_tables.judge_management(capture.path)
            self.assertEqual(faults, [])
            self.assertEqual({attribute for attribute, _ in found}, set(srp_tables.DM_ATTRIBUTES))
            [profile] = [fields for (attribute, _), fields in found.items() if attribute == 0x11]
            self.assertEqual((profile["class"], profile["subclass"], profile["protocol"], profile["protocol version"], profile["services"]), (0x0100, 0x609E, 0x0108, 1, 1))
            self.assertEqual(profile["operations"] & 0x2B, 0x2B)

    def test_wrong_options_are_refused_with_what_would_do(self):
        for arguments, status, reason in ((["target"], 2, "no target: give --lun"), (["target", "--lun", "ram:1M", "--allow", "somebody"], 2, "somebody"),
                                          (["target", "--lun", "ram:1M", "--name", "iqn.x"], 2, "identifier extension"),
                                          (["attach", "iser://h/1/0", "--nbd", "s"], 2, "srp://HOST"),
                                          (["target", "--lun", "ram:1M", "--device", "none0", "--no-wait"], 1, "no RDMA device|cannot be loaded|ibv_get_device_list")):
            done = subprocess.run([self.fabric.weft, "srp", *arguments], capture_output=True, text=True, timeout=SECONDS, check=False, cwd=self.folder)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr, reason)

    def test_the_commands_of_the_guide_work(self):
        """Its script is one shell session, in an empty folder."""
        script = re.search(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL).group(1)
        shell = pathlib.Path(self.folder) / "weft"
        shell.write_text(f'#!/bin/sh\nexec {shlex.quote(weft_clients.weft_command())} "$@"\n', encoding="utf-8")
        shell.chmod(0o755)
        done = subprocess.run(["bash", "-e", "-c", script], cwd=self.folder, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "WEFT_FABRIC": f"guide-{os.getpid()}"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("export-size: 67108864", done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--verbose", action="store_true")
    arguments, rest = parser.parse_known_args()
    weft_clients.need_programs("nbdkit", "nbdcopy", "nbdinfo", "qemu-io", "ibsrpdm", "srp_daemon", "qemu-storage-daemon", "qemu-system-x86_64", "as", "ld", "mke2fs", "debugfs", "e2fsck")
    start = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], verbosity=2 if arguments.verbose else 1, exit=False).result
    print(f"srp: {time.monotonic() - start:.0f} s")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
