#!/usr/bin/env python3
"""`weft iscsi attach` and `weft iscsi discover`: logical units of Weft's own target and of Debian's tgt as NBD, which nbdcopy, nbdinfo and
qemu-io use. Nothing here needs a fabric, a daemon or root.

    iscsi_attach.py [--verbose]
"""
import argparse
import json
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import iscsi
import iscsi_proxy
import plain_iscsi
import weft_clients

GUIDE = weft_clients.ROOT / "docs" / "guide" / "iscsi-attach.md"
READY_SECONDS = 20               # policy
SECONDS = 60                     # policy: of one client
FAST_FAIL_SECONDS = 3            # policy: of the tests of lost targets
CONNECTIONS = 3                  # policy: of a session that has several
CUT_SECONDS = 0.4                # policy: between two connections that are cut off
BLOCK_BYTES = 512
WRITE_16, READ_16 = 0x8A, 0x88
CHECKED, UNCHECKED = 1, 3        # RDPROTECT, WRPROTECT (SBC-3 Tables 78, 112)
DISK_BYTES = 16 << 20            # policy
TGT_NAME = "iqn.2026-01.org.weft:tgt"


def is_listening(path):
    """A socket has its name before it takes connections, which is flag 10000 (proc_pid_net(5))."""
    rows = [line.split() for line in pathlib.Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()[1:]]
    return any(row[-1] == str(path) and row[3] == "00010000" for row in rows)


class Attached:
    """`weft iscsi attach` until the end of a with block; `command` is what comes before "attach", `environment` more variables."""

    def __init__(self, folder, url, *arguments, command=None, environment=None):
        self.socket, self.url, self.arguments = pathlib.Path(folder) / f"nbd-{time.monotonic_ns()}", url, arguments
        self.command, self.environment = command or [weft_clients.weft_command(), "iscsi"], {**os.environ, **(environment or {})}

    def __enter__(self):
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.child = subprocess.Popen([*self.command, "attach", self.url, "--nbd", str(self.socket), *self.arguments],
                                      stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, env=self.environment)
        deadline = time.monotonic() + READY_SECONDS
        while not is_listening(self.socket):
            if self.child.poll() is not None or time.monotonic() > deadline:
                text = self.text()
                self.__exit__()
                raise RuntimeError(f"not attached: {text}")
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(timeout=READY_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise
        finally:
            self.log.close()

    def text(self):
        self.log.seek(0)
        return self.log.read()

    @property
    def nbd(self):
        return f"nbd+unix:///?socket={self.socket}"

    def qemu_io(self, *commands):
        return iscsi.run("qemu-io", "-f", "raw", *(word for command in commands for word in ("-c", command)), self.nbd, seconds=SECONDS)


class Tgt:
    """Debian's tgtd with one disk, LUN 1, on a port that is free; accounts are pairs of (name, secret)."""

    def __init__(self, folder, disk, incoming=None, outgoing=None):
        self.folder, self.disk, self.incoming, self.outgoing = pathlib.Path(folder), disk, incoming, outgoing
        self.port = weft_clients.Ports().take()

    def __enter__(self):
        self.environment = {**os.environ, "TGT_IPC_SOCKET": str(self.folder / "control")}
        self.log = open(self.folder / "tgtd.log", "w+", encoding="utf-8", errors="replace")
        self.child = subprocess.Popen(["tgtd", "-f", "-C", "0", "--iscsi", f"portal=127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL, stdout=self.log,
                                      stderr=subprocess.STDOUT, start_new_session=True, env=self.environment)
        try:
            deadline = time.monotonic() + READY_SECONDS
            while not ((self.folder / "control.0").exists() and weft_clients.somebody_listens(self.port)):
                if self.child.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"tgtd does not listen: {(self.folder / 'tgtd.log').read_text(errors='replace')}")
                time.sleep(0.05)
            self.control("target", "new", "--targetname", TGT_NAME)
            self.control("target", "bind", "--initiator-address", "ALL")
            self.control("logicalunit", "new", "--lun", "1", "--backing-store", str(self.disk))
            for account, outgoing in ((self.incoming, False), (self.outgoing, True)):
                if account:
                    subprocess.run(["tgtadm", "--lld", "iscsi", "--mode", "account", "--op", "new", "--user", account[0], "--password", account[1]], check=True,
                                   capture_output=True, timeout=READY_SECONDS, env=self.environment)
                    self.control("account", "bind", "--user", account[0], *(["--outgoing"] if outgoing else []))
        except BaseException:
            self.__exit__()
            raise
        return self

    def control(self, mode, operation, *more):
        subprocess.run(["tgtadm", "--lld", "iscsi", "--mode", mode, "--op", operation, "--tid", "1", *more], check=True, capture_output=True,
                       timeout=READY_SECONDS, env=self.environment)

    def __exit__(self, *_):
        weft_clients.end(self.child)
        self.log.close()

    @property
    def url(self):
        return f"iscsi://127.0.0.1:{self.port}/{TGT_NAME}/1"


def empty_disk(folder, name="disk.img", size=DISK_BYTES):
    path = pathlib.Path(folder) / name
    path.touch()
    os.truncate(path, size)
    return path


def random_image(folder, size=DISK_BYTES):
    path = pathlib.Path(folder) / "image"
    path.write_bytes(random.Random(7).randbytes(size))
    return path


class Attach(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="weft-attach-")
        self.folder = self.place.name
        self.addCleanup(self.place.cleanup)

    def copies(self, url, disk):
        """nbdcopy writes an image and reads it back; it is in the disk's file, too."""
        image, back = random_image(self.folder), pathlib.Path(self.folder) / "back"
        with Attached(self.folder, url) as attached:
            for source, destination in ((str(image), attached.nbd), (attached.nbd, str(back))):
                status, output = iscsi.run("nbdcopy", "--flush", source, destination, seconds=SECONDS)
                self.assertEqual(status, 0, output)
        self.assertEqual(back.read_bytes(), image.read_bytes())
        self.assertEqual(disk.read_bytes(), image.read_bytes())

    def test_an_image_is_copied_to_our_target_and_back(self):
        disk = empty_disk(self.folder)
        with iscsi.Target("--lun", str(disk)) as target:
            self.copies(target.url(), disk)

    def test_an_image_is_copied_to_tgt_and_back(self):
        disk = empty_disk(self.folder)
        with Tgt(self.folder, disk) as target:
            self.copies(target.url, disk)

    def test_each_lun_is_a_disk_with_its_size_and_blocks(self):
        with iscsi.Target("--lun", "ram:1M", "--lun", "ram:8M,bs=4096", "--lun", "ram:2M,ro") as target:
            for lun, size in ((0, 1 << 20), (1, 8 << 20), (2, 2 << 20)):
                with Attached(self.folder, target.url(lun)) as attached:
                    status, output = iscsi.run("nbdinfo", attached.nbd)
                    self.assertEqual(status, 0, output)
                    self.assertIn(f"export-size: {size} ", output)
                    self.assertIn(f"is_read_only: {'true' if lun == 2 else 'false'}", output)
                    for ability in ("fua", "trim", "zero"):
                        self.assertIn(f"can_{ability}: {'false' if lun == 2 else 'true'}", output)

    def test_what_fits_no_block_is_read_and_written_all_the_same(self):
        with iscsi.Target("--lun", "ram:1M,bs=4096") as target, Attached(self.folder, target.url()) as attached:
            status, output = attached.qemu_io("write -P 5 0 64k", "write -P 7 1000 5000", "read -P 5 0 1000", "read -P 7 1000 5000", "read -P 5 6000 2192")
            self.assertEqual(status, 0, output)
            self.assertNotIn("verification failed", output)

    def test_zeroes_and_discards_reach_the_disk(self):
        disk = empty_disk(self.folder)
        disk.write_bytes(b"\x5a" * DISK_BYTES)
        with iscsi.Target("--lun", str(disk)) as target, Attached(self.folder, target.url()) as attached:
            before = disk.stat().st_blocks
            status, output = attached.qemu_io("write -z 1M 1M", "read -P 0 1M 1M", "read -P 0x5a 2M 1M", "discard 4M 8M", "read -P 0 4M 8M", "flush")
            self.assertEqual(status, 0, output)
            self.assertNotIn("verification failed", output)
            self.assertLess(disk.stat().st_blocks, before)

    def test_discovery_lists_what_tgt_and_we_have(self):
        with iscsi.Target("--lun", "ram:1M") as target:
            status, output = iscsi.run(weft_clients.weft_command(), "iscsi", "discover", f"127.0.0.1:{target.ports[0]}")
            self.assertEqual((status, output), (0, f"{iscsi.NAME}\n  127.0.0.1:{target.ports[0]},1\n"))
        with Tgt(self.folder, empty_disk(self.folder)) as target:
            status, output = iscsi.run(weft_clients.weft_command(), "iscsi", "discover", f"127.0.0.1:{target.port}")
            self.assertEqual((status, output), (0, f"{TGT_NAME}\n  127.0.0.1:{target.port},1\n"))

    def secrets(self, text, mode=0o600):
        path = pathlib.Path(self.folder) / f"secrets-{time.monotonic_ns()}"
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return str(path)

    def refused(self, url, *arguments):
        """What `weft iscsi attach` says when it cannot."""
        status, output = iscsi.run(weft_clients.weft_command(), "iscsi", "attach", url, "--nbd", str(pathlib.Path(self.folder) / "none"), *arguments)
        self.assertIn(status, (1, 2), output)
        self.assertFalse((pathlib.Path(self.folder) / "none").exists())
        return output

    def test_chap_one_way_and_mutual_at_our_target_and_at_tgt(self):
        ours, theirs = ("h1", "secret-of-h1-0"), ("disks", "secret-of-disks-0")
        accepted = self.secrets("peer h1 secret-of-h1-0\nown disks secret-of-disks-0\n")
        one_way, mutual = self.secrets("own h1 secret-of-h1-0\n"), self.secrets("own h1 secret-of-h1-0\npeer disks secret-of-disks-0\n")
        wrong, impostor = self.secrets("own h1 another-secret-0\n"), self.secrets("own h1 secret-of-h1-0\npeer disks another-secret-0\n")
        with iscsi.Target("--lun", "ram:1M", "--chap-file", accepted) as our, Tgt(self.folder, empty_disk(self.folder), ours, theirs) as tgt:
            for url in (our.url(), tgt.url):
                for good in (one_way, mutual):
                    for algorithm in ("md5",) if url == tgt.url else ("md5", "sha3-256"):
                        with Attached(self.folder, url, "--chap-file", good, "--chap-algorithm", algorithm) as attached:
                            self.assertEqual(attached.qemu_io("read 0 64k")[0], 0)
                for bad in (["--chap-file", wrong], ["--chap-file", impostor], []):
                    output = self.refused(url, *bad)
                    self.assertNotRegex(output, "(another|secret)-(secret|of)")

    def test_wrong_usage_says_what_would_work(self):
        self.assertIn("iscsi://HOST[:PORT]/IQN/LUN", self.refused("disk.img"))
        self.assertIn("chmod 600", self.refused(f"iscsi://127.0.0.1:1/{iscsi.NAME}/0", "--chap-file", self.secrets("own h1 secret-of-h1-0\n", 0o644)))
        self.assertIn("Connection refused", self.refused(f"iscsi://127.0.0.1:1/{iscsi.NAME}/0"))
        with iscsi.Target("--lun", "ram:1M") as target:
            self.assertIn("there is no such logical unit", self.refused(target.url(5)))
            self.assertIn("there is no target", self.refused(target.url().replace("disks", "others")))

    def test_a_target_that_comes_again_is_used_again(self):
        disk = empty_disk(self.folder)
        with iscsi.Target("--lun", str(disk)) as target:
            port = target.ports[0]
            with Attached(self.folder, target.url()) as attached:
                self.assertEqual(attached.qemu_io("write -P 1 0 1M", "flush")[0], 0)
                target.child.send_signal(signal.SIGKILL)
                target.child.wait(READY_SECONDS)
                reader = subprocess.Popen(["qemu-io", "-f", "raw", "-c", "read -P 1 0 1M", attached.nbd], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True)
                time.sleep(0.5)
                self.assertIsNone(reader.poll())
                again = subprocess.Popen([weft_clients.weft_command(), "iscsi", "target", "--portal", f"127.0.0.1:{port}", "--target", iscsi.NAME,
                                          "--lun", str(disk)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                try:
                    output, in_time = weft_clients.communicate(reader, time.monotonic() + SECONDS)
                    self.assertTrue(in_time, output)
                    self.assertEqual(reader.returncode, 0, output)
                    self.assertNotIn("verification failed", output)
                finally:
                    again.terminate()
                    again.wait(READY_SECONDS)

    def test_a_target_that_stays_away_gives_errors_in_time(self):
        with iscsi.Target("--lun", "ram:1M") as target, Attached(self.folder, target.url(), "--fast-fail", str(FAST_FAIL_SECONDS)) as attached:
            self.assertEqual(attached.qemu_io("read 0 64k")[0], 0)
            target.child.send_signal(signal.SIGKILL)
            target.child.wait(READY_SECONDS)
            status, output = attached.qemu_io("read 0 64k")
            self.assertIsNotNone(status, "it waits for ever")
            self.assertIn("Input/output error", output)

    def test_a_killed_initiator_leaves_the_target_to_others(self):
        with iscsi.Target("--lun", "ram:1M") as target:
            with Attached(self.folder, target.url()) as attached:
                self.assertEqual(attached.qemu_io("write -P 9 0 64k")[0], 0)
                attached.child.send_signal(signal.SIGKILL)
                attached.child.wait(READY_SECONDS)
            with Attached(self.folder, target.url()) as attached:
                status, output = attached.qemu_io("read -P 9 0 64k")
                self.assertEqual(status, 0, output)
                self.assertNotIn("verification failed", output)

    def copies_through(self, proxy, trouble, *arguments):
        """nbdcopy writes an image and reads it back over a way that breaks meanwhile; TSIHs of the logins that there were."""
        disk, image, back = empty_disk(self.folder), random_image(self.folder), pathlib.Path(self.folder) / "back"
        with iscsi.Target("--lun", str(disk)) as target, proxy(target.ports[0]) as way:
            with Attached(self.folder, f"iscsi://{way.address}/{iscsi.NAME}/0", *arguments) as attached:
                self.assertEqual(attached.qemu_io("read 0 4k")[0], 0)  # a first login that is cut off ends it
                for source, destination in ((str(image), attached.nbd), (attached.nbd, str(back))):
                    child = subprocess.Popen(["nbdcopy", "--request-size=65536", "--flush", source, destination], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=subprocess.STDOUT, text=True)
                    while child.poll() is None:
                        trouble(way)
                        time.sleep(0.05)
                    output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
                    self.assertTrue(in_time and child.returncode == 0, output)
        self.assertEqual(back.read_bytes(), image.read_bytes())
        self.assertEqual(disk.read_bytes(), image.read_bytes())
        return way.sessions

    def test_connections_that_are_cut_off_leave_the_session_with_its_commands(self):
        """Error recovery level 2 over several connections (RFC 7143 §7.1.4.3): all logins but the first are into the same session."""
        cut_at, cuts = time.monotonic(), 0

        def cut(way):
            nonlocal cut_at, cuts
            if time.monotonic() > cut_at + CUT_SECONDS and way.connections() > 1:
                cut_at, cuts = time.monotonic(), cuts + way.cut()
        # Slow enough that there is something to be cut off.
        sessions = self.copies_through(lambda port: iscsi_proxy.Proxy(port, bytes_a_second=8 << 20), cut, "--connections", str(CONNECTIONS), "--recovery-level", "2")
        # The command that looks at the disk first has a session of its own.
        self.assertEqual(sessions.count(0), 2, sessions)
        self.assertGreater(cuts, 2)
        self.assertGreaterEqual(len(sessions), 2 * CONNECTIONS + 1)

    def test_a_connection_that_is_cut_off_alone_is_made_again_for_the_same_session(self):
        cut_at, cuts = time.monotonic(), 0

        def cut(way):
            nonlocal cut_at, cuts
            if cuts < 2 and time.monotonic() > cut_at + CUT_SECONDS and way.connections():
                cut_at, cuts = time.monotonic(), cuts + way.cut()
        sessions = self.copies_through(lambda port: iscsi_proxy.Proxy(port, bytes_a_second=8 << 20), cut, "--recovery-level", "2")
        self.assertEqual(sessions.count(0), 2, sessions)
        self.assertEqual(len(sessions), 2 + cuts, sessions)

    def test_octets_that_are_damaged_are_sent_again(self):
        """Digests, and level 2: damaged data is asked for again, a damaged header takes its connection alone (RFC 7143 §7.7, §7.8)."""
        damaged = 0

        def damage(way):
            nonlocal damaged
            if not way.damages and damaged < 12:
                way.damages, damaged = 1, damaged + 1
        sessions = self.copies_through(lambda port: iscsi_proxy.Proxy(port, bytes_a_second=16 << 20), damage, "--connections", "2", "--recovery-level", "2",
                                       "--digests")
        self.assertEqual(sessions.count(0), 2, sessions)
        self.assertGreater(damaged, 4)

    def protected(self, kind, *arguments):
        return iscsi.Target("--lun", f"ram:1M,pi={kind}", *arguments)

    def test_protection_information_goes_with_the_data(self):
        """T10-PI of each type: what is written has its tuples on the medium, and comes back; a disk that is damaged gives an error."""
        for kind in (1, 2, 3):
            with self.protected(kind) as target, Attached(self.folder, target.url(), "--application-tag", "4660") as attached:
                status, output = attached.qemu_io("write -P 0x5a 4k 256k", "write -P 0xa5 300k 512", "read -P 0x5a 4k 256k", "read -P 0xa5 300k 512")
                self.assertEqual(status, 0, output)
                self.assertNotIn("verification failed", output)
                if kind == 2:  # whose CDBs of 16 octets transfer no tuples
                    continue
                with plain_iscsi.Connection(target.ports[0], iscsi.NAME).login() as plain:
                    plain.command(bytes(6))  # the unit attention of a new nexus
                    status, _, data = plain.command(plain_iscsi.block_cdb(READ_16, UNCHECKED, 8, 1), expected=BLOCK_BYTES + 8)
                    self.assertEqual((status, data[:BLOCK_BYTES]), (0, b"\x5a" * BLOCK_BYTES))
                    self.assertEqual(data[BLOCK_BYTES:], plain_iscsi.tuple_of(data[:BLOCK_BYTES], 4660, 8 if kind == 1 else 0xFFFFFFFF))
                    wrong = bytearray(data)
                    wrong[BLOCK_BYTES + 2] ^= 1  # the application tag, which the disk does not know
                    self.assertEqual(plain.command(plain_iscsi.block_cdb(WRITE_16, UNCHECKED, 8, 1), bytes(wrong))[0], 0)
                self.assertIn("Input/output error", attached.qemu_io("read 4k 4k")[1])
                self.assertNotIn("error", attached.qemu_io("read 8k 4k")[1])

    def test_protection_information_can_be_left_to_the_disk(self):
        with self.protected(1) as target, Attached(self.folder, target.url(), "--no-protection") as attached:
            status, output = attached.qemu_io("write -P 0x5a 4k 64k", "read -P 0x5a 4k 64k")
            self.assertEqual(status, 0, output)
            self.assertNotIn("verification failed", output)

    def load(self, url, *options):
        status, output = iscsi.run(weft_clients.weft_command(), "iscsi", "load", url, "--json", "--seconds", "1", *options, seconds=SECONDS)
        self.assertEqual(status, 0, output)
        return json.loads(output)

    def test_a_unit_is_read_and_written_by_several_sessions_at_once(self):
        with tempfile.TemporaryDirectory() as folder, iscsi.Target("--lun", "ram:16M") as target, Tgt(folder, empty_disk(folder)) as tgt:
            for url in (target.url(), tgt.url):
                found = self.load(url, "--sessions", "3", "--depth", "8", "--bytes", "8192", "--write")
                self.assertEqual({name: found[name] for name in ("sessions", "refused", "lost", "failed")},
                                 {"sessions": 3, "refused": 0, "lost": 0, "failed": 0})
                self.assertGreater(found["commands"], 0)
                self.assertGreaterEqual(found["percentile_99_us"], found["median_us"])
                self.assertGreaterEqual(found["seconds"], 1)
            self.assertGreater(self.load(target.url(), "--digests")["commands"], 0)

    def test_a_load_tells_what_has_failed(self):
        command = [weft_clients.weft_command(), "iscsi", "load"]
        with iscsi.Target("--lun", "ram:64K") as target:
            for url, options, wanted, reason in ((target.url(), ("--bytes", "131072"), 1, "commands of 131072 octets"), (target.url(3), (), 1, "no such logical unit"),
                                                 (f"iser://127.0.0.1/{iscsi.NAME}/0", (), 2, "'weft iser load'")):
                status, output = iscsi.run(*command, url, *options, seconds=SECONDS)
                self.assertEqual(status, wanted, output)
                self.assertIn(reason, output)
            child = subprocess.Popen([*command, target.url(), "--json", "--seconds", "20", "--fast-fail", "1"], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            time.sleep(1)
            target.child.kill()
            output, in_time = weft_clients.communicate(child, time.monotonic() + READY_SECONDS)
            self.assertTrue(in_time, output)
            self.assertEqual(child.returncode, 1, output)
            self.assertIn('"lost": 1', output)

    def test_the_commands_of_the_guide_work(self):
        """Its script is one shell session, in an empty folder."""
        script = re.search(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL).group(1)
        shell = pathlib.Path(self.folder) / "weft"
        shell.write_text(f'#!/bin/sh\nexec {shlex.quote(weft_clients.weft_command())} "$@"\n', encoding="utf-8")
        shell.chmod(0o755)
        done = subprocess.run(["bash", "-e", "-c", script], cwd=self.folder, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("export-size: 67108864 (64M)", done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--verbose", action="store_true")
    arguments, rest = parser.parse_known_args()
    weft_clients.need_programs("nbdkit", "nbdcopy", "nbdinfo", "qemu-io", "tgtd", "tgtadm")
    start = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], verbosity=2 if arguments.verbose else 1, exit=False).result
    print(f"iscsi attach: {time.monotonic() - start:.0f} s")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
