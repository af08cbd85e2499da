#!/usr/bin/env python3
"""Linux's own iSCSI over TCP, both ends, in User Mode Linux (Debian's user-mode-linux): iscsi_tcp with open-iscsi's iscsistart as the initiator of
`weft iscsi target`, and LIO (iscsi_target_mod) as the target of `weft iscsi attach`. Nothing here needs root: all runs in namespaces of its own.

    uml.py [--verbose]           needs Debian's user-mode-linux and open-iscsi
"""
import argparse
import contextlib
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
import unittest

import iscsi
import iscsi_attach
import iscsi_proxy
import weft_clients

BOOT_SECONDS = 120               # policy: a kernel as a program, on a machine that is busy
SECONDS = 120                    # policy: of what it does then
OURS, THEIRS, BITS = "10.77.0.1", "10.77.0.2", 24
MODULES = pathlib.Path("/usr/lib/uml/modules")
PORT = 3260
CONNECTIONS = 3                  # policy: of a session that has several
QUIET_SECONDS = 1                # policy: after which connections that are refused would have gone
LIO_NAME = "iqn.2026-01.org.weft:lio"
INITIATOR = "iqn.2026-01.org.weft:guest"
DISK_BYTES = 64 << 20
DONE = "weft-guest: done"
BEGIN = f"""#!/bin/bash
set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
finish() {{ echo "weft-guest: status $?"; sync; echo o > /proc/sysrq-trigger; sleep 60; }}
trap finish EXIT
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs run /run
mkdir -p /run/dev /run/lib/modules
mount -t devtmpfs dev /dev 2> /dev/null || true
mount --bind {MODULES} /run/lib/modules
load() {{ modprobe -d /run "$@"; }}
ip link set lo up
ip address add {THEIRS}/{BITS} dev vec0
ip link set vec0 up
"""
# iscsi_tcp: a disk by open-iscsi's login, written, read back after its caches are dropped, a file system on it, and both again by another login.
INITIATOR_SCRIPT = BEGIN + """
load sd_mod; load iscsi_tcp
log_in() { iscsistart -i INITIATOR -t TARGET -g 1 -a ADDRESS -p PORT "$@"; }
log_in ARGUMENTS
for i in $(seq 100); do [ -b /dev/sda ] && break; sleep 0.1; done
[ "$(cat /sys/block/sda/size)" = SECTORS ]
dd if=/run/image of=/dev/sda bs=256k oflag=direct conv=fsync status=none
echo 3 > /proc/sys/vm/drop_caches
cmp -n IMAGE_BYTES /run/image /dev/sda
for state in /sys/class/iscsi_session/*/state; do echo "weft-guest: session $(cat $state)"; done
for digest in /sys/class/iscsi_connection/*/header_digest; do echo "weft-guest: header digest $(cat $digest)"; done
echo "WEFT_DONE"
"""
# LIO: a disk in memory behind iscsi_target_mod, as targetcli would make it.
TARGET_SCRIPT = BEGIN + """
load target_core_mod; load iscsi_target_mod
mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/target
mkdir -p core/rd_mcp_0/disk
echo rd_pages=RD_PAGES > core/rd_mcp_0/disk/control
echo 1 > core/rd_mcp_0/disk/enable
mkdir -p iscsi/TARGET/tpgt_1/lun/lun_0 iscsi/TARGET/tpgt_1/np/ADDRESS:3260
ln -s /sys/kernel/config/target/core/rd_mcp_0/disk iscsi/TARGET/tpgt_1/lun/lun_0/disk
cd iscsi/TARGET/tpgt_1
echo 1 > attrib/generate_node_acls; echo 0 > attrib/demo_mode_write_protect; echo 0 > attrib/authentication
echo LEVEL > attrib/default_erl; echo CONNECTIONS > param/MaxConnections   # default_erl overrides param/ErrorRecoveryLevel
echo 1 > enable
echo "weft-guest: listens"
sleep GUEST_SECONDS
"""


def script_of(template, **words):
    for word, value in words.items():
        template = template.replace(word, str(value))
    return template.replace("WEFT_DONE", DONE)


class Guest:
    """A kernel with the machine's own files, and one network cable to this namespace, until the end of a with block. `script` is its init."""

    def __init__(self, folder, script):
        self.folder, self.script = pathlib.Path(folder), script

    def __enter__(self):
        init = self.folder / "init"
        init.write_text(self.script, encoding="utf-8")
        init.chmod(0o755)
        self.log = open(self.folder / "console", "w+", encoding="utf-8", errors="replace")
        self.child = subprocess.Popen(["linux.uml", "mem=256M", "root=/dev/root", "rootfstype=hostfs", "ro", f"init={init}", "con=null", "con0=fd:0,fd:1", "ssl=null",
                                       "vec0:transport=tap,ifname=weft0,depth=64", "quiet", f"umid=weft{os.getpid()}", f"uml_dir={self.folder}/"],
                                      stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True,
                                      env={**os.environ, "TMPDIR": str(self.folder)})
        return self

    def __exit__(self, *_):
        weft_clients.end(self.child)
        self.log.close()

    def text(self):
        return (self.folder / "console").read_text(encoding="utf-8", errors="replace")

    def wait_for(self, words, seconds):
        deadline = time.monotonic() + seconds
        while words not in self.text():
            if self.child.poll() is not None or time.monotonic() > deadline or "weft-guest: status" in self.text():
                if words in self.text():
                    break
                raise RuntimeError(f"the guest does not say '{words}':\n{self.text()}")
            time.sleep(0.1)


class Linux(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="weft-uml-", dir="/var/tmp")
        self.folder = pathlib.Path(self.place.name)
        self.addCleanup(self.place.cleanup)

    def initiates(self, *target_arguments, arguments=""):
        """What the guest says; the disk's file has what it wrote."""
        disk, image = iscsi_attach.empty_disk(self.folder, size=DISK_BYTES), iscsi_attach.random_image(self.folder)
        with iscsi.Target("--lun", str(disk), *target_arguments, address=OURS) as target:
            script = script_of(INITIATOR_SCRIPT, INITIATOR=INITIATOR, TARGET=iscsi.NAME, ADDRESS=OURS, PORT=target.ports[0], ARGUMENTS=arguments,
                               SECTORS=DISK_BYTES // 512, IMAGE_BYTES=image.stat().st_size).replace("/run/image", str(image))
            with Guest(self.folder, script) as guest:
                guest.wait_for(DONE, BOOT_SECONDS + SECONDS)
                said = guest.text()
        self.assertEqual(disk.read_bytes()[:image.stat().st_size], image.read_bytes())
        return said

    def test_iscsi_tcp_writes_and_reads(self):
        self.assertIn("session LOGGED_IN", self.initiates())

    def test_iscsi_tcp_with_digests_and_mutual_chap(self):
        secrets = self.folder / "secrets"
        secrets.write_text("peer h1 secret-of-h1-0\nown disks secret-of-disks-0\n", encoding="utf-8")
        secrets.chmod(0o600)
        said = self.initiates("--chap-file", str(secrets), arguments="-u h1 -w secret-of-h1-0 -U disks -W secret-of-disks-0 "
                              "-P node.conn[0].iscsi.HeaderDigest=CRC32C -P node.conn[0].iscsi.DataDigest=CRC32C")
        self.assertIn("header digest 1", said)

    @contextlib.contextmanager
    def lio(self, level=0, connections=1):
        script = script_of(TARGET_SCRIPT, RD_PAGES=iscsi_attach.DISK_BYTES // 4096, TARGET=LIO_NAME, ADDRESS=THEIRS, LEVEL=level, CONNECTIONS=connections,
                           GUEST_SECONDS=BOOT_SECONDS + SECONDS)
        with Guest(self.folder, script) as guest:
            guest.wait_for("weft-guest: listens", BOOT_SECONDS)
            yield f"iscsi://{THEIRS}/{LIO_NAME}/0"

    def copies(self, url, *arguments):
        with iscsi_attach.Attached(self.folder, url, *arguments) as attached:
            self.copies_by(attached)

    def copies_by(self, attached):
        image, back = iscsi_attach.random_image(self.folder), self.folder / "back"
        for source, destination in ((str(image), attached.nbd), (attached.nbd, str(back))):
            status, output = iscsi.run("nbdcopy", "--flush", source, destination, seconds=SECONDS)
            self.assertEqual(status, 0, output)
        self.assertEqual(back.read_bytes(), image.read_bytes())

    def test_our_initiator_copies_to_lio_and_back(self):
        with self.lio() as url:
            self.copies(url)
            self.copies(url, "--digests")

    def test_our_initiator_has_several_connections_at_lio(self):
        """All of them into one session, whose target has agreed on level 2. One that is cut off while nothing is under way is logged out for recovery and
        logged in again, and the session stays. What follows under load is in docs/PLAN.md."""
        with self.lio(2, CONNECTIONS), iscsi_proxy.Proxy(PORT, host=THEIRS) as way:
            url = f"iscsi://{way.address}/{LIO_NAME}/0"
            options = ["--connections", str(CONNECTIONS), "--recovery-level", "2", "--digests"]
            with iscsi_attach.Attached(self.folder, url, *options) as attached:
                way.wait_for(CONNECTIONS, SECONDS)
                time.sleep(QUIET_SECONDS)
                self.assertEqual(way.connections(), CONNECTIONS, "none of them ends by itself")
                way.cut()
                way.wait_for(CONNECTIONS, SECONDS)
                self.copies_by(attached)
            self.assertEqual(way.sessions.count(0), 2, way.sessions)  # the command that looks at the disk first has a session of its own
            self.assertEqual(way.sessions.count(way.sessions[-1]), CONNECTIONS, way.sessions)  # the others, and the one that was cut off


def enter_namespaces():
    """Runs this program anew as root of namespaces of its own, with a tap device; ends by its status. Frames that are to be cut later (GSO) are lost in the
    guest's driver."""
    inside = f"ip link set lo up && ip tuntap add dev weft0 mode tap && ip address add {OURS}/{BITS} dev weft0 && ip link set weft0 gso_max_segs 1 up && exec " + \
        " ".join(map(shlex.quote, [sys.executable, "-B", *sys.argv]))
    os.execvpe("unshare", ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", inside], {**os.environ, "WEFT_UML_INSIDE": "1"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--verbose", action="store_true")
    arguments, rest = parser.parse_known_args()
    weft_clients.need_programs("linux.uml", "iscsistart", "nbdkit", "nbdcopy", "unshare", "ip", "modprobe")
    if "WEFT_UML_INSIDE" not in os.environ:
        enter_namespaces()
    start = time.monotonic()
    result = unittest.main(argv=[sys.argv[0], *rest], verbosity=2 if arguments.verbose else 1, exit=False).result
    print(f"user mode linux: {time.monotonic() - start:.0f} s")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
