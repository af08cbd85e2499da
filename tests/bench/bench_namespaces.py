"""Programs in hosts as namespaces (`weft exec --ns`) beside the same programs outside, in turns, so that what else the machine does
meets both. Nothing of the data path differs; what would is found here. Standard library only.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import time

import bench_rows
import bench_runs
import bench_ways
import mpi
import weft_clients

OUTSIDE, INSIDE = bench_ways.Way("outside"), bench_ways.Way("in namespaces", options=("--ns",))
RPING_ROUNDS = 4_000        # policy: a few seconds
RPING_PORT = 7174           # its own
UNBOUND = ["--bind-to", "none"]  # the launcher of each host would bind its first rank to the same core
MPI_SOURCE = pathlib.Path(__file__).with_name("mpi_latency.c")
# In a namespace mpirun's remote shell gets a host and a command line for that host's shell.
REMOTE_SHELL = '#!/bin/sh\nhost=$1\nshift\nexec {weft} exec --ns "$host" -- sh -c "$*"\n'


class Programs(bench_ways.Programs):
    def __init__(self, fabric, folder):
        super().__init__(fabric)
        self.folder = pathlib.Path(folder)
        self.mpi = shutil.copy(self.build_mpi(), self.folder / "mpi_latency")
        self.shell = self.folder / "remote-shell"
        self.shell.write_text(REMOTE_SHELL.format(weft=shlex.quote(str(fabric.weft))), encoding="utf-8")
        self.shell.chmod(0o755)

    def build_mpi(self):
        built = self.folder / "mpi_latency.built"
        subprocess.run(["mpicc", "-O2", "-Wall", "-Werror", "-o", str(built), str(MPI_SOURCE)], check=True, timeout=bench_ways.RUN_SECONDS)
        return built

    def rping(self, way):
        """Microseconds of a round of rping: a READ, a WRITE, and four SENDs, each of which wakes its receiver."""
        address = weft_clients.address_of(way.hosts[0])
        common = ["-a", address, "-C", str(RPING_ROUNDS)]
        _, seconds = self.pair(way, ["rping", "-s", *common], ["rping", "-c", *common], lambda server: self.fabric.has_id(way.hosts[0], RPING_PORT))
        return seconds / RPING_ROUNDS * 1e6

    def open_mpi(self, way):
        """Microseconds one way between two ranks, by UCX."""
        settings = {"UCX_TLS": "rc,self", **mpi.DEVICE, **mpi.AS_ROOT}
        if way == OUTSIDE:
            command = ["mpirun", *mpi.OPEN_MPI, *UNBOUND, *mpi.BY_UCX, *mpi.contexts(self.fabric.weft, self.mpi, way.hosts, 2)]
        else:
            exported = [word for name in ("UCX_TLS", *mpi.DEVICE) for word in ("-x", name)]
            command = [self.fabric.weft, "exec", "--ns", way.hosts[0], "--", "mpirun", "--host", ",".join(way.hosts), "-np", "2", "--oversubscribe", *UNBOUND,
                       "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(self.shell), *mpi.BY_UCX, *exported, str(self.mpi)]
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                 env=self.fabric.environment(settings), start_new_session=True)
        output, in_time = weft_clients.communicate(child, time.monotonic() + bench_ways.RUN_SECONDS)
        found = re.search(r"^one way (\S+) us$", output, re.MULTILINE)
        if not in_time or child.returncode or not found:
            raise bench_runs.Failure(f"{way.name} mpirun", "did not end well", output)
        return float(found[1])

    def figures(self):
        """(name, unit, run(way)) of each."""
        latency, bandwidth = 20_000, 40_000
        return (("ib_send_lat 8 B", bench_rows.MICROSECONDS, lambda way: self.perftest(way, "ib_send_lat", 8, latency)),
                ("ib_write_lat 8 B", bench_rows.MICROSECONDS, lambda way: self.perftest(way, "ib_write_lat", 8, latency)),
                ("ib_write_bw 64 KiB", bench_rows.GIGABYTES, lambda way: self.perftest(way, "ib_write_bw", 65_536, bandwidth)),
                ("ib_send_bw 64 KiB", bench_rows.GIGABYTES, lambda way: self.perftest(way, "ib_send_bw", 65_536, bandwidth)),
                ("rping, a round", bench_rows.MICROSECONDS, self.rping),
                ("UCX tag_lat 8 B", bench_rows.MICROSECONDS, lambda way: self.ucx(way, "tag_lat", 8, latency)),
                ("UCX tag_bw 64 KiB", bench_rows.GIGABYTES, lambda way: self.ucx(way, "tag_bw", 65_536, bandwidth)),
                ("Open MPI 8 B", bench_rows.MICROSECONDS, self.open_mpi))


def measure(topology, runs, say):
    """([Figure], [failure]): each program `runs` times each way, in turns."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder, weft_clients.Fabric(topology, f"bench-ns-{os.getpid()}") as fabric:
        return bench_ways.measure(Programs(fabric, folder).figures(), OUTSIDE, INSIDE, runs, say)
