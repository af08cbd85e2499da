#!/usr/bin/env python3
"""IP over InfiniBand by `weft net`: ping, TCP, UDP, curl, multicast, tcpdump and tshark on two hosts, as root and as an ordinary user; connected mode;
what is left when a process is killed; the commands of the guide.

    net.py

Nothing here leaves the namespaces of the fabric's hosts.
"""
import contextlib
import hashlib
import ipaddress
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

import crc_check
import ip_checksums
import namespaces
import weft_clients

GUIDE = weft_clients.ROOT / "docs" / "guide" / "net.md"
TRANSFER_BYTES = 8 << 20         # policy
PORT = "7000"                    # of the host's own
IDLE_SECONDS = 3                 # policy
IDLE_TICKS = 3                   # of 10 ms, of a process that should do nothing


def ticks_of(pid):
    """CPU time of a process, in ticks."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


class Net(namespaces.Account):
    def net_up(self, *hosts, topology="pair", mode="datagram"):
        self.up(topology)
        return self.weft("net", "up", *hosts, "--mode", mode).stdout

    def pid_of(self, host):
        return int(self.read(host, "/run/weft-net.pid"))

    def ping(self, host, *arguments, check=True):
        """With -i 1 where there are several: ping waits for the last answer no longer than that, once it has had others."""
        return self.on(host, "ping", "-q", "-W", "5", *arguments, check=check).stdout

    def test_hosts_reach_each_other_by_ipv4_and_ipv6(self):
        said = self.net_up("h1", "h2")
        self.assertEqual(said, f"h1: ib0 10.77.0.1/16 fd77:1b::1/64 {self.link_local('h1')}/64 mtu 2044\n"
                               f"h2: ib0 10.77.0.2/16 fd77:1b::2/64 {self.link_local('h2')}/64 mtu 2044\n")
        for address in ("10.77.0.2", "fd77:1b::2", f"{self.link_local('h2')}%ib0", "127.77.0.2"):
            self.assertIn("3 received", self.ping("h1", "-c", "3", "-i", "1", address), address)
        shown = self.on("h1", "ip", "-s", "link", "show", "dev", "ib0").stdout
        self.assertIn("mtu 2044", shown)
        received, sent = (int(row.split()[1]) for row in shown.splitlines() if re.fullmatch(r"\s+\d+(\s+\d+){5}\s*", row))
        self.assertGreaterEqual(min(received, sent), 9)

    def test_packets_of_the_whole_mtu_pass_and_longer_ones_in_fragments(self):
        self.net_up("h1", "h2")
        whole = str(2044 - 28)
        self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", "-M", "do", "-s", whole, "10.77.0.2"))
        self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", "-s", "9000", "10.77.0.2"))
        self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", "-s", "9000", "fd77:1b::2"))

    def link_local(self, host):
        """By the port's GUID as the adapter says it, with the universal bit (RFC 4391 §8)."""
        guid = int(re.search(r"GID\[\s*0\]:\s*(\S+)", self.weft("exec", host, "--", "ibv_devinfo", "-v").stdout)[1].rstrip(",").replace(":", "")[-16:], 16)
        return str(ipaddress.IPv6Address(0xFE80 << 112 | guid | 1 << 57))

    def transfer(self, listen, connect, server="h2", client="h1"):
        """Of a file, by socat."""
        source, target = pathlib.Path(self.folder, "source"), pathlib.Path(self.folder, "target")
        source.write_bytes(os.urandom(TRANSFER_BYTES))
        source.chmod(0o644)
        receiver = self.start(server, "socat", "-u", f"{listen}:{PORT},reuseaddr", f"OPEN:{target},creat,trunc")
        self.wait_until_listening(server, int(PORT), receiver)
        self.on(client, "socat", "-u", f"OPEN:{source}", connect)
        receiver.wait(namespaces.SECONDS)
        self.assertEqual(hashlib.sha256(target.read_bytes()).digest(), hashlib.sha256(source.read_bytes()).digest())

    def test_tcp_carries_a_file_whole(self):
        self.net_up("h1", "h2")
        self.transfer("TCP4-LISTEN", f"TCP4:10.77.0.2:{PORT}")
        self.transfer("TCP6-LISTEN", f"TCP6:[fd77:1b::2]:{PORT}")

    def test_tcp_carries_a_file_over_links_that_lose(self):
        self.net_up("h1", "h2", topology="star:2")
        self.weft("fault", "add", "drop p=0.01 link=h1:1")
        self.transfer("TCP4-LISTEN", f"TCP4:10.77.0.2:{PORT}")

    def test_iperf3_runs(self):
        self.net_up("h1", "h2")
        self.iperf3("datagram mode")

    def iperf3(self, mode, seconds="2"):
        server = self.start("h2", "iperf3", "-s", "-1")
        self.wait_until_listening("h2", 5201, server)
        said = self.on("h1", "iperf3", "-c", "10.77.0.2", "-t", seconds, "-f", "m").stdout
        rate = float(re.search(r"([\d.]+) Mbits/sec\s+receiver", said)[1])
        again = re.search(r"Mbits/sec\s+(\d+)\s+sender", said)[1]
        print(f"iperf3 over ib0 in {mode}: {rate:.0f} Mb/s, {again} retransmissions")
        self.assertGreater(rate, 10)
        server.wait(namespaces.SECONDS)

    def test_connected_mode_carries_packets_of_65520_octets(self):
        said = self.net_up("h1", "h2", mode="connected")
        self.assertEqual(said.count(" mtu 65520\n"), 2, said)
        for address, header in (("10.77.0.2", 28), ("fd77:1b::2", 48)):
            self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", "-M", "do", "-s", str(65520 - header), address), address)
        self.transfer("TCP4-LISTEN", f"TCP4:10.77.0.2:{PORT}")
        self.transfer("TCP6-LISTEN", f"TCP6:[fd77:1b::2]:{PORT}")
        self.iperf3("connected mode", seconds="1")

    def test_checksums_are_left_out_between_ends_of_ours_and_right_in_captures(self):
        self.net_up("h1", "h2", mode="connected")

        def transfer():
            """What h1 has left to h2, and h2 was left."""
            before = [self.shown("stats", host) for host in ("h1", "h2")]
            self.transfer("TCP4-LISTEN", f"TCP4:10.77.0.2:{PORT}")
            self.transfer("TCP6-LISTEN", f"TCP6:[fd77:1b::2]:{PORT}")
            after = [self.shown("stats", host) for host in ("h1", "h2")]
            return [after[end][f"{way}_partial_checksums"] - before[end][f"{way}_partial_checksums"] for end, way in enumerate(("tx", "rx"))]

        sent, received = transfer()
        self.assertGreater(sent, 2 * TRANSFER_BYTES // 65536)
        self.assertEqual(received, sent)
        with self.captured("h1") as path:
            self.assertEqual(transfer(), [0, 0])
        found = ip_checksums.check(path)
        self.assertEqual((found["wrong"], found["reserved"]), (0, 0), found)
        self.assertGreater(found["right"], 2 * TRANSFER_BYTES // 65536)
        self.assertGreater(found["longest"], 60_000)
        self.assertGreater(transfer()[0], 0)  # again, since nobody looks any more

    def test_connected_mode_reaches_datagram_mode_by_datagrams(self):
        self.net_up("h1", mode="connected")
        self.weft("net", "up", "h2")
        refused = self.on("h1", "ping", "-c", "1", "-W", "1", "-M", "do", "-s", "9000", "10.77.0.2", check=False)
        self.assertIn("mtu = 2044", refused.stdout + refused.stderr)
        self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", "-s", "9000", "10.77.0.2"))
        self.transfer("TCP4-LISTEN", f"TCP4:10.77.0.2:{PORT}")

    def test_what_is_too_long_for_a_neighbor_is_fragmented_or_answered(self):
        """R-IPOIB-13, R-IPOIB-25: IPv4 without DF is fragmented by the interface, and nothing is lost; with DF, and IPv6, the sender is told."""
        self.net_up("h1", mode="connected")
        self.weft("net", "up", "h2")
        self.assertIn("3 received", self.ping("h1", "-c", "3", "-i", "1", "-M", "dont", "-s", "9000", "10.77.0.2"))
        stats = self.shown("stats", "h1")
        self.assertEqual((stats["tx_fragmented"], stats["tx_too_big"]), (3, 0))
        refused = self.on("h1", "ping", "-c", "2", "-i", "1", "-W", "1", "-M", "do", "-s", "9000", "10.77.0.2", check=False)
        self.assertIn("mtu = 2044", refused.stdout + refused.stderr)
        told = self.on("h1", "ping", "-c", "3", "-i", "1", "-W", "1", "-s", "9000", "fd77:1b::2", check=False)
        self.assertIn("Packet too big: mtu=2044", told.stdout + told.stderr)
        self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", "-s", "9000", "fd77:1b::2"))

    def test_connected_mode_over_uc_connects_to_others_of_uc_alone(self):
        """R-IPOIB-14: h1 and h2 over UC, beside h3 over RC, which they reach by datagrams, as the flags of their addresses say (RFC 4755 §3.1)."""
        said = self.net_up("h1", "h2", topology="star:3", mode="connected-uc")
        self.assertEqual(said.count(" mtu 65520\n"), 2, said)
        self.weft("net", "up", "h3", "--mode", "connected")
        self.assertEqual([self.shown("addr", host)["link_address"][:2] for host in ("h1", "h2", "h3")], ["40", "40", "80"])
        with self.captured("h1") as path:
            for address, header in (("10.77.0.2", 28), ("fd77:1b::2", 48)):
                self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", "-M", "do", "-s", str(65520 - header), address), address)
            self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", "-M", "dont", "-s", "9000", "10.77.0.3"))
        types = {opcode >> 5 for opcode in self.opcodes(path)}
        self.assertEqual(types, {1, 3}, "UC and UD (IBTA vol 1 table 38), and nothing over RC")
        stats = {host: self.shown("stats", host) for host in ("h1", "h2", "h3")}
        self.assertEqual([stats[host]["connection_accepted"] for host in stats], [1, 1, 0])
        self.assertEqual([stats[host]["connection_refused"] for host in stats], [0, 0, 0])
        self.transfer("TCP4-LISTEN", f"TCP4:10.77.0.2:{PORT}")
        self.transfer("TCP6-LISTEN", f"TCP6:[fd77:1b::2]:{PORT}")

    def test_an_interface_of_both_connects_to_each_as_that_does(self):
        """R-IPOIB-14: h1 offers RC and UC, h2 RC alone, h3 UC alone, each of whom it connects to, and they to it (RFC 4755 §3.1, §3.2)."""
        modes = ("connected-both", "connected", "connected-uc")
        self.up("star:3")
        for host, mode in zip(("h1", "h2", "h3"), modes):
            self.assertIn(" mtu 65520\n", self.weft("net", "up", host, "--mode", mode).stdout)
        self.assertEqual([self.shown("addr", host)["link_address"][:2] for host in ("h1", "h2", "h3")], ["c0", "80", "40"])
        whole = ("-c", "2", "-i", "1", "-M", "do", "-s", str(65520 - 28))
        for peer, types in (("h2", {0, 3}), ("h3", {1, 3})):  # RC, UC and UD (IBTA vol 1 table 38)
            with self.captured("h1") as path:
                self.assertIn("2 received", self.ping("h1", *whole, f"10.77.0.{peer[1]}"), peer)
            self.assertEqual({opcode >> 5 for opcode in self.opcodes(path)}, types, peer)
            self.transfer("TCP4-LISTEN", f"TCP4:10.77.0.1:{PORT}", server="h1", client=peer)
        self.assertIn("2 received", self.ping("h2", "-c", "2", "-i", "1", "-M", "dont", "-s", "9000", "10.77.0.3"))  # in fragments: they have nothing in common
        stats = {host: self.shown("stats", host) for host in ("h1", "h2", "h3")}
        self.assertEqual([(each["connection_connects"], each["connection_accepted"], each["connection_refused"]) for each in stats.values()],
                         [(2, 2, 0), (1, 1, 0), (1, 1, 0)])

    def opcodes(self, path):
        told = subprocess.run(["tshark", "-n", "-r", str(path), "-T", "fields", "-e", "infiniband.bth.opcode"], capture_output=True, text=True,
                              timeout=namespaces.SECONDS, check=True).stdout.split()
        return [int(opcode, 0) for opcode in told]

    def test_connected_mode_over_uc_carries_a_file_over_links_that_lose(self):
        self.net_up("h1", "h2", topology="star:2", mode="connected-uc")
        self.weft("fault", "add", "drop p=0.002 link=h1:1")  # a packet of a message that is lost takes the message along: a message is 32
        self.transfer("TCP4-LISTEN", f"TCP4:10.77.0.2:{PORT}")

    def test_addresses_that_come_later_are_followed(self):
        """R-IPOIB-27."""
        self.net_up("h1", "h2")
        for host in ("h1", "h2"):
            for address in (f"10.88.0.{host[1]}/24", f"fd99::{host[1]}/64"):
                self.on(host, "ip", "address", "add", address, "dev", "ib0")
            self.assertTrue(namespaces.eventually(lambda host=host: {f"10.88.0.{host[1]}/24", f"fd99::{host[1]}/64"} <= set(self.shown("addr", host)["addresses"])))
        for address in ("10.88.0.2", "fd99::2", "10.77.0.2"):
            self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", address), address)
        self.on("h2", "ip", "address", "del", "10.88.0.2/24", "dev", "ib0")
        self.assertTrue(namespaces.eventually(lambda: "10.88.0.2/24" not in self.shown("addr", "h2")["addresses"]))
        self.assertIn("10.77.0.2/16", self.shown("addr", "h2")["addresses"])

    def test_rdma_cm_has_the_interfaces_addresses(self):
        """R-IPOIB-21: rping by each of them, those that come later too, and no longer once they are gone."""
        self.net_up("h1", "h2")
        self.on("h1", "ip", "address", "add", "10.88.0.1/24", "dev", "ib0")
        self.on("h2", "ip", "address", "add", "10.88.0.2/24", "dev", "ib0")
        for host in ("h1", "h2"):
            self.assertTrue(namespaces.eventually(lambda host=host: f"10.88.0.{host[1]}/24" in self.shown("addr", host)["addresses"]))
        link_local = self.link_local("h2")
        for address in ("10.77.0.2", "fd77:1b::2", f"{link_local}%ib0", "10.88.0.2", "127.77.0.2"):
            self.rping(address)
        for address in ("10.77.0.2", "fd77:1b::2", f"{link_local}%ib0"):
            self.assertIn("1 received", self.ping("h1", "-c", "1", address), address)  # what carries packets answers for them still
        self.weft("net", "down", "h2")
        gone = self.on("h2", "rping", "-s", "-a", "10.77.0.2", "-C", "1", check=False)
        self.assertIn("annot assign requested address", gone.stdout + gone.stderr)

    def rping(self, address, messages=3):
        """h2 serves at the address, h1 asks it."""
        server = self.start("h2", "rping", "-s", "-a", address, "-C", str(messages), "-v")
        self.wait_until_listening_by_rdma_cm(server)
        said = self.on("h1", "rping", "-c", "-a", address, "-C", str(messages), "-v").stdout
        self.assertEqual(said.count("ping data:"), messages, f"{address}: {said}")
        server.wait(namespaces.SECONDS)

    def test_rdma_cm_and_the_interface_have_one_table_of_neighbors(self):
        """R-IPOIB-28: who one of them has found the other does not ask for again."""
        self.net_up("h1", "h2")
        self.assertEqual(self.shown("neigh", "h1"), [])
        self.rping("10.77.0.2")
        peer = self.shown("addr", "h2")["link_address"]
        self.assertEqual({row["address"]: row["link_address"] for row in self.shown("neigh", "h1")}, {"10.77.0.2": peer})
        asked = self.shown("stats", "h1")["neigh_solicitations"]
        self.assertIn("1 received", self.ping("h1", "-c", "1", "10.77.0.2"))
        self.assertEqual(self.shown("stats", "h1")["neigh_solicitations"], asked)
        self.assertIn("1 received", self.ping("h1", "-c", "1", "fd77:1b::2"))
        asked = self.shown("stats", "h1")["neigh_solicitations"]
        self.rping("fd77:1b::2")
        self.assertEqual(self.shown("stats", "h1")["neigh_solicitations"], asked)
        os.kill(self.pid_of("h2"), signal.SIGKILL)
        self.assertTrue(namespaces.eventually(lambda: "ib0" not in self.on("h2", "ip", "-br", "link").stdout))
        self.weft("net", "up", "h2")  # with another QP, which one announcement tells both
        back = self.shown("addr", "h2")["link_address"]
        self.assertTrue(namespaces.eventually(lambda: {row["link_address"] for row in self.shown("neigh", "h1")} == {back}, 5))
        self.rping("10.77.0.2")

    def test_rdma_cm_has_the_addresses_of_children(self):
        """R-IPOIB-28: with their P_Key in the route, beside those of ib0."""
        self.partitioned()
        child = ("--pkey", "0x8005")
        self.weft("net", "up", "h1", "h2")
        for host in ("h1", "h2"):
            self.weft("net", "up", host, *child, "--address", f"10.85.0.{host[1]}/24", "--address", f"fd77:1b:0:8005::{host[1]}/64")
        for address, pkey in (("10.85.0.2", 0x8005), ("fd77:1b:0:8005::2", 0x8005), ("10.77.0.2", 0xFFFF)):
            with self.captured("h1") as path:
                self.rping(address)
            told = subprocess.run(["tshark", "-n", "-r", str(path), "-Y", "infiniband.bth.opcode < 0x20", "-T", "fields", "-e", "infiniband.bth.p_key"],
                                  capture_output=True, text=True, timeout=namespaces.SECONDS, check=True).stdout.split()
            self.assertEqual({int(each, 0) for each in told}, {pkey}, address)
        self.assertEqual({row["address"] for row in self.shown("neigh", "h1", *child)}, {"10.85.0.2", "fd77:1b:0:8005::2"})
        self.weft("net", "down", "h2", *child)
        gone = self.on("h2", "rping", "-s", "-a", "10.85.0.2", "-C", "1", check=False)
        self.assertIn("annot assign requested address", gone.stdout + gone.stderr)

    def test_a_neighbor_that_is_back_is_found_at_once(self):
        """R-IPOIB-26: h2 has another QP after it, which h1 knows without asking."""
        self.net_up("h1", "h2")
        for address in ("10.77.0.2", "fd77:1b::2"):
            self.assertIn("1 received", self.ping("h1", "-c", "1", address))
        before = self.shown("addr", "h2")["link_address"]
        os.kill(self.pid_of("h2"), signal.SIGKILL)
        self.assertTrue(namespaces.eventually(lambda: "ib0" not in self.on("h2", "ip", "-br", "link").stdout))
        self.weft("net", "up", "h2")
        now = self.shown("addr", "h2")["link_address"]
        self.assertNotEqual(now, before)
        self.assertTrue(namespaces.eventually(lambda: {row["link_address"] for row in self.shown("neigh", "h1")} == {now}, 5))
        for address in ("10.77.0.2", "fd77:1b::2"):
            self.assertIn("1 received", self.ping("h1", "-c", "1", address))

    def test_connected_mode_carries_a_file_over_links_that_lose(self):
        self.net_up("h1", "h2", topology="star:2", mode="connected")
        self.weft("fault", "add", "drop p=0.01 link=h1:1")
        self.transfer("TCP4-LISTEN", f"TCP4:10.77.0.2:{PORT}")

    def test_udp_of_iperf3_arrives(self):
        self.net_up("h1", "h2")
        server = self.start("h2", "iperf3", "-s", "-1")
        self.wait_until_listening("h2", 5201, server)
        said = self.on("h1", "iperf3", "-u", "-b", "4M", "-l", "1400", "-c", "fd77:1b::2", "-t", "1").stdout
        lost, all_sent = map(int, re.search(r"(\d+)/(\d+) \([\d.e+-]+%\)\s+receiver", said).groups())
        self.assertGreater(all_sent, 50)
        self.assertLess(lost, all_sent // 2, said)  # a busy machine may lose many

    def test_curl_fetches_from_a_small_server(self):
        self.net_up("h1", "h2")
        folder = pathlib.Path(self.folder, "served")
        folder.mkdir(mode=0o755)
        os.chmod(self.folder, 0o755)
        (folder / "file").write_bytes(os.urandom(1 << 20))
        (folder / "file").chmod(0o644)
        server = self.start("h2", namespaces.PYTHON, "-m", "http.server", "--bind", "::", "--directory", str(folder), "8080")
        self.wait_until_listening("h2", 8080, server)
        for url in ("http://10.77.0.2:8080/file", "http://[fd77:1b::2]:8080/file"):
            sha = self.on("h1", "sh", "-c", f"curl -sf --max-time 30 '{url}' | sha256sum").stdout.split()[0]
            self.assertEqual(sha, hashlib.sha256((folder / "file").read_bytes()).hexdigest(), url)

    def test_groups_are_joined_as_the_host_listens(self):
        self.net_up("h1", "h2", "h3", topology="star:3")
        receivers = {host: self.start(host, "socat", "-u", f"UDP4-RECV:{PORT},ip-add-membership=239.1.2.3:{address}", "-")
                     for host, address in (("h2", "10.77.0.2"), ("h3", "10.77.0.3"))}
        for host in receivers:
            self.assertTrue(namespaces.eventually(lambda host=host: "030201EF" in self.read(host, "/proc/net/igmp")))
        sender = f"for i in 1 2 3 4 5 6 7 8; do echo hello; sleep 0.1; done | socat -u - UDP4-DATAGRAM:239.1.2.3:{PORT},ip-multicast-if=10.77.0.1"
        self.on("h1", "sh", "-c", sender)
        for host, receiver in receivers.items():
            self.assertEqual(receiver.stdout.readline(), "hello\n", host)
        group = "ff12:401b:ffff::f01:203"
        self.assertEqual(self.members(group), {self.gid_of(host) for host in ("h1", "h2", "h3")})
        for receiver in receivers.values():
            self.finish(receiver)
        self.assertTrue(namespaces.eventually(lambda: self.members(group) == {self.gid_of("h1")}), "who listens no longer is a member still")

    def memberships(self):
        """MGIDs and GIDs of members, as SA tells who knows its SM_Key."""
        shown = self.weft("exec", "h1", "--", "saquery", "--smkey", "1", "MCMR").stdout
        return set(re.findall(r"MGID\.+(\S+)\s+PortGid\.+(\S+)", shown))

    def members(self, group):
        return {gid for mgid, gid in self.memberships() if mgid == group}

    def test_a_killed_process_leaves_no_membership_at_sa(self):
        """R-IPOIB-29: neither of groups that the host listened to, nor of those that it only sent to."""
        self.net_up("h1", "h2")
        receivers = [self.start(host, "socat", "-u", f"UDP4-RECV:{PORT},ip-add-membership={group}:10.77.0.{host[1]}", "-")
                     for host, group in (("h2", "239.1.2.3"), ("h1", "239.1.2.4"))]
        for host, group in (("h2", "030201EF"), ("h1", "040201EF")):
            self.assertTrue(namespaces.eventually(lambda host=host, group=group: group in self.read(host, "/proc/net/igmp")))
        self.on("h1", "sh", "-c", f"for i in 1 2 3 4 5 6 7 8; do echo hello; sleep 0.1; done | socat -u - UDP4-DATAGRAM:239.1.2.3:{PORT},ip-multicast-if=10.77.0.1")
        self.assertEqual(receivers[0].stdout.readline(), "hello\n")
        sent_to, listened_to, of_h1, of_h2 = "ff12:401b:ffff::f01:203", "ff12:401b:ffff::f01:204", self.gid_of("h1"), self.gid_of("h2")
        self.assertTrue(namespaces.eventually(lambda: {(sent_to, of_h1), (listened_to, of_h1), (sent_to, of_h2)} <= self.memberships()))
        os.kill(self.pid_of("h1"), signal.SIGKILL)
        kernels = {("ff12:401b:ffff::ffff:ffff", of_h1)}  # a member of the broadcast group by itself, for RDMA-CM's own addresses
        self.assertTrue(namespaces.eventually(lambda: {(mgid, gid) for mgid, gid in self.memberships() if gid == of_h1} <= kernels), self.memberships())
        self.assertIn((sent_to, of_h2), self.memberships())
        for receiver in receivers:
            self.finish(receiver)

    def gid_of(self, host):
        return str(ipaddress.IPv6Address(bytes.fromhex(self.shown("addr", host)["link_address"].replace(":", "")[8:])))

    def shown(self, what, host, *options):
        return json.loads(self.weft("net", what, host, "--json", *options).stdout)

    def test_addresses_neighbors_and_counters_are_shown(self):
        self.net_up("h1", "h2")
        before = self.shown("stats", "h1")
        self.ping("h1", "-c", "3", "-i", "1", "10.77.0.2")
        after = self.shown("stats", "h1")
        for name in ("tx_packets", "rx_packets"):
            self.assertGreaterEqual(after[name] - before[name], 3, name)
        peer = self.shown("addr", "h2")
        self.assertEqual((peer["up"], peer["mtu"], peer["mode"]), (True, 2044, "datagram"))
        self.assertIn("10.77.0.2/16", peer["addresses"])
        self.assertEqual({row["address"]: row["link_address"] for row in self.shown("neigh", "h1")}["10.77.0.2"], peer["link_address"])
        guid = peer["link_address"].replace(":", "")[-16:]
        self.assertEqual(peer["dhcp_client_identifier"].replace(":", ""), "ff" + "0000ffff" + "0003" + "0020" + guid)  # RFC 4390 §2.1, RFC 4361 §6.1
        gid = self.weft("exec", "h2", "--", "ibv_devinfo", "-v").stdout
        self.assertIn(peer["link_address"].replace(":", "")[8:], re.search(r"GID\[\s*0\]:\s*(\S+)", gid)[1].rstrip(",").replace(":", ""))
        self.weft("net", "down", "h1")
        said = self.weft("net", "stats", "h1", check=False)
        self.assertEqual(said.returncode, 1)
        self.assertIn("ib0 is not up: weft net up HOST", said.stderr)

    @contextlib.contextmanager
    def captured(self, host):
        """The file with what InfiniBand carries meanwhile."""
        path = pathlib.Path(self.folder, "ib.pcap")
        capture = subprocess.Popen([*self.prefix, self.weft_path, "capture", host, "-o", str(path)], env=self.environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(lambda: capture.poll() is None and weft_clients.end(capture))
        self.assertTrue(namespaces.eventually(lambda: path.exists() and path.stat().st_size >= 24))
        yield path
        time.sleep(0.5)
        capture.send_signal(signal.SIGINT)
        capture.wait(namespaces.SECONDS)

    def partitioned(self):
        """Three hosts, of which two are in the partition 5."""
        path = pathlib.Path(self.folder, "partitioned.toml")
        hosts = "".join(f'[[host]]\nname = "h{number}"\n[[host.hca]]\n[[host.hca.port]]\npkeys = [{pkeys}]\n'
                        for number, pkeys in ((1, "0xFFFF, 0x8005"), (2, "0xFFFF, 0x8001, 0x8005"), (3, "0xFFFF")))
        links = "".join(f'[[link]]\na = "h{number}:1"\nb = "s1:{number}"\n' for number in (1, 2, 3))
        path.write_text(f'{hosts}[[switch]]\nname = "s1"\nports = 36\n{links}', encoding="utf-8")
        path.chmod(0o644)
        os.chmod(self.folder, 0o755)
        self.up(str(path))

    def test_a_child_is_of_its_partition_alone(self):
        """R-IPOIB-19."""
        self.partitioned()
        child = ("--pkey", "0x8005")
        self.assertIn("ib0 is not up: weft net up HOST", self.weft("net", "up", "h1", *child, check=False).stderr)
        self.weft("net", "up", "h1", "--mtu", "1500")
        self.weft("net", "up", "h2", "h3")
        self.assertEqual(self.weft("net", "up", "h1", "h2", *child).stdout,
                         f"h1: ib0.8005 fd77:1b:0:8005::1/64 {self.link_local('h1')}/64 mtu 1500\n"
                         f"h2: ib0.8005 fd77:1b:0:8005::2/64 {self.link_local('h2')}/64 mtu 2044\n")
        self.assertIn("no member of the partition 0x8005", self.weft("net", "up", "h3", *child, check=False).stderr)
        shown = self.shown("addr", "h2", *child)
        self.assertEqual((shown["interface"], shown["pkey"], shown["group"]), ("ib0.8005", 0x8005, "ff12:401b:8005::ffff:ffff"))
        before = self.shown("stats", "h1")
        with self.captured("h1") as path:
            self.assertIn("3 received", self.ping("h1", "-c", "3", "-i", "1", "fd77:1b:0:8005::2"))
        self.assertLess(self.shown("stats", "h1")["tx_packets"] - before["tx_packets"], 3)  # the host may report groups meanwhile
        self.assertGreaterEqual(self.shown("stats", "h1", *child)["tx_packets"], 3)
        told = subprocess.run(["tshark", "-n", "-r", str(path), "-Y", "icmpv6.type == 128 or icmpv6.type == 129", "-T", "fields", "-e", "infiniband.bth.p_key"],
                              capture_output=True, text=True, timeout=namespaces.SECONDS, check=True).stdout.split()
        self.assertGreaterEqual(len(told), 6)
        self.assertEqual({int(pkey, 0) for pkey in told}, {0x8005})
        for mtu in ("1400", "1600", "2044"):  # follows its parent
            self.on("h1", "ip", "link", "set", "ib0", "mtu", mtu)
            self.assertTrue(namespaces.eventually(lambda mtu=mtu: f"mtu {mtu}" in self.on("h1", "ip", "link", "show", "dev", "ib0.8005").stdout), mtu)
        self.weft("net", "down", "h1")
        self.assertNotIn("ib0", self.on("h1", "ip", "-br", "link").stdout)
        self.weft("net", "down", "h2", *child)
        self.assertRegex(self.on("h2", "ip", "-br", "link").stdout, r"(?m)^ib0 (?!.*ib0\.)")

    def two_ports(self):
        """Two hosts, each with both ports of its adapter on one switch."""
        path = pathlib.Path(self.folder, "two_ports.toml")
        hosts = "".join(f'[[host]]\nname = "h{number}"\n[[host.hca]]\nports = 2\n' for number in (1, 2))
        links = "".join(f'[[link]]\na = "h{host}:{port}"\nb = "s1:{2 * host + port}"\n' for host in (1, 2) for port in (1, 2))
        path.write_text(f'{hosts}[[switch]]\nname = "s1"\nports = 36\n{links}', encoding="utf-8")
        path.chmod(0o644)
        os.chmod(self.folder, 0o755)
        self.up(str(path))

    BOND = ("--port", "1", "--port", "2")

    def test_each_port_has_an_interface(self):
        """R-IPOIB-30: ib0 and ib1, with addresses, neighbours and counters of their own."""
        self.two_ports()
        second = ("--port", "2")
        self.weft("net", "up", "h1", "h2")
        said = self.weft("net", "up", "h1", "h2", *second).stdout
        self.assertRegex(said, r"h1: ib1 10\.78\.0\.1/16 fd77:1b:1::1/64 fe80::\S+/64 mtu 2044\n")
        gids = {port: self.shown("addr", "h1", "--port", port)["link_address"][12:] for port in ("1", "2")}
        self.assertNotEqual(gids["1"], gids["2"])
        before = {port: self.shown("stats", "h1", "--port", port)["rx_packets"] for port in ("1", "2")}
        for address in ("10.78.0.2", "fd77:1b:1::2"):
            self.assertIn("3 received", self.ping("h1", "-c", "3", "-i", "1", address), address)
        after = {port: self.shown("stats", "h1", "--port", port)["rx_packets"] for port in ("1", "2")}
        self.assertGreaterEqual(after["2"] - before["2"], 6)
        self.assertLess(after["1"] - before["1"], 3)  # the host may report groups meanwhile
        self.assertEqual({row["address"] for row in self.shown("neigh", "h1", *second)}, {"10.78.0.2", "fd77:1b:1::2"})
        self.rping("10.78.0.2")
        self.weft("link", "down", "h1:1")
        self.assertIn("1 received", self.ping("h1", "-c", "1", "10.78.0.2"))
        self.weft("net", "down", "h1", *second)
        self.assertRegex(self.on("h1", "ip", "-br", "link").stdout, r"(?m)^ib0 (?s:(?!.*ib1))")
        refused = self.weft("net", "up", "h1", "--port", "3", check=False)
        self.assertIn("the host has no port 3: it has 2", refused.stderr)

    def carrier(self, host="h2"):
        return self.shown("addr", host, *self.BOND)["active_port"]

    def test_the_other_port_carries_on_when_a_cable_is_pulled(self):
        """R-IPOIB-30: as bonding's active-backup does; ping, TCP, groups and RDMA-CM go on. Of h2, since h1's first port is the subnet manager's."""
        self.two_ports()
        said = self.weft("net", "up", "h2", *self.BOND).stdout
        self.assertRegex(said, r"h2: bond0 10\.77\.0\.2/16 fd77:1b::2/64 fe80::\S+/64 mtu 2044\n")
        self.weft("net", "up", "h1")
        self.assertIn("bond0 is up", self.weft("net", "up", "h2", check=False).stderr)
        receiver = self.start("h2", "socat", "-u", f"UDP4-RECV:{PORT},ip-add-membership=239.1.2.3:10.77.0.2", "-")
        self.assertTrue(namespaces.eventually(lambda: "030201EF" in self.read("h2", "/proc/net/igmp")))
        self.assertEqual(self.carrier(), 1)
        for pulled, other in ((1, 2), (2, 1)):
            both_ways = [self.start(host, "ping", "-q", "-i", "0.1", "-c", "80", address) for host, address in (("h1", "10.77.0.2"), ("h2", "10.77.0.1"))]
            time.sleep(2)
            self.weft("link", "down", f"h2:{pulled}")
            self.assertTrue(namespaces.eventually(lambda other=other: self.carrier() == other))
            for ping in both_ways:
                answered = int(re.search(r"(\d+) received", ping.stdout.read())[1])
                self.assertGreaterEqual(answered, 60)  # two seconds lost: of those that were on the way, and until h1 believes the other port
                ping.wait(namespaces.SECONDS)
            self.transfer("TCP4-LISTEN", f"TCP4:10.77.0.2:{PORT}")
            self.rping("10.77.0.2")
            self.on("h1", "sh", "-c", f"for i in 1 2 3 4 5 6 7 8; do echo by-{other}; sleep 0.1; done | socat -u - UDP4-DATAGRAM:239.1.2.3:{PORT},ip-multicast-if=10.77.0.1")
            while (line := receiver.stdout.readline()) != f"by-{other}\n":
                self.assertTrue(line, "the receiver has ended")
            self.weft("link", "up", f"h2:{pulled}")
            self.assertTrue(namespaces.eventually(lambda pulled=pulled: f"{pulled}: ACTIVE" in self.port_states("h2")))
            self.assertEqual(self.carrier(), other)  # which goes on
        self.finish(receiver)
        self.weft("net", "down", "h2", *self.BOND)
        self.assertNotIn("bond0", self.on("h2", "ip", "-br", "link").stdout)

    def port_states(self, host):
        said = self.weft("exec", host, "--", "ibv_devinfo").stdout
        return " ".join(f"{port}: {state[5:]}" for port, state in re.findall(r"port:\s+(\d+)\s+state:\s+(\S+)", said))

    def test_tcpdump_sees_ip_and_a_capture_sees_infiniband(self):
        self.net_up("h1", "h2", topology="star:2")
        # tcpdump gives up being root first, which an ordinary user's host has no way to do.
        is_root = not self.ordinary and os.geteuid() == 0
        program = ("tcpdump", "icmp") if is_root else ("tshark", "-f", "icmp")
        dump = self.start("h1", program[0], "-i", "ib0", "-n", "-l", "-c", "2", *program[1:])
        said = ""
        while not re.search("listening on ib0|Capturing on 'ib0'", said):
            line = dump.stdout.readline()
            self.assertTrue(line, f"{program[0]} has ended: {said}")
            said += line
        time.sleep(0 if is_root else 1)  # tshark says so a little before
        with self.captured("h1") as path:
            self.ping("h1", "-c", "3", "-i", "0.3", "10.77.0.2")
            seen = dump.stdout.read()
        self.assertRegex(seen, r"10\.77\.0\.1 \S+ 10\.77\.0\.2:?\s+ICMP .*cho")
        checked = crc_check.check_file(path)
        self.assertEqual(checked["wrong"], 0, checked["problems"])
        told = subprocess.run(["tshark", "-n", "-r", str(path), "-T", "fields", "-e", "infiniband.deth.q_key", "-e", "frame.protocols"],
                              capture_output=True, text=True, timeout=namespaces.SECONDS, check=True).stdout
        pings = [line for line in told.splitlines() if re.fullmatch(r"0x0*b1b\terf:infiniband:ethertype:ip:icmp:data", line)]
        self.assertGreaterEqual(len(pings), 6, told)
        malformed = subprocess.run(["tshark", "-n", "-r", str(path), "-Y", "_ws.malformed"], capture_output=True, text=True,
                                   timeout=namespaces.SECONDS, check=True).stdout
        self.assertEqual(malformed, "")

    def test_an_idle_interface_takes_no_cpu(self):
        self.net_up("h1", "h2")
        self.ping("h1", "-c", "1", "10.77.0.2")
        time.sleep(1)
        pid = self.pid_of("h1")
        before = ticks_of(pid)
        time.sleep(IDLE_SECONDS)
        self.assertLessEqual(ticks_of(pid) - before, IDLE_TICKS)

    def test_a_killed_process_leaves_nothing_and_another_takes_its_place(self):
        self.net_up("h1", "h2")
        os.kill(self.pid_of("h1"), signal.SIGKILL)
        self.assertTrue(namespaces.eventually(lambda: "ib0" not in self.on("h1", "ip", "-br", "link").stdout))
        self.weft("net", "up", "h1")
        self.assertIn("2 received", self.ping("h1", "-c", "2", "-i", "1", "10.77.0.2"))

    def test_an_interface_ends_with_the_fabric_that_is_killed(self):
        daemon, _ = self.up("pair")
        self.weft("net", "up", "h1", "h2")
        pids = [self.pid_of("h1"), self.pid_of("h2")]
        os.kill(daemon, signal.SIGKILL)
        self.assertTrue(namespaces.eventually(lambda: not any(map(namespaces.is_running, pids))))

    def test_a_link_that_goes_down_takes_the_carrier_and_gives_it_back(self):
        self.net_up("h1", "h2", topology="star:2")
        self.weft("link", "down", "h1")
        self.assertTrue(namespaces.eventually(lambda: "NO-CARRIER" in self.on("h1", "ip", "-br", "link", "show", "dev", "ib0").stdout))
        self.weft("link", "up", "h1")
        self.assertTrue(namespaces.eventually(lambda: "1 received" in self.ping("h1", "-c", "1", "10.77.0.2", check=False)))

    def test_what_cannot_be_is_refused_in_words(self):
        self.net_up("h1")
        for arguments, words in ((("up", "h1"), "ib0 is up already"), (("up", "h9"), "h9"), (("down", "h2"), "ib0 is not up"),
                                 (("up", "h2", "--address", "nowhere"), "nowhere")):
            done = self.weft("net", *arguments, check=False)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(words, done.stderr, arguments)
        self.assertEqual(self.weft("net", check=False).returncode, 2)

    def test_own_addresses_and_mtu(self):
        self.up("pair")
        self.weft("net", "up", "h1", "--address", "10.0.5.1/24", "--address", "10.0.6.1/30", "--mtu", "1500")
        shown = self.on("h1", "ip", "address", "show", "dev", "ib0").stdout
        self.assertEqual(re.findall(r"inet (\S+)", shown), ["10.0.5.1/24", "10.0.6.1/30"])
        self.assertRegex(self.weft("net", "up", "h2", "--address", "10.0.5.2/24").stdout, r"10\.0\.5\.2/24 fe80::\S+/64 mtu 2044")
        self.assertIn("1 received", self.ping("h1", "-c", "1", "10.0.5.2"))
        self.assertIn("mtu 1500", self.on("h1", "ip", "link", "show", "dev", "ib0").stdout)


class AsThisUser(Net, unittest.TestCase):
    def test_the_guide_shows_what_happens(self):
        self.fabric = "default"
        shown = 0
        for block in re.findall(r"```console\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, wanted = part.partition("\n")
                done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=namespaces.SECONDS, env=self.environment(), cwd="/")
                pattern = ".*".join(map(re.escape, wanted.split("...")))
                self.assertRegex(done.stdout + done.stderr, re.compile(rf"\A{pattern}", re.DOTALL), command)
                shown += 1
        self.assertGreater(shown, 9)


class AsOrdinaryUser(Net, unittest.TestCase):
    ordinary = True


if __name__ == "__main__":
    weft_clients.need_programs("ping", "ip", "socat", "iperf3", "curl", "tcpdump", "tshark", "saquery")
    unittest.main(verbosity=2)
