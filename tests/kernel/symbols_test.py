#!/usr/bin/env python3
"""Every function of seed_functions.txt is declared in include/rdma with that signature and exported by libweft-rdma.so, but for those of
seed_exceptions.txt, which are not.

    symbols_test.py INCLUDE_FOLDER [LIBRARY]     without a library: the declarations alone
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
HEADERS = ("ib_verbs", "rw", "rdma_cm", "ib_sa", "ib_cache", "ib_pack", "ib_fmr_pool", "ib_mad", "ib_umem", "ib_umem_odp", "ib_cm")
NAME = re.compile(r"(\w+)\(")


def lines_of(name):
    return [line for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")]


def undeclared(include, prototypes):
    """What the compiler says of a source that declares each function once more, and takes its address."""
    text = "".join(f"#include <rdma/{header}.h>\n" for header in HEADERS)
    text += "".join(f"const void *const at_{name} = (const void *)&{name};\n{prototype}\n" for name, prototype in prototypes.items())
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "seed.c"
        source.write_text(text)
        done = subprocess.run(["cc", "-std=gnu11", "-fsyntax-only", "-Wno-deprecated", f"-I{include}", f"-I{include}/weft/kenv", source],
                              capture_output=True, text=True, timeout=60, check=False)
    return [line for line in done.stderr.splitlines() if "error" in line]


def exported(library):
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, timeout=60, check=True)
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}


def declared(include):
    return {name for header in pathlib.Path(include).glob("rdma/**/*.h") for name in NAME.findall(header.read_text())}


def main():
    include, *library = sys.argv[1:]
    prototypes = {NAME.search(line)[1]: line for line in lines_of("seed_functions.txt")}
    exceptions = {line.split()[0] for line in lines_of("seed_exceptions.txt")}
    wrong = [f"{name} is excepted and no function of the list" for name in exceptions - prototypes.keys()]
    wanted = {name: prototype for name, prototype in prototypes.items() if name not in exceptions}
    wrong += undeclared(include, wanted)
    if library:
        there = exported(library[0])
        wrong += [f"{name} is not exported" for name in wanted if name not in there]
        wrong += [f"{name} is exported and needs no exception" for name in exceptions & there]
    print("\n".join(wrong) or f"{len(wanted)} functions are there, {len(exceptions)} are not yet")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
