#!/usr/bin/env python3
"""`weft iscsi target` by TCP, judged by Debian's libiscsi: its test suite, its tools, and the commands of the guide.

    iscsi.py [--match TEXT]... [--verbose]

Every test of iscsi-test-cu passes, or stands in REFUSED with the clause of the standard that allows it, or in MISTAKES with what is wrong with
the test: what else it says is a failure, and so is a test of either table that has come to pass. Nothing here needs a fabric, a daemon or root.
"""
import argparse
import contextlib
import os
import pathlib
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import iser
import plain_iscsi
import weft_clients

GUIDE = weft_clients.ROOT / "docs" / "guide" / "iscsi.md"
CONFORMANCE = weft_clients.ROOT / "docs" / "ISCSI-CONFORMANCE.md"
NAME = "iqn.2026-01.org.weft:disks"
READY_SECONDS = 20               # policy
TEST_SECONDS = 60                # policy
DISK_BYTES = 64 << 20            # policy
DISK = f"ram:{DISK_BYTES >> 20}M"
FLOOD = 600                      # policy: logins at a time
AUTHENTICATION_FAILURE = 0x0201  # RFC 7143 §11.13.5
# {why, with the clause: (a test's name, or its start up to a dot, ...)}
REFUSED = {
    "no medium here is encrypted, so CRYPTOGRAPHIC ERASE (SBC-3 §4.11.1, optional) has no key to change; the others ask for it, too": (
        "SCSI.Sanitize.CryptoErase", "SCSI.Sanitize.Readonly", "SCSI.Sanitize.Reservations"),
    "a medium that cannot be removed, RMB 0 (SPC-4 §6.6.2)": ("SCSI.PreventAllow.", "SCSI.StartStopUnit.Simple"),
}
# {LUN: (a test's name, or its start up to a dot, ...)}: tests of what the disk in memory, LUN 0, is not: a file, whose physical blocks have several
# logical ones (SBC-3 §5.16.2), and one that may not be written.
PLACES = {
    1: ("SCSI.CompareAndWrite.InvalidDataOutSize", "SCSI.WriteSame10.InvalidDataOutSize", "SCSI.WriteSame16.InvalidDataOutSize",
        "SCSI.WriteSame10.UnmapUnaligned", "SCSI.WriteSame16.UnmapUnaligned"),
    2: ("SCSI.ReadOnly.",),
}
# Tests of libiscsi 1.19.0 that no target passes: {what is wrong with them: tests}.
MISTAKES = {
    "it writes FFh with WRITE SAME and UNMAP, and wants zeroes (SBC-3 §5.50: such blocks are written)": ("SCSI.WriteSame10.UnmapUntilEnd",),
    "it wants a SANITIZE that still runs after three seconds, however small the disk": ("SCSI.Sanitize.Reset",),
    "it looks for the outcome of a reset before it can be there, and frees what is called later": ("iSCSI.iSCSITMF.LUNResetSimpleAsync",),
}


def stands_in(test, names):
    return any(test == name or (name.endswith(".") and test.startswith(name)) for name in names)


def place_of(test):
    """The LUN on which it runs."""
    return next((lun for lun, names in PLACES.items() if stands_in(test, names)), 0)


def wanted_of(test):
    """The verdicts that are right."""
    def stands_in_one_of(table):
        return any(stands_in(test, names) for names in table.values())
    return ("skipped", "failed") if stands_in_one_of(REFUSED) else ("failed", "died") if stands_in_one_of(MISTAKES) else ("passed",)


class Target:
    """`weft iscsi target` until the end of a with block, on a port that is free."""

    def __init__(self, *arguments, name=NAME, portals=1, address="127.0.0.1", port=0):
        self.arguments = ["--portal", f"{address}:{port}"] * portals + (["--target", name] if name else []) + list(arguments)
        self.name, self.address = name, address

    def __enter__(self):
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.child = subprocess.Popen([weft_clients.weft_command(), "iscsi", "target", *self.arguments], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.ports = [self.port_of(self.child.stdout.readline()) for argument in self.arguments if argument == "--portal"]
        return self

    def port_of(self, line):
        found = re.fullmatch(rf"listening on {re.escape(self.address)}:(\d+)\n", line)
        if not found:
            raise RuntimeError(f"no target: {line}{self.text()}")
        return int(found.group(1))

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(timeout=READY_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise
        finally:
            self.child.stdout.close()
            self.log.close()

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def url(self, lun=0, account="", portal=0):
        return f"iscsi://{account}{self.address}:{self.ports[portal]}/{self.name}/{lun}"


def run(*command, seconds=TEST_SECONDS, **environment):
    """(exit status, output); None as status when it was ended."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds,
                              env={**os.environ, **environment})
        return done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as expired:
        return None, (expired.stdout or b"").decode(errors="replace")


class Suite(unittest.TestCase):
    """libiscsi's own tests, each in a process of its own, on a disk that the ones before have used."""

    match = [""]

    def test_every_test_passes_or_is_refused_for_a_reason_of_the_standard(self):
        tests = [test for test in iser.known_tests() if any(text in test for text in self.match)]
        self.assertTrue(tests)
        counts, wrong = {}, []
        with contextlib.ExitStack() as opened:
            disk = opened.enter_context(tempfile.NamedTemporaryFile())
            disk.truncate(DISK_BYTES)
            target = opened.enter_context(Target("--lun", DISK, "--lun", disk.name, "--lun", f"{DISK},ro", portals=2))
            for test in tests:
                lun = place_of(test)
                status, output = run("iscsi-test-cu", "--dataloss", "--allow-sanitize", "--test", test, target.url(lun), target.url(lun, portal=1))
                verdict = iser.verdict_of(status, output)
                counts[verdict] = counts.get(verdict, 0) + 1
                if verdict not in wanted_of(test):
                    wrong.append(f"{test}: {verdict}\n{output}")
                if target.child.poll() is not None:
                    wrong.append(f"{test}: the target is gone\n{target.text()}")
                    break
        print("iscsi-test-cu: " + ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items())), flush=True)
        self.assertFalse(wrong, "\n".join(wrong))

    def test_every_refusal_is_of_a_test_that_there_is(self):
        known = iser.known_tests()
        for names in (*REFUSED.values(), *MISTAKES.values(), *PLACES.values()):
            for name in names:
                self.assertTrue(any(test.startswith(name) for test in known), name)


    def test_the_page_of_conformance_has_each_of_them(self):
        page = CONFORMANCE.read_text(encoding="utf-8")
        died = [test for why, tests in iser.DIFFERENCES.items() if not why.startswith("tgt's ") for test, (verdict, _) in tests.items() if verdict == "died"]
        for name in [name for names in (*REFUSED.values(), *MISTAKES.values()) for name in names] + died:
            self.assertIn(f"`{name}*`" if name.endswith(".") else f"`{name}`", page)


class Tools(unittest.TestCase):
    def test_discovery_lists_targets_and_their_disks(self):
        with Target("--lun", DISK, "--lun", "ram:1M,bs=4096") as target:
            status, output = run("iscsi-ls", "-s", f"iscsi://127.0.0.1:{target.ports[0]}")
            self.assertEqual(status, 0, output)
            self.assertIn(NAME, output)
            self.assertRegex(output, r"Lun:0\s+Type:DIRECT_ACCESS")
            self.assertRegex(output, r"Lun:1\s+Type:DIRECT_ACCESS")

    def test_inquiry_names_the_disk(self):
        with Target("--lun", DISK) as target:
            status, output = run("iscsi-inq", target.url())
            self.assertEqual(status, 0, output)
            self.assertIn("WEFT", output)

    def test_a_file_keeps_what_was_written(self):
        with tempfile.TemporaryDirectory() as folder:
            disk = pathlib.Path(folder) / "disk.img"
            disk.touch()
            os.truncate(disk, 16 << 20)
            with Target("--lun", str(disk)) as target:
                status, output = run("iscsi-test-cu", "--dataloss", "--test", "SCSI.Write10.Simple", target.url())
                self.assertEqual(iser.verdict_of(status, output), "passed", output)
            self.assertEqual(disk.stat().st_size, 16 << 20)
            with Target("--lun", f"{disk},ro") as target:
                _, output = run("iscsi-test-cu", "--dataloss", "--test", "SCSI.ReadOnly.ReadOnlySBC", target.url())
                self.assertIn("Run Summary", output)
                self.assertNotIn("[FAILED]", output)

    def test_chap_admits_who_knows_the_secret(self):
        with tempfile.TemporaryDirectory() as folder:
            secrets = pathlib.Path(folder) / "secrets"
            secrets.write_text("peer h1 secret-of-h1-0\n", encoding="utf-8")
            secrets.chmod(0o600)
            with Target("--lun", DISK, "--chap-file", str(secrets)) as target:
                self.assertEqual(run("iscsi-inq", target.url(account="h1%secret-of-h1-0@"))[0], 0)
                self.assertNotEqual(run("iscsi-inq", target.url(account="h1%another-secret@"))[0], 0)
                self.assertNotEqual(run("iscsi-inq", target.url())[0], 0)
                self.assertNotIn("secret-of", target.text())

    def test_secrets_that_others_may_read_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            secrets = pathlib.Path(folder) / "secrets"
            secrets.write_text("peer h1 secret-of-h1-0\n", encoding="utf-8")
            secrets.chmod(0o644)
            status, output = run(weft_clients.weft_command(), "iscsi", "target", "--portal", "127.0.0.1:0", "--target", NAME, "--lun", DISK,
                                 "--chap-file", str(secrets))
            self.assertEqual(status, 1)
            self.assertIn("chmod 600", output)

    def test_a_configuration_is_read_again_on_sighup(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "targets.toml"
            one = '[[target]]\nname = "{}"\n[[target.lun]]\nram = "1M"\n'
            file.write_text(one.format(NAME), encoding="utf-8")
            with Target("--config", str(file), name="") as target:
                url = f"iscsi://127.0.0.1:{target.ports[0]}"
                self.assertIn(NAME, run("iscsi-ls", url)[1])
                file.write_text(one.format("iqn.2026-01.org.weft:others"), encoding="utf-8")
                target.child.send_signal(signal.SIGHUP)
                self.assertEqual(target.child.stdout.readline(), "reloaded\n")
                listed = run("iscsi-ls", url)[1]
                self.assertIn("iqn.2026-01.org.weft:others", listed)
                self.assertNotIn(NAME, listed)

    def test_it_ends_with_status_0_on_sigterm(self):
        with Target("--lun", DISK) as target:
            pass
        self.assertEqual(target.child.returncode, 0)

    def test_wrong_usage_is_status_2(self):
        for arguments in ((), ("target",), ("target", "--target", NAME, "--lun", "ram:x"), ("fly",)):
            status, output = run(weft_clients.weft_command(), "iscsi", *arguments)
            self.assertEqual(status, 2, output)


class Protection(unittest.TestCase):
    """T10-PI (SBC-3 §4.22): the three checks of a disk, by CDBs of a stranger."""

    LBA, BLOCK_BYTES = 5, 512
    WRITE_16, READ_16 = 0x8A, 0x88
    CHECKED, UNCHECKED = 1, 3
    SUITES = ("SCSI.Read10.", "SCSI.Read16.", "SCSI.Write10.", "SCSI.Write16.", "SCSI.WriteSame16.", "SCSI.CompareAndWrite.", "SCSI.OrWrite.", "SCSI.Verify16.")
    ABORTED_COMMAND, GUARD, APPLICATION_TAG, REFERENCE_TAG = 0x0B, 0x1001, 0x1002, 0x1003

    def long_cdb(self, service_action, application_tag=0x1234):
        """READ (32), WRITE (32) of one block, whose tags are named (SBC-3 §5.13)."""
        return struct.pack(">BB5xBHBBQIHHI", 0x7F, 0, 24, service_action, self.CHECKED << 5, 0, self.LBA, self.LBA, application_tag, 0xFFFF, 1)

    def commands(self, kind):
        """WRITE without a check, WRITE and READ with all, of one block of a disk of this type."""
        unchecked, checked = (plain_iscsi.block_cdb(self.WRITE_16, protect, self.LBA, 1) for protect in (self.UNCHECKED, self.CHECKED))
        return (unchecked, checked, plain_iscsi.block_cdb(self.READ_16, self.CHECKED, self.LBA, 1)) if kind == 1 else (
            self.long_cdb(0x000B)[:10] + bytes([self.UNCHECKED << 5]) + self.long_cdb(0x000B)[11:], self.long_cdb(0x000B), self.long_cdb(0x0009))

    def test_each_tag_is_checked_when_it_is_written_and_when_it_is_read(self):
        block = bytes(range(256)) * 2
        good = block + plain_iscsi.tuple_of(block, 0x1234, self.LBA)
        damages = {self.GUARD: 0, self.APPLICATION_TAG: 2, self.REFERENCE_TAG: 7}
        for kind in (1, 2):
            with Target("--lun", f"ram:1M,pi={kind}") as target, plain_iscsi.Connection(target.ports[0], NAME).login() as plain:
                plain.command(bytes(6))  # the unit attention of a new nexus
                unchecked, checked, read = self.commands(kind)
                self.assertEqual(plain.command(checked, good)[0], 0)
                self.assertEqual(plain.command(read, expected=len(good)), (0, None, good))
                for code, place in damages.items():
                    bad = bytearray(good)
                    bad[self.BLOCK_BYTES + place] ^= 1
                    # With Type 1 a CDB does not say which application tag is wanted.
                    wanted = (0, None) if (kind, code) == (1, self.APPLICATION_TAG) else (2, (self.ABORTED_COMMAND, code))
                    self.assertEqual(plain.command(checked, bytes(bad))[:2], wanted, hex(code))
                    self.assertEqual(plain.command(unchecked, bytes(bad))[0], 0)
                    self.assertEqual(plain.command(read, expected=len(good))[:2], wanted, hex(code))
                    self.assertEqual(plain.command(unchecked, good)[0], 0)

    def test_who_knows_nothing_of_it_uses_a_protected_disk_as_any_other(self):
        """libiscsi's tests transfer no tuples; those named for protection do nothing on such a disk ("No tests for devices that support it yet"), so they judge
        nothing here, and are left out."""
        tests = [test for test in iser.known_tests() if test.startswith(self.SUITES) and not re.search("Protect|Async", test) and place_of(test) == 0
                 and wanted_of(test) == ("passed",)]
        judged = 0  # by tests that assert anything
        with Target("--lun", f"{DISK},pi=1") as target:
            for test in tests:
                status, output = run("iscsi-test-cu", "--dataloss", "--test", test, target.url())
                self.assertEqual(iser.verdict_of(status, output), "passed", output)
                judged += int(re.search(r"^\s+asserts\s+(\d+)", output, re.MULTILINE).group(1)) > 0
        self.assertGreater(judged, 20)


class Sanitize(unittest.TestCase):
    MIB, SECONDS = 32, 60            # policy
    IN_PROGRESS = (2, 0x041B)        # sense key and additional sense code
    READ_FIRST = bytes([0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0])

    def test_it_goes_on_after_a_restart(self):
        """SBC-3 §4.11.2: a target that is killed in it takes it up again, and lets nobody read before it is over; one that ends does, too."""
        with tempfile.TemporaryDirectory() as folder:
            disk, kept = pathlib.Path(folder) / "disk.img", pathlib.Path(folder) / "disk.img.sanitize"
            for ending in (signal.SIGKILL, signal.SIGTERM):
                disk.write_bytes(os.urandom(1 << 20) * self.MIB)
                with Target("--lun", str(disk)) as target, plain_iscsi.Connection(target.ports[0], NAME).login() as plain:
                    plain.command(bytes(6))  # the unit attention of a new nexus
                    status, sense, _ = plain.command(bytes([0x48, 0x81, 0, 0, 0, 0, 0, 0, 5, 0]), bytes([31, 0, 0, 1, 0x77]))  # OVERWRITE, IMMED, 31 times
                    self.assertEqual(status, 0, sense)
                    self.assertEqual(plain.command(bytes(6))[:2], (2, self.IN_PROGRESS))
                    target.child.send_signal(ending)
                    target.child.wait(READY_SECONDS)
                self.assertTrue(kept.exists())
                with Target("--lun", str(disk)) as target, plain_iscsi.Connection(target.ports[0], NAME).login() as plain:
                    plain.command(bytes(6))
                    self.assertEqual(plain.command(self.READ_FIRST, expected=512)[:2], (2, self.IN_PROGRESS))
                    deadline = time.monotonic() + self.SECONDS
                    while plain.command(bytes(6))[0] != 0:
                        self.assertLess(time.monotonic(), deadline)
                        time.sleep(0.05)
                    self.assertFalse(kept.exists())
                    self.assertEqual(plain.command(self.READ_FIRST, expected=512), (0, None, b"\x77" * 512))
                self.assertEqual(disk.read_bytes(), b"\x77" * (self.MIB << 20))


class Hostile(unittest.TestCase):
    """Peers that want no good."""

    def secrets(self, folder):
        path = pathlib.Path(folder) / "secrets"
        path.write_text("peer h1 secret-of-h1-0\n", encoding="utf-8")
        path.chmod(0o600)
        return str(path)

    def test_a_flood_of_logins_keeps_nobody_out(self):
        """Connections that never log in, and logins that never end."""
        with Target("--lun", DISK) as target, contextlib.ExitStack() as flood:
            for number in range(FLOOD):
                connection = flood.enter_context(plain_iscsi.Connection(target.ports[0], NAME, isid=number))
                if number % 2:
                    header = bytearray(48)
                    header[0], header[1] = 0x43, 0x04
                    connection.socket.sendall(bytes(header)[:24])
                status, output = run("iscsi-inq", target.url()) if number % 100 == 99 else (0, "")
                self.assertEqual(status, 0, output)
            self.assertIsNone(target.child.poll())
        self.assertEqual(target.child.returncode, 0)

    def test_a_proof_of_chap_that_was_heard_is_none_the_next_time(self):
        with tempfile.TemporaryDirectory() as folder, Target("--lun", DISK, "--chap-file", self.secrets(folder)) as target:
            with plain_iscsi.Connection(target.ports[0], NAME) as honest:
                said = honest.challenge()
                proof = plain_iscsi.chap_response(said["CHAP_I"], "secret-of-h1-0", said["CHAP_C"])
                honest.prove("h1", proof)
            with plain_iscsi.Connection(target.ports[0], NAME) as other, self.assertRaises(plain_iscsi.Refused) as refused:
                self.assertNotEqual(other.challenge()["CHAP_C"], said["CHAP_C"])
                other.prove("h1", proof)
            self.assertEqual(refused.exception.status, AUTHENTICATION_FAILURE)
            self.assertNotIn("secret-of", target.text())

    def test_nobody_talks_the_target_out_of_chap(self):
        with tempfile.TemporaryDirectory() as folder, Target("--lun", DISK, "--chap-file", self.secrets(folder)) as target:
            attempts = (lambda connection: connection.login(), lambda connection: connection.challenge(methods="None"),
                        lambda connection: connection.challenge(algorithm=9))
            for attempt in attempts:
                with plain_iscsi.Connection(target.ports[0], NAME) as connection, self.assertRaises(plain_iscsi.Refused) as refused:
                    attempt(connection)
                self.assertEqual(refused.exception.status, AUTHENTICATION_FAILURE)


class Guide(unittest.TestCase):
    def test_the_commands_of_the_guide_work(self):
        """Its script is one shell session, in an empty folder."""
        script = re.search(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL).group(1)
        with tempfile.TemporaryDirectory() as folder:
            shell = pathlib.Path(folder) / "weft"
            shell.write_text(f'#!/bin/sh\nexec {shlex.quote(weft_clients.weft_command())} "$@"\n', encoding="utf-8")
            shell.chmod(0o755)
            done = subprocess.run(["bash", "-e", "-c", script], cwd=folder, capture_output=True, text=True, timeout=TEST_SECONDS,
                                  stdin=subprocess.DEVNULL, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("iqn.2026-01.org.example:disks", done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--match", action="append", help="only tests of iscsi-test-cu whose name has this")
    parser.add_argument("--verbose", action="store_true")
    arguments, rest = parser.parse_known_args()
    Suite.match = arguments.match or [""]
    weft_clients.need_programs("iscsi-test-cu", "iscsi-ls", "iscsi-inq")
    start = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], verbosity=2 if arguments.verbose else 1, exit=False).result
    print(f"iscsi: {time.monotonic() - start:.0f} s")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
