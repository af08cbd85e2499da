#!/usr/bin/env python3
"""`weft srp attach` by two paths to one unit: a host's two ports, whose links are cut under nbdcopy, one after the other and both.

    srp_paths.py [--verbose]
"""
import argparse
import contextlib
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import iscsi_attach
import namespaces
import weft_clients

TWO_PORTS = """
[[host]]
name = "h1"
[[host.hca]]
ports = 2
[[host]]
name = "h2"
[[switch]]
name = "s1"
ports = 4
""" + "".join(f'[[link]]\na = "{host}"\nb = "s1:{port}"\n' for port, host in enumerate(("h1:1", "h1:2", "h2:1"), 1))
SERVER, CLIENT = "h1", "h2"      # the subnet manager is the client's, whose link is not cut where paths are looked for
ADDRESSES = ("127.77.0.1", "127.78.0.1")  # of the server's ports
PORT = 5555
READY_SECONDS = 20               # policy
SECONDS = 60                     # policy: of one client
LOAD_BYTES = 32 << 20            # policy: in requests of 4 KiB, so that it lasts while links are cut


class Paths(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="weft-srp-paths-")
        topology = pathlib.Path(cls.place.name) / "two-ports.toml"
        topology.write_text(TWO_PORTS, encoding="utf-8")
        cls.fabric = weft_clients.Fabric(f"{topology} --sm-port {CLIENT}:1", name=f"srp-paths-{os.getpid()}")
        cls.fabric.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.fabric.__exit__()
        cls.place.cleanup()

    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="weft-srp-paths-")
        self.addCleanup(place.cleanup)
        self.folder = place.name

    def tearDown(self):
        for port in ("h1:1", "h1:2", "h2:1"):
            self.fabric.run("link", "up", port)

    @contextlib.contextmanager
    def target(self, *arguments, port=PORT):
        """`weft srp target` at both addresses of its host; its identifier."""
        child = self.fabric.start(SERVER, [self.fabric.weft, "srp", "target", "--portal", f"0.0.0.0:{port}", *arguments])
        try:
            said = ""
            while "listening on" not in said:
                line = child.stdout.readline()
                self.assertTrue(line, said)
                said += line
            yield re.search(r"target 0x([0-9a-f]{32})", said).group(1)
            os.kill(child.pid, signal.SIGTERM)
            output, in_time = weft_clients.communicate(child, time.monotonic() + READY_SECONDS)
            self.assertTrue(in_time, output)
            self.assertEqual(child.returncode, 0, output)
        finally:
            if child.poll() is None:
                weft_clients.end(child)
            child.stdout.close()

    @staticmethod
    def urls(identifier, lun=0, port=PORT):
        return [f"srp://{address}:{port}/{identifier}/{lun}" for address in ADDRESSES]

    def attached(self, urls, *arguments):
        return iscsi_attach.Attached(self.folder, urls[0], *urls[1:], *arguments,
                                     command=[self.fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "srp"])],
                                     environment=self.fabric.environment())

    def until(self, holds, otherwise):
        deadline = time.monotonic() + READY_SECONDS
        while not holds():
            self.assertLess(time.monotonic(), deadline, otherwise)
            time.sleep(0.05)

    def paths(self):
        """(state, in use) of each path of the attached unit."""
        done = subprocess.run([self.fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "srp", "status", "--json"])], capture_output=True,
                              text=True, timeout=SECONDS, check=False, env=self.fabric.environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        [process] = json.loads(done.stdout)
        return [(path["state"], path["in_use"]) for path in process["paths"]]

    def start_load(self, attached, image, disk):
        load = subprocess.Popen(["nbdcopy", "--flush", "--requests=4", "--request-size=4096", str(image), attached.nbd], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.until(lambda: disk.stat().st_blocks > 64, "nothing is written")
        return load

    def finish(self, load, image, disk):
        output, in_time = weft_clients.communicate(load, time.monotonic() + SECONDS)
        self.assertTrue(in_time, "it waits for ever")
        self.assertEqual(load.returncode, 0, output)
        self.assertEqual(disk.read_bytes(), image.read_bytes())

    def disks(self):
        return iscsi_attach.empty_disk(self.folder, size=LOAD_BYTES), iscsi_attach.random_image(self.folder, LOAD_BYTES)

    def test_a_link_is_cut_under_load_and_the_other_path_goes_on_until_it_is_back(self):
        disk, image = self.disks()
        with self.target("--lun", str(disk)) as identifier, self.attached(self.urls(identifier)) as attached:
            self.until(lambda: self.paths() == [("live", True), ("live", False)], "not both paths are live, the first of them in use")
            load = self.start_load(attached, image, disk)
            self.assertIsNone(load.poll(), "the load has ended already")
            self.fabric.run("link", "down", "h1:1")
            self.until(lambda: self.paths()[0][0] != "live" and self.paths()[1] == ("live", True), "commands do not take the other path")
            before = disk.stat().st_blocks
            self.until(lambda: load.poll() is not None or disk.stat().st_blocks > before, "nothing is written by the other path")
            self.fabric.run("link", "up", "h1:1")
            self.until(lambda: self.paths() == [("live", True), ("live", False)], "the preferred path is not taken again")
            self.fabric.run("link", "down", "h1:2")
            self.until(lambda: self.paths()[0] == ("live", True) and self.paths()[1][0] != "live", "a path that is not in use is not missed")
            self.finish(load, image, disk)

    def test_all_links_are_cut_and_the_load_goes_on_by_the_path_that_is_back_first(self):
        disk, image = self.disks()
        with self.target("--lun", str(disk)) as identifier, self.attached(self.urls(identifier)) as attached:
            load = self.start_load(attached, image, disk)
            for port in ("h1:1", "h1:2"):
                self.fabric.run("link", "down", port)
            self.until(lambda: all(state != "live" for state, _ in self.paths()), "cut paths are live")
            self.assertIsNone(load.poll(), "the load has ended without a link")
            self.fabric.run("link", "up", "h1:2")
            self.until(lambda: self.paths()[1] == ("live", True), "the path that is back is not taken")
            self.finish(load, image, disk)

    def test_paths_that_stay_away_give_errors(self):
        disk, image = self.disks()
        with self.target("--lun", str(disk)) as identifier, self.attached(self.urls(identifier), "--fast-fail", "2") as attached:
            load = self.start_load(attached, image, disk)
            self.fabric.run("link", "down", "h2:1")
            output, in_time = weft_clients.communicate(load, time.monotonic() + SECONDS)
            self.assertTrue(in_time, "it waits for ever")
            self.assertIn("Input/output error", output)

    def test_a_path_that_is_not_there_at_first_joins(self):
        with self.target("--lun", "ram:1M") as identifier:
            self.fabric.run("link", "down", "h1:1")
            with self.attached(self.urls(identifier)) as attached:
                self.until(lambda: self.paths()[1] == ("live", True), "the path that is there is not taken")
                status, output = attached.qemu_io("write -P 3 0 64k", "read -P 3 0 64k")
                self.assertEqual(status, 0, output)
                self.fabric.run("link", "up", "h1:1")
                self.until(lambda: self.paths() == [("live", True), ("live", False)], "the first path does not join")
                status, output = attached.qemu_io("read -P 3 0 64k")
                self.assertEqual(status, 0, output)

    def test_one_identifier_for_all_paths_makes_channels_of_one_session(self):
        name = "0x" + "00" * 15 + "77"
        with self.target("--lun", "ram:1M", "--allow", name) as identifier, self.attached(self.urls(identifier), "--initiator", name):
            self.until(lambda: self.paths() == [("live", True), ("live", False)], "not both paths are live")
            done = subprocess.run([self.fabric.weft, "exec", SERVER, "--", *namespaces.preloaded([self.fabric.weft, "srp", "status", "--json"])], capture_output=True,
                                  text=True, timeout=SECONDS, check=False, env=self.fabric.environment(), stdin=subprocess.DEVNULL)
            [session] = json.loads(done.stdout)[0]["targets"][0]["sessions"]
            self.assertEqual((session["initiator"], len(session["channels"])), (name, 2))

    def test_a_port_that_goes_and_comes_is_told_by_notices(self):
        """Traps 65 and 64: the target is still there, by its other port."""
        with self.target("--lun", "ram:1M", "--name", "5"):
            watcher = subprocess.Popen([self.fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "srp", "discover", "--watch", "--interval", "3600"])],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.fabric.environment(), start_new_session=True)
            self.addCleanup(lambda: (weft_clients.end(watcher), watcher.stdout.close()))
            lines = queue.Queue()
            threading.Thread(target=lambda: [lines.put(line) for line in watcher.stdout], daemon=True).start()
            self.assertIn("waits for notices", lines.get(timeout=READY_SECONDS))
            found = [re.fullmatch(r"\+ (id_ext=0000000000000005,.*dgid=([0-9a-f]{32}),.*)\n", lines.get(timeout=READY_SECONDS)) for _ in range(2)]
            self.assertTrue(all(found), found)
            first, second = sorted(found, key=lambda match: match.group(2))
            self.fabric.run("link", "down", "h1:2")
            self.assertEqual(lines.get(timeout=READY_SECONDS), f"- {second.group(1)}\n")
            self.fabric.run("link", "up", "h1:2")
            self.assertEqual(lines.get(timeout=READY_SECONDS), f"+ {second.group(1)}\n")
            self.assertNotEqual(first.group(2), second.group(2))

    def test_paths_to_different_units_are_refused(self):
        with self.target("--lun", "ram:1M", "--lun", "ram:1M", "--name", "5") as first, self.target("--lun", "ram:1M", "--name", "6", port=PORT + 1) as second:
            with self.assertRaisesRegex(RuntimeError, "another unit than that of the first path"):
                self.attached([self.urls(first)[0], self.urls(second, port=PORT + 1)[1]]).__enter__()
            with self.assertRaisesRegex(RuntimeError, "LUN 0 and LUN 1 are not paths to one unit"):
                self.attached([self.urls(first)[0], self.urls(first, lun=1)[1]]).__enter__()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--verbose", action="store_true")
    arguments, rest = parser.parse_known_args()
    weft_clients.need_programs("nbdkit", "nbdcopy", "qemu-io")
    start = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], verbosity=2 if arguments.verbose else 1, exit=False).result
    print(f"srp_paths: {time.monotonic() - start:.0f} s")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
