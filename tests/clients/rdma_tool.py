#!/usr/bin/env python3
"""Debian's `rdma` (iproute2) on simulated hosts: what it prints is what the fabric is and what programs hold.

    rdma_tool.py
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import time
import unittest

import weft_clients

PATIENCE_SECONDS = 60
GUIDE = weft_clients.ROOT / "docs" / "guide" / "rdma-netlink.md"


def fields(text):
    """`key: value` lines; of several with one key, the first."""
    found = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(re.sub(r"\s+", " ", key.strip()), value.strip())
    return found


class RdmaTool(unittest.TestCase):
    def fabric(self, topology):
        fabric = weft_clients.Fabric(topology, f"rdma-{os.getpid()}")
        fabric.__enter__()
        self.addCleanup(fabric.__exit__)
        return fabric

    def exec(self, fabric, host, *command, fails=False):
        done = subprocess.run([fabric.weft, "exec", host, "--", *command], capture_output=True, text=True, timeout=PATIENCE_SECONDS,
                              env=fabric.environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode != 0, fails, f"{command}: {done.stdout}{done.stderr}")
        return done.stderr if fails else done.stdout

    def rdma(self, fabric, host, *arguments):
        return json.loads(self.exec(fabric, host, "rdma", "-j", *arguments) or "[]")

    def devinfo(self, fabric, host):
        child = fabric.start(host, ["ibv_devinfo", "-v"])
        text, _ = child.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(child.returncode, 0, text)
        return fields(text), text

    def test_devices_and_links_are_those_of_ibv_devinfo(self):
        fabric = self.fabric("star 3")
        for host in ("h1", "h2"):
            verbs, text = self.devinfo(fabric, host)
            device, = self.rdma(fabric, host, "dev", "show", "-d")
            self.assertEqual(device["ifname"], verbs["hca_id"])
            self.assertEqual(device["ifindex"], 0)
            self.assertEqual(device["node_type"], "ca")
            self.assertEqual(device["fw"], verbs["fw_ver"])
            self.assertEqual(device["node_guid"], verbs["node_guid"])
            self.assertEqual(device["sys_image_guid"], verbs["sys_image_guid"])
            # Names of capabilities that verbs and `rdma` share.
            for name in ("XRC", "MEM_WINDOW_TYPE_2B", "SRQ_RESIZE", "RC_RNR_NAK_GEN", "SYS_IMAGE_GUID", "RAW_MULTI"):
                self.assertEqual(name in device["caps"], re.search(rf"(?m)^\s*{name}$", text) is not None, name)
            link, = self.rdma(fabric, host, "link", "show", "-d")
            self.assertEqual(link["ifname"], verbs["hca_id"])
            self.assertEqual(link["port"], 1)
            self.assertEqual(link["state"], "ACTIVE")
            self.assertEqual(link["physical_state"], "LINK_UP")
            self.assertEqual(link["lid"], int(verbs["port_lid"]))
            self.assertEqual(link["sm_lid"], int(verbs["sm_lid"]))
            self.assertEqual(link["lmc"], int(verbs["port_lmc"], 16))
            self.assertEqual(link["subnet_prefix"], "fe80:0000:0000:0000")

    def test_a_link_that_goes_down_is_down(self):
        fabric = self.fabric("pair")
        self.assertEqual(self.rdma(fabric, "h1", "link")[0]["state"], "ACTIVE")
        fabric.run("port", "set", "h1", "unplug", "--name", fabric.name)
        self.assertEqual(self.rdma(fabric, "h1", "link")[0]["state"], "DOWN")

    def test_what_programs_hold_is_shown_while_they_run(self):
        fabric = self.fabric("pair")
        port = str(weft_clients.Ports().take())
        command = ["ib_write_bw", "-D", "30", "-q", "2", "-p", port]
        server = fabric.start("h1", command)
        self.addCleanup(weft_clients.end, server)
        self.addCleanup(server.stdout.close)
        self.wait_until(lambda: weft_clients.somebody_listens(int(port)), "the server listens")
        client = fabric.start("h2", [*command, weft_clients.address_of("h1")])
        self.addCleanup(weft_clients.end, client)
        self.addCleanup(client.stdout.close)
        shown = {}

        def are_connected():
            for host in ("h1", "h2"):
                shown[host] = [qp for qp in self.rdma(fabric, host, "res", "show", "qp", "-d") if qp.get("comm") == "ib_write_bw"]
            return all(len(qps) == 2 and {qp["state"] for qp in qps} <= {"RTS", "RTR"} for qps in shown.values())

        self.wait_until(are_connected, "two QPs on each host are connected")
        self.assertEqual({qp["rqpn"] for qp in shown["h1"]}, {qp["lqpn"] for qp in shown["h2"]}, "each is the other's peer")
        self.assertEqual({qp["lqpn"] for qp in shown["h1"]}, {qp["rqpn"] for qp in shown["h2"]})
        for host, qps in shown.items():
            pid, = {qp["pid"] for qp in qps}
            self.assertEqual(pathlib.Path(f"/proc/{pid}/comm").read_text().strip(), "ib_write_bw")
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            self.assertIn(f"WEFT_HOST={host}".encode(), environment)
            for qp in qps:
                self.assertEqual((qp["ifname"], qp["port"], qp["type"]), ("weft0", 1, "RC"))
            pds = self.rdma(fabric, host, "res", "show", "pd", "-d")
            regions = self.rdma(fabric, host, "res", "show", "mr", "-d")
            queues = self.rdma(fabric, host, "res", "show", "cq", "-d")
            self.assertEqual({each["pid"] for each in (*pds, *regions, *queues)}, {pid})
            self.assertTrue({qp["pdn"] for qp in qps} | {region["pdn"] for region in regions} <= {pd["pdn"] for pd in pds})
            self.assertTrue(all(region["mrlen"] > 0 for region in regions) and regions)
            self.assertTrue(all(queue["cqe"] > 0 and queue["users"] > 0 for queue in queues) and queues)
            summary, = self.rdma(fabric, host, "res")
            self.assertEqual((summary["qp"], summary["mr"], summary["cq"], summary["pd"]),
                             (len(qps), len(regions), len(queues), len(pds)))
        # By number, and by what a filter says.
        one = shown["h1"][0]
        alone, = self.rdma(fabric, "h1", "res", "show", "qp", "lqpn", str(one["lqpn"]))
        self.assertEqual(alone["lqpn"], one["lqpn"])
        weft_clients.end(client)
        weft_clients.end(server)
        self.wait_until(lambda: not self.rdma(fabric, "h1", "res", "show", "qp"), "nothing is left of a program that ended")

    def test_ids_of_connections_are_shown(self):
        fabric = self.fabric("pair")
        port = weft_clients.Ports().take()
        server = fabric.start("h2", ["rping", "-s", "-p", str(port)])
        self.addCleanup(weft_clients.end, server)
        self.addCleanup(server.stdout.close)

        def ids():
            return [entry for entry in self.rdma(fabric, "h2", "res", "show", "cm_id", "-d") if entry.get("comm") == "rping"]

        self.wait_until(lambda: any(entry["state"] == "LISTEN" for entry in ids()), "the listener is shown")
        listener = next(entry for entry in ids() if entry["state"] == "LISTEN")
        self.assertEqual(listener["ps"], "TCP")
        self.assertEqual(listener["src-addr"], f"0.0.0.0:{port}")

    def test_counters_of_a_port_are_shown(self):
        fabric = self.fabric("pair")
        counters, = self.rdma(fabric, "h1", "statistic", "show", "link", "weft0/1")
        self.assertEqual((counters["ifname"], counters["port"]), ("weft0", 1))
        self.assertEqual(counters["pkey_violations"], 0)
        self.assertIn("port_inactive_discards", counters)

    def test_what_cannot_be_changed_is_refused_in_the_kernels_words(self):
        fabric = self.fabric("pair")
        self.assertIn("not supported", self.exec(fabric, "h1", "rdma", "dev", "set", "weft0", "name", "other", fails=True))
        self.assertIn("Invalid argument", self.exec(fabric, "h1", "rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "lo",
                                                    fails=True))
        self.exec(fabric, "h1", "rdma", "dev", "show", "mlx5_0", fails=True)

    def test_verbs_and_netlink_agree_on_the_index(self):
        fabric = self.fabric("pair")
        program = ("import ctypes; v = ctypes.CDLL('libibverbs.so.1'); v.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)\n"
                   "print(v.ibv_get_device_index(ctypes.c_void_p(v.ibv_get_device_list(None)[0])))")
        index = self.exec(fabric, "h1", "python3", "-c", program).strip()
        self.assertEqual(int(index), self.rdma(fabric, "h1", "dev")[0]["ifindex"])

    def test_the_commands_of_the_guide_work(self):
        commands = [line.strip() for line in GUIDE.read_text().splitlines() if line.startswith("    weft ")]
        self.assertGreater(len(commands), 10)
        name = f"guide-{os.getpid()}"
        self.addCleanup(subprocess.run, [weft_clients.weft_command(), "down", "--name", name], capture_output=True, timeout=60)
        for command in commands:
            words = [weft_clients.weft_command(), *shlex.split(command)[1:]]
            if "up" in words:
                words += ["--name", name]
            done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "WEFT_FABRIC": name})
            self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
            if "dev" in words or "link" in words:
                self.assertIn("weft0", done.stdout, command)

    def wait_until(self, holds, what):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            self.assertLess(time.monotonic(), deadline, f"waited too long: {what}")
            time.sleep(0.1)


if __name__ == "__main__":
    weft_clients.need_programs("rdma", "ib_write_bw", "ibv_devinfo", "rping")
    unittest.main(verbosity=2)
