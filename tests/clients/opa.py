#!/usr/bin/env python3
"""Omni-Path parts of fabrics: topologies that have them, how they come up beside InfiniBand, what programs of verbs and of InfiniBand's
management see of them, and 16B packets in captures.

    opa.py

The packets are made here by the tables of the format alone, and read by `weft decode`.
"""
import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

import guide
import weft_clients

FIRST_LID = 0x010001
MIXED = """
[[host]]
name = "h1"
[[host.hca]]
[[host.hca]]
link = "opa"
[[host]]
name = "h2"
[[host.hca]]
[[host.hca]]
link = "opa"
[[host]]
name = "h3"
link = "opa"
[[switch]]
name = "s1"
ports = 2
[[switch]]
name = "o1"
ports = 3
link = "opa"
[[link]]
a = "h1:1"
b = "s1:1"
[[link]]
a = "h2:1"
b = "s1:2"
[[link]]
a = "h1/weft1:1"
b = "o1:1"
[[link]]
a = "h2/weft1:1"
b = "o1:2"
rate_gbps = 100
[[link]]
a = "h3:1"
b = "o1:3"
"""
ERF_16B = 125
ETHERNET, MANAGEMENT = 0x78, 0x08


def packet_16b(slid, dlid, l4, content, sc=0, pkey=0xFFFF, vesw=0, fecn=0):
    """A 16B packet by the tables: five words, little-endian (four where no Ethernet is carried), content, padding, ICRC, tail."""
    head = 20 if l4 == ETHERNET else 16
    pad = -(head + len(content) + 5) % 8
    units = (head + len(content) + pad + 5) // 8

    def words(channel, forward):
        h0 = slid & 0xFFFFF | units << 20 | forward << 31
        h1 = dlid & 0xFFFFF | channel << 20 | forward << 28 | 2 << 29 | 1 << 31
        h2 = l4 | slid >> 20 << 8 | dlid >> 20 << 12 | pkey << 16
        return h0, h1, h2

    h0, h1, h2 = words(sc, 0)
    end = struct.pack("<I", vesw << 16) if l4 == ETHERNET else b""
    rest = end + content + bytes(pad)
    # What switches may change is taken as ones: BECN, FECN, SC and age.
    icrc = zlib.crc32(struct.pack("<4I", *words(0x1F, 1), 0xFF << 16) + rest)
    return struct.pack("<4I", h0, h1 | fecn << 28, h2, 0) + rest + struct.pack("<I", icrc) + bytes([pad])


def capture_of(path, packets, kind=ERF_16B):
    """A pcap file of ERF records."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 197))
        for packet in packets:
            record = bytes(8) + struct.pack(">BBHHH", kind, 4, 16 + len(packet), 0, len(packet)) + packet
            file.write(struct.pack("<IIII", 0, 0, len(record), len(record)) + record)


def number(value):
    """A field as JSON has it: a number, a text in hex, or an object with a name."""
    value = value["value"] if isinstance(value, dict) else value
    return int(value, 0) if isinstance(value, str) else value


class Topologies(unittest.TestCase):
    def weft(self, *arguments, text=None):
        return subprocess.run([weft_clients.weft_command(), *arguments], input=text, capture_output=True, text=True, timeout=60)

    def test_any_form_can_be_of_omni_path(self):
        shown = self.weft("topology", "show", "opa:star:2")
        self.assertIn("switch s1 node GUID 0x0257462000010000 OmniPath\n", shown.stdout)
        written = self.weft("topology", "generate", "opa", "star", "2").stdout
        self.assertEqual(written.count('link = "opa"'), 5)  # two HCAs, a switch, two links
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "opa.toml"
            path.write_text(written)
            self.assertEqual(self.weft("topology", "show", str(path)).stdout, shown.stdout)
            path.write_text(MIXED)
            net = self.weft("topology", "convert", str(path), "--to", "net").stdout
            self.assertIn("h1", net)
            self.assertNotIn("o1", net)
            path.write_text(MIXED.replace('ports = 3\nlink = "opa"', "ports = 3"))
            refused = self.weft("topology", "show", str(path))
            self.assertEqual(refused.returncode, 1)
            self.assertIn("h1/weft1:1 is a port of type OmniPath, and o1:1 of type InfiniBand", refused.stderr)


class MixedFabric(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        path = pathlib.Path(self.folder.name) / "mixed.toml"
        path.write_text(MIXED)
        self.fabric = weft_clients.Fabric(str(path))
        self.addCleanup(self.fabric.__exit__)
        self.fabric.__enter__()

    def port(self, name):
        return next(port for port in self.fabric.ports() if port["name"] == name)

    def comes_true(self, condition, patience_seconds=20):
        deadline = time.monotonic() + patience_seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def output_of(self, host, *command):
        child = self.fabric.start(host, list(command))
        return child.communicate(timeout=60)[0]

    def test_the_omni_path_part_comes_up_with_lids_beyond_16_bits(self):
        lids = {}
        for port in self.fabric.ports():
            if port["port"] == 0 and port["kind"] == "switch":
                continue
            of_omni_path = port["name"] == "h3:1" or port["name"].startswith("o1:") or "/weft1" in port["name"]
            self.assertEqual(port["link"], "opa" if of_omni_path else "infiniband", port)
            self.assertEqual(port["state"], "Active", port)
            if port["kind"] == "host":
                lids[port["name"]] = port["lid"]
        self.assertEqual({name for name, lid in lids.items() if lid >= FIRST_LID}, {"h1/weft1:1", "h2/weft1:1", "h3:1"})
        self.assertEqual(len(set(lids.values())), 5)
        status = self.fabric.run("status")
        self.assertRegex(status, r"h1/weft1:1 +Active +0x010001 +o1:1 ")
        self.assertRegex(status, r"h2/weft1:1 .*100 Gb/s")

    def test_a_link_that_was_cut_comes_back_under_its_lid(self):
        before = self.port("h3:1")["lid"]
        self.fabric.run("link", "down", "h3:1")
        self.comes_true(lambda: self.port("h3:1")["state"] == "Down")
        self.fabric.run("link", "up", "h3:1")
        self.comes_true(lambda: self.port("h3:1")["state"] == "Active")
        self.assertEqual(self.port("h3:1")["lid"], before)

    def test_infiniband_sees_its_own_part_alone(self):
        found = self.output_of("h1", "ibnetdiscover")
        self.assertIn('"h1 weft0"', found)
        self.assertNotIn("o1", found)
        self.assertNotIn("weft1", found)
        devices = self.output_of("h1", "ibv_devinfo")
        states = [line.split()[1] for line in devices.splitlines() if line.strip().startswith("state:")]
        self.assertEqual(states, ["PORT_ACTIVE", "PORT_DOWN"], devices)  # verbs cannot send on the second


class OmniPathAlone(unittest.TestCase):
    def test_a_fabric_can_be_of_nothing_else_and_loses_nodes_and_gets_them(self):
        with weft_clients.Fabric("opa:star:3 --no-sm") as fabric:
            states = {port["name"]: port["state"] for port in fabric.ports() if port["kind"] == "host"}
            self.assertEqual(states, {"h1:1": "Active", "h2:1": "Active", "h3:1": "Active"})
            fabric.run("node", "remove", "h3")
            fabric.run("node", "add", "h9", "--link", "s1:3")
            added = next(port for port in fabric.ports() if port["name"] == "h9:1")
            self.assertEqual((added["link"], added["state"]), ("opa", "Active"))
            self.assertGreater(added["lid"], FIRST_LID + 3)


class Guide(unittest.TestCase):
    def test_what_the_page_shows_is_so(self):
        page = weft_clients.ROOT / "docs" / "guide" / "omni-path.md"
        with tempfile.TemporaryDirectory() as folder:
            for name, text in zip(("mixed.toml", "switches.toml"), re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL), strict=True):
                (pathlib.Path(folder) / name).write_text(text)
            self.assertEqual(guide.check(self, page, pathlib.Path(folder)), 10)


class Captures(unittest.TestCase):
    def decode(self, packets, kind=ERF_16B):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "opa.pcap"
            capture_of(path, packets, kind)
            done = subprocess.run([weft_clients.weft_command(), "decode", "--json", str(path)], capture_output=True, text=True, timeout=60)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def test_decode_reads_16b_packets_as_the_tables_have_them(self):
        chance = random.Random(1)
        wanted, packets = [], []
        for count in range(100):
            l4 = ETHERNET if count % 2 else MANAGEMENT
            content = chance.randbytes(chance.randrange(60, 2000)) if l4 == ETHERNET else struct.pack(">II", 1, count) + chance.randbytes(2048)
            fields = {"SLID": chance.randrange(1 << 24), "DLID": chance.randrange(1 << 24), "SC": chance.randrange(32), "P_Key": chance.randrange(1 << 16), "FECN": chance.randrange(2)}
            vesw = chance.randrange(1 << 12) if l4 == ETHERNET else 0
            packets.append(packet_16b(fields["SLID"], fields["DLID"], l4, content, fields["SC"], fields["P_Key"], vesw, fields["FECN"]))
            wanted.append({**fields, "L4": l4, "Length": len(packets[-1]) // 8, **({"VeswID": vesw} if l4 == ETHERNET else {})})
        status, decoded = self.decode(packets)
        self.assertEqual(status, 0, decoded[:1])
        self.assertEqual(len(decoded), len(packets))
        for fields, found in zip(wanted, decoded):
            first = found["headers"][0]
            self.assertEqual(first["header"], "OPA 16B")
            self.assertEqual({name: number(first["fields"][name]) for name in fields}, fields)
            self.assertEqual("VeswID" in first["fields"], "VeswID" in fields)
            self.assertTrue(found["icrc"]["right"])

    def test_decode_finds_damage(self):
        packet = bytearray(packet_16b(1, 2, ETHERNET, bytes(60)))
        packet[30] ^= 1
        status, decoded = self.decode([bytes(packet)])
        self.assertEqual((status, len(decoded)), (1, 1))
        status, decoded = self.decode([bytes(packet[:-8])])
        self.assertEqual(status, 1)
        self.assertIn("units of 8", decoded[0]["error"])
        status, decoded = self.decode([bytes(packet)], kind=124)
        self.assertIn("ERF type 124 is neither", decoded[0]["error"])


if __name__ == "__main__":
    weft_clients.need_programs("ibnetdiscover", "ibv_devinfo")
    sys.exit(unittest.main(verbosity=1))
