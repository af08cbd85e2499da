#!/usr/bin/env python3
"""What goes wrong under SRP: links that lose packets, units that are removed, disks that are full or fail, many who log in at once, a target
that ends under the load of many. Time is bounded, errors are the right ones, and what was acknowledged as durable is there.

    srp_faults.py [--verbose]

Ends that are killed, links that are cut and lists of initiators are srp.py's.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import threading
import time
import unittest

import hot_unplug
import iscsi_attach
import namespaces
import srp
import weft_clients
from srp import CLIENT, INITIATOR, READY_SECONDS, SECONDS, SERVER, Target

MANY = 100                       # logins at once


class Faults(srp.Hosts):
    def load(self, url, *options):
        """`weft srp load`, which has begun when this returns."""
        child = self.fabric.start(CLIENT, [self.fabric.weft, "srp", "load", url, "--json", *options])
        self.addCleanup(lambda: (weft_clients.end(child) if child.poll() is None else None, child.stdout.close()))
        return child

    def result(self, child):
        """What a load says at its end: its figures, and what else it says."""
        output, in_time = weft_clients.communicate(child, time.monotonic() + SECONDS)
        self.assertTrue(in_time, f"it does not end: {output}")
        figures = [line for line in output.splitlines() if line.startswith("{")]
        self.assertEqual(len(figures), 1, output)
        return json.loads(figures[0]), output

    def process(self):
        [process] = self.status(SERVER)
        return process

    @staticmethod
    def descriptors(pid):
        return len(os.listdir(f"/proc/{pid}/fd"))

    def test_links_that_lose_one_packet_of_a_hundred_lose_no_data(self):
        self.addCleanup(self.fabric.run, "fault", "clear")
        disk, image = iscsi_attach.empty_disk(self.folder), iscsi_attach.random_image(self.folder)
        with Target(self.fabric, "--lun", str(disk)) as target:
            self.fabric.run("fault", "add", "drop", "p=0.01", f"link={SERVER}")
            with self.attached(target.url()) as attached:
                self.copy(str(image), attached.nbd)
                self.assertEqual(disk.read_bytes(), image.read_bytes())
                back = pathlib.Path(self.folder) / "back"
                self.copy(attached.nbd, str(back))
                self.assertEqual(back.read_bytes(), image.read_bytes())
                [path] = self.status(CLIENT)[0]["paths"]
            self.assertGreater(json.loads(self.fabric.run("fault", "list", "--json"))[0]["hit"], 20)
            # The transport sends again what is lost, so that the session does not notice.
            self.assertEqual((path["logins"], path["losses"]), (1, 0))
            self.assertEqual(target.stop()[0], 0)

    def test_a_unit_that_is_removed_gives_errors_at_once_and_the_other_goes_on(self):
        config, disks = pathlib.Path(self.folder) / "srp.toml", [iscsi_attach.empty_disk(self.folder, f"disk{number}") for number in range(2)]
        units = [f'[[target.lun]]\npath = "{disk}"\n' for disk in disks]
        config.write_text('[[target]]\nname = "1"\n' + "".join(units), encoding="utf-8")
        with Target(self.fabric, "--config", str(config)) as target:
            with self.attached(target.url(0), "--fast-fail", "20") as first, self.attached(target.url(1), "--fast-fail", "20") as second:
                for unit in (first, second):
                    self.good(unit, "write -P 5 0 64k", "flush")
                config.write_text('[[target]]\nname = "1"\n' + units[0], encoding="utf-8")
                os.kill(target.child.pid, signal.SIGHUP)
                self.assertIn("reloaded\n", target.child.stdout)
                start = time.monotonic()
                status, output = second.qemu_io("read 0 4k")
                self.assertIsNotNone(status, "it waits for ever")
                self.assertIn("Input/output error", output)
                self.assertLess(time.monotonic() - start, 15, "the target answers, so that nothing waits for a path")
                self.good(first, "read -P 5 0 64k", "write -P 6 64k 64k", "flush")
        self.assertEqual(disks[1].read_bytes()[:65536], b"\x05" * 65536, "what was flushed before")

    def test_a_disk_that_is_full_says_so_and_keeps_what_it_has(self):
        place = pathlib.Path(self.folder) / "small"
        place.mkdir()
        # Memory of 4 MiB under a disk of 16 MiB, in mounts of the target's own.
        own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
        script = f'mount -n -t tmpfs -o size=4m none "{place}" && truncate -s 16M "{place}/disk" && exec "$0" "$@"'
        with Target(self.fabric, "--lun", f"{place}/disk", before=[*own, "sh", "-c", script]) as target, self.attached(target.url()) as attached:
            self.good(attached, "write -P 1 0 1M", "flush")
            status, output = attached.qemu_io("write -P 2 1M 8M")
            self.assertIsNotNone(status, "it waits for ever")
            self.assertIn("No space left on device", output)
            self.good(attached, "read -P 1 0 1M", "write -P 3 512k 4k", "flush", "read -P 3 512k 4k", "discard 1M 8M", "write -P 4 4M 512k", "read -P 4 4M 512k")
            [path] = self.status(CLIENT)[0]["paths"]
            self.assertEqual((path["logins"], path["losses"]), (1, 0), "an error of the disk is none of the path")
            self.assertEqual(target.stop()[0], 0)

    @contextlib.contextmanager
    def failing_disk(self, size):
        """(a disk's path, the file that makes it fail as long as it is there)."""
        trigger, socket = pathlib.Path(self.folder) / "fails", pathlib.Path(self.folder) / "below"
        below = subprocess.Popen(["nbdkit", "--exit-with-parent", "--foreground", "--unix", str(socket), "--filter=error", "memory", str(size), "error=EIO",
                                  "error-rate=100%", f"error-file={trigger}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 start_new_session=True)
        try:
            self.until(lambda: iscsi_attach.is_listening(socket), "nbdkit does not listen")
            with srp.storage_daemon(self.folder, f"nbd+unix:///?socket={socket}", size) as disk:
                yield disk, trigger
        finally:
            weft_clients.end(below)

    @unittest.skipUnless(os.access("/dev/fuse", os.R_OK | os.W_OK), "the disk that fails is a file by FUSE, and there is no /dev/fuse")
    def test_an_error_of_the_file_below_is_an_error_of_the_command_alone(self):
        with self.failing_disk(8 << 20) as (disk, trigger), Target(self.fabric, "--lun", disk) as target, self.attached(target.url()) as attached:
            self.good(attached, "write -P 7 0 64k", "flush")
            trigger.touch()
            for command in ("read 1M 4k", "write -P 8 2M 64k", "write -P 9 3M 4k"):
                status, output = attached.qemu_io(command, *(["flush"] if "write" in command else []))
                self.assertIsNotNone(status, "it waits for ever")
                self.assertIn("Input/output error", output, command)
            trigger.unlink()
            self.good(attached, "read -P 7 0 64k", "write -P 10 2M 64k", "flush", "read -P 10 2M 64k")
            [path] = self.status(CLIENT)[0]["paths"]
            self.assertEqual((path["logins"], path["losses"]), (1, 0), "an error of the disk is none of the path")
            self.assertEqual(target.stop()[0], 0)

    def test_a_hundred_log_in_at_once_and_leave_nothing(self):
        with Target(self.fabric, "--lun", "ram:16M") as target:
            self.result(self.load(target.url(), "--seconds", "1"))  # what a first login makes for all
            self.until(lambda: not self.process()["targets"][0]["sessions"], "a session stays")
            before = self.descriptors(target.child.pid)
            figures, output = self.result(self.load(target.url(), "--sessions", str(MANY), "--depth", "4", "--seconds", "2"))
            self.assertEqual((figures["sessions"], figures["refused"], figures["lost"], figures["failed"]), (MANY, 0, 0, 0), output)
            self.assertGreater(figures["commands"], MANY)
            self.assertLess(figures["login_seconds"], READY_SECONDS)
            self.until(lambda: not self.process()["targets"][0]["sessions"], "a session stays")
            self.until(lambda: self.descriptors(target.child.pid) <= before, "descriptors stay")
            process = self.process()
            self.assertEqual(process["targets"][0]["logins"], MANY + 3, "the first load, and of either one more, which asks for the size")
            self.assertGreater(process["devices"][0]["srq"]["posted"], process["devices"][0]["srq"]["buffers"] * 7 // 8 - 1, "sessions that ended keep buffers")
            self.assertEqual(target.stop()[0], 0)

    def test_a_target_ends_in_time_under_the_load_of_a_hundred(self):
        disk = iscsi_attach.empty_disk(self.folder)
        with Target(self.fabric, "--lun", str(disk)) as target:
            load = self.load(target.url(), "--sessions", str(MANY), "--depth", "4", "--seconds", "600", "--write", "--fast-fail", "2")
            self.until(lambda: len(self.process()["targets"][0]["sessions"]) == MANY, "not all log in")
            self.until(lambda: self.process()["targets"][0]["counters"]["writes"] > 10 * MANY, "nothing is written")
            start = time.monotonic()
            status, output = target.stop()
            self.assertEqual(status, 0, output)
            self.assertLess(time.monotonic() - start, 10)
            figures, output = self.result(load)
            self.assertEqual(figures["sessions"], MANY)
            self.assertGreaterEqual(figures["lost"], MANY, output)

    def said(self, child, pattern):
        """What it says until it has said that, as a match; in bounded time."""
        text, deadline = "", time.monotonic() + READY_SECONDS
        while not (found := re.search(pattern, text)):
            ready = select.select([child.stdout], [], [], max(deadline - time.monotonic(), 0))[0]
            part = os.read(child.stdout.fileno(), 4096).decode() if ready else ""
            self.assertTrue(part, f"it does not say {pattern}:\n{text}")
            text += part
        return found

    def test_a_target_waits_for_its_device_and_serves_each_that_comes(self):
        """R-SRPT-2: a device that comes later, that goes, and that comes again; what was written before is there after."""
        with weft_clients.Fabric(hot_unplug.roomy_star(self.folder), name=f"srp-comes-{os.getpid()}") as fabric:
            command = [fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([fabric.weft, "srp"])]
            target = fabric.start(CLIENT, ["env", f"WEFT_HOST={hot_unplug.VICTIM}", fabric.weft, "srp", "target", "--name", "5", "--lun", "ram:1M"])
            self.addCleanup(lambda: (weft_clients.end(target) if target.poll() is None else None, target.stdout.close()))
            self.said(target, "waiting for an RDMA device\n")
            for read, write in (("read -P 0 0 64k", "write -P 1 0 64k"), ("read -P 1 0 64k", "write -P 2 0 64k"), ("read -P 2 0 64k", "write -P 3 0 64k")):
                hot_unplug.add_victim(fabric)
                identifier = self.said(target, r"target 0x([0-9a-f]{32})\n(.*\n)*listening on 0\.0\.0\.0:5555\n").group(1)
                self.assertTrue(identifier.startswith("0000000000000005"), identifier)
                url = f"srp://{hot_unplug.address_of_victim(fabric)}:5555/{identifier}/0"
                with iscsi_attach.Attached(self.folder, url, "--fast-fail", "2", command=command, environment=fabric.environment()) as attached:
                    self.good(attached, read, write)
                    fabric.run("node", "remove", hot_unplug.VICTIM, "--force")
                    self.said(target, r"weft0 has gone: its sessions have ended\n(.*\n)*waiting for an RDMA device\n")
                    status, output = attached.qemu_io("read 0 4k")
                    self.assertIsNotNone(status, "it waits for ever")
                    self.assertIn("Input/output error", output)
            os.kill(target.pid, signal.SIGTERM)
            output, in_time = weft_clients.communicate(target, time.monotonic() + READY_SECONDS)
            self.assertTrue(in_time, output)
            self.assertEqual(target.returncode, 0, output)

    def test_all_devices_of_a_host_are_served_and_each_is_waited_for_by_itself(self):
        """R-SRPT-2: one device is served while another is waited for; then both, by each of which the same disk is reached; both go, and come again."""
        both = r"target 0x([0-9a-f]{32})\n(?:.*\n)*target 0x([0-9a-f]{32})\n(?:.*\n)*listening on 0\.0\.0\.0:"
        with weft_clients.Fabric(hot_unplug.roomy_star(self.folder), name=f"srp-both-{os.getpid()}") as fabric:
            command = [fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([fabric.weft, "srp"])]

            def start(*arguments):
                child = fabric.start(CLIENT, ["env", f"WEFT_HOST={hot_unplug.VICTIM}", fabric.weft, "srp", "target", "--name", "5", "--lun", "ram:1M", *arguments])
                self.addCleanup(lambda: (weft_clients.end(child) if child.poll() is None else None, child.stdout.close()))
                return child

            def stop(child):
                os.kill(child.pid, signal.SIGTERM)
                output, in_time = weft_clients.communicate(child, time.monotonic() + READY_SECONDS)
                self.assertTrue(in_time, output)
                self.assertEqual(child.returncode, 0, output)

            hot_unplug.add_victim(fabric)
            target = start("--device", "weft0", "--device", "weft1")
            identifier = self.said(target, r"target 0x([0-9a-f]{32})\n(?:.*\n)*listening on 0\.0\.0\.0:5555\n(?:.*\n)*waiting for weft1\n").group(1)
            address = hot_unplug.address_of_victim(fabric)
            with iscsi_attach.Attached(self.folder, f"srp://{address}:5555/{identifier}/0", command=command, environment=fabric.environment()) as attached:
                self.good(attached, "write -P 1 0 64k")
            for read, write in (("read -P 1 0 64k", "write -P 2 0 64k"), ("read -P 2 0 64k", "write -P 3 0 64k")):
                fabric.run("node", "remove", hot_unplug.VICTIM, "--force")
                self.said(target, r"weft0 has gone: its sessions have ended\n(?:.*\n)*waiting for weft0\n")
                hot_unplug.add_victim(fabric, "--hcas", "2", "--link", "s1:4")
                first, second = self.said(target, both + "5555\n").groups()
                self.assertEqual((first[:16], second[:16]), ("0" * 15 + "5",) * 2)
                self.assertNotEqual(first, second)
                address = hot_unplug.address_of_victim(fabric)
                urls = [f"srp://{address}:5555/{first}/0", f"srp://{address.replace('127.77.', '127.78.', 1)}:5555/{second}/0"]
                with iscsi_attach.Attached(self.folder, *urls, "--fast-fail", "2", command=command, environment=fabric.environment()) as attached:
                    self.good(attached, read, write)
                    said = subprocess.run([fabric.weft, "exec", hot_unplug.VICTIM, "--", fabric.weft, "srp", "status", "--json"], capture_output=True, text=True,
                                          timeout=SECONDS, check=False, env=fabric.environment(), stdin=subprocess.DEVNULL)
                    self.assertEqual(said.returncode, 0, said.stderr)
                    [process] = json.loads(said.stdout)
                    [served] = process["targets"]
                    self.assertEqual(served["ports"], [{"id": f"0x{first}", "device": "weft0"}, {"id": f"0x{second}", "device": "weft1"}])
                    self.assertEqual(sorted(session["device"] for session in served["sessions"]), ["weft0", "weft1"])
                for url in reversed(urls):  # each by itself
                    with iscsi_attach.Attached(self.folder, url, command=command, environment=fabric.environment()) as attached:
                        self.good(attached, write.replace("write", "read"))
            everything = start("--portal", "0.0.0.0:5556")
            self.assertEqual(self.said(everything, both + "5556\n").groups(), (first, second))
            stop(everything)
            stop(target)

    def test_a_host_that_goes_ends_its_target_and_gives_errors(self):
        """R-SRPT-2: a device that goes from a target that does not wait for another."""
        with weft_clients.Fabric(hot_unplug.roomy_star(self.folder), name=f"srp-gone-{os.getpid()}") as fabric, Target(fabric, "--lun", "ram:1M", "--no-wait") as target:
            command = [fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([fabric.weft, "srp"])]
            with iscsi_attach.Attached(self.folder, target.url(), "--fast-fail", "2", command=command, environment=fabric.environment()) as attached:
                self.good(attached, "write -P 1 0 64k")
                fabric.run("node", "remove", SERVER, "--force")
                output, in_time = weft_clients.communicate(target.child, time.monotonic() + READY_SECONDS)
                self.assertTrue(in_time, output)
                self.assertEqual(target.child.returncode, 1, output)
                self.assertIn("weft0 has gone: its sessions have ended", output)
                status, output = attached.qemu_io("read 0 4k")
                self.assertIsNotNone(status, "it waits for ever")
                self.assertIn("Input/output error", output)

    def test_many_who_are_not_on_the_list_are_refused_and_leave_nothing(self):
        with Target(self.fabric, "--lun", "ram:1M", "--allow", INITIATOR) as target:
            before = None
            for _ in range(2):
                with self.assertRaisesRegex(RuntimeError, "refuses the login"):
                    self.attached(target.url()).__enter__()
                before = before or self.descriptors(target.child.pid)
            refused = []
            threads = [threading.Thread(target=lambda: refused.append(self.refusal(target.url()))) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertTrue(all("refuses the login" in text for text in refused), refused)
            self.until(lambda: self.descriptors(target.child.pid) <= before, "descriptors stay")
            with self.attached(target.url(), "--initiator", INITIATOR) as attached:
                self.good(attached, "read 0 4k")
            self.assertEqual(target.stop()[0], 0)

    def refusal(self, url):
        done = subprocess.run([self.fabric.weft, "exec", CLIENT, "--", *namespaces.preloaded([self.fabric.weft, "srp", "load", url])], capture_output=True, text=True,
                              timeout=SECONDS, check=False, env=self.fabric.environment(), stdin=subprocess.DEVNULL)
        return done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--verbose", action="store_true")
    arguments, rest = parser.parse_known_args()
    weft_clients.need_programs("nbdkit", "nbdcopy", "qemu-io", "qemu-storage-daemon", "unshare", "truncate")
    start = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], verbosity=2 if arguments.verbose else 1, exit=False).result
    print(f"srp_faults: {time.monotonic() - start:.0f} s")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
