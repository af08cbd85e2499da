#!/usr/bin/env python3
"""Direct placement, judged by Debian's perftest, perfquery and rdma-core: which way long WRITEs and READs go and why; that counters are the same either way; that
captures and rules of faults get their packets while the programs run; programs that are stopped and killed in the middle; the commands of the guide.

    placement.py
"""
import fcntl
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import guide
import weft_clients

GUIDE = weft_clients.ROOT / "docs" / "guide" / "placement.md"
PATIENCE_SECONDS = 60
LENGTH = 65536
MESSAGES = 500
ATOMICS = ("FETCH_AND_ADD", "CMP_AND_SWAP")
ATOMICS_COUNTED = 20_000
ANSWER_BYTES = 4096  # of everything else that the two say: addresses, and the first message's packets are in both
PLACED = "placed"
PAGES = "shared pages"
CALLS = {"WEFT_PLACEMENT": "cma"}
# A program that may write no long file keeps its memory private, which is how it gets system calls under `auto`.
KEEPS_PRIVATE = ("prlimit", "--fsize=1048576")
FILE_BYTES = 1 << 24
STOPPED_SECONDS = 1.5
PCAP_HEADER_BYTES, PCAP_RECORD_BYTES, ERF_LOST_AT = 24, 16, 12


def are_placed_in_pages(fabric, host, shown):
    """Whether data of a QP of this host is placed in pages that both ends map; `shown` becomes what `weft status --qps` says of them."""
    shown[:] = [qp for qp in json.loads(fabric.run("status", "--qps", "--json")) if qp["host"] == host]
    return any(qp.get("way") == PLACED and PAGES in qp["why"] for qp in shown)


def lost_counts_of(capture):
    """Of each ERF record of a pcap file, how many packets are missing before it."""
    at = PCAP_HEADER_BYTES
    while at < len(capture):
        kept, = struct.unpack_from("<8xI", capture, at)
        yield struct.unpack_from(">H", capture, at + PCAP_RECORD_BYTES + ERF_LOST_AT)[0]
        at += PCAP_RECORD_BYTES + kept


class Placement(unittest.TestCase):
    def setUp(self):
        self.buffers = {}  # files, by host

    def fabric(self, *options, environment=None):
        fabric = weft_clients.Fabric(" ".join(("star 2", *options)), f"placement-{os.getpid()}")
        fabric.__enter__()
        self.addCleanup(fabric.__exit__)
        self.environment = {"WEFT_PLACEMENT": "direct", **(environment or {})}
        return fabric

    def start(self, fabric, host, command):
        if host in self.buffers:
            file = self.buffers[host]
            os.set_inheritable(file, True)
            command = [*command, f"--mmap=/proc/self/fd/{file}"]
        child = fabric.start(host, command, self.environment, pass_fds=tuple(self.buffers.values()))
        self.addCleanup(child.stdout.close)
        self.addCleanup(weft_clients.end, child)
        return child

    def start_pair(self, fabric, *command):
        port = str(weft_clients.Ports().take())
        server = self.start(fabric, "h1", [*command, "-p", port])
        self.wait_until(lambda: weft_clients.somebody_listens(int(port)), "the server listens")
        return server, self.start(fabric, "h2", [*command, "-p", port, weft_clients.address_of("h1")])

    def start_pair_in_files(self, fabric, *command):
        """Each with a buffer that is a mapping of a sealed file in memory, which the other can map as well."""
        for host in ("h1", "h2"):
            file = os.memfd_create(f"placement-{host}", os.MFD_ALLOW_SEALING)
            self.addCleanup(os.close, file)
            os.ftruncate(file, FILE_BYTES)
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            self.buffers[host] = file
        return self.start_pair(fabric, *command)

    def run_pair(self, fabric, *command):
        self.must_succeed(*self.start_pair(fabric, *command))

    def must_succeed(self, *children):
        """What each of them has said stands in the failure: a server fails because its client did, and the reverse."""
        texts = [child.communicate(timeout=PATIENCE_SECONDS)[0] for child in children]
        self.assertEqual([child.returncode for child in children], [0] * len(children), "\n== and the other\n".join(texts))

    def wait_until(self, holds, what):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            self.assertLess(time.monotonic(), deadline, f"never: {what}")
            time.sleep(0.1)

    def qps(self, fabric, host="h2"):
        done = subprocess.run([fabric.weft, "status", "--qps", "--json", "--name", fabric.name], capture_output=True, text=True, timeout=PATIENCE_SECONDS,
                              check=True, env=fabric.environment())
        return [qp for qp in json.loads(done.stdout) if qp["host"] == host and qp["state"] == "RTS"]

    def wait_for_way(self, fabric, way, why=""):
        found = []

        def goes_by():
            found[:] = self.qps(fabric)
            return any(qp.get("way") == way and why in qp["why"] for qp in found)

        try:
            self.wait_until(goes_by, f"{way}: {why}")
        except AssertionError as never:
            raise AssertionError(f"{never}; but QPs ready to send are {found}") from None

    def pid_of_client(self, fabric):
        pids = set()
        self.wait_until(lambda: pids.update(qp["pid"] for qp in self.qps(fabric)) or pids, "the client answers what it holds")
        return pids.pop()

    def counters(self, fabric):
        done = subprocess.run([fabric.weft, "status", "--counters", "--json", "--name", fabric.name], capture_output=True, text=True, timeout=PATIENCE_SECONDS,
                              check=True, env=fabric.environment())
        return {port["name"]: port["counters"] for port in json.loads(done.stdout)["ports"]}

    def traffic_of(self, environment, *command, start=None):
        """What a run adds to the counters of each port, by a fabric of its own."""
        fabric = self.fabric(environment=environment)
        before = self.counters(fabric)
        self.must_succeed(*(start or self.start_pair)(fabric, *command))
        after = self.counters(fabric)
        fabric.__exit__()
        return {port: {name: after[port][name] - before[port][name] for name in after[port]} for port in after}

    def test_write_and_read_are_placed(self):
        fabric = self.fabric(environment=CALLS)
        for program in ("ib_write_bw", "ib_read_bw", "ib_write_lat", "ib_read_lat"):
            with self.subTest(program):
                children = self.start_pair(fabric, program, "-D", "4", "-s", str(LENGTH))
                self.wait_for_way(fabric, PLACED, "system call")
                self.must_succeed(*children)

    def test_private_memory_comes_to_be_shared(self):
        """As the programs are: their buffers are of malloc, and they know of nothing."""
        fabric = self.fabric(environment={"WEFT_PLACEMENT": "auto"})
        for program in ("ib_write_lat", "ib_read_lat", "ib_write_bw", "ib_read_bw"):
            for length in ("8", str(LENGTH)):
                with self.subTest(program=program, length=length):
                    self.must_go_by_pages(fabric, self.start_pair(fabric, program, "-D", "4", "-s", length))

    def test_memory_stays_private_where_it_must(self):
        fabric = self.fabric()
        self.start_pair(fabric, *KEEPS_PRIVATE, "ib_write_bw", "-D", "60", "-s", str(LENGTH))
        self.wait_for_way(fabric, PLACED, "system call")

    def test_counters_are_those_of_the_packets(self):
        for program in ("ib_write_bw", "ib_read_bw"):
            for length in (LENGTH, 5000):
                command = (program, "-n", str(MESSAGES), "-s", str(length), "-t", "1", "-Q", "1")
                placed = self.traffic_of(CALLS, *command)
                sent = self.traffic_of({"WEFT_PLACEMENT": "packets"}, *command)
                for port in ("h1:1", "h2:1"):
                    for name in ("xmit_packets", "xmit_data", "rcv_packets", "rcv_data"):
                        with self.subTest(program=program, length=length, port=port, name=name):
                            # MADs of the subnet manager pass in both.
                            self.assertAlmostEqual(placed[port][name], sent[port][name], delta=max(ANSWER_BYTES, sent[port][name] // 50))

    def test_a_rule_of_faults_and_a_capture_get_their_packets(self):
        fabric = self.fabric(environment=CALLS)
        self.start_pair(fabric, "ib_write_bw", "-D", "60", "-s", str(LENGTH))
        self.wait_for_way(fabric, PLACED)
        fabric.run("fault", "add", "drop every=100000 out=h2:1", "--name", fabric.name)
        self.wait_for_way(fabric, "packets", "capture")
        fabric.run("fault", "clear", "--name", fabric.name)
        self.wait_for_way(fabric, PLACED)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "capture.pcap"
            capture = subprocess.Popen([fabric.weft, "capture", "h1", "--output", str(file), "--name", fabric.name], stdout=subprocess.DEVNULL,
                                       env=fabric.environment(), start_new_session=True)
            self.addCleanup(weft_clients.end, capture)
            self.wait_for_way(fabric, "packets", "capture")
            self.wait_until(lambda: file.exists() and file.stat().st_size > 10 * LENGTH, "packets are captured")
            capture.send_signal(signal.SIGINT)
            capture.wait(timeout=PATIENCE_SECONDS)
        self.wait_for_way(fabric, PLACED)

    def test_a_capture_that_is_stopped_holds_nobody_up(self):
        """It has every packet until then, and says that some are missing behind it, in the file as well: ERF's loss counter."""
        fabric = self.fabric(environment=CALLS)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "capture.pcap"
            capture = subprocess.Popen([fabric.weft, "capture", "h1", "--output", str(file), "--name", fabric.name], stderr=subprocess.PIPE, text=True,
                                       env=fabric.environment(), start_new_session=True)
            self.addCleanup(weft_clients.end, capture)
            self.wait_until(file.exists, "the capture begins")
            children = self.start_pair(fabric, "ib_write_bw", "-D", "4", "-s", str(LENGTH))
            self.wait_until(lambda: file.stat().st_size > 10 * LENGTH, "packets are captured")
            capture.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_SECONDS)
            capture.send_signal(signal.SIGCONT)
            self.must_succeed(*children)
            capture.send_signal(signal.SIGINT)
            _, said = capture.communicate(timeout=PATIENCE_SECONDS)
            self.assertRegex(said, "[1-9][0-9]* packets or more are missing: this command was stopped")
            in_file = sum(lost_counts_of(file.read_bytes()))  # at most 65535 of a gap
            self.assertGreater(in_file, 0)
            self.assertLessEqual(in_file, int(re.search("([0-9]+) packets or more", said)[1]))

    def test_who_does_not_want_it_gets_packets(self):
        fabric = self.fabric("--isolate")
        self.start_pair(fabric, "ib_write_bw", "-D", "60", "-s", str(LENGTH))
        self.wait_for_way(fabric, "packets", "--isolate")
        fabric.__exit__()
        fabric = self.fabric(environment={"WEFT_PLACEMENT": "packets"})
        self.start_pair(fabric, "ib_write_bw", "-D", "60", "-s", str(LENGTH))
        self.wait_for_way(fabric, "packets", "WEFT_PLACEMENT")

    def must_go_by_pages(self, fabric, children):
        self.wait_for_way(fabric, PLACED, PAGES)
        self.must_succeed(*children)

    def test_files_of_programs_are_shared(self):
        fabric = self.fabric(environment={"WEFT_PLACEMENT": "auto"})
        for program, length in (("ib_write_lat", "8"), ("ib_read_bw", str(LENGTH))):
            with self.subTest(program):
                self.must_go_by_pages(fabric, self.start_pair_in_files(fabric, program, "-D", "4", "-s", length))

    def test_atomics_are_performed_in_shared_pages(self):
        fabric = self.fabric(environment={"WEFT_PLACEMENT": "auto"})
        for program, start in (("ib_atomic_lat", self.start_pair), ("ib_atomic_bw", self.start_pair_in_files)):
            for kind in ATOMICS:
                with self.subTest(program=program, kind=kind):
                    self.must_go_by_pages(fabric, start(fabric, program, "-D", "4", "-A", kind))

    def test_atomics_are_packets_where_pages_are_not_shared(self):
        fabric = self.fabric(environment=CALLS)
        self.start_pair(fabric, "ib_atomic_bw", "-D", "60")
        self.wait_for_way(fabric, "packets", "atomics")

    def test_counters_of_atomics_are_those_of_the_packets(self):
        for kind in ATOMICS:
            command = ("ib_atomic_bw", "-n", str(ATOMICS_COUNTED), "-A", kind)
            placed = self.traffic_of({"WEFT_PLACEMENT": "auto"}, *command, start=self.start_pair_in_files)
            sent = self.traffic_of({"WEFT_PLACEMENT": "packets"}, *command, start=self.start_pair_in_files)
            for port in ("h1:1", "h2:1"):
                for name in ("xmit_packets", "xmit_data", "rcv_packets", "rcv_data"):
                    with self.subTest(kind=kind, port=port, name=name):
                        self.assertAlmostEqual(placed[port][name], sent[port][name], delta=max(ANSWER_BYTES, sent[port][name] // 50))

    def test_shared_pages_are_not_for_those_who_want_packets(self):
        fabric = self.fabric(environment={"WEFT_PLACEMENT": "packets"})
        self.start_pair_in_files(fabric, "ib_write_bw", "-D", "60", "-s", "8")
        self.wait_for_way(fabric, "packets", "WEFT_PLACEMENT")

    def test_a_capture_gets_packets_although_pages_are_shared(self):
        fabric = self.fabric(environment={"WEFT_PLACEMENT": "auto"})
        self.start_pair_in_files(fabric, "ib_write_bw", "-D", "60", "-s", str(LENGTH))
        self.wait_for_way(fabric, PLACED, PAGES)
        fabric.run("fault", "add", "drop every=100000 out=h2:1", "--name", fabric.name)
        self.wait_for_way(fabric, "packets", "capture")
        fabric.run("fault", "clear", "--name", fabric.name)
        self.wait_for_way(fabric, PLACED, PAGES)

    def server_ends_while_client_is_stopped(self, fabric, server, client):
        pid = self.pid_of_client(fabric)
        os.kill(pid, signal.SIGSTOP)
        try:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=PATIENCE_SECONDS)
        finally:
            os.kill(pid, signal.SIGCONT)
        weft_clients.end(client)

    def test_a_stopped_initiator_in_shared_pages_holds_nobody_up(self):
        """It stores without a pause, so that it is mostly in the middle when it is stopped, and its server ends meanwhile."""
        fabric = self.fabric(environment={"WEFT_PLACEMENT": "auto"})
        server, client = self.start_pair_in_files(fabric, "ib_write_bw", "-D", "60", "-s", str(1 << 20))
        self.wait_for_way(fabric, PLACED, PAGES)
        self.server_ends_while_client_is_stopped(fabric, server, client)

    def test_auto_places_short_messages_to_a_peer_that_is_slow_to_look(self):
        """Both spin on one CPU, so that a packet waits until the target's thread gets it."""
        fabric = self.fabric(environment={"WEFT_PLACEMENT": "auto"})
        self.start_pair(fabric, *KEEPS_PRIVATE, "taskset", "-c", "0", "ib_write_lat", "-D", "60", "-s", "8")
        self.wait_for_way(fabric, PLACED, "system call")

    def test_kills_and_stops_hold_nobody_up(self):
        """The client copies without a pause, so that it is mostly inside a copy when it is stopped or killed; and the server when that goes."""
        fabric = self.fabric(environment=CALLS)
        for killed in ("h1", "h2"):
            with self.subTest(killed):
                server, client = self.start_pair(fabric, "ib_write_bw", "-D", "60", "-s", str(1 << 20))
                self.wait_for_way(fabric, PLACED)
                pid = self.pid_of_client(fabric)
                os.kill(pid, signal.SIGSTOP)
                self.assertEqual(self.counters(fabric)["h1:1"]["link_downed"], 0)  # the daemon answers
                os.kill(pid, signal.SIGCONT)
                self.wait_for_way(fabric, PLACED)
                victim, other = (server, client) if killed == "h1" else (client, server)
                os.killpg(victim.pid, signal.SIGKILL)
                victim.wait(timeout=PATIENCE_SECONDS)
                if killed == "h1":  # the client's QP ends in error
                    text, _ = other.communicate(timeout=PATIENCE_SECONDS)
                    self.assertNotEqual(other.returncode, 0, text)
                else:
                    weft_clients.end(other)
        self.run_pair(fabric, "ib_write_bw", "-n", "100", "-s", str(LENGTH))

    def test_an_owner_deregisters_although_the_initiator_is_stopped(self):
        """The server ends while the client is stopped: ibv_dereg_mr returns, and the process goes."""
        fabric = self.fabric(environment=CALLS)
        server, client = self.start_pair(fabric, "ib_write_bw", "-D", "60", "-s", str(1 << 20))
        self.wait_for_way(fabric, PLACED)
        self.server_ends_while_client_is_stopped(fabric, server, client)

    def test_the_guide(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertGreater(guide.check(self, GUIDE, pathlib.Path(folder)), 8)


if __name__ == "__main__":
    unittest.main()
