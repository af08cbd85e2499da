#!/usr/bin/env python3
"""Programs of users and administrators inside hosts as namespaces, as an ordinary user: Open MPI by its own launcher, UCX by name, Debian's
rdma, the port mapper's daemon on two hosts, and PCP's agent for InfiniBand.

    namespace_programs.py
"""
import json
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import mpi
import namespaces
import weft_clients

HOSTS = ("h1", "h2", "h3", "h4")
IWPM_PORT = 3935                 # iWARP Port Mapper, of IANA
PMDA = "/usr/lib/pcp/pmdas/infiniband/pmdaib"
# dbpmda asks an agent of PCP without its services; the namespace gives numbers of domain:cluster:item names.
PMDA_NAMES = """root { infiniband }
infiniband {
  state 91:0:10
  lid 91:0:9
  in_packets 91:1:1
}
"""
# Inside, `weft exec` reaches other hosts: mpirun's remote shell gets a host and a command line for that host's shell.
REMOTE_SHELL = """#!/bin/sh
host=$1
shift
exec weft exec --ns "$host" -- sh -c "$*"
"""


class Programs(namespaces.Account, unittest.TestCase):
    ordinary = namespaces.AsOrdinaryUser.ordinary

    def file(self, name, text, mode=0o644):
        path = pathlib.Path(self.folder) / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return str(path)

    def test_open_mpi_starts_ranks_by_its_launcher(self):
        self.up("star:4")
        shell = self.file("remote-shell", REMOTE_SHELL, 0o755)
        program = shutil.copy(mpi.build(pathlib.Path(self.folder), "mpicc"), f"{self.folder}/ring")
        settings = {**mpi.AS_ROOT, **mpi.DEVICE, "UCX_TLS": "rc,self"}  # inside, this user is root
        exported = [word for name in ("UCX_TLS", *mpi.DEVICE) for word in ("-x", name)]
        done = self.on("h1", "env", *(f"{name}={value}" for name, value in settings.items()), "mpirun", "--host", ",".join(HOSTS), "-np", str(len(HOSTS)),
                       "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", shell, *mpi.BY_UCX, *exported, program, timeout=mpi.RUN_SECONDS)
        self.assertIsNone(mpi.judge(done.stdout, HOSTS, len(HOSTS)), done.stdout)
        for host in HOSTS:
            self.assertGreater(int(self.read(host, f"{namespaces.SYS}/counters/port_xmit_data")), 10_000, f"{host} used the fabric")

    def test_ucx_connects_by_name(self):
        self.up("pair")
        for test in ("tag_bw", "ucp_put_bw"):
            server = self.start("h1", "env", "UCX_TLS=rc,self", "ucx_perftest")
            self.wait_until_listening("h1", 13337, server)
            done = self.on("h2", "env", "UCX_TLS=rc,self", "ucx_perftest", "h1", "-t", test, "-n", "1000", "-s", "8192")
            self.assertRegex(done.stdout, r"Final: +1000 ")
            self.assertEqual(server.wait(namespaces.SECONDS), 0)

    def test_rdma_shows_the_host_and_who_holds_what(self):
        self.up("pair")
        link = json.loads(self.on("h2", "rdma", "-j", "link").stdout)[0]
        self.assertEqual((link["ifname"], link["port"], link["state"]), ("weft0", 1, "ACTIVE"))
        self.assertEqual(link["lid"], int(self.read("h2", f"{namespaces.SYS}/lid"), 16))
        server = self.start("h1", "ib_send_bw", "-D", "20")
        self.wait_until_listening("h1", 18515, server)
        client = self.start("h2", "ib_send_bw", "-D", "20", "h1")
        held = namespaces.eventually(lambda: [qp for qp in json.loads(self.on("h2", "rdma", "-j", "res", "show", "qp").stdout or "[]")
                                              if qp.get("comm") == "ib_send_bw" and qp.get("state") == "RTS"])
        self.assertTrue(held)
        self.assertEqual((held[0]["type"], held[0]["pid"]), ("RC", client.pid))
        for child in (client, server):
            child.send_signal(signal.SIGKILL)
            child.wait(namespaces.SECONDS)

    def test_port_mappers_run_on_two_hosts(self):
        self.up("pair")
        mappers = {host: self.start(host, "iwpmd", "-s") for host in ("h1", "h2")}
        for host, mapper in mappers.items():
            self.assertTrue(namespaces.eventually(lambda host=host, mapper=mapper: mapper.poll() is not None or self.has_datagram_port(host, IWPM_PORT)))
            self.assertIsNone(mapper.poll(), "both, on the same port")
        for mapper in mappers.values():
            mapper.send_signal(signal.SIGTERM)
            self.assertEqual(mapper.wait(namespaces.SECONDS), 0)

    def has_datagram_port(self, host, port):
        table = self.on(host, "cat", "/proc/net/udp").stdout
        return any(line.split()[1].endswith(f":{port:04X}") for line in table.splitlines()[1:])

    def test_performance_co_pilot_reads_the_port(self):
        self.up("pair")
        package = self.unpacked("pcp")
        questions = f"open pipe {PMDA} -d 91 -l {self.folder}/pmdaib.log\nfetch infiniband.state infiniband.lid infiniband.in_packets\n"
        names = self.file("names", PMDA_NAMES)
        asked = self.file("questions", questions)
        before = int(self.read("h1", f"{namespaces.SYS}/counters/port_rcv_packets"))
        done = self.on("h1", "sh", "-c", f"PCP_BINADM_DIR={package}/usr/lib/pcp/bin {package}/usr/bin/dbpmda -n {names} -f < {asked}")
        after = int(self.read("h1", f"{namespaces.SYS}/counters/port_rcv_packets"))
        values = dict(re.findall(r"\(infiniband\.(\w+)\): .*\n.*value (\S+)", done.stdout))
        self.assertEqual(values.get("state"), '"Active"', done.stdout + done.stderr)
        self.assertEqual(int(values["lid"]), int(self.read("h1", f"{namespaces.SYS}/lid"), 16))
        self.assertTrue(before <= int(values["in_packets"]) <= after, (before, values, after))

    def unpacked(self, package):
        """A package that is not installed, since that would start its services."""
        folder = weft_clients.build_folder() / "unpacked" / package
        if not folder.exists():
            folder.mkdir(parents=True)
            subprocess.run(["apt-get", "-q", "download", package], cwd=folder.parent, check=True, capture_output=True, timeout=120)
            archive = next(folder.parent.glob(f"{package}_*.deb"))
            subprocess.run(["dpkg-deb", "-x", str(archive), str(folder)], check=True)
        copy = pathlib.Path(self.folder) / package  # where ordinary users can read it
        shutil.copytree(folder, copy, symlinks=True)
        return copy


if __name__ == "__main__":
    weft_clients.need_programs("mpirun", "mpicc", "ucx_perftest", "rdma", "ib_send_bw", "iwpmd", PMDA, "apt-get", "dpkg-deb", "setpriv")
    unittest.main(verbosity=2)
