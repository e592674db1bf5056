"""Copy what can be read of a file with damaged pages into a new one.

Only tables are read, never an index: indexes and the lexical tables are made anew in the new file,
and `repair` then names what the lost rows took along.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from sqlindex.errors import UsageError
from sqlindex.store.damage import UNREADABLE, require_damage
from sqlindex.store.driver import (
    Connection,
    DatabaseError,
    Row,
    connect,
    is_damage,
    translated_errors,
)
from sqlindex.store.expected_schema import expected_objects, mendable_faults
from sqlindex.store.header import SCHEMA_VERSION
from sqlindex.store.migrate import new_index

_BATCH = 1_000
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'chunk_fts_*' AND name NOT GLOB 'sqlite_*'"
_COLUMNS = "SELECT name, pk FROM pragma_table_xinfo(?) ORDER BY cid"
_SEQUENCE = """
    INSERT INTO sqlite_sequence SELECT 'build', max(build_id) FROM (
      SELECT build_id FROM build UNION ALL SELECT build_id FROM generation UNION ALL SELECT build_id FROM document_version)
"""


def salvage(damaged: Connection, path: Path, out: Path) -> list[str]:
    """Make an index at `out` of the rows that can be read; the tables of which some cannot.

    Args:
        damaged: of the writer of the damaged file, set to read any text; it is only read.
        path: of that file, for messages.
        out: the new file.

    Raises:
        UsageError: there is something at `out`.
        StorageError: it cannot be written.
        ForeignSchemaError: the damaged file holds what this program did not make and could run.
    """
    mendable_faults(damaged, path)
    try:
        with new_index(out) as temporary, translated_errors(out):
            return _fill(damaged, temporary)
    except FileExistsError:
        raise UsageError(f"{out} exists already", hint="name a new file") from None


def _fill(damaged: Connection, temporary: Path) -> list[str]:
    new = connect(temporary, "rw", is_repair=True)
    try:
        new.execute("PRAGMA ignore_check_constraints=ON")
        new.execute("PRAGMA secure_delete=OFF")
        triggers = [row for row in expected_objects(SCHEMA_VERSION).values() if row[0] == "trigger"]
        for _, name, _, _ in triggers:
            new.execute(f"DROP TRIGGER {name}")
        tables = [row[0] for row in new.execute(_TABLES)]
        torn = [table for table in tables if not _copy(damaged, new, table)]
        new.execute("DELETE FROM sqlite_sequence")
        new.execute(_SEQUENCE)
        for *_, sql in triggers:
            new.execute(sql)
    finally:
        new.close()
    return torn


def _copy(damaged: Connection, new: Connection, table: str) -> bool:
    """Copy a table from both its ends up to what cannot be read; whether all of it could."""
    columns = new.execute(_COLUMNS, (table,)).fetchall()
    keys = [(pk, at, name) for at, (name, pk) in enumerate(columns) if pk]
    key_places = [at for _, at, _ in sorted(keys)]
    put = f"INSERT OR IGNORE INTO {table} VALUES({', '.join('?' * len(columns))})"
    new.execute(f"DELETE FROM {table}")
    for direction in ("ASC", "DESC"):
        order = ", ".join(f"{name} {direction}" for _, _, name in sorted(keys))
        query = f"SELECT * FROM {table} NOT INDEXED ORDER BY {order}"
        rows = _sound_rows(damaged, query, key_places, is_ascending=direction == "ASC")
        is_whole = True
        while batch := list(islice(rows, _BATCH)):
            sound = [row for row in batch if row is not None]
            is_whole = _put(new, put, sound) and len(sound) == len(batch) and is_whole
        if is_whole:
            return True
    return False


def _sound_rows(
    damaged: Connection, query: str, key_places: list[int], *, is_ascending: bool
) -> Iterator[Row | None]:
    """Rows up to the first that cannot be read; None in place of those that may be another's.

    A row whose key does not lie between those beside it has a damaged key, or stands beside one: its
    values could pass for those of another key.
    """

    def key(row: Row) -> Row:
        return tuple(row[at] for at in key_places)

    held: Row | None = None
    has_risen = True
    try:
        for row in damaged.execute(query):
            if held is not None:
                one, other = (held, row) if is_ascending else (row, held)
                try:
                    rises = bool(key(one) < key(other))
                except TypeError:
                    rises = False
                yield held if has_risen and rises else None
                has_risen = rises
            held = row
    except DatabaseError as exc:
        if not is_damage(exc):
            raise
        yield None
    if held is not None:
        yield held if has_risen else None


def _put(new: Connection, put: str, batch: list[Row]) -> bool:
    """Store rows; those that no table takes are left out. Whether all were stored."""
    new.execute("BEGIN")
    try:
        new.executemany(put, batch)
        is_whole = True
    except UNREADABLE as exc:
        require_damage(exc)
        is_whole = False
        for row in batch:
            try:
                new.execute(put, row)
            except UNREADABLE as exc:  # of a wrong type, or no UTF-8
                require_damage(exc)
    new.execute("COMMIT")
    return is_whole
