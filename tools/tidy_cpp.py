"""What tools/tidy needs to know about C++ text: which characters are code, where functions begin and end, what is included.

A reading by rules of thumb, not a parser: it relies on code that clang-format-19 has laid out.
"""
import dataclasses
import re

_TOKENS = re.compile(
    r"""//[^\n]*(?:\\\n[^\n]*)*"""                      # line comment
    r"""|/\*.*?\*/"""                                   # block comment
    r"""|(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)\""""  # raw string
    r"""|"(?:\\.|[^"\\\n])*\""""                        # string
    r"""|(?<![0-9A-Za-z_])(?:u8|[uUL])?'(?:\\.|[^'\\\n])+'""",  # character; 1'000 is a number
    re.DOTALL | re.VERBOSE)


def code_only(text):
    """The text with comments and the insides of literals turned into blanks; every line keeps its number."""

    def blank(match):
        token = match.group(0)
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        quote = token[-1]
        return quote + re.sub(r"[^\n]", " ", token[1:-1]) + quote if len(token) > 1 else token

    return _TOKENS.sub(blank, text)


def quoted_includes(text):
    """(line, path) of every #include "path"."""
    return [(text.count("\n", 0, match.start()) + 1, match.group(1))
            for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', text, re.MULTILINE)]


def unformatted_blocks(text):
    """(line, text) of every stretch between clang-format off and on."""
    return [(text.count("\n", 0, match.start()) + 1, match.group(0))
            for match in re.finditer(r"//\s*clang-format off.*?(?://\s*clang-format on|\Z)", text, re.DOTALL)]


@dataclasses.dataclass
class Function:
    name: str
    line: int   # of the first word of its head
    lines: int  # from there to the closing brace


_CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|concept)\b|\bextern\s*$|\bextern\s*\"")
_NOT_A_BODY = re.compile(r"(?:[=(,\[{<]|\breturn)\s*$")
_NAME = re.compile(r"(operator\s*[^\s(]+|~?[A-Za-z_][\w:~]*)\s*(?:<[^<>]*>)?\s*\($")


def _without_preprocessor(code):
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: re.sub(r"[^\n]", " ", match.group(0)), code, flags=re.MULTILINE)


def _matching_brace(code, start):
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if match.group(0) == "{" else -1
        if depth == 0:
            return match.start()
    return len(code) - 1


def _is_container(head):
    """Whether the brace after this head opens a namespace, a class or the like."""
    head = re.sub(r"\btemplate\s*<[^{}]*?>(?=\s*(?:class|struct|union|requires|concept)\b)", "", head)
    head = re.sub(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)", "", head, flags=re.DOTALL)
    found = _CONTAINER.search(head)
    return bool(found) and "(" not in head[:found.start()] and not re.search(r"\)\s*(?:const|noexcept|override|final|\s)*$", head)


def functions(code):
    """Every function body outside other function bodies, as Function; takes what code_only() gives."""
    code = _without_preprocessor(code)
    found = []
    position = head_start = 0
    for_next = re.compile(r"[{};]")
    while (match := for_next.search(code, position)):
        character, at = match.group(0), match.start()
        head = code[head_start:at]
        if character in ";}":
            position = head_start = at + 1
            continue
        if _is_container(head):
            position = head_start = at + 1
            continue
        end = _matching_brace(code, at)
        following = code[end + 1:end + 40].lstrip()[:1]
        if "(" not in head or _NOT_A_BODY.search(head) or following in (",", "{", ")"):
            position = end + 1  # an initialiser: the head goes on behind it
            continue
        found.append(_function(code, head_start, head, end))
        position = head_start = end + 1
    return found


def _function(code, head_start, head, end):
    head = re.sub(r"^(\s*(?:public|private|protected)\s*:)", lambda match: " " * len(match.group(0)), head)
    first = head_start + len(head) - len(head.lstrip())
    flat = re.sub(r"\[\[.*?\]\]", "", head, flags=re.DOTALL)
    name = next((match.group(1) for index, character in enumerate(flat) if character == "("
                 if (match := _NAME.search(flat[:index + 1]))), "a lambda")
    if name.startswith("TEST"):
        name = re.sub(r"\s+", "", flat.strip())
    line = code.count("\n", 0, first) + 1
    return Function(name, line, code.count("\n", first, end) + 1)
