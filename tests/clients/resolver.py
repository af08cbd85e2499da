#!/usr/bin/env python3
"""Resolvers of paths over RDMA netlink (RDMA_NL_LS), which a host's kernel side asks before SA: Debian's unmodified ibacm, weft-resolver, and such
as hang, lie or answer what nobody asked.

    resolver.py [--verbose]

What goes to SA a capture of the host's port shows. ibacm asks SA itself for a path that it does not know yet, and answers from its cache afterwards.
"""
import argparse
import json
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

import fat_tree
import guide
import live_changes
import weft_clients

GUIDE = weft_clients.ROOT / "docs" / "guide" / "resolver.md"
HOST = "h2"                      # SA is at h1, whose questions to it cross no port
HOST_OF_OURS, HOST_OF_ODD = "h9", "h10"  # a host keeps the paths that it has
READY_SECONDS = 20               # policy
SECONDS = 60                     # policy: of one client
RPING_PORT = 7174
OUTSIDE = "10.9.8.7"             # an address in no subnet of the fabric's
SA_CLASS, PATH_RECORD = "0x03", "0x0035"


class Acm:
    """ibacm on a host as a namespace, which has a /run of its own, until the end of a with block."""

    def __init__(self, fabric, host, waits=True, routes="sa"):
        self.fabric, self.host, self.waits, self.routes = fabric, host, waits, routes

    def __enter__(self):
        self.place = tempfile.TemporaryDirectory(prefix="weft-acm-")
        folder = pathlib.Path(self.place.name)
        self.log = folder / "log"
        (folder / "addresses").write_text(f"{self.host} weft0 1 default\n{weft_clients.address_of(self.host)} weft0 1 default\n", encoding="utf-8")
        (folder / "options").write_text(f"log_file {self.log}\nlog_level 2\nlock_file {folder}/lock\nsupport_ips_in_addr_cfg 1\naddr_prot acm\n"
                                        f"route_prot {self.routes}\nprovider ibacmp default\n", encoding="utf-8")
        self.child = subprocess.Popen([self.fabric.weft, "exec", "--ns", self.host, "--", "ibacm", "--systemd", "-P", "-A", str(folder / "addresses"),
                                       "-O", str(folder / "options")], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      start_new_session=True, env=self.fabric.environment())
        return self.wait() if self.waits else self

    def wait(self):
        deadline = time.monotonic() + READY_SECONDS
        while "join successful" not in self.text():
            if self.child.poll() is not None or time.monotonic() > deadline:
                text = self.text()
                self.__exit__()
                raise RuntimeError(f"ibacm is not ready\n{text}")
            time.sleep(0.05)
        return self

    def kill(self):
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(READY_SECONDS)

    def __exit__(self, *_):
        weft_clients.end(self.child)
        self.place.cleanup()

    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def answers(self):
        return self.text().count("acm_nl_send: acm status success")


class Ours:
    """weft-resolver on a host, until the end of a with block."""

    def __init__(self, fabric, host, *options):
        self.fabric, self.host, self.options = fabric, host, options

    def __enter__(self):
        program = weft_clients.build_folder() / "src" / "programs" / "resolver" / "weft-resolver"
        self.child = run_until_it_listens(self.fabric, self.host, [str(program), *self.options])
        return self

    def __exit__(self, *_):
        weft_clients.end(self.child)
        self.child.stdout.close()

    def counters(self):
        return json.loads(self.fabric.run("resolver", "status", "--json", "--host", self.host))


def connections(fabric):
    """RDMA-CM ids of all hosts."""
    return json.loads(fabric.run("status", "--json"))["connections"]


def gid_of(fabric, host):
    return re.search(r"GID\[\s*0\]:\s*(\S+)", fabric.run("exec", host, "--", "ibv_devinfo", "-v"))[1].split(",")[0]


def run_until_it_listens(fabric, host, command):
    child = subprocess.Popen([fabric.weft, "exec", "--ns", host, "--", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors="replace", env=fabric.environment(), start_new_session=True)
    line = child.stdout.readline()
    if "listens" not in line:
        weft_clients.end(child)
        raise RuntimeError(f"{command}: {line}{child.stdout.read()}")
    return child


class Resolver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fabric = weft_clients.Fabric("star 10", name=f"resolver-{os.getpid()}")
        cls.fabric.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.fabric.__exit__()

    def gid(self, host):
        return gid_of(self.fabric, host)

    def connect(self, peer, client=HOST):
        """rping to a host; how often this one asked SA for a path meanwhile. It keeps the paths that it has: each peer is asked for once."""
        address = weft_clients.address_of(peer)
        with tempfile.TemporaryDirectory(prefix="weft-resolver-") as folder:
            with fat_tree.Capture(self.fabric, (client, 1), pathlib.Path(folder)) as capture:
                server = self.fabric.start(peer, ["rping", "-s", "-a", address, "-C", "5"])
                deadline = time.monotonic() + READY_SECONDS
                while not self.fabric.has_id(peer, RPING_PORT):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.02)
                ours = self.fabric.start(client, ["rping", "-c", "-a", address, "-C", "5"])
                for child in (ours, server):
                    output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
                    self.assertTrue(in_time, output)
                    self.assertEqual(child.returncode, 0, output)
            rows = live_changes.fields(capture.path, "infiniband.mad.mgmtclass", "infiniband.mad.attributeid", "infiniband.mad.method", "infiniband.lrh.slid")
        own = next(port["lid"] for port in self.fabric.ports() if port["name"] == f"{client}:1")
        return sum(1 for row in rows if row[0] == SA_CLASS and row[1] == PATH_RECORD and row[2] in ("0x01", "0x12") and int(row[3]) == own)

    def test_ibacm_is_asked_before_sa_and_sa_when_it_is_gone(self):
        self.assertGreater(self.connect("h3"), 0, "without a resolver a host asks SA")
        with Acm(self.fabric, HOST) as acm:
            taught = self.fabric.run("exec", "--ns", HOST, "--", "ib_acme", "-f", "g", "-s", self.gid(HOST), "-d", self.gid("h4"))
            self.assertIn("return status 0x0", taught)
            self.assertEqual(self.connect("h4"), 0, "what ibacm knows SA is not asked for")
            self.assertEqual(acm.answers(), 1, acm.text())
            self.assertEqual(self.connect("h5"), 1, "what ibacm does not know it asks SA for, and the host does not")
            self.assertEqual(acm.answers(), 2, acm.text())
            acm.kill()
            self.assertGreater(self.connect("h6"), 0, "a host whose resolver was killed asks SA")

    def test_a_stopped_ibacm_costs_its_deadline_and_no_more(self):
        with Acm(self.fabric, HOST) as acm:
            os.killpg(acm.child.pid, signal.SIGSTOP)
            try:
                self.assertGreater(self.connect("h7"), 0, "a host whose resolver is silent asks SA")
            finally:
                os.killpg(acm.child.pid, signal.SIGCONT)

    def test_other_hosts_do_not_ask_it(self):
        with Acm(self.fabric, "h3") as acm:
            self.assertGreater(self.connect("h8"), 0)
            self.assertEqual(acm.answers(), 0, acm.text())

    def sa(self, *words, host=HOST_OF_OURS):
        return self.fabric.run("sa", *words, "--host", host)

    def test_ours_answers_the_kernel_from_what_it_knows(self):
        """Part of T-NL-1, live: no PathRecord query leaves a host whose resolver knows the path."""
        gid = self.gid("h3")
        with Ours(self.fabric, HOST_OF_OURS) as resolver:
            # As RDMA-CM asks (annex A11 has the service of rping's port): paths are kept by what was asked for.
            asked = ("path", gid, "--pkey", "0xffff", "--service", f"0x{0x0106_0000 + RPING_PORT:x}")
            self.assertIn("from SA, which the resolver asked", self.sa(*asked))
            said = self.sa(*asked)
            self.assertIn("from the resolver's cache", said)
            self.assertEqual(*(text.rpartition("from ")[0] for text in (said, self.sa(*asked, "--no-resolver"))))
            before = resolver.counters()
            self.assertEqual(before["shows_paths"], 1)
            self.assertEqual(self.connect("h3", client=HOST_OF_OURS), 0)
            after = resolver.counters()
            self.assertEqual(after["requests"], before["requests"], "the kernel's side looks where the resolver shows its paths")
            self.assertEqual(self.connect("h4", client=HOST_OF_OURS), 1, "what it does not show it is asked for, and asks SA")
            self.assertEqual(resolver.counters()["requests"], before["requests"] + 1)
        self.assertGreater(self.connect("h6", client=HOST_OF_OURS), 0, "a host whose resolver has gone asks SA")

    def test_addresses_outside_of_the_hosts_subnets_are_asked_of_it(self):
        """RDMA_NL_LS's IP_RESOLVE: no interface of the host leads to 10.9.8.7; whose it is only the resolver has been told."""
        host, peer = "h5", "h7"  # of which no other test asks whether the path is known
        listener = self.fabric.start(peer, ["rping", "-s", "-C", "5", "-V"])
        self.addCleanup(weft_clients.end, listener)
        self.assertTrue(self.eventually(lambda: self.fabric.has_id(peer, RPING_PORT)))
        client = ["rping", "-c", "-a", OUTSIDE, "-C", "5", "-V"]
        lost = self.fabric.start(host, client)
        output, in_time = weft_clients.communicate(lost, time.monotonic() + SECONDS)
        self.assertTrue(in_time and lost.returncode != 0, output)
        with tempfile.TemporaryDirectory(prefix="weft-resolver-") as folder:
            file = pathlib.Path(folder) / "addresses"
            file.write_text(f"{OUTSIDE} {self.gid(peer)}\n", encoding="utf-8")
            with Ours(self.fabric, host, "--preload", str(file)) as resolver:
                for child in (self.fabric.start(host, client), listener):
                    output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
                    self.assertEqual(child.returncode if in_time else None, 0, output)
                self.assertGreater(resolver.counters()["requests"], 0)

    def eventually(self, holds):
        deadline = time.monotonic() + READY_SECONDS
        while not holds() and time.monotonic() < deadline:
            time.sleep(0.02)
        return holds()

    def test_ours_answers_by_netlink_alone_if_it_is_told_to(self):
        gid = self.gid("h7")
        with Ours(self.fabric, HOST_OF_OURS, "--no-shared-memory") as resolver:
            self.sa("path", gid, "--pkey", "0xffff", "--service", f"0x{0x0106_0000 + RPING_PORT:x}")
            before = resolver.counters()
            self.assertEqual(before["shows_paths"], 0)
            self.assertEqual(self.connect("h7", client=HOST_OF_OURS), 0)
            after = resolver.counters()
            self.assertEqual(after["asked_of_sa"], before["asked_of_sa"])
            self.assertGreater(after["hits"], before["hits"])

    def test_a_killed_resolver_shows_nothing_more(self):
        """Its memory stays where others have mapped it: what it showed is not believed any more."""
        with Ours(self.fabric, HOST_OF_OURS) as resolver:
            self.sa("path", self.gid("h8"), "--pkey", "0xffff", "--service", f"0x{0x0106_0000 + RPING_PORT:x}")
            os.killpg(resolver.child.pid, signal.SIGKILL)
            resolver.child.wait(READY_SECONDS)
            self.assertGreater(self.connect("h8", client=HOST_OF_OURS), 0)
        with Ours(self.fabric, HOST_OF_OURS) as resolver:
            self.assertEqual(resolver.counters()["shows_paths"], 1, "the next one shows its own")

    def test_names_and_addresses_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "hosts"
            file.write_text(f"storage-7 {self.gid('h3')}\n10.1.2.3 {self.gid('h3')}\n", encoding="utf-8")
            with Ours(self.fabric, HOST_OF_OURS, "--preload", str(file)):
                by_gid = self.sa("path", self.gid("h3"), "--no-resolver")
                for name in ("storage-7", "10.1.2.3"):
                    self.assertEqual(self.sa("path", name).rpartition("from ")[0], by_gid.rpartition("from ")[0])

    def test_watchers_hear_of_paths_and_changes(self):
        with Ours(self.fabric, HOST_OF_OURS):
            watching = subprocess.Popen([self.fabric.weft, "resolver", "watch", "--host", HOST_OF_OURS], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                        env=self.fabric.environment(), start_new_session=True)
            try:
                deadline = time.monotonic() + READY_SECONDS
                while json.loads(self.fabric.run("resolver", "status", "--json", "--host", HOST_OF_OURS))["watchers"] == 0:
                    self.assertLess(time.monotonic(), deadline)
                self.sa("path", self.gid("h5"))
                heard = json.loads(watching.stdout.readline())
                self.assertEqual((heard["event"], heard["found"]), ("path", True))
            finally:
                weft_clients.end(watching)
                watching.stdout.close()

    def test_sa_by_hand(self):
        self.assertIn("MCMemberRecord ", self.sa("mcast"))
        lids = {port["name"]: port["lid"] for port in self.fabric.ports()}
        by_name = self.sa("node", "h4")
        self.assertRegex(by_name, rf'^NodeRecord LID={lids["h4:1"]} .* NodeString="h4 weft0"\nfrom SA: 1 records\n$')
        guid = re.search(r" PortGUID=(\S+)", by_name)[1]
        for wanted in (lids["h4:1"], guid, re.search(r" NodeGUID=(\S+)", by_name)[1]):
            self.assertEqual(self.sa("node", str(wanted)), by_name)
        self.assertIn("from SA: 11 records", self.sa("node"))  # ten hosts and their switch
        for wrong, reason in (("h11", "SA has no such record"), ("60000", "SA has no such record"), ("65536", "a LID is from 1 to 65535")):
            refused = subprocess.run([self.fabric.weft, "sa", "node", wrong, "--host", HOST_OF_OURS], capture_output=True, text=True, timeout=SECONDS,
                                     env=self.fabric.environment())
            self.assertEqual((refused.returncode, reason in refused.stderr), (1, True), refused.stderr)
        refused = subprocess.run([self.fabric.weft, "sa", "path", "nowhere", "--host", HOST_OF_OURS], capture_output=True, text=True, timeout=SECONDS,
                                 env=self.fabric.environment())
        self.assertEqual(refused.returncode, 1)
        self.assertIn("'nowhere' is no GID", refused.stderr)

    def test_odd_resolvers_change_nothing_but_the_time(self):
        """Whatever they say, the path is SA's: the connection is made, and SA was asked."""
        peers = iter(("h3", "h4", "h5", "h6", "h7"))
        script = str(pathlib.Path(__file__).with_name("odd_resolver.py"))
        for mode in ("hangs", "lies", "refuses-twice", "answers-others", "garbage"):
            with self.subTest(mode):
                child = run_until_it_listens(self.fabric, HOST_OF_ODD, [sys.executable, script, mode])
                try:
                    self.assertGreater(self.connect(next(peers), client=HOST_OF_ODD), 0)
                    self.assertEqual(child.stdout.readline(), "asked\n")
                finally:
                    weft_clients.end(child)
                    child.stdout.close()

    def test_a_resolver_without_privileges_is_not_heard(self):
        """It costs nothing, and what it answers to others' questions is not taken: its path leads nowhere."""
        script = str(pathlib.Path(__file__).with_name("odd_resolver.py"))
        command = [sys.executable, script, "unprivileged", self.gid("h8"), self.gid(HOST_OF_ODD)]
        stranger = run_until_it_listens(self.fabric, HOST_OF_ODD, command)
        try:
            self.assertGreater(self.connect("h8", client=HOST_OF_ODD), 0)
        finally:
            weft_clients.end(stranger)
            stranger.stdout.close()
        command[-2] = self.gid("h9")
        silent = run_until_it_listens(self.fabric, HOST_OF_ODD, [sys.executable, script, "hangs"])
        stranger = run_until_it_listens(self.fabric, HOST_OF_ODD, command)
        try:
            self.assertGreater(self.connect("h9", client=HOST_OF_ODD), 0)
            self.assertEqual(silent.stdout.readline(), "asked\n")
        finally:
            for child in (silent, stranger):
                weft_clients.end(child)
                child.stdout.close()

    def test_the_guide_shows_what_happens(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertGreater(guide.check(self, GUIDE, pathlib.Path(folder)), 6)

    def test_the_commands_of_the_guide_work(self):
        """Its script is one shell session, in an empty folder."""
        script = re.search(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL).group(1)
        with tempfile.TemporaryDirectory() as folder:
            shell = pathlib.Path(folder) / "weft"
            shell.write_text(f'#!/bin/sh\nexec {shlex.quote(weft_clients.weft_command())} "$@"\n', encoding="utf-8")
            shell.chmod(0o755)
            done = subprocess.run(["bash", "-e", "-c", script], cwd=folder, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "WEFT_FABRIC": f"guide-{os.getpid()}"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("acm_nl_send: acm status success", done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--verbose", action="store_true")
    arguments, rest = parser.parse_known_args()
    weft_clients.need_programs("ibacm", "rping", "tshark")
    start = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], verbosity=2 if arguments.verbose else 1, exit=False).result
    print(f"resolver: {time.monotonic() - start:.0f} s")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
