#!/usr/bin/env python3
"""krping, a kernel module by others, unmodified, on two hosts: its pings in every mode that it has, its test of fast registration, and pings with Debian's
rping at either end. Its source is not in this repository (larrystevenwise/krping), so this is run by hand:

    krping.py SOURCE [--verbose]         SOURCE: the folder with krping.c and getopt.c

It is compiled as docs/ULP.md says.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import weft_clients

SECONDS = 60                     # policy: of one mode on a busy machine
COUNT = 100
SERVER, CLIENT = "h1", "h2"
SIZES = (64, 4096, 65535)        # its longest is 128 KiB, rping's shorter
COMPLAINT = "mismatch|completion error|failed|sge err"  # of krping; a disconnect it calls an error, too
COLUMNS = ("send", "received", "write", "read")  # of /proc/krping: octets and messages of each


def compile_module(source, folder):
    build, include = weft_clients.build_folder() / "src", weft_clients.ROOT / "include"
    module = pathlib.Path(folder) / "krping.so"
    subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-w", "-fPIC", "-shared", "-DMODULE", f"-isystem{include}/weft/kenv", f"-isystem{include}", f"-I{source}",
                    "-o", str(module), str(source / "krping.c"), str(source / "getopt.c"), f"-L{build}/kernel_lib", "-lweft-rdma", f"-L{build}/kenv", "-lweft-kenv",
                    f"-Wl,-rpath,{build}/kernel_lib:{build}/kenv"], check=True, timeout=60)
    return module


class Krping(unittest.TestCase):
    source = None

    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="weft-krping-")
        cls.addClassCleanup(place.cleanup)
        cls.module = compile_module(cls.source, place.name)
        cls.fabric = weft_clients.Fabric("pair", name=f"krping-{os.getpid()}").__enter__()
        cls.addClassCleanup(cls.fabric.__exit__)
        cls.ports = weft_clients.Ports()

    def setUp(self):
        self.loaded, self.may_complain = {}, False
        for host in (SERVER, CLIENT):
            self.loaded[host] = subprocess.Popen([self.fabric.weft, "module", "run", "--host", host, "--fast-registration", str(self.module)], stdin=subprocess.DEVNULL,
                                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.fabric.environment(), start_new_session=True)
        deadline = time.monotonic() + SECONDS
        while not all(f"{host} krping" in self.fabric.run("module", "list") for host in self.loaded):
            self.assertLess(time.monotonic(), deadline, "the modules are not loaded")
            time.sleep(0.05)

    def tearDown(self):
        ended = []
        for host, child in self.loaded.items():
            self.remove(host, child)
            output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
            ended.append((child.returncode if in_time else None, output))
        for status, output in ended:
            self.assertEqual(status, 0, output)
            self.assertNotIn("Sanitizer", output)
            if not self.may_complain:  # what goes wrong in a ping it says here only
                self.assertNotRegex(output, COMPLAINT)

    def remove(self, host, child):
        """The module, as soon as no write to its /proc is under way: who wrote may just have been interrupted."""
        deadline = time.monotonic() + SECONDS
        while child.poll() is None:
            try:
                self.fabric.run("module", "remove", "krping", "--host", host)
                return
            except RuntimeError as refused:
                if "in use" not in str(refused) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def tell(self, host, words):
        """A write to /proc/krping, which lasts as long as the ping does."""
        return subprocess.Popen([self.fabric.weft, "module", "write", "krping", "krping", "--host", host, words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=self.fabric.environment(), start_new_session=True)

    def wait_for(self, child, status=0):
        output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
        self.assertEqual(child.returncode if in_time else None, status, output)
        return output

    def listen(self, child, port):
        deadline = time.monotonic() + SECONDS
        while not self.fabric.has_id(SERVER, port):
            self.assertTrue(child.poll() is None and time.monotonic() < deadline, "the server does not listen")
            time.sleep(0.02)

    def statistics(self, host):
        """{what: (octets, messages)} of the ping that is under way there."""
        row = re.search(r"^\d+-\S* ((?:\d+ ?){8})$", self.fabric.run("module", "read", "krping", "krping", "--host", host), re.MULTILINE)
        numbers = [int(word) for word in row[1].split()] if row else [0] * 8
        return {what: (numbers[2 * place], numbers[2 * place + 1]) for place, what in enumerate(COLUMNS)}

    def ping(self, of_server="", of_client=""):
        port = self.ports.take()
        place = f"addr={weft_clients.address_of(SERVER)},port={port}"
        server = self.tell(SERVER, f"server,{place}{of_server}")
        self.listen(server, port)
        client = self.tell(CLIENT, f"client,{place}{of_client}")
        self.wait_for(client)
        return server

    def test_pings_that_are_validated(self):
        """Each is a READ of the client's buffer by the server and a WRITE into it, by keys of fast registration."""
        for size in SIZES:
            for mode in ("", ",server_inv", ",local_dma_lkey", ",server_inv,local_dma_lkey"):
                with self.subTest(size=size, mode=mode):
                    options = f",size={size},validate{mode}"
                    self.wait_for(self.ping(options, f"{options},count={COUNT}"))

    def test_what_a_ping_moves_stands_in_proc(self):
        port = self.ports.take()
        place, options = f"addr={weft_clients.address_of(SERVER)},port={port}", ",size=4096,validate"
        server = self.tell(SERVER, f"server,{place}{options}")
        self.listen(server, port)
        client = self.tell(CLIENT, f"client,{place}{options},count=100000000")
        deadline = time.monotonic() + SECONDS
        while (seen := self.statistics(SERVER))["write"][1] < COUNT:
            self.assertLess(time.monotonic(), deadline, seen)
            time.sleep(0.05)
        for what in ("write", "read"):
            octets, messages = seen[what]
            self.assertGreaterEqual(messages, COUNT - 1)
            self.assertEqual(octets, messages * 4096, what)
        self.may_complain = True
        self.interrupt(client, server)

    def interrupt(self, *children):
        for child in children:
            os.killpg(child.pid, signal.SIGINT)
        for child in children:
            self.assertTrue(weft_clients.communicate(child, time.monotonic() + SECONDS)[1], "it does not end")

    def test_fast_registration(self):
        """krping's own test: a region is registered by one work request and invalidated by the next, in lists that are half its queue."""
        server = self.ping(of_client=f",fr,size=65535,count={COUNT * 100}")
        self.interrupt(server)

    def test_debians_rping_at_either_end(self):
        port = self.ports.take()
        address, sizes = weft_clients.address_of(SERVER), ["-S", "1024", "-C", str(COUNT), "-V"]
        server = self.tell(SERVER, f"server,addr={address},port={port},size=1024,validate")
        self.listen(server, port)
        self.wait_for(self.fabric.start(CLIENT, ["rping", "-c", "-a", address, "-p", str(port), *sizes]))
        self.wait_for(server)
        port = self.ports.take()
        server = self.fabric.start(SERVER, ["rping", "-s", "-a", address, "-p", str(port), *sizes])
        self.listen(server, port)
        self.wait_for(self.tell(CLIENT, f"client,addr={address},port={port},size=1024,validate,count={COUNT}"))
        self.wait_for(server)

    def test_what_krping_has_no_more_it_refuses_itself(self):
        self.may_complain = True
        for mode in ("wlat", "rlat", "bw"):
            output = self.wait_for(self.tell(CLIENT, f"client,addr={weft_clients.address_of(SERVER)},port=1,{mode}"), status=1)
            self.assertIn("Invalid argument", output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=pathlib.Path, help="the folder with krping.c and getopt.c")
    parser.add_argument("--verbose", action="store_true")
    arguments, others = parser.parse_known_args()
    Krping.source = arguments.source.resolve()
    weft_clients.need_programs("rping", "cc")
    unittest.main(argv=[sys.argv[0], *others], verbosity=2 if arguments.verbose else 1)
