"""What the runs of clients found, a row for each client and thing it does, and the document that is made of the rows.

Every runner stores its rows below the build folder; compatibility.py writes docs/COMPATIBILITY.md from them and checks it
against them. Rows hold nothing that differs from run to run: no times, no counts of a part. Standard library only.
"""
import dataclasses
import json
import pathlib
import shutil
import subprocess

FOLDER = "client-verdicts"       # below the build folder
WORKS, FAILED = "works", "does not work"
HEADER = ("client", "version", "what ran", "verdict")


@dataclasses.dataclass(frozen=True, order=True)
class Row:
    client: str
    what: str
    verdict: str
    version: str = ""


LIBRARY_OF = {"ucp_connect": "libucx0"}  # programs of our own stand for the package whose interface they use


def version_of(program):
    """Name and version of the package that a program belongs to, as Debian has it; empty when no package has it."""
    if program in LIBRARY_OF:
        return version_of_package(LIBRARY_OF[program])
    path = shutil.which(program)
    if not path:
        return ""
    for name in dict.fromkeys((path, str(pathlib.Path(path).resolve()))):
        owner = subprocess.run(["dpkg-query", "--search", name], capture_output=True, text=True)
        if owner.returncode == 0:
            return version_of_package(owner.stdout.split(":")[0].split(",")[0])
    return ""


def version_of_package(package):
    form = "${Package} ${Version}\n"  # without the architecture, which Debian adds to some
    shown = subprocess.run(["dpkg-query", "--show", f"--showformat={form}", package], capture_output=True, text=True)
    return shown.stdout.split("\n")[0]


def summarize(outcomes):
    """Rows of runs: those that are refused, by the program itself or by Weft, have one of their own for each reason."""
    found = {}
    for outcome in outcomes:
        case = outcome.case
        refused = f"refused by {case.refused_by}: {case.reason or case.refusal}" if outcome.verdict == "refused" else ""
        found.setdefault((case.program, case.aspect, refused), []).append(outcome.verdict)
    rows = []
    for (client, what, refused), found_verdicts in found.items():
        rows.append(Row(client, what, FAILED if "FAILED" in found_verdicts else refused or WORKS))
    return rows


def open_for(folder, suite):
    """The file that a suite's rows go to; for who gives up the right to open it later."""
    path = pathlib.Path(folder) / FOLDER / f"{suite}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return open(path, "w", encoding="utf-8")


def store(folder, suite, rows, whole):
    """Keeps a suite's rows; `whole` when nothing of the suite was left out."""
    with open_for(folder, suite) as file:
        write(file, rows, whole)


def write(file, rows, whole):
    versions = {client: version_of(client) for client in {row.client for row in rows if not row.version}}
    kept = [dataclasses.asdict(dataclasses.replace(row, version=row.version or versions[row.client])) for row in sorted(rows)]
    json.dump({"whole": whole, "rows": kept}, file, indent=1)
    file.write("\n")


def load(folder):
    """{suite: (whole, rows)} of every suite that has run."""
    suites = {}
    for path in sorted((pathlib.Path(folder) / FOLDER).glob("*.json")):
        stored = json.loads(path.read_text(encoding="utf-8"))
        suites[path.stem] = (stored["whole"], [Row(**row) for row in stored["rows"]])
    return suites


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def render(suites, introductions):
    """The document's tables: {suite: rows} in the order of introductions, {suite: what stands above its table}."""
    lines = []
    for suite, introduction in introductions.items():
        lines += ["", f"## {suite}", "", introduction, "", "| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
        lines += ["| " + " | ".join(cell(text) for text in (f"`{row.client}`", row.version, row.what, row.verdict)) + " |"
                  for row in sorted(suites.get(suite, []))]
    return "\n".join(lines) + "\n"


def parse(text):
    """{suite: rows} of a rendered document."""
    suites, suite = {}, None
    for line in text.splitlines():
        if line.startswith("## "):
            suite = line[3:]
        cells = [part.strip().replace("\\|", "|") for part in line.replace("\\|", "\0").split("|")[1:-1]]
        cells = [part.replace("\0", "|") for part in cells]
        if suite and len(cells) == len(HEADER) and cells[0].startswith("`"):
            suites.setdefault(suite, []).append(Row(cells[0].strip("`"), cells[2], cells[3], cells[1]))
    return suites


def differences(documented, suites):
    """What the document says otherwise than the last runs, in words. Rows of a suite that ran in part may be missing."""
    found = []
    for suite, (whole, rows) in suites.items():
        said = {(row.client, row.what): row.verdict for row in documented.get(suite, []) if not is_refusal(row)}
        refusals = {(row.client, row.what, row.verdict) for row in documented.get(suite, []) if is_refusal(row)}
        for row in rows:
            name = f"{suite}: {row.client}: {row.what}"
            if is_refusal(row):
                if (row.client, row.what, row.verdict) not in refusals:
                    found.append(f"{name}: {row.verdict}; the document does not say so")
            elif said.get((row.client, row.what)) != row.verdict:
                found.append(f"{name}: {row.verdict}; the document says: {said.get((row.client, row.what), 'nothing')}")
        if whole:
            ran = {(row.client, row.what) for row in rows}
            found += [f"{suite}: {row.client}: {row.what}: in the document, but it did not run"
                      for row in documented.get(suite, []) if (row.client, row.what) not in ran]
    return found


def is_refusal(row):
    return row.verdict.startswith("refused")
