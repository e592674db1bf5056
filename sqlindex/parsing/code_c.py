"""C and C++: what a header before `{` defines."""

from __future__ import annotations

import re

from sqlindex.parsing.code_braces import INLINE, BraceLanguage, Found, Inline, Scope
from sqlindex.parsing.code_headers import (
    COMMENTS,
    SINGLE_QUOTED,
    STRING,
    angle_end,
    flat_header,
    skipped,
)
from sqlindex.parsing.code_preprocessor import one_branch_of_each

_C_LABELS = re.compile(
    r"(?:\s|(?:public|private|protected|signals|(?:public|private|protected)?\s*slots)\s*:)*"
)
_C_TYPE = re.compile(
    r"\b(?P<kind>class|struct|union|enum|namespace)\b"
    r"(?:\s+(?:(?:class|struct|alignas|[A-Z][A-Z_]{2,}|__\w+)(?:\s*\([^()]*\))?|\[\[[^\]]*\]\]))*"
    r"\s+(?P<name>\w+(?:::\w+)*)(?!\s*\()"
)
_C_TYPE_BELOW = re.compile(
    r"\)\s*?\n(?=\s*+(?:typedef\s+)?(?:class|struct|union|enum|namespace)\b[^()]*+\Z)"
)
_C_TEMPLATE = re.compile(r"\s*+template\s*+(?=<)")
_C_NAMELESS = re.compile(r"(?:inline\s+)?namespace\s*\Z|extern\s*\"\s*\"\s*\Z")
_C_OPERATOR = r"operator\s*(?:\(\s*\)|[^\s\w(]+|\w[\w\s:<>*&]*?|\"\"?\s*\w+)"
_C_CALLABLE = re.compile(
    rf"(?<!\w)(?P<name>(?:\w+(?:<[^<>()]*>)?\s*::\s*)*+(?:{_C_OPERATOR}|~?[A-Za-z_]\w*+))\s*\("
)
_C_AFTER = re.compile(
    r"\)\s*(?:\Z|const\b|noexcept\b|override\b|final\b|volatile\b|&|:|->|try\b|requires\b|throw\b"
    r"|__attribute__)"
)
_C_NO_FUNCTION = frozenset(
    (
        "if",
        "for",
        "while",
        "switch",
        "catch",
        "return",
        "sizeof",
        "else",
        "do",
        "decltype",
        "__attribute__",
        "__declspec",
        "alignas",
        "defined",
        "constexpr",
        "noexcept",
        "requires",
    )
)
_C_COLON = re.compile(r"(?<!:):(?!:)")
_C_WORD_LAST = re.compile(r"[\w>]\s*\Z")
_C_INITIALISER = re.compile(r"\)(?:[^:]++|::)*+:")


def _c(header: str, scope: Scope) -> Found | Inline | None:
    labels = _C_LABELS.match(header)
    start = labels.end() if labels else 0
    flat = flat_header(header)
    plain = start
    while template := _C_TEMPLATE.match(flat, plain):
        plain = template.end() + angle_end(flat[template.end() :])
    if bare := _C_TYPE_BELOW.search(flat):
        return _c_type(flat, bare.end(), bare.end())
    callables = [m for m in _C_CALLABLE.finditer(flat, plain) if m["name"] not in _C_NO_FUNCTION]
    found = next((m for m in callables if _C_AFTER.match(flat, flat.find(")", m.end()))), None)
    found = found or (callables[-1] if callables else None)
    if found is None or _is_type_first(flat, plain, found.start()):
        return _c_type(flat, start, plain)
    if "=" in flat[plain : found.start()]:
        return None
    behind = flat.find(")", found.end())
    if behind >= 0 and _C_INITIALISER.match(flat, behind) and _C_WORD_LAST.search(flat[-40:]):
        return INLINE
    names = tuple(_c_name(part) for part in re.split(r"\s*::\s*", found["name"]))
    return Found(names, start, found.start("name"), Scope.FUNCTION)


def _c_name(part: str) -> str:
    if not part.startswith("operator"):
        part = part.partition("<")[0]
    return " ".join(part.split())


def _is_type_first(flat: str, start: int, end: int) -> bool:
    """Whether a base clause stands before the first parenthesis: `class A : public B<f(1)>`."""
    found = _C_TYPE.match(flat, start)
    return (
        found is not None
        and re.match(r"\s*(?:final\s*)?:(?!:)", flat[found.end() : end]) is not None
    )


def _c_type(flat: str, start: int, plain: int) -> Found | None:
    """A class or namespace that begins at `start`, its template parameters before `plain`."""
    plain += len(flat[plain:]) - len(flat[plain:].lstrip())
    if _C_NAMELESS.match(flat, plain):
        return Found((), start, start, Scope.OUTER)
    bases = _C_COLON.search(flat, plain)
    end = bases.start() if bases else len(flat)
    if "=" in flat[plain:end]:
        return None
    found = None
    for match in _C_TYPE.finditer(flat, plain, end):
        found = match
    if found is None:
        return None
    inside = Scope.OUTER if found["kind"] == "namespace" else Scope.CLASS
    return Found(tuple(found["name"].split("::")), start, found.start("name"), inside)


_C_SKIPPED = skipped(
    r"(?P<mark>#(?:[^\\\n/]++|\\\r?\n|\\|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|/)*+)",
    COMMENTS,
    r'\b(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?(?:\)(?P=delimiter)"|\Z)',
    STRING,
    r"(?<![0-9A-Fa-f])" + SINGLE_QUOTED,
)
C = BraceLanguage(skipped=_C_SKIPPED, classify=_c, prepare=one_branch_of_each)
