"""The tables of docs/reference/file-format.md, from the migrations' own comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlindex.store.driver import connect_memory
from sqlindex.store.migrate import migrations, split_statements

BEGIN = "<!-- generated: from here on by python -m tests.docs.generate --write -->"

_CREATE = re.compile(
    r"CREATE (?:UNIQUE )?(?P<kind>TABLE|VIRTUAL TABLE|VIEW|INDEX|TRIGGER) (?P<name>\w+)"
)
_ON = re.compile(r"(?:ON|(?:INSERT|UPDATE|DELETE) ON) (?P<table>\w+)")
_COLUMN = re.compile(
    r"  (?P<name>\w+) (?P<type>INTEGER|TEXT|BLOB|REAL)(?P<rest>[^-]*?),?(?:\s+-- (?P<text>.*))?"
)
_NO_COLUMN = ("PRIMARY KEY(", "UNIQUE(", "CHECK(")


@dataclass(slots=True)
class _Made:
    """One created thing: what the comment above it says, and its statement."""

    kind: str
    name: str
    comment: str
    sql: str
    migration: str
    attached: list[str] = field(default_factory=list)


def render(page: str) -> str:
    """The page with everything behind the mark made anew; what stands before it is written by hand."""
    head = page.split(BEGIN)[0]
    made = list(_all_made())
    by_name = {one.name: one for one in made}
    for one in made:
        if one.kind in ("INDEX", "TRIGGER"):
            found = _ON.search(one.sql)
            assert found is not None
            by_name[found["table"]].attached.append(_attached(one))
    parts = [head + BEGIN + "\n\n## Tables\n"]
    parts += [_table(one) for one in made if one.kind in ("TABLE", "VIRTUAL TABLE")]
    parts.append("\n## Views\n\nThe views answer for the head.\n")
    connection = connect_memory()
    for migration in migrations():
        for statement in split_statements(migration.sql):
            connection.execute(statement)
    for one in made:
        if one.kind == "VIEW":
            rows = connection.execute("SELECT name FROM pragma_table_info(?)", (one.name,))
            columns = ", ".join(f"`{row[0]}`" for row in rows)
            parts.append(f"\n### `{one.name}`\n\n{one.comment}\n\nColumns: {columns}.\n")
    connection.close()
    return "".join(parts)


def _all_made() -> Iterator[_Made]:
    for migration in migrations():
        for statement in split_statements(migration.sql):
            lines = statement.strip("\n").split("\n")
            # A blank line parts what a whole file says from what its first statement says.
            while "" in lines[: _first_of_sql(lines)]:
                lines = lines[lines.index("") + 1 :]
            at = _first_of_sql(lines)
            comment = " ".join(line.removeprefix("--").strip() for line in lines[:at])
            sql = "\n".join(lines[at:])
            found = _CREATE.match(sql)
            if found is not None:
                number = f"{migration.number:04d}_{migration.name}"
                yield _Made(found["kind"], found["name"], comment, sql, number)


def _first_of_sql(lines: list[str]) -> int:
    return next(i for i, line in enumerate(lines) if line and not line.startswith("--"))


def _table(one: _Made) -> str:
    parts = [f"\n### `{one.name}`\n"]
    if one.comment:
        parts.append(f"\n{one.comment}\n")
    if one.kind == "VIRTUAL TABLE":
        parts.append(f"\n```text\n{one.sql.rstrip(';')}\n```\n")
        return "".join(parts)
    parts.append("\n| Column | Type | Meaning |\n| --- | --- | --- |\n")
    rules = []
    for line in one.sql.split("\n")[1:]:
        column = _COLUMN.fullmatch(line)
        if column is not None:
            kind = " ".join(f"{column['type']} {column['rest']}".replace("|", "\\|").split())
            parts.append(f"| `{column['name']}` | `{kind}` | {column['text'] or ''} |\n")
        elif line.strip().startswith(_NO_COLUMN):
            rules.append(f"`{line.strip().rstrip(',')}`")
    notes = [*rules, *one.attached]
    if notes:
        parts.append("\n" + "".join(f"- {note}\n" for note in notes))
    return "".join(parts)


def _attached(one: _Made) -> str:
    if one.kind == "TRIGGER":
        message = re.search(r"RAISE\(ABORT, '(?P<text>.*?)'\)", one.sql)
        return f"trigger `{one.name}`: {message['text'] if message else one.comment}"
    unique = "unique index" if one.sql.startswith("CREATE UNIQUE") else "index"
    shape = " ".join(one.sql.rstrip(";").split(" ON ", 1)[1].split())
    return f"{unique} `{one.name}` on `{shape}`"
