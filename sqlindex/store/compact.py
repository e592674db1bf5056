"""Give free space back: page by page, or by writing the whole file anew.

The file keeps its inode in either case. Readers of other processes find the log by the name of the
file they opened; with another file under that name, log and file would no longer belong together
(docs/decisions/0021-compaction.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqlindex.cancellation import CancelToken
from sqlindex.errors import HeadMovedError, SqlindexError, StorageError
from sqlindex.store.collect import Collected, collect
from sqlindex.store.driver import (
    connect,
    copy_pages,
    file_uri,
    stopped_by,
    translated_errors,
)
from sqlindex.store.head import read_head
from sqlindex.store.lexical import clear_table, merge_step
from sqlindex.store.new_file import remove_database
from sqlindex.store.writer import Writer

CompactMode = Literal["incremental", "full"]

_FORGET_STAGED = "UPDATE build SET lexical = NULL"
_STEP_PAGES = 1_000
"""Pages given back in one transaction: at most about 12 MB of log."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What compacting did.

    Attributes:
        mode: `incremental` or `full`.
        collected: what was collected before.
        file_bytes_before, file_bytes_after: size of the index file.
        log_bytes: what is left of the log. If it is not 0, a reader still needs it, and the file
            shrinks when the next writer closes.
    """

    mode: CompactMode
    collected: Collected
    file_bytes_before: int
    file_bytes_after: int
    log_bytes: int

    @property
    def freed_bytes(self) -> int:
        """What the file lost; negative if it grew."""
        return self.file_bytes_before - self.file_bytes_after


def compact(
    writer: Writer, mode: CompactMode, cancel: CancelToken, step: Callable[[int, int], None]
) -> Compaction:
    """Collect what is no longer kept, then give free pages back to the file system.

    `incremental` moves pages from the end of the file into free ones and cuts it, in transactions of
    4 MB. Bytes of deleted rows can remain inside pages that are still used. `full` merges the lexical
    tables, writes all that is live to a second file and copies that back in one transaction: nothing
    deleted is left. It needs the file's size twice on disk while it runs, once beside the index and
    once in the log, and reads and writes all of it.

    Readers go on. A failure, a cancel or a kill leaves the index as it was, or smaller.

    Args:
        step: called with (pages done, pages in all) between steps.

    Raises:
        CancelledError: cancelled.
        LockedError: another program writes the index.
        StorageError: the disk is full or failing.
    """
    path = writer.path
    before = os.stat(path).st_size
    collected = collect(writer, cancel)
    if mode == "full":
        merge_lexical(writer, cancel)
        rewrite(writer, cancel, step)
    else:
        _give_pages_back(writer, cancel, step)
    writer.empty_log()
    return Compaction(mode, collected, before, os.stat(path).st_size, writer.log_bytes())


def merge_lexical(writer: Writer, cancel: CancelToken) -> None:
    """Empty the spare lexical table and merge the head's into one segment, in small transactions.

    A search finds the same before, between and after the steps. A build that filled the spare table
    fills it again.
    """
    table = read_head(writer.connection).lexical
    with writer.transaction() as connection:
        connection.execute(_FORGET_STAGED)
        clear_table(connection, "a" if table == "b" else "b")
    is_first = is_unfinished = True
    while is_unfinished:
        cancel.check()
        with writer.transaction() as connection:
            is_unfinished = merge_step(connection, table, is_first=is_first)
        is_first = False
        writer.bound_log()


def rewrite(writer: Writer, cancel: CancelToken, step: Callable[[int, int], None]) -> None:
    """Write the file anew from its live rows alone, in one transaction."""
    scratch = writer.path.with_name(f".{writer.path.name}.compact")
    remove_database(scratch)  # of a process that was killed; only the writer makes it
    try:
        _make_scratch(scratch, writer.path)
        version = _data_version(writer)
        _write_anew(writer.path, scratch, cancel)

        def checked_step(done: int, total: int) -> None:
            cancel.check()
            # From the first step on nobody else can write; before it, a program that does not ask
            # for the writer's lock could, and its change must not be lost.
            if _data_version(writer) != version:
                raise HeadMovedError(
                    f"another program wrote index {writer.path} while it was compacted",
                    hint="nothing was changed; run it again",
                )
            step(done, total)

        _copy_back(scratch, writer.path, checked_step)
    finally:
        remove_database(scratch)


def _write_anew(path: Path, scratch: Path, cancel: CancelToken) -> None:
    target = file_uri(scratch)
    connection = connect(path, "ro", copies_to=target)
    try:
        with translated_errors(path), stopped_by(cancel, connection):
            connection.execute("VACUUM INTO ?", (target,))
    except SqlindexError:
        cancel.check()  # an interrupted one can say that its second file cannot be opened
        raise
    finally:
        connection.close()


def _copy_back(scratch: Path, path: Path, step: Callable[[int, int], None]) -> None:
    origin = connect(scratch, "ro")
    try:
        with translated_errors(path):
            target = connect(path, "rw")
            try:
                target.execute("PRAGMA wal_autocheckpoint=0")
                target.execute("PRAGMA synchronous=FULL")
                copy_pages(origin, target, step)
            finally:
                target.close()
    finally:
        origin.close()


def _give_pages_back(writer: Writer, cancel: CancelToken, step: Callable[[int, int], None]) -> None:
    free = writer.connection.execute("PRAGMA freelist_count").fetchone()[0]
    for done in range(0, free, _STEP_PAGES):
        cancel.check()
        step(done, free)
        with writer.transaction() as connection:
            for _ in range(min(_STEP_PAGES, free - done)):
                # One page a statement: drivers differ in how many of several they take.
                connection.execute("PRAGMA incremental_vacuum(1)").fetchall()
        writer.bound_log()


def _data_version(writer: Writer) -> int:
    return int(writer.connection.execute("PRAGMA data_version").fetchone()[0])


def _make_scratch(scratch: Path, path: Path) -> None:
    try:
        os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as exc:
        raise StorageError(
            f"cannot compact index {path}: {exc.strerror}",
            hint="check the permissions of its folder and the space on the disk",
        ) from exc
