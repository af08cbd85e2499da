#!/usr/bin/env python3
"""Debian's unmodified ibacm beside programs that connect by RDMA-CM across a fat tree, under Weft's own subnet manager and under OpenSM: what ibacm has
resolved once, no host asks SA for again, whether ibacm finds routes by SA or by its own protocol; what it has not, it asks for and the host does not; a storm
of connections reaches SA with one question a pair; and an ibacm that is killed in the middle of a question costs time and nothing else. Also that paths to
a port that goes are forgotten, by the hosts and by weft resolver, since SA's notices say so.

    acm_connections.py [--smoke] [--verbose]          --smoke: a smaller storm, and fewer combinations
"""
import argparse
import collections
import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import fat_tree
import live_changes
import management
import resolver
import weft_clients

FAT_TREE = "fat-tree:4:2"
STORM = pathlib.Path(__file__).with_name("connection_storm.c")
STORMS = {False: ("fat-tree:12:2", 64, 16), True: ("fat-tree:6:2", 12, 9)}  # smoke: (topology, hosts, connections that each begins)
PEERS = 4                        # of each host in the storm: other hosts that it connects to, with as many connections each as come out
CLIENT, SERVER = "h2", "h7"      # on different leaves
OTHER = "h8"                     # whose path nobody knows
MANAGERS = ("Weft's", "OpenSM")
ROUTES = ("sa", "acm")           # ibacm's route_prot
OWN_QUERY = "acmp_resolve_path_sa"  # of ibacm, in its log
IN_THE_MIDDLE = 0.5              # policy, seconds: a host waits for a silent resolver for two
PROGRAMS = (
    (resolver.RPING_PORT, ("rping", "-s", "-C", "5"), ("rping", "-c", "-C", "5", "-a")),
    (18_515, ("ib_write_bw", "-R", "-n", "100"), ("ib_write_bw", "-R", "-n", "100")),
    (7471, ("ucmatose", "-c", "10"), ("ucmatose", "-c", "10", "-s")),
)


@contextlib.contextmanager
def managed(manager, topology=FAT_TREE):
    """A fat tree under Weft's manager or OpenSM."""
    with weft_clients.Fabric(topology + (" --no-sm" if manager == "OpenSM" else ""), name=f"acm-{os.getpid()}") as fabric:
        if manager != "OpenSM":
            yield fabric
            return
        with management.OpenSm(fabric, "minhop") as opensm:
            reason = opensm.wait_until_up()
            if reason:
                raise RuntimeError(f"OpenSM: {reason}\n{opensm.text()}")
            yield fabric


def path_queries(capture):
    """[(LID of the asker, GID asked for, transaction)] of the PathRecord queries in a capture."""
    rows = live_changes.fields(capture.path, "infiniband.mad.mgmtclass", "infiniband.mad.attributeid", "infiniband.mad.method", "infiniband.lrh.slid",
                               "infiniband.pathrecord.dgid", "infiniband.mad.transactionid")
    return [(int(row[3]), row[4], row[5]) for row in rows if row[:2] == [resolver.SA_CLASS, resolver.PATH_RECORD] and row[2] in ("0x01", "0x12")]


def lids_of(fabric):
    return {port["name"]: port["lid"] for port in fabric.ports()}


class AcmConnections(unittest.TestCase):
    is_small = False

    @contextlib.contextmanager
    def counted(self, fabric, *hosts):
        """{host: PathRecord queries that it sent to SA} of what happens meanwhile, filled at the end."""
        queries = {}
        with tempfile.TemporaryDirectory(prefix="weft-acm-") as folder:
            captures = [fat_tree.Capture(fabric, (host, 1), folder) for host in hosts]
            with contextlib.ExitStack() as stack:
                for capture in captures:
                    stack.enter_context(capture)
                yield queries
            lids = lids_of(fabric)
            for host, capture in zip(hosts, captures):
                queries[host] = sum(1 for asker, _, _ in path_queries(capture) if asker == lids[f"{host}:1"])

    def listen(self, fabric, host, port, command):
        server = fabric.start(host, list(command))
        deadline = time.monotonic() + resolver.READY_SECONDS
        while not fabric.has_id(host, port):
            self.assertIsNone(server.poll(), server.stdout.read() if server.poll() is not None else "")
            self.assertLess(time.monotonic(), deadline, f"{command} does not listen")
            time.sleep(0.02)
        return server

    def finish(self, *children):
        for child in children:
            output, in_time = weft_clients.communicate(child, time.monotonic() + resolver.SECONDS)
            self.assertTrue(in_time, output)
            self.assertEqual(child.returncode, 0, output)

    def connect(self, fabric, program, server_host=SERVER):
        """{host: PathRecord queries that it sent} of one of the programs between two hosts."""
        port, server, client = program
        with self.counted(fabric, CLIENT, server_host) as queries:
            serving = self.listen(fabric, server_host, port, server)
            self.finish(fabric.start(CLIENT, [*client, weft_clients.address_of(server_host)]), serving)
        return queries

    def test_what_was_resolved_once_is_not_asked_of_sa(self):
        """After one warm-up by ibacm's own client no query leaves either host; a pair that nobody has warmed costs ibacm's own query and no other."""
        every = itertools.product(MANAGERS, ROUTES)
        for manager, routes in zip(MANAGERS, ROUTES) if self.is_small else every:
            with self.subTest(manager=manager, routes=routes), managed(manager) as fabric, \
                    resolver.Acm(fabric, CLIENT, routes=routes) as acm, resolver.Acm(fabric, SERVER, routes=routes):
                source, destination = (resolver.gid_of(fabric, host) for host in (CLIENT, SERVER))
                taught = fabric.run("exec", "--ns", CLIENT, "--", "ib_acme", "-f", "g", "-s", source, "-d", destination)
                self.assertIn("return status 0x0", taught)
                for number, program in enumerate(PROGRAMS, 1):
                    self.assertEqual(self.connect(fabric, program), {CLIENT: 0, SERVER: 0}, program[1][0])
                    self.assertEqual(acm.answers(), number, acm.text())  # the path was ibacm's each time: no program's is kept by the host
                before = acm.text().count(OWN_QUERY)
                self.assertEqual(self.connect(fabric, PROGRAMS[0], OTHER), {CLIENT: 1, OTHER: 0})
                self.assertEqual(acm.text().count(OWN_QUERY) - before, 1, "the query was not ibacm's")

    def eventually(self, condition, what):
        deadline = time.monotonic() + resolver.READY_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def flap(self, fabric, host, meanwhile=lambda: None):
        """Pulls the cable of a host and puts it back, when the subnet manager has seen each."""
        fabric.run("link", "down", f"{host}:1")
        meanwhile()
        fabric.run("link", "up", f"{host}:1")
        self.eventually(lambda: next(port["state"] for port in fabric.ports() if port["name"] == f"{host}:1") == "Active", f"{host} does not come back")

    def test_paths_to_a_port_that_goes_are_forgotten(self):
        """By the hosts themselves, and by weft resolver; those to other ports are not."""
        for manager in ("OpenSM",) if self.is_small else MANAGERS:
            with self.subTest(manager), managed(manager) as fabric:
                for host, asks in ((OTHER, True), (OTHER, False), (SERVER, True)):
                    self.assertEqual(self.connect(fabric, PROGRAMS[0], host)[CLIENT] > 0, asks)
                with resolver.Ours(fabric, CLIENT) as ours:
                    self.assertEqual(ours.counters()["hears_gids"], 1)
                    gone, stays = (resolver.gid_of(fabric, host) for host in (OTHER, SERVER))
                    sa = ("sa", "path", "--host", CLIENT)
                    for origin in ("from SA, which the resolver asked", "from the resolver's cache"):
                        for gid in (gone, stays):
                            self.assertIn(origin, fabric.run(*sa, gid))

                    def look():
                        self.eventually(lambda: ours.counters()["gids"] > 0, "SA's notice does not come")
                        self.assertIn("from the resolver's cache", fabric.run(*sa, stays))
                        with self.assertRaisesRegex(RuntimeError, "no path"):
                            fabric.run(*sa, gone)
                    self.flap(fabric, OTHER, look)
                    self.eventually(lambda: ours.counters()["gids"] > 1, "SA's notice does not come")  # that it is back
                    self.assertIn("from SA, which the resolver asked", fabric.run(*sa, gone))
                self.assertGreater(self.connect(fabric, PROGRAMS[0], OTHER)[CLIENT], 0, "the host has kept a path to a port that went")
                self.assertEqual(self.connect(fabric, PROGRAMS[0], SERVER)[CLIENT], 0, "the host has forgotten more than it had to")

    @contextlib.contextmanager
    def storming(self, fabric, hosts, each):
        """A connection_storm on each host, that listens: [(host, child)]."""
        with tempfile.TemporaryDirectory(prefix="weft-storm-") as folder:
            program = str(pathlib.Path(folder) / "connection_storm")
            subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", program, str(STORM), "-lrdmacm", "-libverbs"], check=True, timeout=60)
            children = []
            try:
                for place, host in enumerate(hosts):
                    peers = [weft_clients.address_of(hosts[(place + 1 + turn % PEERS) % len(hosts)]) for turn in range(each)]
                    children.append(subprocess.Popen([fabric.weft, "exec", host, "--", program, weft_clients.address_of(host), str(each), *peers],
                                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                                     env=fabric.environment(), start_new_session=True))
                for child in children:
                    self.assertEqual(child.stdout.readline(), "listens\n")
                yield children
            finally:
                for child in children:
                    if child.poll() is None:
                        weft_clients.end(child)
                    child.stdin.close()
                    child.stdout.close()

    def test_a_storm_reaches_sa_with_one_query_a_pair(self):
        topology, count, each = STORMS[self.is_small]
        hosts = [f"h{number}" for number in range(2, count + 2)]  # SA is at h1, whose port all queries cross
        for manager in MANAGERS:
            with self.subTest(manager), managed(manager, topology) as fabric, contextlib.ExitStack() as services:
                for acm in [services.enter_context(resolver.Acm(fabric, host, waits=False)) for host in hosts]:
                    acm.wait()
                with tempfile.TemporaryDirectory(prefix="weft-storm-") as folder, self.storming(fabric, hosts, each) as children:
                    start = time.monotonic()
                    with fat_tree.Capture(fabric, ("h1", 1), folder) as capture:
                        for child in children:
                            child.stdin.write("go\n")
                            child.stdin.flush()
                        said = [child.stdout.readline() for child in children]
                    self.assertEqual([line for line in said if not line.startswith("made ")], [])
                    took = max(int(line.split()[1]) for line in said)
                    asked = collections.Counter((asker, gid) for asker, gid, _ in path_queries(capture))
                    print(f"storm under {manager}: {count * each} connections of {count} hosts in {took} ms ({time.monotonic() - start:.1f} s with the capture), "
                          f"{sum(asked.values())} queries for {count * PEERS} pairs, at most {max(asked.values())} a pair")
                own = lids_of(fabric)["h1:1"]
                self.assertNotIn(own, {asker for asker, _ in asked})
                self.assertEqual(max(asked.values()), 1, [pair for pair, times in asked.items() if times > 1])
                self.assertEqual(len(asked), count * PEERS, "each pair has a path that somebody asked for")

    def test_killed_in_the_middle_of_a_question_it_costs_time_alone(self):
        for manager in MANAGERS:
            with self.subTest(manager), managed(manager) as fabric, resolver.Acm(fabric, CLIENT) as acm:
                port, server, client = PROGRAMS[0]
                serving = self.listen(fabric, OTHER, port, server)
                os.killpg(acm.child.pid, signal.SIGSTOP)
                with self.counted(fabric, CLIENT) as queries:
                    connecting = fabric.start(CLIENT, [*client, weft_clients.address_of(OTHER)])
                    time.sleep(IN_THE_MIDDLE)
                    self.assertIsNone(connecting.poll(), "it has not waited for its resolver")
                    acm.kill()
                    self.finish(connecting, serving)
                self.assertGreater(queries[CLIENT], 0, "SA was not asked")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    arguments, rest = parser.parse_known_args()
    AcmConnections.is_small = arguments.smoke
    weft_clients.need_programs("ibacm", "ib_acme", "opensm", "rping", "ib_write_bw", "ucmatose", "tshark", "gcc")
    start = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], verbosity=2 if arguments.verbose else 1, exit=False).result
    print(f"acm connections: {time.monotonic() - start:.0f} s")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
