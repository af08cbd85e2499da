#!/usr/bin/env python3
"""blockd, a protocol written against the kernel side's API, between two hosts, its driver over the drop-in libibverbs and librdmacm. Its server
is a program in C++ (blockd++) and a module in the kernel's C (blockd.so, by `weft module run`); the client is the former's.

    blockd.py [--verbose]

What the client writes by RDMA it reads back and compares, by memory that is paged on demand and by memory that is registered, under a key of one
region and under one for all memory. Then what must not be: a request beyond the end, a port where nobody listens, a server that dies.
"""
import argparse
import os
import pathlib
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import weft_clients

GUIDE = weft_clients.ROOT / "docs" / "guide" / "module.md"
HANDLER = pathlib.Path(__file__).with_name("waiting_handler.c")
PORT = 7770
BYTES = 1 << 20                  # policy: of the block
SECONDS = 60                     # policy: of one client
READY_SECONDS = 20               # policy
CLIENTS = 40                     # policy


def built(target, name):
    path = weft_clients.build_folder() / "examples" / target / name
    if not path.exists():
        sys.exit(f"{path} is not there: build the target {target} first")
    return str(path)


def program():
    return built("blockd++", "blockd++")


def module():
    return built("blockd", "blockd.so")


def cpu_seconds(pid):
    """Of all threads of a process."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    """A server on a host, until the end of a with block."""

    def __init__(self, fabric, host, *options):
        self.fabric, self.host, self.options = fabric, host, options

    def command(self):
        return [program(), "serve", "--port", str(PORT), "--bytes", str(BYTES), *self.options]

    def __enter__(self):
        self.child = self.fabric.start(self.host, self.command())
        deadline = time.monotonic() + READY_SECONDS
        while not self.fabric.has_id(self.host, PORT):
            if self.child.poll() is not None or time.monotonic() > deadline:
                weft_clients.end(self.child)
                raise RuntimeError(f"blockd does not listen\n{self.child.stdout.read()}")
            time.sleep(0.05)
        return self

    def stop(self):
        """(exit status, output) of a server that is told to end; None as status when it had to be killed."""
        self.child.send_signal(signal.SIGTERM)
        output, in_time = weft_clients.communicate(self.child, time.monotonic() + READY_SECONDS)
        return (self.child.returncode if in_time else None), output

    def __exit__(self, *_):
        if self.child.poll() is None:
            weft_clients.end(self.child)
        self.child.stdout.close()


class Module(Server):
    """The same of `weft module run blockd.so`."""

    def command(self):
        return [weft_clients.weft_command(), "module", "run", module(), f"port={PORT}", f"bytes={BYTES}", *self.options]


class EitherForm:
    """What both forms of the server do."""
    server = None

    @classmethod
    def setUpClass(cls):
        cls.fabric = weft_clients.Fabric("pair", name=f"blockd-{time.monotonic_ns() % 1_000_000}")
        cls.fabric.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.fabric.__exit__()

    def start_check(self, *options):
        return self.fabric.start("h2", [program(), "check", weft_clients.address_of("h1"), "--port", str(PORT), "--bytes", str(BYTES), *options])

    def check(self, *options):
        """(exit status, output) of a client; None as status when it did not end."""
        child = self.start_check(*options)
        output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
        return (child.returncode if in_time else None), output

    def verify(self, *options):
        status, output = self.check(*options)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, rf"verified {BYTES // 4096} blocks in \d+ rounds")

    def assert_runs(self, child):
        if child.poll() is not None:
            self.fail(f"the client has ended: {child.stdout.read()}")

    def test_what_is_written_is_read(self):
        with self.server(self.fabric, "h1") as server:
            for options in ((), ("--global-key",), ("--no-paging",), ("--no-paging", "--global-key"), ("--blocks", "1", "--rounds", "1"), ("--blocks", "255")):
                with self.subTest(options=options):
                    self.verify(*options)
            status, output = server.stop()
        self.assertEqual(status, 0, output)
        requests = int(re.search(r"served (\d+) requests", output)[1])
        blocks = BYTES // 4096
        # Two rounds of writes and reads, by 16 blocks four times, then one of single blocks, then two of 255.
        self.assertEqual(requests, 4 * 4 * (blocks // 16) + 2 * blocks + 4 * -(-blocks // 255))

    def test_each_of_many_clients_ends_in_peace(self):
        with self.server(self.fabric, "h1"):
            # At the end a client destroys its QP while a handler hears that the server has disconnected.
            for _ in range(CLIENTS):
                status, output = self.check("--rounds", "1")
                self.assertEqual(status, 0, output)

    def test_several_clients_at_once(self):
        with self.server(self.fabric, "h1"):
            # They write the same blocks, so what they read is each other's: but all of them are answered.
            children = [self.start_check("--rounds", "1") for _ in range(4)]
            ended = [weft_clients.communicate(child, time.monotonic() + SECONDS) for child in children]
            for child, (output, in_time) in zip(children, ended):
                self.assertTrue(in_time, output)
                self.assertEqual(child.returncode, 0, output)  # the same bytes in each round: whoever wrote them
            self.verify()

    def test_a_request_beyond_the_end_is_refused(self):
        with self.server(self.fabric, "h1"):
            status, output = self.check("--beyond")
            self.assertEqual(status, 1, output)
            self.assertIn("the server has no such blocks", output)
            self.verify()

    def test_nobody_listens(self):
        status, output = self.check()
        self.assertEqual(status, 1, output)
        self.assertIn("rejected", output)

    def test_a_killed_server_ends_its_client(self):
        with self.server(self.fabric, "h1") as server:
            child = self.start_check("--rounds", "10000", "--blocks", "1")
            time.sleep(1)
            self.assert_runs(child)
            server.child.send_signal(signal.SIGKILL)
            output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
            self.assertTrue(in_time, output)
            self.assertEqual(child.returncode, 1, output)

    def test_a_killed_client_leaves_nothing_at_the_server(self):
        with self.server(self.fabric, "h1") as server:
            child = self.start_check("--rounds", "10000")
            time.sleep(1)
            self.assert_runs(child)
            weft_clients.end(child)
            child.stdout.close()
            self.verify()
            status, output = server.stop()
            self.assertEqual(status, 0, output)
            self.assertNotIn("is unregistered", output)

    def test_a_fabric_that_goes_away_leaves_a_server_that_rests_and_ends(self):
        with weft_clients.Fabric("pair", name=f"blockd-gone-{time.monotonic_ns() % 1_000_000}") as fabric, self.server(fabric, "h1") as server:
            fabric.run("down", "--name", fabric.name)
            time.sleep(0.5)
            before = cpu_seconds(server.child.pid)
            time.sleep(2)
            self.assertLess(cpu_seconds(server.child.pid) - before, 1, "it spins")
            status, output = server.stop()
            self.assertIsNotNone(status, output)


class InCpp(EitherForm, unittest.TestCase):
    server = Server

    def test_a_server_without_on_demand_paging_serves_the_same(self):
        with Server(self.fabric, "h1", "--no-paging"):
            self.verify()
            self.verify("--no-paging")

    def test_without_a_device_it_says_so(self):
        done = subprocess.run([program(), "--device", "none0", "check", "127.77.0.1"], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "no RDMA device|cannot be loaded|ibv_get_device_list")


class AsModule(EitherForm, unittest.TestCase):
    server = Module

    def module(self, *arguments):
        """(exit status, output) of `weft module`."""
        done = subprocess.run([weft_clients.weft_command(), "module", *arguments], capture_output=True, text=True, timeout=SECONDS, check=False,
                              env={**os.environ, "WEFT_FABRIC": self.fabric.name})
        return done.returncode, done.stdout + done.stderr

    def test_it_is_listed_read_and_removed(self):
        with Module(self.fabric, "h1") as server:
            status, output = self.module("list")
            self.assertEqual(status, 0, output)
            self.assertRegex(output, rf"^h1 blockd pid {server.child.pid} entries: blockd$")
            self.verify("--rounds", "1")
            self.assertRegex(self.module("read", "blockd", "blockd")[1], rf"^{BYTES} bytes, \d sessions, {2 * BYTES // 4096 // 16} requests$")
            status, output = self.module("read", "blockd", "other")
            self.assertEqual(status, 1)
            self.assertIn("blockd has no entry other: it has blockd", output)
            status, output = self.module("write", "blockd", "blockd", "x")
            self.assertEqual(status, 1)
            self.assertIn("(EIO)", output)
            status, output = self.fabric_module_again()
            self.assertEqual(status, 1, output)
            self.assertIn("is loaded on h1 already", output)
            self.assertEqual(self.module("remove", "blockd"), (0, ""))
            self.assertEqual(server.child.wait(READY_SECONDS), 0)
        self.assertEqual(self.module("list"), (0, ""))
        self.assertIn("blockd is not loaded", self.module("remove", "blockd")[1])

    def run_module(self, *arguments):
        """(exit status, output) of a `weft module run` that ends by itself."""
        child = self.fabric.start("h1", [weft_clients.weft_command(), "module", "run", *arguments], {"LC_ALL": "C"})
        output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
        return (child.returncode if in_time else None), output

    def fabric_module_again(self):
        return self.run_module(module(), f"port={PORT + 1}")

    def test_bad_parameters_are_refused_in_words(self):
        for parameter, words in (("bytes=x", "bytes (ulong) is a number"), ("port=65536", "port (ushort) is a number"), ("depth=1", "blockd has no parameter depth: it has")):
            with self.subTest(parameter):
                status, output = self.run_module(module(), parameter)
                self.assertEqual(status, 1, output)
                self.assertIn(words, output)
        status, output = self.run_module(module(), "bytes=1")
        self.assertEqual(status, 1, output)
        self.assertIn("blockd does not begin: Invalid argument (EINVAL)", output)

    def test_what_is_no_module_is_refused_in_words(self):
        self.assertIn("is no file", self.run_module("nowhere.so")[1])
        self.assertIn("cannot be loaded", self.run_module(__file__)[1])
        done = subprocess.run([weft_clients.weft_command(), "module", "run", module()], capture_output=True, text=True, timeout=SECONDS, check=False,
                              env={name: value for name, value in os.environ.items() if name != "WEFT_HOST"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("say --host", done.stderr)

    def test_the_commands_of_the_guide_work(self):
        """Its script is one shell session, in a folder with the two programs."""
        script = re.search(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL).group(1)
        with tempfile.TemporaryDirectory() as folder:
            for command, path in (("weft", weft_clients.weft_command()), ("blockd++", program())):
                shell = pathlib.Path(folder) / command
                shell.write_text(f'#!/bin/sh\nexec {shlex.quote(path)} "$@"\n', encoding="utf-8")
                shell.chmod(0o755)
            (pathlib.Path(folder) / "blockd.so").symlink_to(module())
            done = subprocess.run(["bash", "-e", "-c", script], cwd=folder, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "WEFT_FABRIC": f"guide-{os.getpid()}"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("verified 256 blocks", done.stdout)

    def test_a_killed_one_leaves_nothing(self):
        with Module(self.fabric, "h1") as server:
            server.child.kill()
            server.child.wait(READY_SECONDS)
            self.assertEqual(self.module("list"), (0, ""))
        with Module(self.fabric, "h1"):
            self.verify("--rounds", "1")


class Handlers(unittest.TestCase):
    def test_a_handler_that_waits_keeps_no_other_listener_waiting(self):
        """T-CM-13 by the kernel's RDMA-CM in C, compiled as the guide says, with rping's requests; then rdma_destroy_id() waits for the handler."""
        with tempfile.TemporaryDirectory() as folder, weft_clients.Fabric("pair", name=f"handlers-{os.getpid()}") as fabric:
            program, release = pathlib.Path(folder) / "waiting_handler", pathlib.Path(folder) / "release"
            packages = {**os.environ, "PKG_CONFIG_PATH": str(weft_clients.build_folder() / "src" / "kernel_lib")}
            flags = subprocess.run(["pkg-config", "--cflags", "--libs", "weft-rdma"], capture_output=True, text=True, timeout=SECONDS, check=True, env=packages).stdout
            subprocess.run(["cc", "-D_GNU_SOURCE", "-o", program, HANDLER, *shlex.split(flags)], timeout=SECONDS, check=True)
            server = fabric.start("h1", [str(program), str(PORT), str(PORT + 1), str(release)])

            def ask(port):
                return fabric.start("h2", ["rping", "-c", "-C", "1", "-a", weft_clients.address_of("h1"), "-p", str(port)])

            def said():
                self.assertTrue(select.select([server.stdout], [], [], READY_SECONDS)[0], "it says nothing more")
                return os.read(server.stdout.fileno(), 4096).decode()

            children = [server]
            try:
                self.assertEqual(said(), "listening\n")
                children.append(first := ask(PORT))
                self.assertEqual(said(), "first waits\n")
                children.append(second := ask(PORT + 1))
                self.assertEqual(said(), "second refused\n")
                self.assertTrue(weft_clients.communicate(second, time.monotonic() + SECONDS)[1], "who is refused does not end")
                self.assertIsNone(first.poll(), "the first was answered, too")
                release.touch()
                output, in_time = weft_clients.communicate(server, time.monotonic() + SECONDS)
                self.assertTrue(in_time, output)
                self.assertEqual((server.returncode, output), (0, "first refused\nfirst destroyed\n"))
                self.assertTrue(weft_clients.communicate(first, time.monotonic() + SECONDS)[1], "who is refused does not end")
            finally:
                for child in children:
                    if child.poll() is None:
                        weft_clients.end(child)
                    child.stdout.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in (InCpp, AsModule, Handlers))
    sys.exit(not unittest.TextTestRunner(verbosity=2 if arguments.verbose else 1).run(suite).wasSuccessful())


if __name__ == "__main__":
    main()
