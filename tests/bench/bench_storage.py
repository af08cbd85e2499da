"""Storage: the initiators of SRP and iSCSI by their own load generators beside Debian's tgt with libiscsi's iscsi-perf and beside ib_read_bw, libiscsi at
our target beside tgt, and fio through nbdkit beside nbdkit's memory plugin. Both ends on hosts of one fabric, disks in memory. Standard library only.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import bench_rows
import bench_runs
import iscsi_attach
import iser
import iser_target
import namespaces
import srp
import weft_clients

HOSTS = (srp.SERVER, srp.CLIENT)
DISK_BYTES = 64 << 20            # policy
CACHED_BYTES = 4 << 20           # policy: a disk that caches hold, as they hold what ib_read_bw reads again and again
RUN_SECONDS = 3                  # policy: of one figure
PATIENCE_SECONDS = 60            # policy
SMALL, LARGE, DEPTH = 4096, 1 << 20, 32
LARGE_DEPTH = 4                  # policy
READS = 2000                     # policy: of ib_read_bw
# What nobody has written would all be read from the same zeros.
FILL = ("--bytes", LARGE, "--depth", LARGE_DEPTH, "--sequential", "--write")
NEEDED = ("tgtd", "tgtadm", "iscsi-perf", "fio", "nbdkit", "ib_read_bw")
# By name: what is asked of the ratio, and whether the figure is a time.
GOALS = {"SRP, 4 KiB random reads, 32 at a time": 3.0, "SRP, 1 MiB sequential reads": 0.7, "fio by nbdkit, 4 KiB random reads": 0.5,
         "fio by nbdkit, 1 MiB reads": 0.5, "iSER, 4 KiB random reads, 32 at a time": 3.0, "iSER beside SRP": 0.9, "TCP, 4 KiB random reads, 32 at a time": 1.5,
         "T10-PI by software, 1 MiB reads by fio": 0.75, "iscsi-perf at our target, iSER": 1.0, "iscsi-perf at our target, TCP": 1.0}
NAMES = {"iser": "iSER", "iscsi": "TCP"}  # of a URL's scheme
SECOND, MIB, MICROSECONDS = "/s", "MiB/s", "us"


def parse_iscsi_perf(output):
    """Commands a second, the average that it printed last."""
    averages = re.findall(r"iops average (\d+)", output)
    if not averages or int(averages[-1]) == 0:
        raise bench_rows.Unreadable("no average of iscsi-perf")
    return float(averages[-1])


def parse_load(output):
    """What `weft srp load --json` and its like found, of commands that were all well."""
    found = bench_rows.parse_json(output)
    if found["failed"] or found["lost"] or not found["commands"]:
        raise bench_rows.Unreadable(f"commands failed: {output}")
    return found


def parse_fio(output):
    """(commands a second, MiB/s) of the one job, which had no error."""
    [job] = json.loads(output[output.index("{"):])["jobs"]
    if job["error"] or not job["read"]["total_ios"]:
        raise bench_rows.Unreadable(f"fio: error {job['error']}")
    return job["read"]["iops"], job["read"]["bw_bytes"] / (1 << 20)


class Storage:
    def __init__(self, fabric, folder):
        self.fabric, self.folder, self.found = fabric, folder, {}

    def add(self, name, unit, value, peer=None, peer_value=None):
        self.found.setdefault(name, (unit, peer, []))[2].append((value, peer_value))

    def output_of(self, name, child, seconds=PATIENCE_SECONDS, fails=False):
        output, in_time = weft_clients.communicate(child, time.monotonic() + seconds)
        if not in_time or (child.returncode and not fails):
            raise bench_runs.Failure(name, f"exit status {child.returncode}" if in_time else f"did not end in {seconds} s", output)
        return output

    def load(self, url, *options):
        program = url[:url.index(":")]
        child = self.fabric.start(HOSTS[1], [self.fabric.weft, program, "load", url, "--json", "--seconds", str(RUN_SECONDS), *map(str, options)])
        return bench_runs.read(f"weft {program} load", self.output_of(f"weft {program} load", child), parse_load)

    def iscsi_perf(self, url, depth):
        """It reads until it is told to end, which it says by its status, too."""
        command = ["iscsi-perf", "-i", iser.INITIATORS[0], "-m", str(depth), "-b", str(SMALL // 512), "-r", url]
        child = self.fabric.start(HOSTS[1], command, iser.HELP)
        time.sleep(RUN_SECONDS)
        os.killpg(child.pid, signal.SIGINT)
        return bench_runs.read("iscsi-perf", self.output_of("iscsi-perf", child, fails=True), parse_iscsi_perf)

    def read_bandwidth(self):
        weft = bench_runs.Weft(self.fabric, weft_clients.Ports(), HOSTS, [])
        name, output = weft.run_case("ib_read_bw", "-s", LARGE, "-n", READS, "-F")
        return bench_runs.read(name, output, bench_rows.parse_perftest, "ib_read_bw", LARGE)[bench_rows.GIGABYTES] * 1e9 / (1 << 20)

    def fio(self, socket, size):
        command = ["fio", "--name=reads", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={socket}", f"--bs={size}", f"--iodepth={DEPTH if size == SMALL else LARGE_DEPTH}",
                   f"--rw={'randread' if size == SMALL else 'read'}", f"--size={DISK_BYTES}", "--time_based", f"--runtime={RUN_SECONDS}", "--output-format=json"]
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        return bench_runs.read("fio", self.output_of("fio", child), parse_fio)

    def by_load(self):
        with srp.Target(self.fabric, "--lun", f"ram:{DISK_BYTES >> 20}M") as target:
            self.load(target.url(), *FILL)
            small = self.load(target.url(), "--bytes", SMALL, "--depth", DEPTH)
            large = self.load(target.url(), "--bytes", LARGE, "--depth", LARGE_DEPTH, "--sequential")
            single = self.load(target.url(), "--bytes", SMALL, "--depth", 1)
        with srp.Target(self.fabric, "--lun", f"ram:{CACHED_BYTES >> 20}M") as target:
            self.load(target.url(), *FILL)
            cached = self.load(target.url(), "--bytes", LARGE, "--depth", LARGE_DEPTH, "--sequential")
        with iser_target.Target(self.fabric, "--lun", f"ram:{DISK_BYTES >> 20}M") as target:
            self.load(target.url(), *FILL)
            own = {transport: self.load(target.url(transport), "--bytes", SMALL, "--depth", DEPTH) for transport in NAMES}
            libiscsi = {transport: self.iscsi_perf(target.url(transport), DEPTH) for transport in NAMES}
        with iser.Target(self.fabric, HOSTS[0], weft_clients.Ports().take(), DISK_BYTES) as target:
            tgt = {transport: self.iscsi_perf(target.url(transport), DEPTH) for transport in NAMES}
            many, one = tgt["iser"], self.iscsi_perf(target.url("iser"), 1)
        self.add("SRP, 4 KiB random reads, 32 at a time", SECOND, small["per_second"], "tgt over iSER", many)
        self.add("SRP, 1 MiB sequential reads", MIB, cached["mib_per_second"], "ib_read_bw", self.read_bandwidth())
        self.add(f"SRP, the same of {DISK_BYTES >> 20} MiB, from memory", MIB, large["mib_per_second"])
        self.add("SRP, one 4 KiB read", MICROSECONDS, single["median_us"], "tgt over iSER", 1e6 / one)
        self.add("SRP, CPU time of a 4 KiB read's initiator", MICROSECONDS, small["cpu_us"])
        self.add("SRP, CPU time of a 1 MiB read's initiator", MICROSECONDS, large["cpu_us"])
        self.add("iSER beside SRP", SECOND, own["iser"]["per_second"], "SRP", small["per_second"])
        for transport, name in NAMES.items():
            self.add(f"{name}, 4 KiB random reads, 32 at a time", SECOND, own[transport]["per_second"], "tgt and libiscsi", tgt[transport])
            self.add(f"{name}, CPU time of a 4 KiB read's initiator", MICROSECONDS, own[transport]["cpu_us"])
            self.add(f"iscsi-perf at our target, {name}", SECOND, libiscsi[transport], "at tgt", tgt[transport])

    def by_fio(self):
        memory = pathlib.Path(self.folder) / f"memory-{time.monotonic_ns()}.sock"  # nbdkit leaves it behind
        peer = subprocess.Popen(["nbdkit", "--foreground", "--exit-with-parent", "--unix", str(memory), "memory", str(DISK_BYTES)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            if not namespaces.eventually(lambda: iscsi_attach.is_listening(memory)):
                raise bench_runs.Failure("nbdkit", "does not listen", "")
            with srp.Target(self.fabric, "--lun", f"ram:{DISK_BYTES >> 20}M") as target:
                command = [self.fabric.weft, "exec", HOSTS[1], "--", self.fabric.weft, "srp"]
                with iscsi_attach.Attached(self.folder, target.url(), command=command, environment=self.fabric.environment()) as attached:
                    for size, which in ((SMALL, 0), (LARGE, 1)):
                        ours, theirs = self.fio(attached.socket, size), self.fio(memory, size)
                        name = "4 KiB random reads" if size == SMALL else "1 MiB reads"
                        self.add(f"fio by nbdkit, {name}", (SECOND, MIB)[which], ours[which], "nbdkit's memory", theirs[which])
        finally:
            weft_clients.end(peer)


    def by_protection(self):
        """The same disk with tuples beside each block, which go with the data and are checked at both ends, and without."""
        size = f"ram:{DISK_BYTES >> 20}M"
        with iser_target.Target(self.fabric, "--lun", f"{size},pi=1", "--lun", size) as target:
            found = []
            for lun in (0, 1):
                command = [self.fabric.weft, "exec", HOSTS[1], "--", self.fabric.weft, "iser"]
                with iscsi_attach.Attached(self.folder, target.url(lun=lun), command=command, environment=self.fabric.environment()) as attached:
                    found.append(self.fio(attached.socket, LARGE)[1])
        self.add("T10-PI by software, 1 MiB reads by fio", MIB, found[0], "without it", found[1])


def measure(runs, say):
    """({name: (unit, peer, [(value, the peer's or None)])}, [failure])"""
    missing = [program for program in NEEDED if not shutil.which(program)]
    if missing:
        return {}, [f"storage: {', '.join(missing)} not installed (scripts/bootstrap)"]
    failures = []
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder, weft_clients.Fabric("pair", f"bench-storage-{os.getpid()}") as fabric:
        storage = Storage(fabric, folder)
        for _ in range(runs):
            for what, run in (("SRP, iSER, TCP and tgt", storage.by_load), ("fio by nbdkit", storage.by_fio), ("T10-PI", storage.by_protection)):
                say(what)
                try:
                    run()
                except (bench_runs.Failure, RuntimeError, OSError, subprocess.SubprocessError) as failure:
                    failures.append(f"{what}: {failure}")
    return storage.found, failures


def rows(found):
    """For the JSON, in the form of bench_rows.row; ratios of medians."""
    out = []
    for name, (unit, peer, values) in found.items():
        value = statistics.median(own for own, _ in values)
        other = statistics.median(theirs for _, theirs in values) if peer else None
        best = (min if unit == MICROSECONDS else max)(own for own, _ in values)
        out.append({"name": f"storage: {name}", "value": value, "unit": unit, "peer": peer, "peer_value": other, "ratio": value / other if peer else None,
                    "best": best, "runs": len(values)})
    return out


def lines(found):
    """For people."""
    out = ["storage, disks in memory"] if found else []
    for row in rows(found):
        name = row["name"].removeprefix("storage: ")
        beside = f"{row['ratio']:8.2f} times {row['peer_value']:,.1f} {row['unit']} of {row['peer']}" if row["peer"] else ""
        asked = f" (asked: {GOALS[name]})" if name in GOALS else ""
        out.append(f"{name:45} {row['value']:>12,.1f} {row['unit']:6}{beside}{asked}")
    return out
