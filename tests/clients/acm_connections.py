#!/usr/bin/env python3
"""Debian's unmodified ibacm beside programs that connect by RDMA-CM across a fat tree, under Weft's own subnet manager and under OpenSM: what ibacm has
resolved once, no host asks SA for again, and an ibacm that is killed in the middle of a question costs time and nothing else.

    acm_connections.py [--verbose]
"""
import argparse
import contextlib
import os
import pathlib
import signal
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
CLIENT, SERVER = "h2", "h7"      # on different leaves
OTHER = "h8"                     # whose path nobody knows
IN_THE_MIDDLE = 0.5              # policy, seconds: a host waits for a silent resolver for two
PROGRAMS = (
    (resolver.RPING_PORT, ("rping", "-s", "-C", "5"), ("rping", "-c", "-C", "5", "-a")),
    (18_515, ("ib_write_bw", "-R", "-n", "100"), ("ib_write_bw", "-R", "-n", "100")),
    (7471, ("ucmatose", "-c", "10"), ("ucmatose", "-c", "10", "-s")),
)


@contextlib.contextmanager
def managed(manager):
    """A fat tree under Weft's manager or OpenSM."""
    with weft_clients.Fabric(FAT_TREE + (" --no-sm" if manager == "OpenSM" else ""), name=f"acm-{os.getpid()}") as fabric:
        if manager != "OpenSM":
            yield fabric
            return
        with management.OpenSm(fabric, "minhop") as opensm:
            reason = opensm.wait_until_up()
            if reason:
                raise RuntimeError(f"OpenSM: {reason}\n{opensm.text()}")
            yield fabric


class AcmConnections(unittest.TestCase):
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
            lids = {port["name"]: port["lid"] for port in fabric.ports()}
            for host, capture in zip(hosts, captures):
                rows = live_changes.fields(capture.path, "infiniband.mad.mgmtclass", "infiniband.mad.attributeid", "infiniband.mad.method",
                                           "infiniband.lrh.slid")
                queries[host] = sum(1 for row in rows if row[:2] == [resolver.SA_CLASS, resolver.PATH_RECORD] and row[2] in ("0x01", "0x12")
                                    and int(row[3]) == lids[f"{host}:1"])

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

    def test_what_was_resolved_once_is_not_asked_of_sa(self):
        for manager in ("Weft's", "OpenSM"):
            with self.subTest(manager), managed(manager) as fabric, resolver.Acm(fabric, CLIENT), resolver.Acm(fabric, SERVER):
                source, destination = (resolver.gid_of(fabric, host) for host in (CLIENT, SERVER))
                taught = fabric.run("exec", "--ns", CLIENT, "--", "ib_acme", "-f", "g", "-s", source, "-d", destination)
                self.assertIn("return status 0x0", taught)
                for port, server, client in PROGRAMS:
                    with self.counted(fabric, CLIENT, SERVER) as queries:
                        serving = self.listen(fabric, SERVER, port, server)
                        self.finish(fabric.start(CLIENT, [*client, weft_clients.address_of(SERVER)]), serving)
                    self.assertEqual(queries, {CLIENT: 0, SERVER: 0}, server[0])

    def test_killed_in_the_middle_of_a_question_it_costs_time_alone(self):
        for manager in ("Weft's", "OpenSM"):
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
    parser.add_argument("--verbose", action="store_true")
    arguments, rest = parser.parse_known_args()
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    weft_clients.need_programs("ibacm", "ib_acme", "opensm", "rping", "ib_write_bw", "ucmatose", "tshark")
    start = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], verbosity=2 if arguments.verbose else 1, exit=False).result
    print(f"acm connections: {time.monotonic() - start:.0f} s")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
