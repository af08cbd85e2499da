#!/usr/bin/env python3
"""Debian's programs in virtual functions of two hosts' ports, each by itself and all at once: rdmacm-utils and perftest by RDMA-CM and without, UCX, Open MPI
and MPICH with a rank in each of eight functions, ibacm, saquery and ibv_devinfo, and a disk by SRP; beside programs in other functions of the same ports that
all use the same transaction and communication ids.

    function_programs.py [--verbose]

Functions are named as hosts are, so that host N answers to the address that it would have: h1 and h2 are the hosts, whose ports h3 to h10 and h11 to h14 share.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import iscsi_attach
import mpi
import namespaces
import rdmacm
import resolver
import srp
import ucx
import weft_clients

FUNCTIONS = [f"h{number}" for number in range(3, 11)]  # by turns of the port of h1 and of h2
OTHERS = [f"h{number}" for number in range(11, 15)]    # where the programs with equal ids run
ACM, ACM_PEER = "h3", "h6"       # on different ports
PAIRS = (("h3", "h4"), ("h5", "h7"), ("h8", "h10"), ("h9", "h2"), ("h1", "h6"))  # of different ports, of one, and with a host
QUERIES = 20
SECONDS = 120                    # policy: of one program beside all the others
EQUAL_IDS = f"transaction 7 communication IDs 1 to {2 * (len(OTHERS) - 1)}\n"


class FunctionPrograms(unittest.TestCase):
    def setUp(self):
        self.fabric = weft_clients.Fabric("star 2", name=f"functions-{os.getpid()}")
        self.fabric.__enter__()
        self.addCleanup(self.fabric.__exit__)
        place = tempfile.TemporaryDirectory(prefix="weft-functions-")
        self.addCleanup(place.cleanup)
        self.folder, self.ports = pathlib.Path(place.name), weft_clients.Ports()
        for number, name in enumerate(FUNCTIONS + OTHERS):
            self.fabric.run("vf", "add", f"h{number % 2 + 1}", name, *(("--trust", "on") if name in (ACM, ACM_PEER) else ()))
        states = lambda: {port["node"]: port["state"] for port in self.fabric.ports()}
        self.assertTrue(namespaces.eventually(lambda: all(states()[name] == "Active" for name in FUNCTIONS + OTHERS)), states())

    def exec(self, host, *command):
        """What a program on a host prints; it must succeed."""
        child = self.fabric.start(host, list(command))
        output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
        self.assertEqual(child.returncode if in_time else None, 0, f"{host}: {command}\n{output}")
        return output

    def good(self, outcome):
        self.assertEqual(outcome.verdict, "ok", f"{outcome.case.name}: {outcome.detail}\n{outcome.server_output}\n{outcome.client_output}")

    def by_address(self):
        """rping, ucmatose, mckey and its like, and perftest -R."""
        pairs = [pair for pair in (*rdmacm.rping(), *rdmacm.utilities(True), *rdmacm.perftests(True)) if "server6" not in str(pair.server)]
        self.assertGreater(len({pair.program for pair in pairs}), 7)
        for number, pair in enumerate(pairs):
            pair.timeout_seconds = SECONDS
            self.good(rdmacm.run_pair(self.fabric, pair, pair.port or self.ports.take(), PAIRS[number % len(PAIRS)]))

    def by_verbs(self):
        """perftest and ping-pong, which tell each other LIDs and QPNs."""
        for number, (program, *options) in enumerate((("ib_send_bw", "-n", "500"), ("ib_write_bw", "-n", "500"), ("ib_read_lat", "-n", "100"),
                                                      ("ib_send_bw", "-c", "UD", "-n", "100"), ("ibv_ud_pingpong", "-n", "100"), ("ibv_srq_pingpong", "-n", "100"))):
            case = weft_clients.Case(program, options, timeout_seconds=SECONDS)
            self.good(weft_clients.run_case(self.fabric, case, self.ports, PAIRS[number % len(PAIRS)]))

    def ucx(self):
        cases = [case for case in ucx.ucp_cases(True) if any(test in case.aspect for test in ("tag_bw", "ucp_put_lat", "ucp_fadd", "stream_lat"))]
        self.assertEqual(len(cases), 8, "four tests over rc and ud")
        for number, case in enumerate(cases):
            case.timeout_seconds = SECONDS
            self.good(weft_clients.run_case(self.fabric, case, self.ports, PAIRS[number % len(PAIRS)]))

    def mpi(self):
        """A rank in each of eight functions; each checks every word that it gets."""
        for way in mpi.WAYS:
            self.good(mpi.run(self.fabric, self.folder, way, FUNCTIONS, len(FUNCTIONS)))

    def acm(self):
        """ibacm in two functions that are trusted with its Q_Key: each finds the other by ibacm's own protocol, and the path of a connection is ibacm's answer."""
        with resolver.Acm(self.fabric, ACM, routes="acm") as acm, resolver.Acm(self.fabric, ACM_PEER, routes="acm"):
            source, destination = (resolver.gid_of(self.fabric, host) for host in (ACM, ACM_PEER))
            taught = self.fabric.run("exec", "--ns", ACM, "--", "ib_acme", "-f", "g", "-s", source, "-d", destination, timeout=SECONDS)
            self.assertIn("return status 0x0", taught)
            before = acm.answers()
            self.good(rdmacm.run_pair(self.fabric, next(rdmacm.rping()), self.ports.take(), (ACM_PEER, ACM)))
            self.assertGreater(acm.answers(), before, acm.text())

    def queries(self):
        """Tables of SA, by RMPP, and what functions say of themselves."""
        gids = {}
        for number in range(QUERIES):
            host = FUNCTIONS[number % len(FUNCTIONS)]
            self.assertEqual(self.exec(host, "saquery", "NR").count("NodeRecord dump"), 3, "h1, h2 and the switch")
            shown = self.exec(host, "ibv_devinfo", "-v")
            self.assertIn("PORT_ACTIVE", shown)
            self.assertEqual(gids.setdefault(host, gid := re.search(r"GID\[\s*0\]:\s*(\S+)", shown)[1]), gid)
        self.assertEqual(len(set(gids.values())), len(FUNCTIONS))

    def srp(self):
        """A disk of a function of h1's port, used in one of h2's: an image there and back."""
        image, back = iscsi_attach.random_image(self.folder), self.folder / "back"
        with srp.Target(self.fabric, "--lun", "ram:64M", host="h5") as target:
            unit = iscsi_attach.Attached(self.folder, target.url(), command=[self.fabric.weft, "exec", "h8", "--", *namespaces.preloaded([self.fabric.weft, "srp"])],
                                         environment=self.fabric.environment())
            with unit:
                for source, destination in ((str(image), unit.nbd), (unit.nbd, str(back))):
                    done = subprocess.run(["nbdcopy", "--flush", source, destination], capture_output=True, text=True, timeout=SECONDS, check=False)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr + unit.text())
            loaded = json.loads(self.exec("h10", self.fabric.weft, "srp", "load", target.url(), "--json", "--seconds", "2"))
            self.assertGreater(loaded["commands"], 0, loaded)
            self.assertEqual(target.stop()[0], 0)
        self.assertEqual(back.read_bytes()[:image.stat().st_size], image.read_bytes())

    def equal_ids(self):
        """Part of T-SRI-1, as sriov.py has it whole: who gets another's message says so."""
        ports = {port["node"]: port for port in self.fabric.ports() if port["port"] == 1}
        places = [f"{ports[host]['lid']}/{ports[host]['gid']}" for host in OTHERS]
        program = weft_clients.build_folder() / "tests" / "sriov" / "weft_equal_ids"
        meeting = self.folder / "meeting"
        meeting.mkdir()
        children = [self.fabric.start(host, [str(program), str(meeting), str(number), *places]) for number, host in enumerate(OTHERS)]
        for child in children:
            output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
            self.assertEqual((child.returncode if in_time else None, output), (0, EQUAL_IDS))

    def test_all_at_once(self):
        parts = (self.mpi, self.by_address, self.by_verbs, self.ucx, self.acm, self.queries, self.srp, self.equal_ids)
        with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
            begun = {pool.submit(part): part.__name__ for part in parts}
            wrong = [f"{begun[done]}: {problem}" for done in concurrent.futures.as_completed(begun) if (problem := done.exception())]
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_ibacm_needs_trust(self):
        self.fabric.run("vf", "set", ACM, "--trust", "off")
        with self.assertRaisesRegex(RuntimeError, "failed to modify QP to init"):
            resolver.Acm(self.fabric, ACM).__enter__()
        self.fabric.run("vf", "set", ACM, "--trust", "on")
        self.acm()


if __name__ == "__main__":
    weft_clients.need_programs("rping", "ucmatose", "mckey", "ib_write_bw", "ibv_ud_pingpong", "ucx_perftest", "mpirun", "mpirun.mpich", "ibacm", "ib_acme", "saquery",
                               "ibv_devinfo", "nbdcopy")
    unittest.main(verbosity=2)
