#!/usr/bin/env python3
"""The runners' judgement, tried with a program that behaves as it is told to and a command that only passes it on."""
import os
import pathlib
import sys
import tempfile
import time
import unittest

FOLDER = tempfile.TemporaryDirectory()
os.environ["WEFT_BUILD_DIR"] = FOLDER.name
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import weft_clients  # noqa: E402

COMMAND = '#!/bin/sh\n[ "$1" = exec ] || exit 0\nhost=$2\nshift 3\nHOST=$host exec "$@"\n'
PROGRAM = """#!{python}
import os, socket, sys, time
arguments = sys.argv[1:]
port, words = int(arguments[1]), arguments[2:]
client = words[-1].startswith("127.77.")
if "refuse" in words:
    sys.exit("size larger than port MTU")
if client:
    socket.create_connection((words[-1], port)).recv(1)
    if "client-hangs" in words:
        time.sleep(60)
    print("1000 iters in 1 second", os.environ["HOST"])
    sys.exit(3 if "client-fails" in words else 0)
if "deaf" in words:
    time.sleep(60)
with socket.socket() as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", port))
    server.listen()
    server.accept()[0].send(b"x")
sys.exit(4 if "server-fails" in words else 0)
"""


class Judgement(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        root = pathlib.Path(FOLDER.name)
        (root / "src" / "cli").mkdir(parents=True)
        cls.program = root / "program"
        for path, text in ((root / "src/cli/weft", COMMAND), (cls.program, PROGRAM.format(python=sys.executable))):
            path.write_text(text)
            path.chmod(0o755)

    @classmethod
    def tearDownClass(cls):
        FOLDER.cleanup()

    def judge(self, *words, **more):
        case = weft_clients.Case(str(self.program), list(words), **more)
        with weft_clients.Fabric("pair") as fabric:
            return weft_clients.run_cases(fabric, [case], progress=False)[0]

    def test_both_sides_ending_well_is_ok(self):
        outcome = self.judge("fine")
        self.assertEqual((outcome.verdict, outcome.detail), ("ok", ""))
        self.assertIn("iters in 1 second h2", outcome.client_output)

    def test_either_side_failing_is_failed(self):
        self.assertEqual(self.judge("client-fails").detail, "exit status 3 (client), 0 (server)")
        self.assertEqual(self.judge("server-fails").verdict, "FAILED")

    def test_a_missing_result_is_failed(self):
        self.assertEqual(self.judge("fine", check=lambda output: "no row").detail, "no row")

    def test_children_that_do_not_end_are_ended(self):
        start = time.monotonic()
        self.assertEqual(self.judge("client-hangs", timeout_seconds=1).detail, "client did not end in time")
        self.assertLess(time.monotonic() - start, 15)

    def test_a_server_that_does_not_listen_is_failed(self):
        self.assertEqual(self.judge("deaf", timeout_seconds=1).detail, "server did not listen in time")

    def test_a_refusal_is_only_right_where_it_is_expected(self):
        self.assertEqual(self.judge("refuse", refusal="larger than port MTU").verdict, "refused")
        self.assertEqual(self.judge("refuse").verdict, "FAILED")
        self.assertEqual(self.judge("fine", refusal="larger than port MTU").verdict, "FAILED")

    def test_jobs_run_side_by_side_on_ports_of_their_own(self):
        cases = [weft_clients.Case(str(self.program), [f"fine{number}"]) for number in range(12)]
        with weft_clients.Fabric("pair") as fabric:
            outcomes = weft_clients.run_cases(fabric, cases, jobs=4, progress=False)
        self.assertEqual([outcome.verdict for outcome in outcomes], ["ok"] * 12)

    def test_hosts_have_their_addresses(self):
        self.assertEqual(weft_clients.address_of("h1"), "127.77.0.1")
        self.assertEqual(weft_clients.address_of("h258"), "127.77.1.2")


if __name__ == "__main__":
    unittest.main()
