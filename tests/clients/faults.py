#!/usr/bin/env python3
"""Faults of links, caused on purpose: Debian's programs pass over links that lose packets, and `weft fault` says what was hit.

    faults.py
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import weft_clients

LOSSES = "--link-loss 0.01"
PROGRAMS = (["ibv_rc_pingpong", "-c"], ["ib_write_bw", "-n", "1000"], ["ib_read_bw", "-n", "200"], ["ib_send_bw", "-s", "4096", "-n", "2000"])


class Faults(unittest.TestCase):
    def fabric(self, topology):
        fabric = weft_clients.Fabric(topology)
        self.addCleanup(fabric.__exit__)
        return fabric.__enter__()

    def weft(self, fabric, *arguments):
        return subprocess.run([fabric.weft, *arguments], capture_output=True, text=True, timeout=60, env=fabric.environment())

    def comes_true(self, condition, patience_seconds=20):
        deadline = time.monotonic() + patience_seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def pass_over(self, fabric, command):
        case = weft_clients.Case(command[0], command[1:], timeout_seconds=120)
        outcome = weft_clients.run_case(fabric, case, weft_clients.Ports(), ("h1", "h2"))
        self.assertEqual(outcome.verdict, "ok", outcome.detail + outcome.server_output + outcome.client_output)

    def faults(self, fabric):
        return json.loads(fabric.run("fault", "list", "--json"))

    def counters(self, fabric, name):
        ports = json.loads(fabric.run("status", "--counters", "--json"))["ports"]
        return {port["name"]: port["counters"][name] for port in ports}

    def test_programs_pass_over_links_that_lose_one_packet_of_a_hundred(self):
        fabric = self.fabric(f"pair {LOSSES}")
        lost = 0
        for command in PROGRAMS:
            self.pass_over(fabric, command)
            before, lost = lost, self.faults(fabric)[0]["hit"]
            self.assertGreater(lost, before, command)
        self.assertEqual(sum(self.counters(fabric, "xmit_discards").values()), lost)

    def test_what_was_hit_is_counted_by_rule_and_by_port(self):
        fabric = self.fabric("pair --fault drop,every=97,out=h1:1 --fault corrupt,every=50,in=h1:1 --fault duplicate,p=0.02")
        self.pass_over(fabric, ["ibv_rc_pingpong", "-c"])
        drop, corrupt, duplicate = self.faults(fabric)
        self.assertEqual(corrupt["rule"], "corrupt every=50 in=h1:1")
        self.assertGreater(duplicate["hit"], 0)
        for fault, every in ((drop, 97), (corrupt, 50)):
            self.assertEqual(fault["hit"], fault["matched"] // every)
        self.assertEqual(self.counters(fabric, "xmit_discards")["h1:1"], drop["hit"])
        self.assertEqual(self.counters(fabric, "rcv_errors")["h1:1"], corrupt["hit"])
        self.assertRegex(fabric.run("fault", "list"), rf" on +{corrupt['matched']} +{corrupt['hit']}  corrupt every=50 in=h1:1\n")

    def test_rules_come_and_go_by_command(self):
        fabric = self.fabric("star 3")
        self.assertEqual(fabric.run("fault", "list"), "no faults\n")
        self.assertEqual(fabric.run("fault", "add", "drop", "p=0.5", "link=h1"), "fault 1: drop p=0.5 link=h1\n")
        self.assertEqual(fabric.run("fault", "add", "down link=s1:2 for=3600s"), "fault 2: down link=s1:2 for=3600s\n")
        self.assertRegex(fabric.run("status"), r"h2:1 +Down .*\n")
        self.assertEqual([fault["number"] for fault in self.faults(fabric)], [1, 2])
        fabric.run("fault", "clear", "2")
        self.comes_true(lambda: re.search(r"h2:1 +Active .*\n", fabric.run("status")))  # when the subnet manager has swept
        fabric.run("fault", "clear")
        self.assertEqual(self.faults(fabric), [])
        for words, reason in ((["lose"], "KIND is drop, corrupt"), (["drop", "out=h9"], "no cabled port h9"), (["drop", "p=2"], "0.000001..1")):
            refused = self.weft(fabric, "fault", "add", *words)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(reason, refused.stderr)
        self.assertIn("there is no fault 7", self.weft(fabric, "fault", "clear", "7").stderr)
        self.assertEqual(self.weft(fabric, "fault").returncode, 2)

    def test_topology_files_have_them_too(self):
        weft = weft_clients.weft_command()
        rules = ["--link-loss", "0.25", "--fault", "corrupt every=3 out=s1:1"]
        generated = subprocess.run([weft, "topology", "generate", "star", "2", *rules], capture_output=True, text=True, timeout=60)
        self.assertIn('"corrupt every=3 out=s1:1"', generated.stdout)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "lossy.toml"
            path.write_text(generated.stdout)
            fabric = self.fabric(str(path))
            self.assertEqual([fault["rule"] for fault in self.faults(fabric)], ["corrupt every=3 out=s1:1", "drop p=0.25"])
        for wrong in (["--link-loss", "2"], ["--fault", "lose"], ["--fault", "drop out=h7:1"]):
            refused = subprocess.run([weft, "run", *wrong, "--", "true"], capture_output=True, text=True, timeout=60)
            self.assertEqual(refused.returncode, 1, wrong)
            self.assertIn("fault '", refused.stderr)


if __name__ == "__main__":
    weft_clients.need_programs(*(command[0] for command in PROGRAMS))
    sys.exit(unittest.main(verbosity=1))
