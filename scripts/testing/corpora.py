#!/usr/bin/env python3
"""Archives of fuzzers' inputs, tests/corpora/*.zip: the same inputs make the same octets, so that a change is one file's.

    scripts/testing/corpora.py unpack ARCHIVE FOLDER   each input as a file
    scripts/testing/corpora.py pack FOLDER ARCHIVE     and back
    scripts/testing/corpora.py list ARCHIVE            SHA-256 and name of each
"""
import hashlib
import pathlib
import sys
import zipfile

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that the format has


def read(archive):
    """{name: octets}; empty if there is no archive."""
    if not archive.exists():
        return {}
    with zipfile.ZipFile(archive) as file:
        return {name: file.read(name) for name in file.namelist()}


def write(archive, inputs):
    """Sorted and stored as they are, which tests/corpora/archive.cc relies on."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for name in sorted(inputs):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = 3  # Unix, wherever this runs
            entry.external_attr = 0o644 << 16
            file.writestr(entry, inputs[name])


def unpack(archive, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, octets in read(archive).items():
        (folder / name).write_bytes(octets)


def pack(folder, archive):
    write(archive, {path.name: path.read_bytes() for path in folder.iterdir()})


def main(arguments):
    match arguments:
        case ["unpack", archive, folder]:
            unpack(pathlib.Path(archive), pathlib.Path(folder))
        case ["pack", folder, archive]:
            pack(pathlib.Path(folder), pathlib.Path(archive))
        case ["list", archive]:
            for name, octets in sorted(read(pathlib.Path(archive)).items()):
                print(hashlib.sha256(octets).hexdigest(), name)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
