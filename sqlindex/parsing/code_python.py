"""Outline of Python: definitions by indentation."""

from __future__ import annotations

import re

from sqlindex.parsing.code_outline import Definition, MaskedCode, mask

_SKIPPED = re.compile(
    r"(?P<comment>#[^\n]*+)"
    r'|"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?'
    r"|'''(?:[^'\\]++|\\.|'(?!''))*+(?:''')?"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'(?:[^'\\\n]++|\\.)*+'?"
    r"|(?P<mark>\\\r?\n)",
    re.DOTALL,
)
_TOKENS = re.compile(r"[(\[{]|[)\]}]|^[ \t\f]*+(?=[^\s)\]}])", re.MULTILINE)
_DEFINITION = re.compile(r"(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)[ \t]*[(:\[]")


def python_outline(text: str) -> tuple[MaskedCode, list[Definition]]:
    """Outline of a Python file, in time linear in its length.

    A definition ends before the first line that is indented no deeper, lines within brackets
    aside. A definition that begins within brackets shows that they were never closed.
    """
    masked = mask(text, _SKIPPED)
    code = masked.text
    outline: list[Definition] = []
    open_definitions: list[tuple[int, Definition]] = []
    brackets = 0
    decorator: int | None = None
    for token in _TOKENS.finditer(code):
        kind = token[0]
        if kind and kind in "([{":
            brackets += 1
            continue
        if kind and kind in ")]}":
            brackets = max(brackets - 1, 0)
            continue
        start = token.end()
        definition = _DEFINITION.match(code, start) if code[start] in "adc" else None
        if brackets and definition is None:
            continue
        brackets = 0
        indent = len(kind.expandtabs())
        while open_definitions and open_definitions[-1][0] >= indent:
            # The blank lines and comments between are sorted out with the sections.
            open_definitions.pop()[1].end_char = _end_of_code(code, token.start())
        if definition is not None:
            found = Definition(
                names=(definition[1],),
                start_char=start if decorator is None else decorator,
                name_char=definition.start(1),
                end_char=len(text),
            )
            siblings = open_definitions[-1][1].members if open_definitions else outline
            siblings.append(found)
            open_definitions.append((indent, found))
        if code[start] != "@":
            decorator = None
        elif decorator is None:
            decorator = start
    return masked, outline


def _end_of_code(code: str, end: int) -> int:
    """Offset after the last character before `end` that is neither blank nor a comment."""
    while end and code[end - 1].isspace():
        end -= 1
    return end
