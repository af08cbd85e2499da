#!/usr/bin/env python3
"""The iWARP port mapper: Debian's unmodified iwpmd, and weft-iwpm, on hosts as namespaces. A driver (`weft iwpm map`) asks each host's kernel
side, which asks the daemon; the daemons ask each other over UDP, as a capture shows.

    iwpm.py [--verbose]

Connections are real ones, from the mapped port of one host to that of the other: of `weft iwpm`, and of a driver of an iWARP device that is
registered with the core (tests/iwpm), with either daemon on either side.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import guide
import weft_clients

GUIDE = weft_clients.ROOT / "docs" / "guide" / "iwpm.md"
SECONDS = 60                     # policy: of one command
READY_SECONDS = 20               # policy
LISTENER, CONNECTING, TRIED = 5000, 6000, 7000
UDP_PORT = 3935
MAPPED = re.compile(r"\S+ mapped to \S+:(\d+)(?:, \S+ to \S+:(\d+))?")
# Request, accept and acknowledgement, as captures of the siw driver with Debian's iwpmd have them: octets, and the first of them, type and version.
FORM = [(64, 0x04), (48, 0x14), (48, 0x24)]


def address(host, port):
    return f"{weft_clients.address_of(host)}:{port}"


def eventually(condition, what):
    deadline = time.monotonic() + READY_SECONDS
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise RuntimeError(what)
        time.sleep(0.05)
    return value


class PortMapper(unittest.TestCase):
    def setUp(self):
        self.fabric = weft_clients.Fabric("star 3", name=f"iwpm-{os.getpid()}")
        self.fabric.__enter__()
        self.addCleanup(self.fabric.__exit__)
        place = tempfile.TemporaryDirectory(prefix="weft-iwpm-")
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def start(self, host, *command, stdin=subprocess.DEVNULL):
        child = subprocess.Popen([self.fabric.weft, "exec", "--ns", host, "--", *command], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, errors="replace", env=self.fabric.environment(), start_new_session=True)
        self.addCleanup(self.finish, child)
        return child

    @staticmethod
    def finish(child):
        if child.poll() is None:
            weft_clients.end(child)
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()

    def program(self):
        return str(weft_clients.build_folder() / "src" / "programs" / "iwpm" / "weft-iwpm")

    def daemon(self, host, which):
        """Ours, or Debian's: it has begun when drivers of its host get ports of it, some time after it has its UDP port."""
        child = self.start(host, *([self.program()] if which == "weft" else ["iwpmd", "-s"]))
        wanted = f":{UDP_PORT:04X} "
        eventually(lambda: wanted in self.fabric.run("exec", "--ns", host, "--", "cat", "/proc/net/udp"), f"{which} does not begin")
        eventually(lambda: int(MAPPED.search(self.map(host, TRIED))[1]) != TRIED, f"{which} maps nothing")
        return child

    def map(self, host, port, *more):
        return self.fabric.run("iwpm", "map", "--host", host, address(host, port), *more)

    def hold(self, host, port):
        """A mapping that stays, and its port."""
        child = self.start(host, self.program(), "map", "--hold", address(host, port), stdin=subprocess.PIPE)
        line = child.stdout.readline()
        self.assertRegex(line, MAPPED)
        return child, int(MAPPED.search(line)[1])

    def capture(self, host):
        file = self.folder / "udp.pcap"
        # Not tcpdump, which gives up being root first: an ordinary user's host has no way to do that.
        child = self.start(host, "dumpcap", "-P", "-i", "eth0", "-w", str(file), "-f", f"udp port {UDP_PORT}")
        said = ""
        while not re.search("^File: ", said, re.MULTILINE):
            line = child.stdout.readline()
            self.assertTrue(line, f"dumpcap has ended: {said}")
            said += line
        return child, file

    def messages(self, captured, wanted):
        """The daemons' messages, in the order in which they crossed."""
        child, file = captured

        def read():
            done = subprocess.run(["tshark", "-r", str(file), "-T", "fields", "-e", "udp.payload"], capture_output=True, text=True, timeout=SECONDS)
            found = [bytes.fromhex(line.replace(":", "")) for line in done.stdout.split()]
            return found if len(found) >= wanted else None
        found = eventually(read, "the capture lacks messages")
        weft_clients.end(child)
        return found

    def check_form(self, captured, said):
        """One mapping's messages say what siw's did, each in its place; `said` is the driver's line. IPv4 addresses have 16 octets, the first four of which count."""
        mapped, mapped_remote = (int(port) for port in MAPPED.search(said).groups())
        messages = self.messages(captured, len(FORM))
        self.assertEqual([(len(message), message[0]) for message in messages], FORM)
        request, accept, acknowledgement = messages
        self.assertEqual(struct.unpack(">BHHH", request[1:8]), (0, mapped, LISTENER, CONNECTING))
        self.assertEqual(struct.unpack(">BHHH", accept[1:8]), (0, 0, mapped_remote, CONNECTING))
        for message in messages:
            self.assertEqual(message[8:16], request[8:16], "the handle is the request's")
            for at, host in ((16, "h1"), (32, "h2")) + (((48, "h1"),) if message is request else ()):
                self.assertEqual(message[at:at + 4], socket.inet_aton(weft_clients.address_of(host)))
        self.assertEqual(acknowledgement[1:20] + acknowledgement[32:36], accept[1:20] + accept[32:36], "it differs in its type alone")

    def check_mapping(self, first, second):
        self.daemon("h1", first)
        self.daemon("h2", second)
        captured = self.capture("h1")
        _, port = self.hold("h2", LISTENER)
        self.assertNotEqual(port, LISTENER)
        said = self.map("h1", CONNECTING, "--remote", address("h2", LISTENER))
        mapped = MAPPED.search(said)
        self.assertNotEqual(int(mapped[1]), CONNECTING, said)
        self.assertEqual(int(mapped[2]), port, said)
        self.check_form(captured, said)

    def test_debians_iwpmd_on_both_hosts(self):
        self.check_mapping("debian", "debian")

    def test_ours_asks_debians(self):
        self.check_mapping("weft", "debian")

    def test_debians_asks_ours(self):
        self.check_mapping("debian", "weft")

    def driver(self):
        return str(weft_clients.build_folder() / "tests" / "iwpm" / "weft_iwarp_connection")

    def listening(self, host):
        """Ports at which TCP sockets listen."""
        rows = [line.split() for line in self.fabric.run("exec", "--ns", host, "--", "cat", "/proc/net/tcp").splitlines()[1:]]
        return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}

    def check_connection(self, first, second):
        """T-IWPM-1: the daemons of the two hosts are these."""
        self.daemon("h1", first)
        self.daemon("h2", second)
        captured = self.capture("h1")
        listener = self.start("h2", self.driver(), "listen", address("h2", LISTENER))
        port = int(MAPPED.search(listener.stdout.readline())[1])
        eventually(lambda: port in self.listening("h2"), "nobody listens at the mapped port")
        self.assertNotIn(LISTENER, self.listening("h2"), "what is bound is another port than the one asked for")
        connecting = self.start("h1", self.driver(), "connect", address("h1", CONNECTING), address("h2", LISTENER))
        said, in_time = weft_clients.communicate(connecting, time.monotonic() + SECONDS)
        self.assertTrue(in_time and connecting.returncode == 0, said)
        mapped = MAPPED.search(said)
        self.assertEqual(int(mapped[2]), port, said)
        self.assertNotEqual(int(mapped[1]), CONNECTING, said)
        rest, in_time = weft_clients.communicate(listener, time.monotonic() + SECONDS)
        self.assertTrue(in_time and listener.returncode == 0, rest)
        self.assertIn(f"a connection of {address('h1', CONNECTING)} from {address('h1', mapped[1])}", rest)
        self.check_form(captured, said)

    def test_a_device_connects_by_the_ports_of_debians_iwpmd(self):
        self.check_connection("debian", "debian")

    def test_a_device_connects_by_our_ports(self):
        self.check_connection("weft", "weft")

    def test_a_device_connects_by_our_port_to_debians(self):
        self.check_connection("weft", "debian")

    def test_a_device_connects_by_debians_port_to_ours(self):
        self.check_connection("debian", "weft")

    def test_programs_connect_by_the_ports_of_either_daemon(self):
        self.daemon("h1", "debian")
        self.daemon("h2", "weft")
        listener = self.start("h2", self.program(), "listen", address("h2", LISTENER))
        self.assertRegex(listener.stdout.readline(), MAPPED)
        said = self.fabric.run("iwpm", "connect", "--host", "h1", address("h1", CONNECTING), address("h2", LISTENER))
        self.assertIn("connected", said)
        rest, in_time = weft_clients.communicate(listener, time.monotonic() + SECONDS)
        self.assertTrue(in_time, rest)
        self.assertIn(f"a connection of {address('h1', CONNECTING)}", rest)

    def test_without_daemons_a_device_connects_unmapped_within_a_second(self):
        """T-IWPM-3. Of more runs than one, since the machine may have other things to do."""
        took = []
        for turn in range(3):
            listener = self.start("h2", self.driver(), "listen", address("h2", LISTENER + turn))
            self.assertIn(f"mapped to {address('h2', LISTENER + turn)}", listener.stdout.readline())
            said = self.fabric.run("exec", "--ns", "h1", "--", self.driver(), "connect", address("h1", CONNECTING + turn), address("h2", LISTENER + turn))
            self.assertIn(f"{address('h1', CONNECTING + turn)} mapped to {address('h1', CONNECTING + turn)}", said)
            took.append(int(re.search(r"connected in (\d+) ms", said)[1]))
        self.assertLess(min(took), 1000)

    def refusal(self, host, *words):
        """Why a driver gets no mapping."""
        done = subprocess.run([self.fabric.weft, "iwpm", "map", "--host", host, *words], capture_output=True, text=True, timeout=SECONDS,
                              env=self.fabric.environment())
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr

    def test_errors_of_debians_iwpmd_reach_the_driver(self):
        """Part of R-IWPM-19: those that a daemon in order has cause for."""
        self.daemon("h1", "debian")
        self.daemon("h2", "debian")
        self.hold("h1", LISTENER)
        self.assertIn("mapped already", self.refusal("h1", address("h1", LISTENER)))
        said = self.map("h1", CONNECTING, "--remote", address("h2", LISTENER))  # which nobody has mapped there
        self.assertIn("does not answer or has no such mapping; its own address is used", said)

    def test_without_a_daemon_a_driver_goes_unmapped_at_once(self):
        start = time.monotonic()
        said = self.map("h3", LISTENER)
        self.assertIn(f"{address('h3', LISTENER)} mapped to {address('h3', LISTENER)}", said)
        self.assertLess(time.monotonic() - start, READY_SECONDS)

    def mappings(self, host):
        return json.loads(self.fabric.run("iwpm", "status", "--json", "--host", host))["mappings"]

    def test_a_killed_daemon_is_told_all_mappings_and_a_killed_driver_keeps_none(self):
        first = self.daemon("h1", "weft")
        drivers = [self.hold("h1", port) for port in (LISTENER, LISTENER + 1)]
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(SECONDS)
        self.daemon("h1", "weft")
        eventually(lambda: len(self.mappings("h1")) == len(drivers), "the mappings are not told again")
        self.assertEqual({int(entry["mapped"].rpartition(":")[2]) for entry in self.mappings("h1")}, {port for _, port in drivers})
        for child, _ in drivers:
            os.killpg(child.pid, signal.SIGKILL)
        eventually(lambda: not self.mappings("h1"), "a killed driver keeps its mappings")

    def test_the_guide_shows_what_happens(self):
        self.assertGreater(guide.check(self, GUIDE, self.folder), 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--verbose", action="store_true")
    arguments, rest = parser.parse_known_args()
    weft_clients.need_programs("iwpmd", "dumpcap", "tshark")
    start = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], verbosity=2 if arguments.verbose else 1, exit=False).result
    print(f"iwpm: {time.monotonic() - start:.0f} s")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
