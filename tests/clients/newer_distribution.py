#!/usr/bin/env python3
"""Programs of a newer distribution, Debian 13 with rdma-core 56, on our drop-in libraries: its dynamic linker, libc and tools, our
libibverbs, librdmacm and libibumad.

    newer_distribution.py [--smoke]

Also newer_calls.c, which calls what newer headers declare of librdmacm, as a program of this machine.

The packages come by apt from the mirror that this machine's own sources name, with a configuration of its own: nothing is
installed. They stay in build/newer for the next run.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import time

import drop_in_symbols
import weft_clients

RELEASE = "trixie"
PACKAGES = ("ibverbs-utils", "infiniband-diags", "rdmacm-utils", "libibverbs1", "librdmacm1t64", "libibumad3", "libibmad5",
            "libibnetdisc5t64", "libc6", "libgcc-s1")
PLACE = weft_clients.ROOT / "build" / "newer"
SOURCES = pathlib.Path("/etc/apt")
FABRIC = "star 3"


def entries(folder=SOURCES):
    """(URI, [suite], keyring) of each source of packages, in either of apt's two formats."""
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list")), *sorted((folder / "sources.list.d").glob("*.sources"))]
    for file in files:
        text = file.read_text() if file.is_file() else ""
        if file.suffix == ".sources":
            for stanza in re.split(r"\n\s*\n", text):
                fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
                for uri in fields.get("URIs", "").split():
                    yield uri, fields.get("Suites", "").split(), fields.get("Signed-By", "")
        else:
            for options, uri, suite in re.findall(r"^deb\s+(\[[^\]]*\]\s+)?(\S+)\s+(\S+)", text, re.MULTILINE):
                keyring = re.search(r"signed-by=(\S+?)[\s\]]", options)
                yield uri, [suite], keyring.group(1) if keyring else ""


def mirror(own_release, sources):
    """(URI, keyring) of the source that this machine's own release comes from."""
    return next(((uri, keyring) for uri, suites, keyring in sources if own_release in suites), None)


def own_release():
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.split("=", 1)[1].strip('"')
    return ""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(weft_clients.SKIPPED)


def apt(*arguments, folder):
    """apt-get with lists, cache and sources of its own."""
    state = PLACE / "apt"
    for each in ("lists/partial", "cache/archives/partial"):
        (state / each).mkdir(parents=True, exist_ok=True)
    options = (f"Dir::Etc::SourceList={state}/sources.list", "Dir::Etc::SourceParts=/dev/null", f"Dir::State::Lists={state}/lists",
               f"Dir::Cache={state}/cache", "Dir::State::Status=/dev/null", "APT::Sandbox::User=")
    return subprocess.run(["apt-get", "-q", *(part for option in options for part in ("-o", option)), *arguments], cwd=folder,
                          capture_output=True, text=True, timeout=600)


def fetch():
    """The packages, unpacked; from the last run if it had the same ones."""
    root, stamp = PLACE / "root", PLACE / "packages"
    if stamp.is_file() and stamp.read_text().split() == [RELEASE, *PACKAGES]:
        return root
    weft_clients.need_programs("apt-get", "dpkg-deb")
    found = mirror(own_release(), entries())
    if found is None:
        skip(f"no source of packages in {SOURCES} is of this machine's own release, {own_release()}: no mirror to ask for {RELEASE}")
    uri, keyring = found
    packages = PLACE / "deb"
    packages.mkdir(parents=True, exist_ok=True)
    (PLACE / "apt").mkdir(exist_ok=True)
    (PLACE / "apt" / "sources.list").write_text(f"deb {f'[signed-by={keyring}] ' if keyring else ''}{uri} {RELEASE} main\n")
    for arguments in (("update",), ("download", *PACKAGES)):
        done = apt(*arguments, folder=packages)
        if done.returncode != 0:
            skip(f"the mirror gives no packages of {RELEASE}: apt-get {arguments[0]} said: {(done.stdout + done.stderr).strip()[-300:]}")
    for package in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
    stamp.write_text(" ".join([RELEASE, *PACKAGES]))
    return root


def only(root, pattern):
    found = sorted(path for path in root.glob(pattern) if not path.is_symlink() or path.exists())
    if not found:
        raise SystemExit(f"the packages of {RELEASE} have no {pattern}")
    return found[0]


class Distribution:
    """Programs under their own dynamic linker, which takes our libraries first and the distribution's then."""

    def __init__(self, root):
        self.root = root
        self.libraries = only(root, "usr/lib/*/libc.so.6").parent
        self.linker = only(self.libraries, "ld-linux*.so.*")

    def program(self, name):
        return str(only(self.root, f"usr/*bin/{name}"))

    def command(self, name, *arguments):
        return ["sh", "-c", f'exec "$0" --library-path "$LD_LIBRARY_PATH:{self.libraries}" "$@"', str(self.linker), self.program(name), *arguments]

    def library(self, soname):
        return self.libraries / soname


def misses(distribution, ours, soname):
    """What programs of that distribution may ask of a library and ours does not have."""
    want, _ = drop_in_symbols.exported(str(distribution.library(soname)))
    have, _ = drop_in_symbols.exported(str(ours))
    return sorted(f"{name}@{version}" for name, version in want - have)


def check_symbols(distribution):
    for soname, folder in drop_in_symbols.FOLDERS.items():
        missing = misses(distribution, weft_clients.build_folder() / "src" / "compat" / folder / soname, soname)
        yield f"symbols of {soname}", f"missing: {', '.join(missing)}" if missing else ""


def run(fabric, distribution, host, name, *arguments, wanted=(), seconds=60):
    """(what was run, why it failed or nothing)."""
    child = fabric.start(host, distribution.command(name, *arguments))
    try:
        output, _ = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        weft_clients.end(child)
        return " ".join([name, *arguments]), "did not end in time"
    missing = [pattern for pattern in wanted if not re.search(pattern, output, re.MULTILINE)]
    reason = (f"exit status {child.returncode}: {output[-600:]}" if child.returncode else
              f"does not say {', '.join(missing)}: {output[-600:]}" if missing else "")
    return " ".join([name, *arguments]), reason


def run_pair(fabric, distribution, ports, name, *arguments, option="-p", wanted):
    """A server on h1 and its client on h2, both of which must end well."""
    port = ports.take()
    server = fabric.start("h1", distribution.command(name, option, str(port), *arguments))
    try:
        if not weft_clients.wait_until_listening(server, port, float("inf")):
            return name, f"the server ended: {server.communicate()[0][-600:]}"
        of_client = run(fabric, distribution, "h2", name, option, str(port), *arguments, weft_clients.address_of("h1"), wanted=wanted)
        output, in_time = weft_clients.communicate(server, time.monotonic() + 10)
        reason = of_client[1] or ("" if in_time and server.returncode == 0 else f"server: {server.returncode}: {output[-600:]}")
        return " ".join([name, *arguments, "(h1 and h2)"]), reason
    finally:
        if server.poll() is None:
            weft_clients.end(server)


def check_programs(distribution):
    with weft_clients.Fabric(FABRIC) as fabric:
        ports = weft_clients.Ports()
        yield run(fabric, distribution, "h1", "ibv_devices", wanted=(r"weft0\s+[0-9a-f]{16}",))
        yield run(fabric, distribution, "h1", "ibv_devinfo", "-v", wanted=(r"hca_id:\s+weft0", "PORT_ACTIVE", r"active_speed:.*Gbps", r"GID\[ *0\]:\s+fe80:"))
        for name in ("ibv_rc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"):
            yield run_pair(fabric, distribution, ports, name, wanted=("1000 iters in ",))
        yield run_pair(fabric, distribution, ports, "ibv_rc_pingpong", "-N", "-c", wanted=("1000 iters in ",))
        yield run(fabric, distribution, "h1", "ibstat", wanted=("CA 'weft0'", "State: Active", r"Base lid: [1-9]"))
        yield run(fabric, distribution, "h1", "ibnetdiscover", wanted=(r"^Switch\s+\d+", r"^Ca\s+\d+ .*h1", r"^Ca\s+\d+ .*h3"))
        yield run(fabric, distribution, "h2", "saquery", wanted=("NodeRecord dump", "h1", "h3"))
        yield run(fabric, distribution, "h2", "saquery", "-p", wanted=("PathRecord",))


def build(name):
    """A program of C for our own libraries, since Debian 12's lack what it calls."""
    folder = weft_clients.build_folder()
    program = folder / "clients" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    ours = [str(folder / "src" / "compat" / room / soname) for soname, room in drop_in_symbols.FOLDERS.items()]
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-pthread", "-o", str(program), str(pathlib.Path(__file__).with_name(f"{name}.c")), *ours],
                   check=True, timeout=60)
    return str(program)


def check_newer_calls():
    """(what was run, why it failed or nothing) of the server and the client: the client waits until the server's service is known."""
    program, port = build("newer_calls"), str(weft_clients.Ports().take())
    with weft_clients.Fabric(FABRIC) as fabric:
        children = [fabric.start("h1", [program, port]), fabric.start("h2", [program, port, weft_clients.address_of("h1")])]
        deadline = time.monotonic() + 70
        outputs = [weft_clients.communicate(child, deadline)[0] for child in children]
    for side, child, output in zip(("server", "client"), children, outputs):
        yield f"newer_calls, {side}", "" if child.returncode == 0 and "all is well" in output else f"exit status {child.returncode}: {output[-600:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="the same: it takes seconds once the packages are there")
    parser.parse_args()
    weft_clients.need_programs("objdump", "gcc")
    distribution = Distribution(fetch())
    results = [*check_symbols(distribution), *check_programs(distribution), *check_newer_calls()]
    failed = [result for result in results if result[1]]
    for name, reason in results:
        print(f"{'FAILED' if reason else 'ok':7} {name}{f': {reason}' if reason else ''}")
    print(f"newer distribution: {len(results)} checks with programs of Debian's {RELEASE}, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
