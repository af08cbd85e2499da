#!/usr/bin/env python3
"""Hosts as namespaces (`weft exec --ns`, `weft shell`), as an ordinary user and, if this is root, as root: what the files of /sys say beside
ibv_devinfo and perfquery, services that exist once a machine, memory of two hosts, and what is left when it ends.

    namespaces.py

As root, the ordinary user is a number without an entry in /etc/passwd.
"""
import ipaddress
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import weft_clients

ORDINARY_ID = 61_234             # nobody's, policy
SECONDS = 60
SYS = "/sys/class/infiniband/weft0/ports/1"
PYTHON = "/usr/bin/python3"      # which ordinary users can run, too
GUIDE = weft_clients.ROOT / "docs" / "guide" / "hosts.md"


def machine():
    """What of the machine must be as before."""
    def lines(*command):
        return sorted(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())

    return {"mounts": sorted(line.split(" ", 3)[3] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()),
            "/run": sorted(os.listdir("/run")),
            "/sys/class": sorted(os.listdir("/sys/class")) + sorted(os.listdir("/sys/class/net")),
            "/dev": sorted(os.listdir("/dev")),
            "links": [re.sub(r"^\d+: ", "", line) for line in lines("ip", "-o", "link")],
            "addresses": lines("ip", "-o", "address", "show", "scope", "global"),
            "routes": lines("ip", "route", "show", "table", "all"),
            "name": os.uname().nodename,
            "hosts": pathlib.Path("/etc/hosts").read_text(encoding="utf-8")}


def preloaded(command):
    """With the sanitizers' runtime, where weft is built with them."""
    preload = os.environ.get("WEFT_CLIENT_PRELOAD")
    return ["env", f"LD_PRELOAD={preload}", *command] if preload else command


def eventually(condition, seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return value


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Account:
    """Who runs weft: this user, or an ordinary one; with a run directory and a folder of its own."""
    ordinary = False

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="weft-ns-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.fabric = f"ns-{os.getpid()}"
        self.prefix = []
        if self.ordinary:
            if os.geteuid() != 0:
                self.skipTest("this user is an ordinary one already")
            os.chown(self.folder, ORDINARY_ID, ORDINARY_ID)
            self.prefix = ["setpriv", f"--reuid={ORDINARY_ID}", f"--regid={ORDINARY_ID}", "--clear-groups"]
        self.weft_path = weft_clients.weft_command()
        self.before = machine()
        self.addCleanup(self.check_machine)

    def check_machine(self):
        self.weft("down", check=False)
        for what, was in self.before.items():
            self.assertEqual(machine()[what], was, f"{what} of the machine itself")

    def environment(self):
        return {**os.environ, "WEFT_RUN": f"{self.folder}/run", "WEFT_FABRIC": self.fabric, "HOME": self.folder, "TMPDIR": "/tmp",
                "PATH": f"{pathlib.Path(self.weft_path).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}

    def weft(self, *arguments, check=True, timeout=SECONDS):
        done = subprocess.run([*self.prefix, self.weft_path, *arguments], capture_output=True, text=True, errors="replace", timeout=timeout,
                              stdin=subprocess.DEVNULL, env=self.environment(), cwd="/")
        if check:
            self.assertEqual(done.returncode, 0, f"weft {shlex.join(arguments)}\n{done.stdout}{done.stderr}")
        return done

    def up(self, topology):
        done = self.weft("up", *topology.split())
        return int(re.search(r"weftd, process (\d+)", done.stdout)[1]), done

    def on(self, host, *command, check=True, timeout=SECONDS):
        return self.weft("exec", "--ns", host, "--", *preloaded(command), check=check, timeout=timeout)

    def read(self, host, path):
        return self.on(host, "cat", path).stdout.strip()

    def start(self, host, *command, ns=True):
        child = subprocess.Popen([*self.prefix, self.weft_path, "exec", *(["--ns"] if ns else []), host, "--", *preloaded(command)], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True, cwd="/",
                                 env=self.environment())
        self.addCleanup(self.finish, child)
        return child

    @staticmethod
    def finish(child):
        if child.poll() is None:
            weft_clients.end(child)
        child.stdout.close()

    def listens(self, host, port):
        tables = self.on(host, "cat", "/proc/net/tcp", "/proc/net/tcp6").stdout
        return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in tables.splitlines() if ":" in line.split()[0])

    def wait_until_listening(self, host, port, child):
        self.assertTrue(eventually(lambda: child.poll() is not None or self.listens(host, port)))
        self.assertIsNone(child.poll(), "the server ended")

    def wait_until_listening_by_rdma_cm(self, child):
        self.assertTrue(eventually(lambda: child.poll() is not None or '"LISTEN"' in self.weft("status", "--json").stdout))
        self.assertIsNone(child.poll(), "the server ended")

    def perftest(self, *options, ns=True, server="h1", client="h2"):
        """The client's output of ib_write_bw; in namespaces, the server by its name."""
        port = "18515" if ns else str(weft_clients.Ports().take())
        ours = self.start(server, "ib_write_bw", "-p", port, *options, ns=ns)
        if "-R" in options:
            self.wait_until_listening_by_rdma_cm(ours)
        elif ns:
            self.wait_until_listening(server, int(port), ours)
        else:
            self.assertTrue(weft_clients.wait_until_listening(ours, int(port), time.monotonic() + SECONDS))
        theirs = self.start(client, "ib_write_bw", "-p", port, *options, server if ns else weft_clients.address_of(server), ns=ns)
        output = theirs.communicate(timeout=SECONDS)[0]
        self.assertEqual(theirs.returncode, 0, output)
        try:
            ours.wait(SECONDS)
        except subprocess.TimeoutExpired:
            weft_clients.end(ours)
            self.fail(f"the server did not end\n{ours.stdout.read()}\nafter a client that said\n{output}")
        self.assertEqual(ours.returncode, 0, output)
        return output


class Hosts(Account):
    def test_programs_of_administrators_show_the_host(self):
        self.up("fat-tree:4")
        status = self.on("h1", "ibstatus").stdout
        self.assertIn("Infiniband device 'weft0' port 1 status:", status)
        self.assertIn("state:\t\t 4: ACTIVE", status)
        self.assertIn("CA 'weft0'", self.on("h1", "ibstat").stdout)
        self.assertEqual(self.on("h1", "hostname").stdout, "h1\n")
        self.assertEqual(self.on("h3", "sh", "-c", "cat /etc/hostname; exit 7", check=False).returncode, 7)
        info = self.on("h1", "ibv_devinfo", "-v").stdout
        self.assertRegex(info, r"state:\s+PORT_ACTIVE")
        self.assertEqual(int(re.search(r"port_lid:\s+(\d+)", info)[1]), int(self.read("h1", f"{SYS}/lid"), 16))
        self.assertEqual(int(re.search(r"sm_lid:\s+(\d+)", info)[1]), int(self.read("h1", f"{SYS}/sm_lid"), 16))
        self.assertEqual(re.search(r"node_guid:\s+(\S+)", info)[1], self.read("h1", "/sys/class/infiniband/weft0/node_guid"))
        self.assertEqual(re.search(r"fw_ver:\s+(\S+)", info)[1], self.read("h1", "/sys/class/infiniband/weft0/fw_ver"))
        gid = re.search(r"GID\[\s*0\]:\s+(\S+)", info)[1].rstrip(",")
        self.assertEqual(self.number_of(gid), self.number_of(self.read("h1", f"{SYS}/gids/0")))
        self.assertEqual(self.read("h1", f"{SYS}/pkeys/0"), "0xffff")
        self.assertEqual(self.read("h1", f"{SYS}/state"), "4: ACTIVE")
        names = self.on("h1", "ls", "/sys/class").stdout.split()
        for name in ("infiniband", "infiniband_mad", "infiniband_verbs", "infiniband_cm", "scsi_host", "net"):
            self.assertIn(name, names)
        self.assertEqual(self.on("h1", "ls", "/sys/class/net").stdout.split(), ["eth0", "lo"])
        self.assertEqual(self.on("h1", "ls", "/dev/infiniband").stdout.split(), ["issm0", "rdma_cm", "umad0", "uverbs0"])

    @staticmethod
    def number_of(gid):
        return int(ipaddress.IPv6Address(gid))

    def counter(self, host, name):
        return int(self.read(host, f"{SYS}/counters/{name}"))

    def perfquery(self, host):
        """By the names of /sys."""
        said = self.on(host, "perfquery", "-x").stdout
        return {"port_xmit_data": int(re.search(r"PortXmitData:\.+(\d+)", said)[1]), "port_rcv_data": int(re.search(r"PortRcvData:\.+(\d+)", said)[1]),
                "port_rcv_packets": int(re.search(r"PortRcvPkts:\.+(\d+)", said)[1])}

    def test_counters_are_true_while_perftest_runs(self):
        self.up("fat-tree:4")
        idle = self.counter("h1", "port_rcv_data")
        server = self.start("h1", "ib_write_bw", "-D", "10")
        self.wait_until_listening("h1", 18515, server)
        client = self.start("h2", "ib_write_bw", "-D", "10", "h1")
        self.assertTrue(eventually(lambda: self.counter("h1", "port_rcv_data") > idle + 1_000_000), "data flows")
        rounds = 0
        while client.poll() is None and rounds < 5:
            for name in ("port_rcv_data", "port_xmit_data", "port_rcv_packets"):
                first = self.perfquery("h1")[name]
                read = self.counter("h1", name)
                last = self.perfquery("h1")[name]
                self.assertLessEqual(first, read, name)
                self.assertLessEqual(read, last, name)
            self.assertEqual(self.read("h1", f"{SYS}/state"), "4: ACTIVE")
            rounds += 1
        self.assertGreater(rounds, 0)
        self.assertGreater(last, idle)
        client.wait(SECONDS)
        server.wait(SECONDS)
        again = [self.on("h1", "sh", "-c", f"cat {SYS}/counters/port_rcv_data {SYS}/counters/port_rcv_data").stdout.split() for _ in range(2)]
        self.assertEqual(len(set(again[0] + again[1])), 1, "nothing flows, nothing counts")

    def test_programs_of_two_hosts_reach_each_others_memory(self):
        self.up("pair")
        owner = self.start("h1", PYTHON, "-c", "import ctypes, time\nb = ctypes.create_string_buffer(b'old', 16)\n"
                           "import os; print(os.getpid(), ctypes.addressof(b), flush=True)\n"
                           "end = time.monotonic() + 50\nwhile b.value == b'old' and time.monotonic() < end: time.sleep(0.01)\n"
                           "print(b.value.decode(), flush=True)")
        pid, address = owner.stdout.readline().split()
        writer = ("import ctypes, sys\nclass Part(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]\n"
                  "text = ctypes.create_string_buffer(b'written', 8)\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                  "here, there = Part(ctypes.addressof(text), 8), Part(int(sys.argv[2]), 8)\n"
                  "done = libc.process_vm_writev(int(sys.argv[1]), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)\n"
                  "sys.exit(0 if done == 8 else f'errno {ctypes.get_errno()}')")
        self.on("h2", PYTHON, "-c", writer, pid, address)
        self.assertEqual(owner.communicate(timeout=SECONDS)[0], "written\n")

    def test_perftest_and_rping_connect_by_name(self):
        self.up("pair")
        self.assertIn("65536", self.perftest("-n", "1000"))
        self.assertIn("65536", self.perftest("-n", "1000", "-R"))
        server = self.start("h1", "rping", "-s", "-C", "3")
        self.wait_until_listening_by_rdma_cm(server)
        self.assertEqual(self.on("h2", "rping", "-c", "-a", "127.77.0.1", "-C", "3", "-v").stdout.count("ping data"), 3)
        server.wait(SECONDS)

    def test_services_that_exist_once_a_machine_run_on_two_hosts(self):
        self.up("pair")
        folder = pathlib.Path(self.folder)
        services = []
        for host in ("h1", "h2"):
            (folder / f"{host}.cfg").write_text(f"log_file {folder}/{host}.log\nlog_level 1\nserver_mode loop\nprovider ibacmp default\n")
            (folder / f"{host}.addr").write_text(f"{host} weft0 1 default\n")
            services.append(self.start(host, "ibacm", "-P", "-A", f"{folder}/{host}.addr", "-O", f"{folder}/{host}.cfg"))
        for host, service in zip(("h1", "h2"), services):
            log = folder / f"{host}.log"
            self.assertTrue(eventually(lambda: service.poll() is not None or (log.exists() and "acm_server: started" in log.read_text())))
            self.assertIsNone(service.poll(), log.read_text() if log.exists() else "no log")
            self.assertRegex(log.read_text(), r"weft0", f"{host}'s service sees its device")
            self.assertTrue(self.listens(host, 6125), "both, on the same port")
        self.assertEqual(self.on("h1", "ls", "/run").stdout.split(), self.on("h2", "ls", "/run").stdout.split())
        for service in services:
            self.end_inside(service)

    def end_inside(self, child):
        child.send_signal(signal.SIGTERM)
        self.assertIn(child.wait(SECONDS), (0, -signal.SIGTERM))

    def test_srp_daemon_starts_and_searches(self):
        self.up("pair")
        found = self.on("h1", "ibsrpdm", "-c")
        self.assertEqual(found.stderr, "")
        said = self.on("h1", "ibsrpdm", "-c", "-v")
        self.assertIn("Device weft0 was found", said.stdout + said.stderr)
        once = self.on("h1", "srp_daemon", "-o", "-a", "-v", "-i", "weft0", "-p", "1")
        self.assertIn("Query did not find any targets", once.stdout + once.stderr)

    def test_node_exporter_reports_the_device(self):
        self.up("pair")
        exporter = self.start("h2", "prometheus-node-exporter", "--collector.disable-defaults", "--collector.infiniband", "--web.listen-address=:9100")
        self.wait_until_listening("h2", 9100, exporter)
        fetch = "import urllib.request as u; print(u.urlopen('http://h2:9100/metrics', timeout=20).read().decode())"
        metrics = self.on("h1", PYTHON, "-c", fetch).stdout
        self.assertRegex(metrics, r'node_infiniband_info\{.*device="weft0"')
        self.assertRegex(metrics, r'node_infiniband_state_id\{device="weft0",port="1"\} 4')
        # It tells octets, the counter is of four-octet words.
        self.assertRegex(metrics, r'node_infiniband_port_data_transmitted_bytes_total\{device="weft0",port="1"\} [1-9]')

    def test_down_ends_what_runs_there(self):
        self.up("pair")
        gentle = self.start("h1", "sleep", "1000")
        stubborn = self.start("h2", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done")
        self.assertEqual(stubborn.stdout.readline(), "ready\n")
        began = time.monotonic()
        done = self.weft("down")
        self.assertRegex(done.stdout, r"is down; \d+ processes on its hosts were ended, [12] of them by SIGKILL")
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual((gentle.wait(1), stubborn.wait(1)), (-signal.SIGTERM, -signal.SIGKILL))

    def test_a_killed_daemon_leaves_nothing_but_its_programs(self):
        daemon, _ = self.up("pair")
        left = self.start("h1", "sh", "-c", "echo $$; read x || sleep 1000")
        pid = int(left.stdout.readline())
        os.kill(daemon, signal.SIGKILL)
        self.assertTrue(eventually(lambda: not is_running(daemon)))
        self.assertEqual(machine()["mounts"], self.before["mounts"])
        # Which the next of that name reports, and a command inside finds its daemon gone.
        inside = subprocess.run([*self.prefix, "nsenter", f"--target={pid}", "--user", "--mount", "--net", "--preserve-credentials", "ls", "/run"],
                                capture_output=True, text=True, timeout=SECONDS, env=self.environment())
        self.assertIn("weft-fabric", inside.stdout, inside.stderr)
        _, done = self.up("pair")
        self.assertIn(f"{pid} (sh)", done.stderr)
        weft_clients.end(left)
        self.weft("down")
        _, done = self.up("pair")
        self.assertNotIn("earlier fabric", done.stderr)

    def test_down_ends_what_a_killed_daemon_has_left(self):
        daemon, _ = self.up("pair")
        left = [self.start(host, "sh", "-c", "echo ready; exec sleep 1000") for host in ("h1", "h2")]
        self.assertEqual([child.stdout.readline() for child in left], ["ready\n"] * 2)
        os.kill(daemon, signal.SIGKILL)
        self.assertTrue(eventually(lambda: not is_running(daemon)))
        self.assertIn("is down, since its daemon died; 2 processes on its hosts were ended", self.weft("down").stdout)
        for child in left:
            self.assertEqual(child.wait(5), -signal.SIGTERM)
        self.assertIn("is not up", self.weft("down", check=False).stderr, "nothing is left to end")

    def test_a_machine_that_forbids_namespaces_gets_advice(self):
        self.up("pair")
        shell = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" exec --ns h1 -- true'
        done = subprocess.run([*self.prefix, "unshare", "--user", "--map-root-user", "sh", "-c", shell, self.weft_path], capture_output=True, text=True,
                              timeout=SECONDS, env=self.environment())
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("sudo sysctl user.max_user_namespaces=", done.stderr)

    def test_commands_of_the_guide_say_what_it_shows(self):
        text = GUIDE.read_text(encoding="utf-8")
        self.fabric = "default"
        shown = 0
        for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, wanted = part.partition("\n")
                done = subprocess.run([*self.prefix, "sh", "-c", command], capture_output=True, text=True, timeout=SECONDS, env=self.environment(), cwd="/")
                pattern = ".*".join(map(re.escape, wanted.split("...")))
                self.assertRegex(done.stdout + done.stderr, re.compile(rf"\A{pattern}\Z"), command)
                shown += 1
        self.assertGreater(shown, 8)


class AsOrdinaryUser(Hosts, unittest.TestCase):
    ordinary = True

    def test_two_hundred_hosts_at_once(self):
        daemon, _ = self.up("star:200")
        began, memory = time.monotonic(), self.memory(daemon)
        children = []
        for number in range(1, 201):
            children.append(self.start(f"h{number}", "sh", "-c", "cat " + f"{SYS}/state; exec sleep 1000"))
            if number % 8 == 0:
                children[-1].stdout.readline()
        for child in children:
            self.assertIsNone(child.poll())
        self.assertTrue(eventually(lambda: self.inside(daemon) >= 200))
        seconds = time.monotonic() - began
        print(f"200 hosts: {seconds:.1f} s, weftd {self.memory(daemon)['VmRSS'] - memory['VmRSS']} kB more, "
              f"machine {memory['MemAvailable'] - self.memory(daemon)['MemAvailable']} kB less with 200 programs")
        self.assertIn("200", self.read("h200", "/etc/hosts"))
        began = time.monotonic()
        done = self.weft("down")
        print(f"200 hosts down: {time.monotonic() - began:.1f} s: {done.stdout.strip()}")
        self.assertIn("200 processes on its hosts were ended", done.stdout)
        for child in children:
            self.assertEqual(child.wait(5), -signal.SIGTERM)

    @staticmethod
    def memory(pid):
        text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8") + pathlib.Path("/proc/meminfo").read_text(encoding="utf-8")
        return {name: int(re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[1]) for name in ("VmRSS", "MemAvailable")}

    def inside(self, daemon):
        """How many processes see a fabric of this run directory."""
        count = 0
        for entry in os.listdir("/proc"):
            try:
                count += entry.isdigit() and pathlib.Path(f"/proc/{entry}/root/run/weft-fabric").read_text().startswith(f"{self.folder}/")
            except OSError:
                pass
        return count


@unittest.skipUnless(os.geteuid() == 0, "this user is not root")
class AsRoot(Hosts, unittest.TestCase):
    pass


if os.geteuid() != 0:
    AsOrdinaryUser.ordinary = False

if __name__ == "__main__":
    weft_clients.need_programs("ibstatus", "ibstat", "ibv_devinfo", "perfquery", "ib_write_bw", "rping", "ibacm", "ibsrpdm", "srp_daemon",
                               "prometheus-node-exporter", "setpriv", "unshare", "nsenter", "ip")
    unittest.main(verbosity=2)
