#!/usr/bin/env python3
"""The drop-in libraries against Debian's: the same names and versions, and every installed client loads with them.

    drop_in_symbols.py [--library SONAME=FILE] [--json]

Names@versions are compared both ways, with what Weft's own programs ask besides (OWN), but for what later releases have added and
for the non-default @IBVERBS_1.0 duplicates that only programs linked before 2007 ask for. Then each program and library of the system that is linked against one of them is loaded with all symbols bound
(as ldd -r does), with Debian's library and with ours: ours may not bring a complaint that Debian's does not.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

import weft_clients

FOLDERS = {"libibverbs.so.1": "ibverbs", "libibumad.so.3": "ibumad", "librdmacm.so.1": "rdmacm"}   # by soname, below src/compat
PLACES = ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec")
# What releases of rdma-core after Debian's have added, for programs of newer distributions (newer_distribution.py).
LATER = re.compile(r"@(IBVERBS_1[.]1[5-8]|IBVERBS_PRIVATE_(57|59|64|65)|RDMACM_1[.][45]|IBUMAD_1[.][34])$"
                   r"|^(ibv_cmd_create_cq_ex2|ibv_wr_opcode_str)@IBVERBS_PRIVATE_34$")
# What Weft's own programs ask besides, of a version that no other program names.
OWN = {"libibverbs.so.1": {("weft_has_captures", "WEFT_1.0")}}
COMPLAINT = re.compile(r"undefined symbol|not found|cannot open|error while loading|version .* (?:required|not defined)")


def exported(library):
    """({(name, version)}, the non-default {(name, @IBVERBS_1.0)} among Debian's that nobody needs)."""
    listing = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True).stdout
    symbols, old = set(), set()
    for line in listing.splitlines():
        match = re.match(r"[0-9a-f]{8,}\s.{7}\s(\S+)\s+[0-9a-f]+\s+(\(?)([A-Z][A-Z0-9_.]+)\)?\s+(\S+)$", line)
        if not match or match.group(1) in ("*UND*", "*ABS*"):
            continue
        _, not_default, version, name = match.groups()
        (old if not_default and version == "IBVERBS_1.0" else symbols).add((name, version))
    return symbols, old


def real_library(soname):
    """Debian's, as the dynamic linker finds it without us."""
    listing = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True,
                             env={**os.environ, "PATH": os.environ["PATH"] + ":/sbin:/usr/sbin"}).stdout
    paths = re.findall(rf"{re.escape(soname)} .*=> (\S+)", listing)
    if not paths:
        sys.exit(f"{soname} of Debian: not installed (scripts/bootstrap)")
    return paths[0]


def needs_library(path, soname):
    listing = subprocess.run(["objdump", "-p", path], capture_output=True, text=True)
    return re.search(rf"NEEDED\s+{re.escape(soname)}$", listing.stdout, re.MULTILINE) is not None


def clients(soname):
    """Every ELF file of the system that is linked against the library."""
    places = [place for place in PLACES if pathlib.Path(place).is_dir()]
    found = subprocess.run(["grep", "-rlIF", "--binary-files=text", "--", soname, *places], capture_output=True, text=True).stdout
    paths = sorted({os.path.realpath(line) for line in found.splitlines()})
    return [path for path in paths if pathlib.Path(path).read_bytes()[:4] == b"\x7fELF" and needs_library(path, soname)
            and not pathlib.Path(path).name.startswith(soname.rsplit(".", 1)[0])]


def complaints(path, soname, folder=None):
    """(complaints of the dynamic linker with every symbol bound, the library it took)."""
    environment = {**os.environ, "LC_ALL": "C"}
    if folder:
        environment["LD_LIBRARY_PATH"] = str(folder)
    done = subprocess.run(["ldd", "-r", path], capture_output=True, text=True, env=environment, timeout=60)
    output = done.stdout + done.stderr
    taken = re.search(rf"{re.escape(soname)} => (.+) \(0x", output)  # its folder's name may have spaces
    lines = {re.sub(r"0x[0-9a-f]+|\s+\(\S+\)", "", line).replace(str(folder), "").strip()
             for line in output.splitlines() if COMPLAINT.search(line)}
    return lines, taken.group(1) if taken else None


def compare(soname, ours, real):
    problems = []
    have, have_old = exported(ours)
    want, old = exported(real)
    want |= OWN.get(soname, set())
    for name, version in sorted(want - have):
        problems.append(f"missing: {name}@{version}")
    for name, version in sorted((have | have_old) - want - old):
        if LATER.search(f"{name}@{version}"):
            continue
        problems.append(f"exported, but not by Debian's: {name}@{version}")
    return problems, len(want), len(old)


def load_one(ours, soname, path):
    with_real, _ = complaints(path, soname)
    with_ours, taken = complaints(path, soname, pathlib.Path(ours).parent)
    problems = [f"{path}: {line}" for line in sorted(with_ours - with_real)]
    if taken is None or not os.path.samefile(taken, ours):
        problems.append(f"{path}: loads {taken} instead of ours")
    return problems


def load(ours, soname, paths):
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return [problem for problems in pool.map(lambda path: load_one(ours, soname, path), paths) for problem in problems]


def check(soname, ours):
    if not pathlib.Path(ours).exists():
        sys.exit(f"{ours} is not there: build it first (scripts/weft --version does)")
    problems, names, duplicates = compare(soname, ours, real_library(soname))
    paths = clients(soname)
    problems += load(ours, soname, paths)
    if not paths:
        problems.append(f"no client of {soname} is installed (scripts/bootstrap)")
    return {"soname": soname, "names": names, "duplicates_left_out": duplicates, "clients": paths, "problems": problems}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", action="append", metavar="SONAME=FILE", help="only this one, there")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    weft_clients.need_programs("objdump", "ldd", "grep")
    built = {soname: weft_clients.build_folder() / "src" / "compat" / folder / soname for soname, folder in FOLDERS.items()}
    chosen = dict(each.split("=", 1) for each in arguments.library) if arguments.library else built
    results = [check(soname, file) for soname, file in chosen.items()]
    if arguments.json:
        print(json.dumps(results, indent=1))
    else:
        for result in results:
            print("\n".join([*result["problems"],
                             f"drop-in symbols of {result['soname']}: {result['names']} names@versions (and "
                             f"{result['duplicates_left_out']} @IBVERBS_1.0 duplicates left out), {len(result['clients'])} programs "
                             f"and libraries loaded, {len(result['problems'])} problems"]))
    return 1 if any(result["problems"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
