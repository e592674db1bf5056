"""The reader of a database file: a process of its own that only reads.

It opens the file so that nothing is changed: `mode=ro`, `query_only`, and an authorizer that lets
only reads through. Started by `sqlite_file`; the first message names the file and the columns, each
further one asks for all rows or for those of one id.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sqlindex.errors import SourceError, SqlindexError, UsageError
from sqlindex.sources.paths import document_id_of, path_of
from sqlindex.sources.table_frames import encoded, read_frame, write_frame
from sqlindex.sources.table_rows import MAX_ROW_CHARS, Value, id_of, row_chars, values_of
from sqlindex.sources.table_selection import SqliteTable, id_parameters, select
from sqlindex.store.driver import Connection, DatabaseError, connect_foreign

_FRAME_BYTES = 256 * 1024
"""Rows are sent together up to this size."""

_MAGIC = b"SQLite format 3\0"
_WAL_VERSION = 2

_CAUSES = {
    5: ("is locked by another program", "retry when it is done"),
    6: ("is locked by another program", "retry when it is done"),
    8: ("cannot be read without changing it", "open it once with the program it belongs to"),
    10: ("could not be read from the disk", "check the disk"),
    11: ("is damaged", "check it with its own program: PRAGMA integrity_check"),
    14: ("cannot be opened", "check the permissions of the file, its log and its folder"),
    23: ("is asked for more than reading", "a query may only read tables and call functions"),
    26: ("is not an SQLite database", "name an SQLite file that is not encrypted"),
}
_ERROR = 1
_READONLY = 8


def main() -> None:
    """Serve requests on standard input."""
    _end_with_parent()
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        # Nobody listens any more; the interpreter would complain when it flushes at its end.
        os._exit(0)


def _end_with_parent() -> None:
    """End this process as soon as nobody holds the other end of its standard input.

    It may be in the middle of a long statement then, and its parent may have been killed.
    """
    if os.name != "posix":
        return
    from select import poll

    hangup = poll()
    hangup.register(sys.stdin.fileno(), 0)

    def wait() -> None:
        hangup.poll()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Open the database that the first message names, and answer the others until they end.

    An error ends it and is its last message.
    """
    path = Path()
    try:
        opening = read_frame(requests)
        path = Path(os.fsdecode(path_of(opening["path"])))
        database = _open(path, opening["timeout_ms"])
        wanted = SqliteTable.from_options(opening["table"])
        while (request := read_frame(requests)) is not None:
            _answer(replies, database, wanted, request)
    except (SqlindexError, DatabaseError) as exc:
        error = exc if isinstance(exc, SqlindexError) else explained(exc, path)
        is_usage = isinstance(error, UsageError)
        message = {"error": str(error), "hint": error.hint, "is_usage": is_usage}
        write_frame(replies, encoded(message))


def explained(exc: Exception, path: Path) -> SqlindexError:
    """What an error of SQLite on a file that is not ours means."""
    code = getattr(exc, "sqlite_errorcode", None) or 0
    if code == _ERROR:
        return UsageError(
            f"database {_shown(path)} refuses the statement: {exc}",
            hint="a query is one SELECT that only reads tables and calls functions",
        )
    # Not every driver tells the extended code SQLITE_READONLY_ROLLBACK.
    if code & 0xFF == _READONLY and _size(Path(f"{path}-journal")):
        return SourceError(
            f"database {_shown(path)} was left in the middle of a write, and its journal "
            "cannot be rolled back without changing it",
            hint="open it once with the program it belongs to",
        )
    what, hint = _CAUSES.get(code & 0xFF, ("cannot be read", "see the cause"))
    return SourceError(f"database {_shown(path)} {what}: {exc}", hint=hint)


@dataclass(frozen=True, slots=True)
class _Database:
    path: Path
    connection: Connection
    frozen_state: tuple[int, ...] | None
    """For a file that is read without locks: what it was when it was opened."""

    def require_unchanged(self) -> None:
        """Refuse what was read without locks from a file that was written meanwhile."""
        if self.frozen_state is not None and self.frozen_state != _state(self.path):
            raise SourceError(
                f"database {_shown(self.path)} changed while it was read without locks",
                hint="refresh again; its owner's refresh can lock it",
            )


def _open(path: Path, timeout_ms: int) -> _Database:
    _require_database(path)
    is_frozen = _is_at_rest(path) and not (_has_sidecars(path) or _may_make_sidecars(path))
    state = _state(path) if is_frozen else None
    connection = connect_foreign(path, is_immutable=is_frozen, timeout_ms=timeout_ms)
    return _Database(path, connection, state)


def _require_database(path: Path) -> None:
    """Look at the file before SQLite does: it would wait at a FIFO."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SourceError(
                f"database {_shown(path)} is not a regular file", hint="name an SQLite file"
            )
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except OSError as exc:
        raise SourceError(
            f"database {_shown(path)} cannot be opened: {exc.strerror}",
            hint="check the path and its permissions",
        ) from exc
    if head and head != _MAGIC:
        raise SourceError(
            f"database {_shown(path)} is not an SQLite database",
            hint="name an SQLite file that is not encrypted",
        )


def _is_at_rest(path: Path) -> bool:
    """Whether the file is in WAL mode, and no log holds more of it."""
    with path.open("rb") as file:
        is_wal = file.read(20)[19:] == bytes((_WAL_VERSION,))
    return is_wal and not _size(Path(f"{path}-wal"))


def _may_make_sidecars(path: Path) -> bool:
    """Whether sidecars that SQLite makes here would be the owner's; others lock the owner out."""
    if not hasattr(os, "geteuid"):
        return True
    # As root SQLite gives them to the owner of the file.
    is_owner = os.geteuid() in (0, os.stat(path).st_uid)
    return is_owner and _can(path.parent, os.W_OK | os.X_OK)


def _has_sidecars(path: Path) -> bool:
    return all(_can(Path(f"{path}{suffix}"), os.R_OK) for suffix in ("-wal", "-shm"))


def _can(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _shown(path: Path) -> str:
    return document_id_of(os.fsencode(path))


def _state(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    log = _size(Path(f"{path}-wal"))
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, log)


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _answer(replies: IO[bytes], database: _Database, wanted: SqliteTable, request: Any) -> None:
    execute = database.connection.execute
    selection = select(execute, wanted)
    document_id = request.get("id")
    if document_id is None:
        rows = execute(selection.list_sql)
    else:
        rows = execute(selection.point_sql, id_parameters(document_id))
    write_frame(replies, encoded({"text": selection.text}))
    for rows_together in _together(values_of(row, selection.encoding) for row in rows):
        write_frame(replies, b'{"rows":[' + b",".join(rows_together) + b"]}")
    database.require_unchanged()
    write_frame(replies, encoded({"end": True}))


def _together(rows: Iterator[list[Value]]) -> Iterator[list[bytes]]:
    waiting: list[bytes] = []
    size = 0
    for values in rows:
        row = encoded(_sendable(values))
        waiting.append(row)
        size += len(row)
        if size >= _FRAME_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _sendable(values: Sequence[Value]) -> object:
    """The row, or its id and length if it is too long."""
    chars = row_chars(values)
    if chars <= MAX_ROW_CHARS:
        return values
    identity = id_of(values[0])
    is_short = identity is not None and len(identity) <= MAX_ROW_CHARS // 2
    return {"id": identity if is_short else None, "chars": chars}


if __name__ == "__main__":
    main()
