"""Which rows and columns of another database are documents, and the statements that read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from sqlindex.encodable import is_encodable
from sqlindex.errors import UsageError

Names: TypeAlias = str | Sequence[str]
Execute: TypeAlias = Callable[[str, Sequence[Any]], Any]
"""Runs one statement with positional values; gives a cursor that can be iterated."""

_PLAIN_ROLES = ("title", "date", "tags", "uri", "path")
_SEVERAL = ("text", "metadata")

_TOKEN = re.compile(
    r"""
    (?P<skipped>\s+ | --[^\n]* | /\*.*?\*/)
    | (?P<quoted>'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\])
    | (?P<word>\w+)
    | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_FIRST_WORDS = ("SELECT", "WITH", "VALUES")

_COLUMNS = "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?) ORDER BY cid"
_KIND = "SELECT type, wr FROM pragma_table_list WHERE name = ? COLLATE NOCASE"
_HIDDEN_OF_VIRTUAL_TABLE = 1


@dataclass(frozen=True, slots=True)
class SqliteTable:
    """A table, a view or a query of another database, and what its columns are.

    Attributes:
        table: name of a table or view; or
        query: one SELECT, run as it is given, as a sub-select.
        id: column of the identity: text or integers, none twice. By default the primary key if it
            is one column, else the rowid; for a view or a query it must be named.
        text: columns that are searched, joined by a blank line. By default those declared as text
            (of a query: all) that have no other role here.
        title, date, tags, uri, path: columns as the fields of `Document`.
        metadata: columns that become fields for filters, under their names.
        type_name: extension of the file type whose parser reads the texts, without dot.

    Raises:
        UsageError: not exactly one of table and query, or a query that is no single SELECT.
    """

    table: str | None = None
    query: str | None = None
    id: str | None = None
    text: tuple[str, ...] = ()
    title: str | None = None
    date: str | None = None
    tags: str | None = None
    uri: str | None = None
    path: str | None = None
    metadata: tuple[str, ...] = ()
    type_name: str = "txt"

    def __post_init__(self) -> None:
        for name in _SEVERAL:
            object.__setattr__(self, name, several(getattr(self, name)))
        object.__setattr__(self, "type_name", self.type_name.removeprefix(".").lower())
        if (self.table is None) == (self.query is None):
            raise UsageError("name either a table or a query", hint="exactly one of the two")
        if self.query is not None:
            _require_select(self.query)
            if self.id is None:
                raise UsageError(
                    "the documents of a query need an id", hint="name the column that is the id"
                )
        for given in (
            self.query,
            self.table,
            self.id,
            *self.text,
            *self.metadata,
            *self._plain().values(),
        ):
            _require_name(given)

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> SqliteTable:
        """What `as_options` wrote down; fields of other versions are left out."""
        known = {field.name for field in fields(cls)}
        chosen: dict[str, Any] = {name: v for name, v in options.items() if name in known}
        return cls(**chosen)

    def as_options(self) -> dict[str, object]:
        """The fields that are set, as JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in values.items() if v}

    @property
    def label(self) -> str:
        """Names the table or the query in messages."""
        return "the query" if self.table is None else f"table {self.table!r}"

    def roles(self) -> tuple[str | None, ...]:
        """Columns in the order in which `Selection` reads them, without those of the text."""
        return (self.id, *(self._plain().values()), *self.metadata)

    def _plain(self) -> dict[str, str | None]:
        return {name: getattr(self, name) for name in _PLAIN_ROLES}


@dataclass(frozen=True, slots=True)
class Selection:
    """The statements for one state of the schema.

    A row has two cells for each of id, title, date, tags, uri, path, the metadata columns and the
    text columns: the value, text as bytes in the database's encoding, and whether it is a blob. So
    neither the text factory nor the converters of a host's connection come into play, and text
    that is not decodable spoils its own row only.

    Attributes:
        list_sql: all rows.
        point_sql: rows whose id compares equal to one of two parameters.
        encoding: of the database: `utf-8`, `utf-16-le` or `utf-16-be`.
        text: the text columns.
    """

    list_sql: str
    point_sql: str
    encoding: str
    text: tuple[str, ...]


def select(execute: Execute, wanted: SqliteTable) -> Selection:
    """Look at the schema and make the statements.

    Raises:
        UsageError: the table or a column is not there, or there is nothing to take as id or text.
    """
    declared = _columns(execute, wanted)
    identity = (
        _quoted(wanted.id) if wanted.id is not None else _default_id(execute, wanted, declared)
    )
    named = [column for column in (*wanted.roles(), *wanted.text) if column is not None]
    if declared is not None:
        known = {_folded(name) for name in declared}
        # The rowid has a name, and no column.
        known.update({"rowid", "_rowid_", "oid"} if wanted.table is not None else ())
        for column in named:
            if _folded(column) not in known:
                raise UsageError(
                    f"{wanted.label} has no column {column!r}",
                    hint=f"its columns: {', '.join(declared) or 'none'}",
                )
    text = wanted.text or _default_text(wanted, declared, identity)
    rest = [None if column is None else _quoted(column) for column in wanted.roles()[1:]]
    columns = [identity, *rest, *(_quoted(column) for column in text)]
    cells = ", ".join(_cells(column, number) for number, column in enumerate(columns))
    if wanted.query is None:
        assert wanted.table is not None
        everything = point = _quoted(wanted.table)
    else:
        # The line break ends a comment. LIMIT keeps SQLite from folding the query into ours, which
        # would compute each expression three times and lose its order.
        point = f"({_without_end(wanted.query)}\n)"
        everything = f"(SELECT * FROM {point} LIMIT -1)"
    ((encoding,),) = _rows(execute("PRAGMA encoding", ()))
    list_sql = f"SELECT {cells} FROM {everything} AS d"
    if declared is None:
        execute(f"{list_sql} LIMIT 0", ())
    return Selection(
        list_sql=list_sql,
        point_sql=f"SELECT {cells} FROM {point} AS d WHERE d.{identity} IN (?, ?)",
        encoding={"UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}.get(_as_str(encoding), "utf-8"),
        text=text,
    )


def several(names: Names) -> tuple[str, ...]:
    """One name or several."""
    return (names,) if isinstance(names, str) else tuple(names)


def id_parameters(document_id: str) -> tuple[str | int, str | int]:
    """What the id column may hold for this document: the text, or the integer it spells."""
    if re.fullmatch("0|-?[1-9][0-9]{0,18}", document_id):
        number = int(document_id)
        if -(2**63) <= number < 2**63:
            return document_id, number
    return document_id, document_id


def _cells(column: str | None, number: int) -> str:
    if column is None:
        return f"NULL AS c{number}, 0 AS b{number}"
    # Qualified: SQLite takes an unknown name in double quotes that stands alone for a text.
    return (
        f"CASE WHEN typeof(d.{column}) = 'text' THEN CAST(d.{column} AS BLOB) ELSE d.{column} END "
        f"AS c{number}, typeof(d.{column}) = 'blob' AS b{number}"
    )


def _columns(execute: Execute, wanted: SqliteTable) -> dict[str, tuple[str, int]] | None:
    """(declared type, place in the primary key) by column; None if the driver does not say."""
    if wanted.query is not None:
        names = _names_of_query(execute, wanted.query)
        return None if names is None else dict.fromkeys(names, ("", 0))
    assert wanted.table is not None
    columns = {
        _as_str(name): (_as_str(declared), pk)
        for name, declared, pk, hidden in _rows(execute(_COLUMNS, (wanted.table,)))
        if hidden != _HIDDEN_OF_VIRTUAL_TABLE
    }
    if not columns:
        raise UsageError(
            f"there is no table {wanted.table!r}", hint="names are those of the database's schema"
        )
    return columns


def _names_of_query(execute: Execute, query: str) -> list[str] | None:
    cursor = execute(f"SELECT * FROM ({_without_end(query)}\n) LIMIT 0", ())
    try:
        return [column[0] for column in cursor.description]
    except Exception:
        # apsw describes no statement that has ended; whether the columns are there is tried then.
        return None


def _default_id(
    execute: Execute, wanted: SqliteTable, declared: Mapping[str, tuple[str, int]] | None
) -> str:
    assert declared is not None
    keys = [name for name, (_, place) in declared.items() if place]
    if len(keys) == 1:
        return _quoted(keys[0])
    kinds = list(_rows(execute(_KIND, (wanted.table,))))
    has_rowid = all(_as_str(kind) != "view" and not without_rowid for kind, without_rowid in kinds)
    taken = {_folded(name) for name in declared}
    free = [name for name in ("rowid", "_rowid_", "oid") if name not in taken]
    if not has_rowid or not free:
        raise UsageError(
            f"{wanted.label} has no rowid and no primary key of one column",
            hint=f"name the column that is the id: {', '.join(declared)}",
        )
    return free[0]


def _default_text(
    wanted: SqliteTable, declared: Mapping[str, tuple[str, int]] | None, identity: str
) -> tuple[str, ...]:
    others = {_folded(column) for column in wanted.roles() if column is not None}
    found = tuple(
        name
        for name, (declared_type, _) in (declared or {}).items()
        if (wanted.query is not None or _is_text(declared_type))
        and _folded(name) not in others
        and _quoted(name) != identity
    )
    if not found:
        raise UsageError(
            f"{wanted.label} has no text column to take by default",
            hint=f"name the text columns: {', '.join(declared or ())}",
        )
    return found


def _is_text(declared_type: str) -> bool:
    """Whether SQLite gives a column of that type text affinity."""
    upper = declared_type.upper()
    return "INT" not in upper and any(part in upper for part in ("CHAR", "CLOB", "TEXT"))


def _require_select(query: str) -> None:
    """Refuse what is not one SELECT: what stands in the parentheses of ours must stay in them."""
    signs = [match for match in _TOKEN.finditer(query.rstrip()) if match.lastgroup != "skipped"]
    first = signs[0][0].upper() if signs else ""
    depth = 0
    for position, match in enumerate(signs):
        sign = match[0]
        if match.lastgroup != "sign":
            continue
        depth += (sign == "(") - (sign == ")")
        is_end = sign == ";" and position == len(signs) - 1
        # A quote or a bracket by itself is one that nothing closes.
        is_open = sign in "'\"`[" or query.startswith("/*", match.start())
        if depth < 0 or is_open or sign in "\0?:@$" or (sign == ";" and not is_end):
            break
    else:
        if depth == 0 and first in _FIRST_WORDS:
            return
    raise UsageError(
        "the query is not one SELECT statement without parameters",
        hint="it may begin with SELECT, WITH or VALUES",
    )


def _without_end(query: str) -> str:
    """The query without a semicolon at its end, before or behind comments."""
    ends = [m.start() for m in _TOKEN.finditer(query) if m.lastgroup == "sign" and m[0] == ";"]
    return query if not ends else query[: ends[-1]] + query[ends[-1] + 1 :]


def _require_name(name: object) -> None:
    if name is None:
        return
    if not isinstance(name, str) or not name or "\0" in name:
        raise UsageError(f"{name!r} is no query or name", hint="a text, not empty")
    if not is_encodable(name):
        raise UsageError(f"{name!r} is not encodable to UTF-8", hint="check the name")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _folded(name: str) -> str:
    """SQLite compares names without regard to the case of ASCII letters."""
    return re.sub("[A-Z]+", lambda match: match[0].lower(), name)


def _rows(cursor: Iterable[Any]) -> Iterable[tuple[Any, ...]]:
    return (cells(row) for row in cursor)


def cells(row: Any) -> tuple[Any, ...]:
    """The cells of a row, in whatever form the host's connection makes its rows."""
    return tuple(row.values()) if isinstance(row, Mapping) else tuple(row)


def _as_str(value: str | bytes) -> str:
    # A host's text factory may leave names as bytes.
    return value.decode() if isinstance(value, bytes) else value
