"""What languages with braces have in common: strings, comments, parentheses in headers."""

from __future__ import annotations

import re

COMMENTS = r"(?P<comment>//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?)"
STRING = r'"(?:[^"\\\n]++|\\.)*+"?'
SINGLE_QUOTED = r"'(?:[^'\\\n]++|\\.)*+'?"


def skipped(*alternatives: str) -> re.Pattern[str]:
    """Pattern of what `mask` blanks."""
    return re.compile("|".join(alternatives), re.DOTALL | re.MULTILINE)


def flat_header(header: str) -> str:
    """The header with dots for what stands in its parentheses."""
    if "(" not in header:
        return header
    pieces: list[str] = []
    depth = position = 0
    for token in re.finditer(r"[()]", header):
        at = token.start()
        if token[0] == "(":
            if depth == 0:
                pieces.append(header[position : at + 1])
                position = at + 1
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                pieces.append("." * (at - position))
                position = at
    pieces.append(header[position:] if depth == 0 else "." * (len(header) - position))
    return "".join(pieces)


def last_match(pattern: re.Pattern[str], header: str) -> re.Match[str] | None:
    """The last match in a header, where statements above it may lack a semicolon."""
    last = None
    for match in pattern.finditer(header):
        last = match
    return last


def angle_end(text: str) -> int:
    """Offset after the `>` that closes the `<` at the start of `text`."""
    depth = 0
    for token in re.finditer(r"<|(?<!-)>", text):
        depth += 1 if token[0] == "<" else -1
        if depth == 0:
            return token.end()
    return len(text)
