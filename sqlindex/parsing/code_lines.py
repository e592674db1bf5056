"""Outlines of shell, fish and SQL, by the lines at the margin."""

from __future__ import annotations

import re

from sqlindex.parsing.code_outline import Definition, MaskedCode, mask

_HASH_COMMENT = re.compile(r"^[ \t]*+(?P<comment>#[^\n]*+)", re.MULTILINE)

_SHELL_LINE = re.compile(
    r"^(?:(?:function[ \t]+(?P<keyword>[^\s(){}]+)(?:[ \t]*\(\))?"
    r"|(?P<name>[^\s(){}=$#\"']+)[ \t]*\([ \t]*\))[ \t]*(?P<rest>[^\n]*+)|(?P<end>[})]))",
    re.MULTILINE,
)
_FISH_LINE = re.compile(
    r"^(?:function[ \t]+(?P<name>[^\s;]+)(?P<rest>[^\n]*+)|(?P<end>end\b))", re.MULTILINE
)
_FISH_ENDS = re.compile(r";\s*end\s*\Z")

_SQL_SKIPPED = re.compile(
    r"(?P<comment>--[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?)"
    r"|\$(?P<tag>\w*+)\$.*?(?:\$(?P=tag)\$|\Z)"
    r"|'(?:[^']++|'')*+'?",
    re.DOTALL,
)
_SQL_ENDS = (";", "/", "GO", "go")
_SQL_LINE = re.compile(
    r"^(?:CREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL|TEMP|TEMPORARY|UNIQUE|MATERIALIZED"
    r"|VIRTUAL|RECURSIVE|UNLOGGED|CONSTRAINT|DEFINER\s*=\s*\S+)\s+)*+"
    r"(?:TABLE|VIEW|FUNCTION|PROCEDURE|TRIGGER|INDEX|TYPE|SCHEMA|SEQUENCE|DOMAIN)\s+"
    r"(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[\w.\"`\[\]]+)"
    r"|(?:CREATE|ALTER|DROP|INSERT|UPDATE|DELETE|SELECT|WITH|GRANT|REVOKE|COMMENT|SET|PRAGMA|COMMIT"
    r"|ROLLBACK|TRUNCATE|COPY|DO|CALL|USE|DELIMITER)\b)",
    re.MULTILINE | re.IGNORECASE,
)


def shell_outline(text: str) -> tuple[MaskedCode, list[Definition]]:
    """Functions at the margin, each up to its brace at the margin."""
    masked = mask(text, _HASH_COMMENT)
    outline: list[Definition] = []
    is_open = False
    for line in _SHELL_LINE.finditer(masked.text):
        if line["end"]:
            if is_open:
                outline[-1].end_char = line.end()
            is_open = False
            continue
        if is_open:
            outline[-1].end_char = line.start()
        group = "keyword" if line["keyword"] else "name"
        start = line.start()
        outline.append(Definition((line[group],), start, line.start(group), line.end()))
        rest = line["rest"].rstrip()
        is_open = not (rest.startswith(("{", "(")) and rest.endswith(("}", ")")))
    if is_open:
        outline[-1].end_char = len(text)
    return masked, outline


def fish_outline(text: str) -> tuple[MaskedCode, list[Definition]]:
    """Functions at the margin, each up to its `end` at the margin."""
    masked = mask(text, _HASH_COMMENT)
    outline: list[Definition] = []
    is_open = False
    for line in _FISH_LINE.finditer(masked.text):
        if is_open:
            outline[-1].end_char = line.end() if line["end"] else line.start()
        is_open = False
        if not line["end"]:
            is_open = _FISH_ENDS.search(line["rest"][-40:]) is None
            end = len(text) if is_open else line.end()
            outline.append(Definition((line["name"],), line.start(), line.start("name"), end))
    return masked, outline


def sql_outline(text: str) -> tuple[MaskedCode, list[Definition]]:
    """What `CREATE` makes, each up to the next statement at the margin.

    A statement begins behind a semicolon: `SELECT` at the margin goes on a `CREATE VIEW … AS`.
    """
    masked = mask(text, _SQL_SKIPPED)
    outline: list[Definition] = []
    is_open = False
    position = 0
    for line in _SQL_LINE.finditer(masked.text):
        before = masked.text[position : line.start()].rstrip()
        if before and not before.endswith(_SQL_ENDS) and not line["name"]:
            continue
        if is_open:
            outline[-1].end_char = position + len(before)
        position = line.start()
        name = re.sub(r'["`\[\]]', "", line["name"] or "")
        is_open = bool(name)
        if is_open:
            outline.append(Definition((name,), position, line.start("name"), len(text)))
    return masked, outline
