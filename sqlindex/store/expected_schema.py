"""Whether a file's schema is the one that the migrations make.

SQLite compiles and runs what a file's schema says: triggers, views, generated columns, indexes on
expressions, virtual tables. So it is compared, object by object and word by word. Tables of others
are left alone if nothing in them can run: no view, no trigger, no virtual table, no expression.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

from sqlindex.errors import ForeignSchemaError
from sqlindex.store.driver import Connection, Row, connect_memory
from sqlindex.store.header import SCHEMA_VERSION

# Of `SCHEMA_VERSION`, so that opening an index reads no SQL files; a test compares them with what the
# migrations make.
_NAMES = """
    build build_lexical build_removes chunk chunk_fts_a chunk_fts_a_config chunk_fts_a_data
    chunk_fts_a_docsize chunk_fts_a_idx chunk_fts_b chunk_fts_b_config chunk_fts_b_data
    chunk_fts_b_docsize chunk_fts_b_idx chunk_text collection content content_piece
    document_name document_version embedding_text expectation expectation_document file_stat gated_refusal generation generation_kept head link
    link_key name_key parse question refused_document section setting source source_name
    sqlite_autoindex_content_1 sqlite_autoindex_embedding_text_1 sqlite_autoindex_parse_1
    sqlite_autoindex_question_1 sqlite_autoindex_vector_space_1 sqlite_sequence tag tag_generation unused_parse unused_space
    unused_since unused_text v_backlink v_chunk v_document v_generation v_head v_link v_question v_refused v_vector
    vector vector_refusal vector_space version_build version_died version_document
    version_frozen version_gone version_kept version_live version_names version_parse
    version_path version_slot version_staged_first
"""
OBJECT_NAMES = frozenset(_NAMES.split())
SCHEMA_FINGERPRINT = "a62c314e67447083f50610f2e9b9cb91"

Objects: TypeAlias = Mapping[tuple[str, str], Row]
"""(type, name, table, SQL text) by (type, name)."""

# The statistics of ANALYZE, as SQLite makes their tables: they steer plans and run nothing.
_OBJECTS = """
    SELECT type, name, tbl_name, sql FROM sqlite_schema
    WHERE sql IS NULL OR sql NOT IN (
      'CREATE TABLE sqlite_stat1(tbl,idx,stat)',
      'CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)')
    ORDER BY type, name, tbl_name, sql
"""
# `rank` there names a function with arguments, which FTS5 would call.
_LEXICAL_SETTINGS = """
    SELECT k FROM chunk_fts_a_config WHERE typeof(v) <> 'integer'
    UNION ALL SELECT k FROM chunk_fts_b_config WHERE typeof(v) <> 'integer'
"""
_FIRST_WITH_LEXICAL_TABLES = 4
_OF_LEXICAL_TABLES = "chunk_fts_"
"""So begin the names of the tables that FTS5 keeps and would take for its own."""

_COMPUTED_COLUMNS = "SELECT count(*) FROM pragma_table_xinfo(?) WHERE hidden <> 0"
_COMPUTED_INDEX = """
    SELECT (SELECT count(*) FROM sqlite_schema s, pragma_index_list(s.tbl_name) i
            WHERE s.name = :name AND i.name = :name AND i.partial)
      + (SELECT count(*) FROM pragma_index_xinfo(:name) WHERE cid = -2)
"""


def fingerprint(objects: Sequence[Row]) -> str:
    """Short text that changes with every word of the objects, (type, name, table, SQL text) each."""
    # ascii() quotes: no text in a schema can look like two.
    return blake2b(ascii(objects).encode(), digest_size=16).hexdigest()


def verify_schema(connection: Connection, path: Path, version: int) -> None:
    """Refuse a file in which an object of ours is missing or changed, or a dangerous one was added.

    Args:
        connection: to the file; nothing of its content is read.
        path: for the message.
        version: of the schema that the file says it has; 1 to `SCHEMA_VERSION`.

    Raises:
        ForeignSchemaError: the message names the object.
    """
    rows = connection.execute(_OBJECTS).fetchall()
    ours = [row for row in rows if row[1] in OBJECT_NAMES]
    if version != SCHEMA_VERSION or fingerprint(ours) != SCHEMA_FINGERPRINT:
        fault = _find_fault(connection, rows, expected_objects(version))
    elif len(ours) < len(rows):
        others = [row for row in rows if row[1] not in OBJECT_NAMES]
        fault = _find_added(connection, others, OBJECT_NAMES)
    else:
        fault = None
    if fault:
        raise _refused(path, fault)
    if version >= _FIRST_WITH_LEXICAL_TABLES:
        for (name,) in connection.execute(_LEXICAL_SETTINGS):
            raise _refused(path, f"its lexical table has a foreign setting {name!r}")


def mendable_faults(connection: Connection, path: Path) -> list[tuple[str, str, str]]:
    """Objects of ours that are missing or were changed and can be made anew: (type, name, fault).

    The shadow tables of a lexical table stand for it; an object that was changed counts unless it
    is a table with rows of its own.

    Raises:
        ForeignSchemaError: a table was changed, or something was added that could run.
    """
    rows = connection.execute(_OBJECTS).fetchall()
    expected = expected_objects(SCHEMA_VERSION)
    found = {(row[0], row[1]): row for row in rows}
    faults = []
    for key, wanted in expected.items():
        kind, name = key
        fault = "is missing" if key not in found else "was changed"
        if found.get(key) == wanted:
            continue
        if fault == "was changed" and kind == "table" and not name.startswith(_OF_LEXICAL_TABLES):
            raise _refused(path, f"{kind} {name!r} {fault}")
        faults.append((kind, name, f"{kind} {name!r} {fault}"))
    for table in ("a", "b"):
        config = f"{_OF_LEXICAL_TABLES}{table}_config"
        settings = f"SELECT k FROM {config} WHERE typeof(v) <> 'integer'"
        if ("table", config) in found and connection.execute(settings).fetchone():
            faults.append(("table", config, f"table {config!r} has a foreign setting"))
    added = _find_added(
        connection, [row for row in rows if (row[0], row[1]) not in expected], OBJECT_NAMES
    )
    if added:
        raise _refused(path, added)
    return faults


def _refused(path: Path, fault: str) -> ForeignSchemaError:
    return ForeignSchemaError(
        f"index {path} is not as this program makes it: {fault}",
        hint="run 'sqlindex repair', or restore a backup; what was added by mistake can be dropped with the sqlite3 shell",
    )


@cache
def expected_objects(version: int) -> Objects:
    """What the migrations up to `version` make."""
    from sqlindex.store.migrate import apply_pending

    connection = connect_memory()
    try:
        apply_pending(connection, from_version=0, to_version=version)
        return {(row[0], row[1]): row for row in connection.execute(_OBJECTS)}
    finally:
        connection.close()


def _find_fault(connection: Connection, rows: Sequence[Row], expected: Objects) -> str | None:
    """The first object that must not be as it is."""
    found: set[tuple[str, str]] = set()
    others = []
    for row in rows:
        key = (row[0], row[1])
        if key not in expected or key in found:
            others.append(row)
        elif row != expected[key]:
            return f"{row[0]} {row[1]!r} was changed"
        found.add(key)
    for kind, name in expected:
        if (kind, name) not in found:
            return f"{kind} {name!r} is missing"
    # A name that a pending migration needs is as good as taken.
    return _find_added(connection, others, OBJECT_NAMES | {name for _, name in expected})


def _find_added(
    connection: Connection, others: Iterable[Row], our_names: Collection[str]
) -> str | None:
    """The first object of others that could run something, or is attached to a table of ours."""
    for kind, name, table, sql in others:
        is_ours = str(name).lower() in our_names or str(table).lower() in our_names
        if is_ours or not _runs_nothing(connection, kind, name, sql):
            return f"{kind} {name!r} was added"
    return None


def _runs_nothing(connection: Connection, kind: object, name: object, sql: object) -> bool:
    if not isinstance(name, str):
        return False
    if kind == "table":
        # Anything but these words may be a virtual table, which is not even to be loaded.
        is_plain = isinstance(sql, str) and sql.startswith("CREATE TABLE ")
        if not is_plain or name.lower().startswith(_OF_LEXICAL_TABLES):
            return False
        computed = connection.execute(_COMPUTED_COLUMNS, (name,)).fetchone()[0]
        return bool(computed == 0)
    if kind == "index":
        computed = connection.execute(_COMPUTED_INDEX, {"name": name}).fetchone()[0]
        return bool(computed == 0)
    return False
