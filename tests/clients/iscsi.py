#!/usr/bin/env python3
"""`weft iscsi target` by TCP, judged by Debian's libiscsi: its test suite, its tools, and the commands of the guide.

    iscsi.py [--match TEXT]... [--verbose]

Every test of iscsi-test-cu passes, or stands in REFUSED with the clause of the standard that allows it, or in MISTAKES with what is wrong with
the test: what else it says is a failure, and so is a test of either table that has come to pass. Nothing here needs a fabric, a daemon or root.
"""
import argparse
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import iser
import weft_clients

GUIDE = weft_clients.ROOT / "docs" / "guide" / "iscsi.md"
NAME = "iqn.2026-01.org.weft:disks"
READY_SECONDS = 20               # policy
TEST_SECONDS = 60                # policy
DISK = "ram:64M"                 # policy
# {why, with the clause: (a test's name, or its start up to a dot, ...)}
REFUSED = {
    "no medium here is encrypted, so CRYPTOGRAPHIC ERASE (SBC-3 §4.11.1, optional) has no key to change; the others ask for it, too": (
        "SCSI.Sanitize.CryptoErase", "SCSI.Sanitize.Readonly", "SCSI.Sanitize.Reservations"),
    "a medium that cannot be removed, RMB 0 (SPC-4 §6.6.2)": ("SCSI.PreventAllow.", "SCSI.StartStopUnit.Simple"),
    "the disk of this run may be written; test_a_file_keeps_what_was_written has one that may not": ("SCSI.ReadOnly.",),
    "a logical block of a disk in memory is a physical one (SBC-3 §5.16.2), and these want more": (
        "SCSI.CompareAndWrite.InvalidDataOutSize", "SCSI.WriteSame10.InvalidDataOutSize", "SCSI.WriteSame16.InvalidDataOutSize",
        "SCSI.WriteSame10.UnmapUnaligned", "SCSI.WriteSame16.UnmapUnaligned"),
}
# Tests of libiscsi 1.19.0 that no target passes: {what is wrong with them: tests}.
MISTAKES = {
    "its room for usage data is 16 octets, so that it leaves out what CDBs of 32 have": ("SCSI.ReportSupportedOpcodes.OneCommand",),
    "it writes FFh with WRITE SAME and UNMAP, and wants zeroes (SBC-3 §5.50: such blocks are written)": ("SCSI.WriteSame10.UnmapUntilEnd",),
    "it wants a SANITIZE that still runs after three seconds, however small the disk": ("SCSI.Sanitize.Reset",),
    "it looks for the outcome of a reset before it can be there, and frees what is called later": ("iSCSI.iSCSITMF.LUNResetSimpleAsync",),
}


def wanted_of(test):
    """The verdicts that are right."""
    def stands_in(table):
        return any(test == name or (name.endswith(".") and test.startswith(name)) for names in table.values() for name in names)
    return ("skipped", "failed") if stands_in(REFUSED) else ("failed", "died") if stands_in(MISTAKES) else ("passed",)


class Target:
    """`weft iscsi target` until the end of a with block, on a port that is free."""

    def __init__(self, *arguments, name=NAME, portals=1):
        self.arguments = ["--portal", "127.0.0.1:0"] * portals + (["--target", name] if name else []) + list(arguments)
        self.name = name

    def __enter__(self):
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.child = subprocess.Popen([weft_clients.weft_command(), "iscsi", "target", *self.arguments], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.ports = [self.port_of(self.child.stdout.readline()) for argument in self.arguments if argument == "--portal"]
        return self

    def port_of(self, line):
        found = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
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
        return f"iscsi://{account}127.0.0.1:{self.ports[portal]}/{self.name}/{lun}"


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
        with Target("--lun", DISK, portals=2) as target:
            for test in tests:
                status, output = run("iscsi-test-cu", "--dataloss", "--allow-sanitize", "--test", test, target.url(), target.url(portal=1))
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
        for names in (*REFUSED.values(), *MISTAKES.values()):
            for name in names:
                self.assertTrue(any(test.startswith(name) for test in known), name)


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
