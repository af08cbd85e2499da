"""ibacm on two hosts and ib_acme on one of them: addresses are resolved by ACM's own multicast protocol, paths by it or by SA.

ibacm has one place for its socket on a machine, so each host's gets one as a service manager would hand it over (sd_listen_fds(3)).
"""
import pathlib
import re
import subprocess
import tempfile
import time

import weft_clients

SERVICE, PROGRAM = "ibacm", "ib_acme"
READY_SECONDS = 20               # policy
QUERY_SECONDS = 30               # policy
HAND_OVER = """
import os, shutil, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(shutil.which("ibacm"), ["ibacm", "--systemd", "-P", "-A", sys.argv[2], "-O", sys.argv[3]])
"""


class Service:
    """ibacm on a host, until the end of a with block."""

    def __init__(self, fabric, host, folder, routes):
        self.fabric, self.host = fabric, host
        self.socket, self.addresses, self.options, self.log = (folder / f"{host}-{name}" for name in ("socket", "addresses", "options", "log"))
        self.addresses.write_text(f"{host} weft0 1 default\n{weft_clients.address_of(host)} weft0 1 default\n", encoding="utf-8")
        self.options.write_text(f"log_file {self.log}\nlog_level 1\nlock_file {folder / host}-lock\nsupport_ips_in_addr_cfg 1\naddr_prot acm\n"
                                f"route_prot {routes}\nprovider ibacmp default\n", encoding="utf-8")

    def __enter__(self):
        command = [self.fabric.weft, "exec", self.host, "--", "/usr/bin/python3", "-c", HAND_OVER, *map(str, (self.socket, self.addresses, self.options))]
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                      env=self.fabric.environment())
        deadline = time.monotonic() + READY_SECONDS
        while "acm_server: started" not in self.text() and self.child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        weft_clients.end(self.child)

    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""


def has_path(fabric, hosts):
    """A check: the path is the one from the client's port to the server's, and SA says the same."""
    lids = {port["name"]: port["lid"] for port in fabric.ports()}

    def check(output):
        wanted = (rf"dlid: {lids[hosts[0] + ':1']}$", rf"slid: {lids[hosts[1] + ':1']}$", r"SA verification: success", r"return status 0x0")
        missing = [pattern for pattern in wanted if not re.search(pattern, output, re.MULTILINE)]
        return f"does not say {', '.join(missing)}" if missing else None
    return check


def outcomes(fabric, hosts):
    lids = {port["name"]: port["lid"] for port in fabric.ports()}
    ends = {"i": [weft_clients.address_of(host) for host in hosts], "n": list(hosts), "l": [str(lids[f"{host}:1"]) for host in hosts]}
    names = {"i": "IP addresses", "n": "names", "l": "LIDs"}
    for routes in ("sa", "acm"):
        with tempfile.TemporaryDirectory(prefix="weft-acm-") as name:
            folder = pathlib.Path(name)
            with Service(fabric, hosts[0], folder, routes), Service(fabric, hosts[1], folder, routes) as service:
                for form, (destination, source) in ends.items():
                    case = weft_clients.Case(PROGRAM, ["-f", form, "-s", source, "-d", destination, "-v", "-S", str(service.socket)], check=has_path(fabric, hosts),
                                             timeout_seconds=QUERY_SECONDS, aspect=f"{names[form]}, paths by {'SA' if routes == 'sa' else 'ACM'}, verified with SA")
                    outcome = weft_clients.run_alone(fabric, case, hosts[1])
                    outcome.server_output = service.text()
                    yield outcome
