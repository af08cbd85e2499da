#!/usr/bin/env python3
"""Joins the sources of a target into few: parsing what all of them include is most of the work of compiling small files.

    join_sources.py --include FOLDER --into PREFIX FILE...

Writes PREFIX_N.cc, which include up to fourteen files each, by their path below FOLDER, and prints what is to be compiled instead of FILE...,
separated by semicolons. A file is kept apart from those before it that declare at their outermost level a name that it uses, such as that of a
constant in an anonymous namespace: it would mean the other's. It goes into the first part of its stretch that has room and no such name, and
the same using-directives. Where
a stretch begins depends on the names of its files, so that a new file changes the parts of one stretch and a cache keeps the others.
"""
import argparse
import hashlib
import pathlib
import re

MEAN, MOST = 24, 14          # files of a stretch and of a part; policy: more save little time and leave CPUs idle at the end
TYPE = re.compile(r"^(?:template <.*> )?(?:struct|class|union|enum(?: class)?) (?:\[\[\w+\]\] )?(?:alignas\(.*?\) )?(\w+)")
ALIAS = re.compile(r"^(?:using|namespace) (\w+) =")
MACRO = re.compile(r"^#define (\w+)")
# The last word before the parameters, the value or the end; not that of a qualified name, which its class has declared.
OBJECT = re.compile(r"^[\w\[][^#/]*?(?<![\w:~])(\w+)(?:\[[^\]]*\])?(?:\(| =|\{|;)")
FIXTURE = re.compile(r"^TEST\((\w+), (\w+)\)")
DIRECTIVE = re.compile(r"^using namespace [\w:]+;", re.MULTILINE)
# Names that leave their file; and Asio's own sources, which are many by themselves.
STAYS_ALONE = re.compile(r"^using enum |asio/impl/src", re.MULTILINE)
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
NO_CODE = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')
KEYWORDS = {"namespace", "static_assert", "using", "public", "private", "protected", "TEST", "TEST_F", "TEST_P", "INSTANTIATE_TEST_SUITE_P", "return", "extern"}


def declared(text):
    """Names that the file may declare outside of classes and functions; rather too many than too few."""
    names = set()
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if not line or line[0] in " }/" or DIRECTIVE.match(line):
            continue
        joined = line if line[-1] in ";{" else line + " " + lines[number + 1].strip() if number + 1 < len(lines) else line
        for pattern in (TYPE, ALIAS, MACRO, OBJECT):
            if found := pattern.match(joined):
                names.add(found[1])
        if found := FIXTURE.match(line):
            names.add(f"{found[1]}_{found[2]}_Test")
    return names - KEYWORDS


def used(text):
    """All of the file's words, but those of comments and strings."""
    return set(WORD.findall(NO_CODE.sub("", text)))


def parts(files, read):
    """The files in parts; `read` gives a file's text."""
    made, stretch = [], []  # of the stretch each part with the names that its files declare, and the directives of each of them
    for file in files:
        text = read(file)
        if int(hashlib.sha256(pathlib.Path(file).name.encode()).hexdigest(), 16) % MEAN == 0:
            made, stretch = made + [part for part, *_ in stretch], []
        if STAYS_ALONE.search(text):
            made.append([file])
            continue
        words, directives = used(text), set(DIRECTIVE.findall(text))
        for part, taken, theirs in stretch:
            if len(part) < MOST and directives == theirs and not words & taken:
                part.append(file)
                taken |= declared(text)
                break
        else:
            stretch.append(([file], declared(text), directives))
    return made + [part for part, *_ in stretch]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--include", required=True, type=pathlib.Path)
    parser.add_argument("--into", required=True)
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    sources = []
    for number, part in enumerate(parts(sorted(arguments.files), lambda file: pathlib.Path(file).read_text(encoding="utf-8"))):
        if len(part) == 1:
            sources += part
            continue
        joined = pathlib.Path(f"{arguments.into}_{number}.cc")
        text = "".join(f'#include "{pathlib.Path(file).relative_to(arguments.include)}"\n' for file in part)
        if not joined.exists() or joined.read_text(encoding="utf-8") != text:
            joined.write_text(text, encoding="utf-8")
        sources.append(str(joined))
    print(";".join(sources))


if __name__ == "__main__":
    main()
