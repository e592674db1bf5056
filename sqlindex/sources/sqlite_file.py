"""A table or query of a database file, as documents: read by a process of its own."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from typing import Any

from sqlindex.child_process import ChildProcess
from sqlindex.errors import SourceError, SqlindexError, UsageError
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal
from sqlindex.sources.paths import document_id_of, path_of
from sqlindex.sources.table_frames import (
    BrokenFrameError,
    encoded,
    read_frame,
    value_of,
    write_frame,
)
from sqlindex.sources.table_rows import Entry, entry_of, only_document, too_large
from sqlindex.sources.table_selection import SqliteTable

BUSY_TIMEOUT_MS = 5_000


def canonical_database(path: str | os.PathLike[str]) -> str:
    """The one spelling under which a database is registered: absolute, without links, escaped.

    Raises:
        UsageError: there is no such file.
    """
    given = os.fspath(path)
    real = os.path.realpath(os.path.expanduser(given))
    if not os.path.isfile(real):
        what = "is not a regular file" if os.path.exists(real) else "does not exist"
        raise UsageError(f"database {given!r} {what}", hint="give the path of an SQLite file")
    return document_id_of(os.fsencode(real))


class SqliteFileSource:
    """Rows of a database file as documents.

    The file is opened read-only in a child process, so that this process may have it open with any
    SQLite library. The child makes no sidecars that its owner could not write, and never changes the
    file. It ends with the listing; it never outlives this object.

    Args:
        name: unique within the index.
        root: the database as `canonical_database` gave it.
        wanted: which rows and columns.
        busy_timeout_ms: how long to wait for a lock on the database.
        timeout_s: how long the child may be silent; None for as long as it takes.
    """

    def __init__(
        self,
        name: str,
        root: str,
        wanted: SqliteTable,
        *,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        timeout_s: float | None = None,
    ) -> None:
        self._name = name
        self._root = root
        self._wanted = wanted
        self._opening = encoded(
            {"path": root, "table": wanted.as_options(), "timeout_ms": busy_timeout_ms}
        )
        self._timeout_s = timeout_s
        self._last: tuple[DocumentRef, RawDocument] | None = None
        self._point_reader: _Reader | None = None

    @property
    def name(self) -> str:
        """Unique within the index."""
        return self._name

    def list(self) -> Iterator[DocumentRef | Refusal]:
        """Yield every row of one snapshot in the order of the table or query.

        Raises:
            SourceError: the database cannot be read, a column is gone, or the child died.
        """
        reader = self._reader()
        with closing(reader), closing(self._entries(reader, {})) as entries:
            for entry in entries:
                if isinstance(entry, Refusal):
                    yield entry
                else:
                    self._last = entry
                    yield entry[0]

    def read(self, ref: DocumentRef) -> RawDocument | Refusal:
        """The row listed last, which is at hand, or any other one by its id.

        Raises:
            SourceError: the database cannot be read, or two rows have this id.
        """
        if self._last is not None and self._last[0].document_id == ref.document_id:
            return self._last[1]
        if self._point_reader is None:
            self._point_reader = self._reader()
        try:
            entries = self._entries(self._point_reader, {"id": ref.document_id})
            return only_document(self._name, ref, entries)
        except SqlindexError:
            self._point_reader.close()
            self._point_reader = None
            raise

    def check(self) -> None:
        """Read the first row.

        Raises:
            UsageError: the table or a column is not there.
            SourceError: the database cannot be read.
        """
        reader = self._reader()
        with closing(reader), closing(self._received(reader, {})) as messages:
            for message in messages:
                if "rows" in message:
                    break

    def _reader(self) -> _Reader:
        path = os.fsdecode(path_of(self._root))
        if os.path.realpath(path) != path:
            raise SourceError(
                f"source {self._name!r}: a part of {self._root} is a symbolic link now",
                hint="register the database anew if it has moved",
            )
        return _Reader(self._root, self._opening, self._timeout_s)

    def _entries(self, reader: _Reader, request: dict[str, str]) -> Generator[Entry, None, None]:
        text_columns: list[str] = []
        number = 0
        try:
            for message in self._received(reader, request):
                text_columns = message.get("text", text_columns)
                for row in message.get("rows", ()):
                    number += 1
                    if isinstance(row, dict):
                        yield too_large(row["id"] or f"row {number}", row["chars"])
                    else:
                        values = [value_of(value) for value in row]
                        yield entry_of(values, self._wanted, text_columns, number)
        except UsageError as exc:  # it was there when the source was registered
            raise SourceError(f"source {self._name!r}: {exc}", hint=exc.hint) from exc

    def _received(
        self, reader: _Reader, request: dict[str, str]
    ) -> Generator[dict[str, Any], None, None]:
        reader.ask(request)
        while "end" not in (message := reader.next_message()):
            yield message


class _Reader:
    """The child process. Closing kills it; so does forgetting it."""

    def __init__(self, root: str, opening: bytes, timeout_s: float | None) -> None:
        self._root = root
        self._timeout_s = timeout_s
        self._has_timed_out = False
        try:
            self._child = ChildProcess("sqlindex.sources.sqlite_reader")
        except OSError as exc:
            raise SourceError(
                f"no process can be started to read database {root}: {exc}",
                hint="a program without a Python interpreter reads through a connection: SqliteTableSource",
            ) from exc
        self._end = weakref.finalize(self, self._child.close)
        self._send(opening)

    def close(self) -> None:
        """End the child and wait for it."""
        self._end()

    def ask(self, request: dict[str, str]) -> None:
        """Send a request; `next_message` gives the answers."""
        self._send(encoded(request))

    def next_message(self) -> dict[str, Any]:
        """The next message.

        Raises:
            UsageError, SourceError: the child says that it cannot read; or it died.
        """
        try:
            with self._watched():
                message = read_frame(self._child.answers)
        except BrokenFrameError as exc:
            raise self._death(str(exc)) from exc
        if message is None:
            raise self._death("it ended before its answer")
        if "error" in message:
            kind = UsageError if message["is_usage"] else SourceError
            raise kind(message["error"], hint=message["hint"])
        found: dict[str, Any] = message
        return found

    def _send(self, body: bytes) -> None:
        # If it died, reading says why.
        with suppress(BrokenPipeError):
            write_frame(self._child.requests, body)

    def _watched(self) -> _Watch:
        return _Watch(self._timeout_s, self._stop)

    def _stop(self) -> None:
        self._has_timed_out = True
        self._child.kill()

    def _death(self, what: str) -> SourceError:
        how = self._child.wait()
        what = f"it was silent for {self._timeout_s} s" if self._has_timed_out else f"{what}, {how}"
        return SourceError(
            f"the process that reads database {self._root} failed: {what}",
            hint="refresh again; nothing was deleted",
        )


class _Watch:
    """Calls a function if the block takes longer than it may."""

    def __init__(self, timeout_s: float | None, stop: Any) -> None:
        self._timer = None if timeout_s is None else threading.Timer(timeout_s, stop)

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
