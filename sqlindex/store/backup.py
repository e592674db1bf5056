"""A consistent copy of a live index as a new file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlindex.errors import DuplicateError, UsageError
from sqlindex.store.byte_locks import lock_path
from sqlindex.store.driver import Connection, connect, copy_pages, translated_errors
from sqlindex.store.head import read_head
from sqlindex.store.header import verify_header
from sqlindex.store.lock import WriterLock
from sqlindex.store.new_file import SIDECARS, new_file

if TYPE_CHECKING:
    from sqlindex.store.connection import IndexFile


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy of an index.

    Attributes:
        path: the copy.
        generation: its head.
        file_bytes: its size.
    """

    path: str
    generation: int
    file_bytes: int


def back_up(
    file: IndexFile, target: Path, *, replaces: bool, step: Callable[[int, int], None]
) -> Backup:
    """Copy the index, as it is at one moment, to `target`.

    Readers and the writer go on; the log cannot be cut before the copy is made. An unfinished build
    is copied as it is: the next refresh of the copy goes on with it or drops it.

    Args:
        target: its folder must exist; the copy has mode 0600 and gets that name when it is whole and
            synced.
        replaces: whether an index may be there that nobody has open.
        step: called with (pages copied, pages in all) after every MB; may raise to cancel.

    Raises:
        DuplicateError: something is at `target` already.
        UsageError: `target` is the index or one of its sidecars.
        NotAnIndexError: what would be replaced is no index.
        LockedError: what would be replaced is in use.
        StorageError: the target's folder cannot be written, or the disk is full.
    """
    target = Path(os.path.realpath(target.parent)) / target.name
    _refuse_own_files(file.path, target)
    with file.reading(is_new=True, is_timed=False) as connection:
        generation = read_head(connection).generation
        if not os.path.lexists(target):
            try:
                with new_file(target) as temporary:
                    copy_to(connection, temporary, target, step)
            except FileExistsError:
                raise _taken(target) from None
        elif replaces:
            copy_over(connection, target, step)
        else:
            raise _taken(target)
    return Backup(str(target), generation, os.stat(target).st_size)


def back_up_schema(path: Path, version: int) -> Path:
    """Copy an index of an older schema to `NAME.schemaN.bak` beside it; only for its writer.

    An earlier copy of that name is replaced, unless somebody has it open.
    """
    target = schema_backup(path, version)
    with translated_errors(path):
        connection = connect(path, "ro")
        try:
            connection.execute("BEGIN")
            if os.path.lexists(target):
                copy_over(connection, target, lambda done, total: None)
            else:
                with new_file(target) as temporary:
                    copy_to(connection, temporary, target, lambda done, total: None)
        finally:
            connection.close()
    return target


def schema_backup(path: Path, version: int) -> Path:
    """Where the copy of an index lies that was made before it left a schema."""
    return path.with_name(f"{path.name}.schema{version}.bak")


def copies_beside(path: Path) -> list[Path]:
    """Copies of an index beside it that this package made: before a migration, or left of a copy
    that was killed."""
    name = path.name
    found = [
        entry
        for entry in os.listdir(path.parent)
        if (entry.startswith(f"{name}.schema") and entry.endswith(".bak"))
        or (entry.startswith(f".{name}.") and entry.endswith(".new"))
    ]
    return [path.with_name(entry) for entry in sorted(found)]


def copy_to(
    connection: Connection, temporary: Path, target: Path, step: Callable[[int, int], None]
) -> None:
    """Fill the empty file at `temporary` with what the open read transaction sees.

    Args:
        target: the name that errors tell.
    """
    with translated_errors(target):
        copy = connect(temporary, "rw")
        try:
            copy.execute("PRAGMA synchronous=OFF")  # whoever puts the file in place syncs it
            copy_pages(connection, copy, step)
            copy.execute("PRAGMA journal_mode=WAL").fetchone()
        finally:
            copy.close()


def _refuse_own_files(index: Path, target: Path) -> None:
    own = [index, lock_path(index), *(Path(f"{index}{suffix}") for suffix in SIDECARS)]
    if target in own or (target.exists() and os.path.samefile(index, target)):
        raise UsageError(
            f"{target} belongs to the index itself", hint="name another file for the backup"
        )


def _taken(target: Path) -> DuplicateError:
    return DuplicateError(
        f"there is something at {target} already",
        hint="name another file, or use --force to replace an earlier backup",
    )


def copy_over(connection: Connection, target: Path, step: Callable[[int, int], None]) -> None:
    """Let the index at `target` hold what the open read transaction sees, in one transaction of it.

    The file stays the same one: whoever has it open goes on with what it held, and its log never
    meets another file. A failure, a cancel or a kill leaves what was there.

    Raises:
        NotAnIndexError: it is no index.
        LockedError: somebody writes it.
        StorageError: no space; the log of the target takes the size of the copy.
    """
    if not stat.S_ISREG(os.lstat(target).st_mode):
        raise UsageError(f"{target} is not a regular file", hint="name another file for the backup")
    verify_header(target)
    lock = WriterLock(target)
    lock.acquire("backup")
    try:
        with translated_errors(target):
            copy = connect(target, "rw")
            try:
                copy.execute("PRAGMA wal_autocheckpoint=0")
                copy.execute("PRAGMA synchronous=FULL")
                copy_pages(connection, copy, step)
                copy.execute("PRAGMA journal_mode=WAL").fetchone()
                copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                copy.close()
    finally:
        lock.release()
