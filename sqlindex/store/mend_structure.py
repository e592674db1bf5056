"""What a repair does about the file's structure: its schema and its indexes.

Where an index and its table disagree, what is uncertain is remembered until the repair has ended it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from sqlindex.errors import CorruptIndexError
from sqlindex.store.damage import UNREADABLE, index_disagreements, require_damage
from sqlindex.store.driver import Connection, DatabaseError, is_damage
from sqlindex.store.expected_schema import expected_objects, mendable_faults
from sqlindex.store.header import SCHEMA_VERSION
from sqlindex.store.invariants import SUSPECTS_SETTING
from sqlindex.store.lexical import LEXICAL_TABLES, recreate_table
from sqlindex.store.settings import get_setting, put_setting

# What SQLite's check says of rows; all else it says of pages.
_OF_ROWS = re.compile(
    r"row \d+ missing from index|wrong # of entries in index|non-unique entry in index|NULL value in "
    r"|CHECK constraint failed in |non-\w+ value in |(?:NUMERIC|TEXT) value in |malformed inverted index"
    r"|unable to validate the inverted index|row \d+ values not stored"
)


def mend_structure(connection: Connection, path: Path) -> list[tuple[str, bool]]:
    """Make missing objects of the schema and indexes anew: (what, whether something of truth went).

    Where an index and its table disagree either may be damaged. Versions concerned are remembered
    as suspect in the same transaction, parses lose their checksum, tags go, generations are no
    longer kept: else the damage would pass for truth from now on.

    Args:
        path: for messages.

    Raises:
        CorruptIndexError: pages of a table are damaged; the transaction must be rolled back.
        ForeignSchemaError: the schema holds what this program did not make.
    """
    mended = []
    faults = mendable_faults(connection, path)
    for table in LEXICAL_TABLES:
        if any(name.startswith(f"chunk_fts_{table}") for _, name, _ in faults):
            recreate_table(connection, table)
    for kind, name, detail in faults:
        sql = expected_objects(SCHEMA_VERSION)[kind, name][3]
        if sql is not None and not name.startswith("chunk_fts_"):
            connection.execute(f"DROP {kind} IF EXISTS {name}")
            connection.execute(sql)
        mended.append((detail, False))
    messages = _messages(connection)
    if any(" index " in message for message in messages):
        mended += _remember_suspects(connection)
        try:
            connection.execute("REINDEX")
        except UNREADABLE as exc:
            require_damage(exc)
            raise _unreadable(str(exc)) from exc
        mended.append(("indexes of tables", False))
        messages = _messages(connection)
    of_pages = [message for message in messages if not _OF_ROWS.search(message)]
    if of_pages:
        raise _unreadable(of_pages[0])
    return mended


def _messages(connection: Connection) -> list[str]:
    try:
        rows = connection.execute("PRAGMA integrity_check(1000)").fetchall()
    except DatabaseError as exc:
        if not is_damage(exc):
            raise
        if "fts5" not in str(exc):
            raise _unreadable(str(exc)) from exc
        rows = connection.execute("PRAGMA quick_check(document_version)").fetchall()
    # SQLite 3.44 and later look into the lexical tables too, which are made anew in a step of their own.
    return [
        row[0]
        for row in rows
        if row[0] != "ok" and "fts5" not in row[0] and "chunk_fts" not in row[0]
    ]


def _unreadable(message: str) -> CorruptIndexError:
    return CorruptIndexError(
        f"pages of the file are damaged, which cannot be repaired in place: {message}",
        hint="copy what can be read into a new file (sqlindex repair --salvage NEW.db), or restore a backup",
    )


def _remember_suspects(connection: Connection) -> list[tuple[str, bool]]:
    mended: list[tuple[str, bool]] = []
    try:
        versions = index_disagreements(connection, "document_version")
        parses = index_disagreements(connection, "parse") | index_disagreements(connection, "chunk")
        tags = index_disagreements(connection, "tag")
        generations = index_disagreements(connection, "generation")
    except UNREADABLE as exc:
        require_damage(exc)
        # An index that cannot be read at all says nothing against its table.
        return mended
    suspects = {*suspect_versions(connection), *versions}
    if suspects:
        put_setting(connection, SUSPECTS_SETTING, json.dumps(sorted(suspects, key=str)))
    connection.execute("PRAGMA writable_schema=ON")  # else the missing index entries are an error
    try:
        for parse_id in parses:
            connection.execute("UPDATE parse SET check8 = x'' WHERE parse_id = ?", (parse_id,))  # type: ignore[arg-type]  # a stored value
        for name in tags:
            connection.execute("DELETE FROM tag WHERE name = ?", (name,))  # type: ignore[arg-type]  # a stored value
            mended.append((f"tag {name}: which generation it names is uncertain", True))
        for generation in generations:
            connection.execute(
                "UPDATE generation SET is_kept = 0 WHERE generation = ?",
                (generation,),  # type: ignore[arg-type]  # a stored value
            )
            mended.append((f"generation {generation}: whether it is kept is uncertain", True))
    finally:
        connection.execute("PRAGMA writable_schema=OFF")
    return mended


def suspect_versions(connection: Connection) -> list[int]:
    """Versions that an unfinished repair found in disagreement with an index."""
    stored = get_setting(connection, SUSPECTS_SETTING)
    return [] if stored is None else json.loads(stored)


def forget_suspects(connection: Connection) -> bool:
    """End a repair, as what was suspect is gone; whether anything was."""
    ended = connection.execute("DELETE FROM setting WHERE name = ?", (SUSPECTS_SETTING,))
    return ended.rowcount > 0
