#!/usr/bin/env python3
"""Virtual NICs of Omni-Path by `weft vnic` and `weft em`, over Omni-Path links and as a tunnel over InfiniBand's: ping, TCP, arping, VLANs and a bridge over
opa0 of hosts, as root and as an ordinary user; a manager that is killed in the middle; killed agents; packets and MADs that are none; the 16B packets in a
capture; the commands of the guide.

    vnic.py

Nothing here leaves the namespaces of the fabric's hosts.
"""
import hashlib
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
import zlib

import crc_check
import guide
import namespaces
import weft_clients

GUIDE = weft_clients.ROOT / "docs" / "guide" / "opa-vnic.md"
TRANSFER_BYTES = 4 << 20         # policy
PORT = 7000                      # of the host's own
MAD_BYTES = 2048
UD_SEND_ONLY = 0x64
ERF_16B = 125                    # src/wire/capture: the type of records of 16B packets
ETHERNET, MANAGEMENT = 0x78, 0x08  # L4 types
MOST_MTU = 10238                 # of a link with 10 KiB packets
FIRST_GROUP = 0xF00000           # of Omni-Path's LIDs
TRAP = 5                         # the method
TUNNEL_QKEY = 0x016B0078         # src/programs/vnic/announcement.h
IDLE_SECONDS = 3                 # policy
IDLE_TICKS = 4                   # of 10 ms, of a process that should do nothing but look at its interfaces


SENDER = """import sys
from pyverbs.addr import AHAttr, AH
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.enums import *
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR
lid, qpn, qkey = map(int, sys.argv[1:4])
context = Context(name='weft0')
pd, cq = PD(context), CQ(context, 16)
attributes = QPAttr(port_num=1)
attributes.qkey = qkey
qp = QP(pd, QPInitAttr(qp_type=IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4, max_recv_wr=4)), attributes)
mr = MR(pd, 4096, IBV_ACCESS_LOCAL_WRITE)
ah = AH(pd, attr=AHAttr(dlid=lid, port_num=1))
for payload in map(bytes.fromhex, sys.argv[4:]):
    mr.write(payload, len(payload))
    request = SendWR(num_sge=1, sg=[SGE(mr.buf, len(payload), mr.lkey)], opcode=IBV_WR_SEND, send_flags=IBV_SEND_SIGNALED)
    request.set_wr_ud(ah, qpn, qkey)
    qp.post_send(request)
    while not cq.poll(1)[0]:
        pass
"""


def ticks_of(pid):
    """CPU time of a process, in ticks."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


OMNI_PATH_SENDER = """import os, pathlib, re, socket, struct, sys, time
header = pathlib.Path(sys.argv[1], 'messages.h').read_text()
order = re.sub(r'\\s', '', re.search(r'using Message = OneOf<(.*?)>;', header, re.DOTALL)[1]).split(',')
version = int(re.search(r'kVersion = (\\d+)', header)[1])
kind = lambda name: struct.pack('=I', order.index(name))
control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
control.connect(os.path.join(os.environ['WEFT_RUN'], os.environ['WEFT_FABRIC'], 'control'))
host = os.environ['WEFT_HOST'].encode()
control.send(kind('AttachOmniPath') + struct.pack('=II', version, len(host)) + host + struct.pack('=IB???QQ', 0, 1, True, False, False, 0, 0))
answer, passed, _, _ = socket.recv_fds(control, 65536, 1)
assert answer[:4] == kind('OmniPathAttached'), answer
state = control.recv(65536)
assert state[:4] == kind('OmniPathPortState')
packets = socket.socket(fileno=passed[0])
for payload in map(bytes.fromhex, sys.argv[2:]):
    packets.send(kind('OmniPathPackets') + struct.pack('=QII', 0, 1, len(payload)) + payload)
time.sleep(0.5)  # until they have been read: all ends with this program
"""


def payloads_16b(path):
    """Each 16B packet in a capture: as it stands in the record of an Omni-Path link, or as the payload of a datagram."""
    for record in crc_check.records(pathlib.Path(path).read_bytes()):
        if record[8] & 0x7F == ERF_16B:
            yield record[16:16 + struct.unpack(">H", record[14:16])[0]]
            continue
        packet = crc_check.erf_payload(record)
        crc_check.check_packet(packet)
        bth = 48 if packet[1] & 3 == crc_check.GLOBAL else 8
        if packet[bth] == UD_SEND_ONLY and int.from_bytes(packet[bth + 12:bth + 16], "big") == TUNNEL_QKEY:
            payload = packet[bth + 20:len(packet) - 6 - (packet[bth + 1] >> 4 & 3)]
            if len(payload) != MAD_BYTES:
                yield payload


def packets_16b(path):
    """(header, frame) of each 16B packet of Ethernet in a capture, by the tables of the format, apart from Weft's own decoder."""
    found = []
    for payload in payloads_16b(path):
        if payload[8] != ETHERNET:
            continue
        h0, h1, h2, h3, h4 = struct.unpack("<5I", payload[:20])
        header = {"slid": h0 & 0xFFFFF | (h2 >> 8 & 0xF) << 20, "dlid": h1 & 0xFFFFF | (h2 >> 12 & 0xF) << 20, "bytes": (h0 >> 20 & 0x7FF) * 8,
                  "l2": h1 >> 29 & 3, "lt": h1 >> 31, "l4": h2 & 0xFF, "pkey": h2 >> 16, "entropy": h3 & 0xFFFF, "vesw": h4 >> 16, "whole": len(payload)}
        # What switches change is taken as ones: BECN, SC and FECN, age.
        masked = struct.pack("<5I", h0 | 1 << 31, h1 | 0x11F00000, h2, h3 | 0xFF << 16, h4) + payload[20:-5]
        header["icrc"] = zlib.crc32(masked) == int.from_bytes(payload[-5:-1], "little")
        found.append((header, payload[20:len(payload) - 5 - (payload[-1] & 7)]))
    return found


def mads(path):
    """(service level, P_Key, source LID, method) of each MAD of virtual NICs in a capture."""
    found = []
    for payload in payloads_16b(path):
        if payload[8] == MANAGEMENT:
            h0, h1, h2 = struct.unpack("<3I", payload[:12])
            found.append((h1 >> 20 & 0x1F, h2 >> 16, h0 & 0xFFFFF | (h2 >> 8 & 0xF) << 20, payload[16 + 8 + 3]))
    for record in crc_check.records(pathlib.Path(path).read_bytes()):
        if record[8] & 0x7F == ERF_16B:
            continue
        packet = crc_check.erf_payload(record)
        bth = 48 if packet[1] & 3 == crc_check.GLOBAL else 8
        payload = packet[bth + 20:len(packet) - 6 - (packet[bth + 1] >> 4 & 3)]
        if packet[bth] == UD_SEND_ONLY and int.from_bytes(packet[bth + 12:bth + 16], "big") == TUNNEL_QKEY and len(payload) == MAD_BYTES:
            found.append((packet[1] >> 4, int.from_bytes(packet[bth + 2:bth + 4], "big"), int.from_bytes(packet[6:8], "big"), payload[3]))
    return found


def switch(name, number, *hosts, options="", vport=0):
    ports = "".join(f'\n[[switch.port]]\nhost = "{host}"\nvport = {vport}\n' for host in hosts)
    return f'[[switch]]\nname = "{name}"\nid = {number}\n{options}{ports}\n'


def packet_16b(slid, dlid, vesw, payload=b"\0" * 64, right=False):
    """Of Ethernet; with or without the right ICRC."""
    length = (20 + len(payload) + 5 + 7) // 8
    pad = length * 8 - 20 - len(payload) - 5
    h0, h1, h2 = slid & 0xFFFFF | length << 20, dlid & 0xFFFFF | 1 << 31 | 2 << 29, 0xFFFF << 16 | dlid >> 20 << 12 | slid >> 20 << 8 | ETHERNET
    rest = payload + b"\0" * pad
    icrc = zlib.crc32(struct.pack("<5I", h0 | 1 << 31, h1 | 0x11F00000, h2, 0xFF << 16, vesw << 16) + rest) if right else 0
    return struct.pack("<5I", h0, h1, h2, 0, vesw << 16) + rest + struct.pack("<I", icrc) + bytes((pad,))


class Vnic(namespaces.Account):
    links = ""  # of the topology: InfiniBand's

    def file(self, *switches):
        path = pathlib.Path(self.folder, "switches.toml")
        path.write_text("".join(switches), encoding="utf-8")
        path.chmod(0o644)
        os.chmod(self.folder, 0o755)
        return str(path)

    def vnic_up(self, *hosts, topology="star:2", switches=None):
        self.up(self.links + topology)
        self.weft("em", "up", "h1", self.file(*(switches or [switch("blue", 100, *hosts)])))
        return self.weft("vnic", "up", *hosts).stdout

    def pid_of(self, service, host):
        return int(self.read(host, f"/run/weft-{service}.pid"))

    def ping(self, host, *arguments, check=True):
        return self.on(host, "ping", "-q", "-W", "5", *arguments, check=check).stdout

    def reaches(self, host="h1", address="10.78.0.2"):
        self.assertIn("2 received", self.ping(host, "-c", "2", "-i", "1", address))

    def shown(self, host):
        return json.loads(self.weft("vnic", "show", host, "--json").stdout)

    def counter(self, host, name, interface="opa0"):
        shown = self.shown(host)
        return {**shown["port"], **{one["interface"]: one["counters"] for one in shown["interfaces"]}[interface]}[name]

    def managed(self, host="h1"):
        shown = json.loads(self.weft("em", "show", host, "--json").stdout)
        return {**shown, "ports": {(one["name"], port["host"]): port for one in shown["switches"] for port in one["ports"]}}

    def transfer(self, seconds_of_pause=0.0, meanwhile=None):
        """Of a file from h1 to h2, by socat; `meanwhile` runs while it does."""
        source, target = pathlib.Path(self.folder, "source"), pathlib.Path(self.folder, "target")
        source.write_bytes(os.urandom(TRANSFER_BYTES))
        source.chmod(0o644)
        server = self.start("h2", "socat", "-u", f"TCP4-LISTEN:{PORT},reuseaddr", f"OPEN:{target},creat,trunc")
        self.wait_until_listening("h2", PORT, server)
        pace = f"(head -c 1000000 {source}; sleep {seconds_of_pause}; tail -c +1000001 {source}) | socat -u - TCP4:10.78.0.2:{PORT}"
        client = self.start("h1", "sh", "-c", pace)
        if meanwhile:
            meanwhile()
        self.assertEqual(client.wait(namespaces.SECONDS), 0)
        server.wait(namespaces.SECONDS)
        self.assertEqual(hashlib.sha256(target.read_bytes()).digest(), hashlib.sha256(source.read_bytes()).digest())

    def test_hosts_of_one_virtual_switch_reach_each_other(self):  # part of T-VN-1
        said = self.vnic_up("h1", "h2")
        self.assertEqual(said, "h1: opa0 10.78.0.1/16 fd77:16b::1/64 mtu 1500, virtual switch 100\n"
                               "h2: opa0 10.78.0.2/16 fd77:16b::2/64 mtu 1500, virtual switch 100\n")
        self.reaches()
        for host in ("h1", "h2"):  # the kernel looks for duplicates first (RFC 4862 §5.4)
            self.assertTrue(namespaces.eventually(lambda: "tentative" not in self.on(host, "ip", "-6", "address", "show", "dev", "opa0").stdout))
        self.reaches(address="fd77:16b::2")
        link = self.on("h1", "ip", "link", "show", "dev", "opa0").stdout
        self.assertIn("link/ether 00:11:75:06:40:01", link)
        self.assertIn("mtu 1500", link)
        self.assertRegex(self.on("h1", "ip", "neigh", "show", "dev", "opa0").stdout, r"10\.78\.0\.2 lladdr 00:11:75:06:40:02")
        said = self.on("h1", "arping", "-c", "2", "-w", "10", "-I", "opa0", "10.78.0.2").stdout
        self.assertIn("00:11:75:06:40:02", said.lower())
        ports = self.managed()["ports"]
        self.assertEqual({(name, host): (port["state"], port["link"]) for (name, host), port in ports.items() if port["state"] == "running"},
                         {key: ("running", "up") for key in (("blue", "h1"), ("blue", "h2"))}, ports)

    def test_tcp_carries_a_file_and_iperf3_runs(self):  # part of T-VN-1
        self.vnic_up("h1", "h2")
        self.transfer()
        server = self.start("h2", "iperf3", "-s", "-1")
        self.wait_until_listening("h2", 5201, server)
        said = self.on("h1", "iperf3", "-c", "10.78.0.2", "-t", "2", "-f", "m").stdout
        rate = float(re.search(r"([\d.]+) Mbits/sec\s+receiver", said)[1])
        print(f"iperf3 over opa0: {rate:.0f} Mb/s")
        self.assertGreater(rate, 10)
        server.wait(namespaces.SECONDS)

    def test_traffic_goes_on_while_the_manager_is_killed_and_begins_anew(self):
        self.vnic_up("h1", "h2")
        path = f"{self.folder}/switches.toml"

        def meanwhile():
            os.kill(self.pid_of("em", "h1"), signal.SIGKILL)
            self.assertTrue(namespaces.eventually(lambda: self.weft("em", "show", "h1", check=False).returncode == 1))
            self.assertNotIn(" 0 received", self.ping("h1", "-c", "3", "-i", "1", "10.78.0.2"))  # beside TCP a busy machine may lose some
            self.weft("em", "up", "h1", path)

        self.transfer(seconds_of_pause=2, meanwhile=meanwhile)
        self.assertTrue(namespaces.eventually(lambda: self.managed()["settled"] and self.managed()["ports"]["blue", "h2"]["state"] == "running"))
        # The new one found what it wanted, so no port had to drop frames meanwhile.
        self.assertEqual(self.managed()["manager"]["reloads"], 0)
        self.reaches()

    def test_an_agent_that_was_killed_leaves_no_interface_and_another_takes_its_place(self):
        self.vnic_up("h1", "h2")
        os.kill(self.pid_of("vnic", "h2"), signal.SIGKILL)
        self.assertTrue(namespaces.eventually(lambda: "opa0" not in self.on("h2", "ip", "-br", "link").stdout))
        self.weft("vnic", "up", "h2")
        self.reaches()
        self.assertTrue(namespaces.eventually(lambda: self.managed()["ports"]["blue", "h2"]["state"] == "running"))


class OnEitherKindOfLink(Vnic):
    def test_captured_packets_are_what_the_format_says(self):  # part of T-VN-1, with the TCP above
        self.vnic_up("h1", "h2")
        path = pathlib.Path(self.folder, "opa.pcap")
        capture = subprocess.Popen([*self.prefix, self.weft_path, "capture", "h1", "-o", str(path)], env=self.environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(lambda: capture.poll() is None and weft_clients.end(capture))
        self.assertTrue(namespaces.eventually(lambda: path.exists() and path.stat().st_size >= 24))
        self.transfer()
        time.sleep(0.5)
        capture.send_signal(signal.SIGINT)
        capture.wait(namespaces.SECONDS)
        lids = {host: self.shown(host)["lid"] for host in ("h1", "h2")}
        groups = {one["multicast_lid"] for one in json.loads(self.weft("em", "show", "h1", "--json").stdout)["switches"]}
        carried = {"h1": 0, "h2": 0}
        for header, frame in packets_16b(path):
            self.assertEqual((header["bytes"], header["l2"], header["lt"], header["l4"], header["vesw"], header["pkey"]),
                             (header["whole"], 2, 1, 0x78, 100, 0xFFFF))
            self.assertGreaterEqual(len(frame), 60)
            self.assertTrue(header["icrc"])
            self.assertEqual(header["whole"], (20 + len(frame) + 5 + 7) // 8 * 8, "no more padding than it takes")
            self.assertIn(header["slid"], lids.values())
            self.assertIn(header["dlid"], groups if frame[0] & 1 else lids.values())
            if frame[12:14] == b"\x08\x00" and frame[23] == 6:  # TCP
                host = "h1" if header["slid"] == lids["h1"] else "h2"
                self.assertEqual(frame[26:30], bytes((10, 78, 0, int(host[1]))))
                carried[host] += int.from_bytes(frame[16:18], "big") - 20 - 4 * (frame[46] >> 4)
        self.assertGreaterEqual(carried["h1"], TRANSFER_BYTES)
        self.assertEqual(carried["h2"], 0)

    def test_traps_go_by_the_managers_service_level_and_in_managements_partition(self):  # R-VN-13
        topology = pathlib.Path(self.folder, "partitioned.toml")
        link = 'link = "opa"\n' if self.links else ""
        hosts = "".join(f'[[host]]\nname = "h{number}"\n{link}[[host.hca]]\n[[host.hca.port]]\npkeys = [0x8005, 0xFFFF]\n' for number in (1, 2))
        links = "".join(f'[[link]]\na = "h{number}:1"\nb = "s1:{number}"\n' for number in (1, 2))
        topology.write_text(f'{hosts}[[switch]]\nname = "s1"\nports = 36\n{link}{links}', encoding="utf-8")
        topology.chmod(0o644)
        self.up(str(topology))
        self.weft("em", "up", "h1", self.file(switch("blue", 100, "h1", "h2")), "--trap-sl", "3")
        path = pathlib.Path(self.folder, "traps.pcap")
        capture = subprocess.Popen([*self.prefix, self.weft_path, "capture", "h2", "-o", str(path)], env=self.environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(lambda: capture.poll() is None and weft_clients.end(capture))
        self.assertTrue(namespaces.eventually(lambda: path.exists() and path.stat().st_size >= 24))
        self.weft("vnic", "up", "h1", "h2")
        self.reaches()
        before = self.managed()["manager"]["traps"]
        self.on("h2", "ip", "maddress", "add", "01:00:5e:01:02:03", "dev", "opa0")
        self.assertTrue(namespaces.eventually(lambda: self.managed()["manager"]["traps"] > before))
        time.sleep(0.5)
        capture.send_signal(signal.SIGINT)
        capture.wait(namespaces.SECONDS)
        here = self.shown("h2")["lid"]
        traps = [mad for mad in mads(path) if mad[3] == TRAP]
        self.assertGreater(len(traps), 0)
        self.assertEqual(set(traps), {(3, 0xFFFF, here, TRAP)})
        self.assertEqual({mad[:2] for mad in mads(path) if mad[3] != TRAP}, {(0, 0xFFFF)}, "questions, and answers to these, are as before")

    def test_a_dead_agents_port_is_absent_when_its_lease_is_over(self):
        self.vnic_up("h1", "h2")
        self.weft("vnic", "down", "h2")  # in order: at once
        self.assertTrue(namespaces.eventually(lambda: self.managed()["ports"]["blue", "h2"]["state"] == "absent", 5))
        self.weft("vnic", "up", "h2")
        os.kill(self.pid_of("vnic", "h2"), signal.SIGKILL)
        self.assertTrue(namespaces.eventually(lambda: self.managed()["ports"]["blue", "h2"]["state"] == "absent", 40))

    def test_virtual_switches_are_apart(self):
        self.vnic_up("h1", "h2", "h3", topology="star:3", switches=[switch("blue", 100, "h1", "h2"), switch("red", 200, "h3", "h2", vport=1)])
        self.assertIn("opa1", self.on("h3", "ip", "-br", "link").stdout)
        self.assertIn("opa1", self.on("h2", "ip", "-br", "link").stdout)
        for host, address in (("h3", "10.99.0.3/24"), ("h2", "10.99.0.2/24")):
            self.on(host, "ip", "address", "add", address, "dev", "opa1")
        self.reaches("h3", "10.99.0.2")
        self.reaches("h1", "10.78.0.2")
        self.on("h1", "ip", "address", "add", "10.99.0.1/24", "dev", "opa0")
        self.assertIn(" 0 received", self.ping("h1", "-c", "1", "-W", "1", "10.99.0.3", check=False))

    def test_a_file_that_is_loaded_moves_ports(self):
        self.vnic_up("h1", "h2", "h3", topology="star:3", switches=[switch("blue", 100, "h1", "h2", "h3")])
        self.reaches("h1", "10.78.0.3")
        self.weft("em", "load", "h1", self.file(switch("blue", 100, "h1", "h2"), switch("red", 200, "h3")))
        self.assertTrue(namespaces.eventually(lambda: ("red", "h3") in (ports := self.managed()["ports"]) and ports["red", "h3"]["state"] == "running"))
        self.reaches()
        self.assertIn(" 0 received", self.ping("h1", "-c", "1", "-W", "1", "10.78.0.3", check=False))
        self.weft("em", "load", "h1", self.file(switch("blue", 100, "h2", "h3")))
        self.assertTrue(namespaces.eventually(lambda: "NO-CARRIER" in self.on("h1", "ip", "-br", "link", "show", "dev", "opa0").stdout), "h1 is in no switch")
        self.assertTrue(namespaces.eventually(lambda: "1 received" in self.ping("h2", "-c", "1", "-W", "1", "10.78.0.3", check=False)))

    def test_a_frame_for_an_unknown_station_is_flooded_and_taken_by_nobody(self):
        self.vnic_up("h1", "h2")
        before = self.counter("h2", "rx_not_for_us")
        self.on("h1", "ip", "neigh", "replace", "10.78.9.9", "lladdr", "00:11:75:09:09:09", "dev", "opa0")
        self.assertIn(" 0 received", self.ping("h1", "-c", "3", "-i", "1", "-W", "1", "10.78.9.9", check=False))
        self.assertGreaterEqual(self.counter("h2", "rx_not_for_us") - before, 3)

    def test_a_station_behind_a_bridge_is_reached(self):
        self.vnic_up("h1", "h2")
        # Its address is one that the manager does not know.
        self.on("h2", "sh", "-e", "-c", "ip link add br0 type bridge; ip link set opa0 master br0; ip link set br0 up; ip link add v0 type veth peer name v1; "
                "ip link set v0 master br0; ip link set v0 up; ip link set v1 up; ip address flush dev opa0; ip address add 10.78.5.5/16 dev v1")
        self.assertTrue(namespaces.eventually(lambda: "1 received" in self.ping("h1", "-c", "1", "-W", "1", "10.78.5.5", check=False)))

    def test_tagged_frames_go_by_their_priority(self):
        """Sent and received by packet sockets, as not every kernel has VLANs."""
        self.vnic_up("h1", "h2")
        frame = bytes.fromhex("001175064002" "001175064001" "8100" "6005" "88b5") + b"tagged" + bytes(50)  # VLAN 5, priority 3, an experimental EtherType
        receive = ("import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))\ns.bind(('opa0', 0))\ns.settimeout(30)\n"
                   "print('ready', flush=True)\nwhile b'tagged' not in (got := s.recvmsg(2000, 100))[0]: pass\nprint('got', len(got[0]), flush=True)")
        receiver = self.start("h2", namespaces.PYTHON, "-c", receive)
        self.assertEqual(receiver.stdout.readline(), "ready\n")
        self.on("h1", namespaces.PYTHON, "-c", "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\ns.bind(('opa0', 0))\n"
                f"s.send(bytes.fromhex('{frame.hex()}'))")
        self.assertRegex(receiver.stdout.readline(), "got ")
        self.assertEqual((self.counter("h1", "tx_vlan"), self.counter("h2", "rx_vlan")), (1, 1))

    def test_a_link_that_goes_down_takes_the_carrier_and_gives_it_back(self):
        self.vnic_up("h1", "h2")
        self.weft("link", "down", "h2")
        self.assertTrue(namespaces.eventually(lambda: "NO-CARRIER" in self.on("h2", "ip", "-br", "link", "show", "dev", "opa0").stdout))
        self.weft("link", "up", "h2")
        self.assertTrue(namespaces.eventually(lambda: "1 received" in self.ping("h1", "-c", "1", "10.78.0.2", check=False)))

    def test_tcp_carries_a_file_over_links_that_lose(self):
        self.vnic_up("h1", "h2")
        self.weft("fault", "add", "drop p=0.01 link=h1:1")
        self.transfer()

    def test_an_idle_interface_takes_no_cpu(self):
        self.vnic_up("h1", "h2")
        self.reaches()
        time.sleep(2)
        pids = [self.pid_of("vnic", "h1"), self.pid_of("em", "h1")]
        before = [ticks_of(pid) for pid in pids]
        time.sleep(IDLE_SECONDS)
        for pid, was in zip(pids, before):
            self.assertLessEqual(ticks_of(pid) - was, IDLE_TICKS)

    def test_processes_end_with_the_fabric_that_is_killed(self):
        daemon, _ = self.up(self.links + "star:2")
        self.weft("em", "up", "h1", self.file(switch("blue", 100, "h1", "h2")))
        self.weft("vnic", "up", "h1", "h2")
        pids = [self.pid_of("vnic", "h1"), self.pid_of("vnic", "h2"), self.pid_of("em", "h1")]
        os.kill(daemon, signal.SIGKILL)
        self.assertTrue(namespaces.eventually(lambda: not any(map(namespaces.is_running, pids))))

    def counts(self, host, wanted, do):
        """So much more of each counter at the host."""
        before = {name: self.counter(host, name) for name in wanted}
        do()
        grown = lambda: {name: self.counter(host, name) - was for name, was in before.items()}  # noqa: E731
        self.assertTrue(namespaces.eventually(lambda: grown() == wanted, 10), grown())

    def script(self, text):
        path = pathlib.Path(self.folder, "sender.py")
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
        return str(path)


class AsThisUser(OnEitherKindOfLink, unittest.TestCase):
    def test_jumbo_frames_go_as_far_as_the_links_let_them(self):
        self.vnic_up("h1", "h2", switches=[switch("blue", 100, "h1", "h2", options="mtu = 3000\n")])
        self.assertIn("mtu 3000", self.on("h1", "ip", "link", "show", "dev", "opa0").stdout)
        self.reaches()
        self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", "-M", "do", "-s", "2972", "10.78.0.2"))

    def test_what_is_no_packet_is_counted(self):
        """A program of another host sends to the agent's QPs what no switch of Omni-Path would carry; it knows their numbers and the Q_Key."""
        self.vnic_up("h1", "h2")
        shown = self.shown("h2")
        here, there = self.shown("h1")["lid"], shown["lid"]
        mad = struct.pack(">BBBB", 0x80, 0x34, 0x80, 1) + b"\xff" * 2044
        sent = {"packet_qp": [b"short", b"\xff" * 19, packet_16b(here + 100, there, 100), packet_16b(here, there + 100, 100), packet_16b(here, there, 999),
                              packet_16b(here, there, 100), b"\xff" * 2048],
                "mad_qp": [b"short", mad[:2047], mad, b"\0" * 2048]}

        def send():
            for qp, payloads in sent.items():
                self.on("h1", namespaces.PYTHON, self.script(SENDER), str(there), str(shown[qp]), str(TUNNEL_QKEY), *(payload.hex() for payload in payloads))

        self.counts("h2", {"port_rx_truncated": 4, "port_rx_misrouted": 3, "rx_bad_veswid": 1, "rx_logic": 1}, send)
        self.reaches()

    def test_what_cannot_be_is_refused_in_words(self):
        self.vnic_up("h1", "h2")
        path = self.file(switch("blue", 100, "h1", "h2"))
        wrong = pathlib.Path(self.folder, "wrong.toml")
        wrong.write_text("[[switch]]\nname = \"a\"\nspeed = 1\n", encoding="utf-8")
        wrong.chmod(0o644)
        for arguments, words in ((("vnic", "up", "h1"), "up already"), (("vnic", "up", "h9"), "h9"), (("em", "up", "h1", path), "runs on this host already"),
                                 (("em", "up", "h2", str(wrong)), "line 3: unknown key 'speed'"), (("em", "load", "h1", str(wrong)), "unknown key 'speed'"),
                                 (("em", "load", "h2", path), "no Ethernet Manager runs"), (("em", "down", "h2"), "does not run"),
                                 (("em", "up", "h2", "/nowhere"), "/nowhere")):
            done = self.weft(*arguments, check=False)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(words, done.stderr, arguments)
        for program in ("vnic", "em"):
            self.assertEqual(self.weft(program, check=False).returncode, 2)
        self.weft("vnic", "down", "h1", "h2")
        self.assertIn("weft vnic up HOST", self.weft("vnic", "show", "h1", check=False).stderr)

    def test_who_does_not_wait_needs_no_manager(self):
        self.up(self.links + "star:2")
        self.assertIn("waits for an Ethernet Manager", self.weft("vnic", "up", "h2", "--no-wait", "--address", "10.0.5.2/24").stdout)
        self.assertEqual(self.shown("h2")["interfaces"], [])
        self.weft("em", "up", "h1", self.file(switch("blue", 100, "h1", "h2")))
        self.assertIn("10.0.5.1/24", self.weft("vnic", "up", "h1", "--address", "10.0.5.1/24").stdout)
        self.assertTrue(namespaces.eventually(lambda: "1 received" in self.ping("h1", "-c", "1", "-W", "1", "10.0.5.2", check=False)))

    def test_the_guide_shows_what_happens(self):
        with tempfile.TemporaryDirectory() as folder:
            file = re.search(r"```toml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[1]
            pathlib.Path(folder, "switches.toml").write_text(file, encoding="utf-8")
            self.assertGreater(guide.check(self, GUIDE, pathlib.Path(folder)), 9)


class OnOmniPath(OnEitherKindOfLink, unittest.TestCase):
    links = "opa:"

    def test_jumbo_frames_are_as_long_as_the_links_let_them(self):
        self.vnic_up("h1", "h2", switches=[switch("blue", 100, "h1", "h2", options=f"mtu = {MOST_MTU}\n")])
        self.assertIn(f"mtu {MOST_MTU}", self.on("h1", "ip", "link", "show", "dev", "opa0").stdout)
        self.reaches()
        self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", "-M", "do", "-s", str(MOST_MTU - 28), "10.78.0.2"))
        self.transfer()

    def test_ports_have_lids_beyond_16_bits_and_are_named_by_their_kind(self):
        self.vnic_up("h1", "h2")
        shown = self.shown("h1")
        self.assertEqual((shown["link"], shown["mad_qp"], shown["packet_qp"]), ("opa", 0, 0))
        self.assertGreater(shown["lid"], 0xFFFF)
        self.assertIn(f"Omni-Path port with LID {shown['lid']:#08x}, announced", self.weft("vnic", "show", "h1").stdout)
        self.assertEqual([one["multicast_lid"] for one in self.managed()["switches"]], [FIRST_GROUP + 100])

    def test_a_killed_agents_port_is_absent_at_once(self):  # R-VN-12: the capability ends with the program
        self.vnic_up("h1", "h2")
        os.kill(self.pid_of("vnic", "h2"), signal.SIGKILL)
        self.assertTrue(namespaces.eventually(lambda: self.managed()["ports"]["blue", "h2"]["state"] == "absent", 5))

    def test_a_host_with_both_kinds_of_ports_uses_omni_path(self):
        topology = pathlib.Path(self.folder, "both.toml")
        hosts = "".join(f'[[host]]\nname = "h{number}"\n[[host.hca]]\n[[host.hca]]\nlink = "opa"\n' for number in (1, 2))
        topology.write_text(f'{hosts}[[link]]\na = "h1:1"\nb = "h2:1"\n[[link]]\na = "h1/weft1:1"\nb = "h2/weft1:1"\n', encoding="utf-8")
        topology.chmod(0o644)
        os.chmod(self.folder, 0o755)
        self.up(str(topology))
        self.weft("em", "up", "h1", self.file(switch("blue", 100, "h1", "h2")))
        self.weft("vnic", "up", "h1", "h2")
        self.assertEqual(self.shown("h2")["link"], "opa")
        self.weft("link", "down", "h1:1")
        self.reaches()

    def test_what_is_no_packet_is_counted(self):
        """A program at another Omni-Path port sends what it should not, by the messages of the control protocol; its port's LID is true."""
        self.vnic_up("h1", "h2", topology="star:3")
        there = self.shown("h2")["lid"]
        here = next(port["lid"] for port in json.loads(self.weft("status", "--json").stdout)["ports"] if port["name"] == "h3:1")
        sent = [b"short", b"\xff" * 64, packet_16b(here + 100, there, 100, right=True), packet_16b(here, there, 999, right=True), packet_16b(here, there, 100)]
        protocol = str(weft_clients.ROOT / "src" / "uabi")
        self.counts("h2", {"port_rx_truncated": 0, "port_rx_misrouted": 0, "rx_bad_veswid": 1, "rx_logic": 1},
                    lambda: self.on("h3", namespaces.PYTHON, self.script(OMNI_PATH_SENDER), protocol, *(payload.hex() for payload in sent)))
        log = pathlib.Path(self.folder, "run", self.fabric, "log").read_text(encoding="utf-8")
        self.assertIn("16B packets that are none", log)
        self.reaches()


class AsOrdinaryUser(Vnic, unittest.TestCase):
    ordinary = True


class AsOrdinaryUserOnOmniPath(AsOrdinaryUser):
    links = "opa:"


if __name__ == "__main__":
    weft_clients.need_programs("ping", "arping", "ip", "socat", "iperf3", "saquery")
    unittest.main(verbosity=2)
