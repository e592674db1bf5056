"""C's conditional lines: of branches that open different braces, only the first one counts."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DIRECTIVE = re.compile(r"#[ \t]*+(?P<kind>if|el|endif)")
_BRACES = str.maketrans("{}", "  ")


@dataclass(slots=True)
class _Branches:
    """An open `#if`: braces open before it, behind its first branch; where later ones are."""

    before: int
    after_first: int | None = None
    branch_start: int = 0


def one_branch_of_each(text: str, code: str) -> str:
    """Blank directives, and the braces of `#else` and `#elif` branches that do not balance.

    Args:
        text: the file, in which directives are read.
        code: the same without comments and strings; of a directive only `#` is left.
    """
    if "#" not in text:
        return code
    open_braces = position = 0
    stack: list[_Branches] = []
    blanked: list[tuple[int, int]] = []
    for directive in _DIRECTIVE.finditer(text):
        at = directive.start()
        if code[at] != "#":
            continue  # in a comment or a string
        open_braces += code.count("{", position, at) - code.count("}", position, at)
        position = at
        if directive["kind"] == "if":
            stack.append(_Branches(open_braces))
            continue
        if not stack:
            continue
        branches = stack[-1]
        if branches.after_first is None:
            branches.after_first = open_braces
        elif (branches.after_first, open_braces) != (branches.before, branches.before):
            blanked.append((branches.branch_start, at))
        open_braces = branches.before
        branches.branch_start = at
        if directive["kind"] == "endif":
            open_braces = branches.after_first
            stack.pop()
    return _without_braces(code, blanked).replace("#", " ")


def _without_braces(code: str, spans: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in sorted(spans):
        if end > position:
            pieces.append(code[position : max(start, position)])
            pieces.append(code[max(start, position) : end].translate(_BRACES))
            position = end
    pieces.append(code[position:])
    return "".join(pieces)
