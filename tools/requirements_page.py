"""What tools/requirements reads: the tables of docs/REQUIREMENTS.md, what they name, and which ids a text cites."""
import dataclasses
import re

PAGE = "docs/REQUIREMENTS.md"
COLUMNS = ["id", "what", "state", "where", "asserted by"]
STATES = ("done", "part", "other", "not yet")
ID = re.compile(r"([RT]-[A-Z]+)-(\d+)([a-z]?)")
_SECTION = re.compile(r"## \d+\. (.+) \(([^()]*)\)")
_TEST = re.compile(r"([\w./-]+\.(?:cc|cpp)): (.+)")


@dataclasses.dataclass(frozen=True)
class Test:
    """`path: Suite.Case`, without what a parameterised name has before and behind."""
    path: str
    suite: str
    case: str

    def __str__(self):
        return f"{self.path}: {self.suite}.{self.case}"


@dataclasses.dataclass
class Row:
    line: int
    section: str
    id: str
    what: str
    state: str
    where: str
    tests: list   # of Test
    stages: list  # names
    malformed: list  # what stands among the assertions and is neither

    @property
    def prefix(self):
        return self.id.rpartition("-")[0]

    @property
    def paths(self):
        """Files and folders that the column `where` names."""
        return re.findall(r"(?<![\w/])((?:src|tests|tools|scripts|docs|cmake)/[\w./-]*\w)", self.where)


@dataclasses.dataclass
class Page:
    rows: list
    sections: dict  # name: prefixes of its ids
    problems: list  # of (line, message)

    def by_id(self):
        return {row.id: row for row in self.rows}


def assertions(cell):
    """(tests, stages, what is neither) of the last column."""
    tests, stages, malformed = [], [], []
    if cell == "-":
        return tests, stages, malformed
    spans = re.findall(r"`([^`]*)`", cell)
    rest = re.sub(r"`[^`]*`", "", cell).strip(" ,")
    malformed += [rest] if rest or not spans else []
    for span in spans:
        if span.startswith("stage:"):
            stages.append(span.removeprefix("stage:"))
            continue
        match = _TEST.fullmatch(span)
        names = [test_name(name.strip()) for name in match.group(2).split(",")] if match else [None]
        if None in names:
            malformed.append(span)
        else:
            tests += [Test(match.group(1), *name) for name in names]
    return tests, stages, malformed


def test_name(name):
    """(suite, case) of `Suite.Case`, `Instance/Suite.Case/0` and `Suite/0.Case`; None when it is none of them."""
    match = re.fullmatch(r"(?:\w*/)?([A-Za-z_]\w*?)(?:/\d+)?\.([A-Za-z_]\w*)(?:/\w+)?", name)
    return match.groups() if match else None


def read_page(text):
    page = Page([], {}, [])
    section, is_table = None, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            match = _SECTION.fullmatch(line)
            section, is_table = (match.group(1) if match else line[3:]), False
            page.sections[section] = [word.strip() for word in match.group(2).split(",")] if match else []
            if not match:
                page.problems.append((number, "a heading reads `## NUMBER. NAME (PREFIX, PREFIX)`"))
        if section is None or not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        if cells == COLUMNS:
            is_table = True
        elif set(line) <= set("|-: "):
            continue
        elif len(cells) != len(COLUMNS) or not is_table:
            page.problems.append((number, f"a row has {len(COLUMNS)} cells below the heading {' | '.join(COLUMNS)}; this one has {len(cells)}"))
        elif not ID.fullmatch(cells[0]):
            page.problems.append((number, f"'{cells[0]}' is no id"))
        else:
            page.rows.append(Row(number, section, *cells[:4], *assertions(cells[4])))
    return page


def citations(text):
    """(position, id) of every id in a text, those within `R-X-1 to R-X-4`, `R-X-1..R-X-4` and `R-X-1 to 4` too."""
    found = [(match.start(), match.group(0)) for match in re.finditer(r"\b[RT]-[A-Z]{2,6}-\d+[a-z]?\b", text)]
    ranges = re.finditer(r"\b([RT]-[A-Z]{2,6})-(\d+)(?:\s*\.\.\s*|\s+to\s+(?:/+\s*)?)(?:\1-)?(\d+)\b", text)
    for match in ranges:
        first, last = int(match.group(2)), int(match.group(3))
        found += [(match.start(), f"{match.group(1)}-{number}") for number in range(first + 1, min(last, first + 100) + 1)]
    return sorted(set(found))


def families(text):
    """(position, prefix) where a text speaks of all ids of a prefix: `R-CM`."""
    return [(match.start(), match.group(0)) for match in re.finditer(r"(?<![\w-])[RT]-[A-Z]{2,6}\b(?!-?\w)", text)]
