#!/usr/bin/env python3
"""What Debian's programs print of a device is what the fabric is: ibv_devinfo -v and ibv_asyncwatch.

    device_truth.py
"""
import json
import os
import re
import select
import time
import unittest

import weft_clients

PATIENCE_SECONDS = 30


def fields(text):
    """`key: value` lines; of several with one key, as GID[ 0], the first."""
    found = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(re.sub(r"\s+", " ", key.strip()), value.strip())
    return found


class DeviceTruth(unittest.TestCase):
    def devinfo(self, fabric, host):
        child = fabric.start(host, ["ibv_devinfo", "-v"])
        text, _ = child.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(child.returncode, 0, text)
        return fields(text), text

    def port_of(self, fabric, host):
        status = json.loads(fabric.run("status", "--json", "--name", fabric.name))
        return next(port for port in status["ports"] if port["node"] == host)

    def test_ibv_devinfo_tells_of_the_port_what_the_fabric_has(self):
        for topology, width, speed in (("star 3", "4X (2)", "25.0 Gbps (32)"),
                                       ("star 3 --link-rate 10", "4X (2)", "2.5 Gbps (1)"),
                                       ("star 3 --link-rate 40", "4X (2)", "10.0 Gbps (4)")):
            with self.subTest(topology=topology), weft_clients.Fabric(topology, f"truth-{os.getpid()}") as fabric:
                manager = self.port_of(fabric, "h1")
                for host in ("h1", "h2"):
                    port, (told, text) = self.port_of(fabric, host), self.devinfo(fabric, host)
                    self.assertEqual(told["transport"], "InfiniBand (0)")
                    self.assertEqual(told["link_layer"], "InfiniBand")
                    self.assertEqual(told["state"], "PORT_ACTIVE (4)")
                    self.assertEqual(told["phys_state"], "LINK_UP (5)")
                    self.assertEqual(int(told["port_lid"]), port["lid"])
                    self.assertEqual(int(told["port_lmc"], 16), port["lmc"])
                    self.assertEqual(int(told["sm_lid"]), manager["lid"], "the subnet manager is at the first host")
                    self.assertEqual(told["active_mtu"].split()[0], str(port["mtu"]))
                    self.assertEqual(told["active_width"], width)
                    self.assertEqual(told["active_speed"], speed)
                    self.assertTrue(told["max_vl_num"].startswith("1 "), told["max_vl_num"])
                    guid = port["guid"].removeprefix("0x")
                    gid = "fe80:0000:0000:0000:" + ":".join(guid[i:i + 4] for i in range(0, 16, 4))
                    self.assertTrue(told["GID[ 0]"].startswith(gid), told["GID[ 0]"])
                    for name in ("XRC", "MEM_WINDOW", "MEM_WINDOW_TYPE_2B", "SRQ_RESIZE", "RC_RNR_NAK_GEN", "SYS_IMAGE_GUID"):
                        self.assertRegex(text, rf"(?m)^\s*{name}$")
                    for name in ("RAW_MULTI", "UD_IP_CSUM", "MEM_WINDOW_TYPE_2A", "BAD_PKEY_CNTR"):
                        self.assertNotRegex(text, rf"(?m)^\s*{name}$")

    def test_ibv_asyncwatch_sees_the_end_of_its_device(self):
        with weft_clients.Fabric("pair", f"watch-{os.getpid()}") as fabric:
            watch = fabric.start("h1", ["stdbuf", "-oL", "ibv_asyncwatch"])
            try:
                self.assertIn("async event FD", self.line_with(watch, "async event FD"))
                fabric.run("down", "--name", fabric.name)
                self.assertIn("IBV_EVENT_DEVICE_FATAL", self.line_with(watch, "event_type"))
            finally:
                weft_clients.end(watch)
                watch.stdout.close()

    def line_with(self, child, words):
        """The first whole line with these words."""
        deadline, seen = time.monotonic() + PATIENCE_SECONDS, ""
        while time.monotonic() < deadline:
            for line in seen.splitlines(keepends=True):
                if words in line and line.endswith("\n"):
                    return line
            ready, _, _ = select.select([child.stdout], [], [], 1)
            more = os.read(child.stdout.fileno(), 4096).decode(errors="replace") if ready else None
            if more == "":
                break
            seen += more or ""
        self.fail(f"no line with {words!r} in: {seen}")


if __name__ == "__main__":
    weft_clients.need_programs("ibv_devinfo", "ibv_asyncwatch", "stdbuf")
    unittest.main(verbosity=2)
