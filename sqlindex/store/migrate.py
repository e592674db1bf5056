"""Make an index file and bring an older one up to date; tables exist only in `migrations/`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlindex.errors import StorageError
from sqlindex.store.backup import back_up_schema, schema_backup
from sqlindex.store.driver import (
    Connection,
    connect,
    is_complete_statement,
    translated_errors,
)
from sqlindex.store.header import APPLICATION_ID
from sqlindex.store.new_file import new_file, remove_database

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


_logger = logging.getLogger(__name__)

PAGE_SIZE = 4_096
"""Smallest log for a small publish; see docs/decisions/0003-page-size.md."""


class Migration(NamedTuple):
    """One numbered step of the schema."""

    number: int
    name: str
    sql: str


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations in order: from the wheel's `sqlindex/migrations`, or beside the package."""
    found = []
    for entry in _folder().iterdir():
        if entry.name.endswith(".sql"):
            number, _, name = entry.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, entry.read_text(encoding="utf-8")))
    found.sort()
    if [m.number for m in found] != list(range(1, len(found) + 1)):
        raise StorageError("the package's migrations are incomplete", hint="install sqlindex again")
    return tuple(found)


def _folder() -> Traversable:
    from importlib import resources

    package = resources.files("sqlindex")
    inside = package.joinpath("migrations")
    if inside.is_dir():
        return inside
    # An editable installation or a plain checkout: hatchling maps the folder only into wheels.
    beside = Path(str(package)).parent / "migrations"
    if beside.is_dir():
        return beside
    raise StorageError("the package's migrations are missing", hint="install sqlindex again")


def create(path: Path) -> None:
    """Make a new, empty index at `path`, complete from the first moment it has that name.

    Raises:
        FileExistsError: something is at `path` already; of several processes one wins.
        StorageError: the folder cannot be written.
    """
    with new_index(path):
        pass


@contextmanager
def new_index(path: Path) -> Iterator[Path]:
    """A new, empty index under a temporary name, put at `path` when the block ends.

    Raises:
        FileExistsError: something is at `path` already.
        StorageError: the folder cannot be written.
    """
    _remove_leftovers(path)
    with new_file(path) as temporary:
        connection = connect(temporary, "rw")
        try:
            with translated_errors(path):
                connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
                connection.execute("PRAGMA secure_delete=OFF")
                connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                apply_pending(connection, from_version=0)
                connection.execute("PRAGMA journal_mode=WAL")
        finally:
            connection.close()
        yield temporary


def bring_up_to_date(path: Path, connection: Connection, *, from_version: int) -> None:
    """Migrate an older index, which only its writer does, and keep a copy of how it was.

    The copy is `NAME.schemaN.bak` beside the index. It stays until the next migration or until its
    owner removes it. A failure or a kill leaves the index with its old schema, as it was.

    Args:
        connection: the writer's.

    Raises:
        StorageError: no space for the copy, or the disk is failing.
        LockedError: an earlier copy of that name is in use.
    """
    kept = back_up_schema(path, from_version)
    with translated_errors(path):
        version = apply_pending(connection, from_version=from_version)
    for earlier in range(1, from_version):
        remove_database(schema_backup(path, earlier))
    # A warning, so that it is told also where nobody has set logging up.
    _logger.warning(
        "the index was brought from schema %d to %d; a copy of how it was is kept beside it as %s",
        from_version,
        version,
        kept.name,
        extra={"event": "index.migrated", "from_schema": from_version, "to_schema": version},
    )


_LEFT_OVER_AFTER_S = 3_600
"""Making an index takes milliseconds: an older temporary file belongs to a process that was killed."""


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of killed processes that were making this index."""
    import re
    import time

    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}\.new(-wal|-shm|-journal)?")
    now = time.time()
    with suppress(OSError):  # what cannot be listed or removed harms nobody
        for entry in os.scandir(path.parent):
            if ours.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                age_s = now - entry.stat(follow_symlinks=False).st_mtime
                if age_s > _LEFT_OVER_AFTER_S:
                    os.unlink(entry)


def apply_pending(
    connection: Connection, *, from_version: int, to_version: int | None = None
) -> int:
    """Apply the migrations after `from_version` in one transaction.

    Args:
        connection: outside of a transaction.
        from_version: the schema version that the file has.
        to_version: the last migration to apply; all if None.

    Returns:
        The schema version afterwards.
    """
    pending = [
        m
        for m in migrations()
        if m.number > from_version and (to_version is None or m.number <= to_version)
    ]
    if not pending:
        return from_version
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in pending:
            for statement in split_statements(migration.sql):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={pending[-1].number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return pending[-1].number


def split_statements(sql: str) -> Iterator[str]:
    """The statements of `sql`; `executescript` would commit between them."""
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if line.rstrip().endswith(";") and is_complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip() and not all(
        line.startswith("--") for line in statement.split("\n") if line.strip()
    ):
        raise StorageError(
            "a migration ends in the middle of a statement", hint="install sqlindex again"
        )
