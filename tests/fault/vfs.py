"""The store over apsw, with file systems that record or fail: every write, sync, truncation, deletion.

apsw carries an SQLite of its own, so the same statements run whatever the driver; files that come
out of it are opened by the driver again, never while a connection here has them open.
"""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import apsw

from sqlindex.store import driver
from sqlindex.store.driver import Connection, Parameters
from tests.faults import connecting_by

_OPERATIONAL = frozenset((5, 6, 7, 8, 9, 10, 13, 14, 15))
_serial = itertools.count(1)


def _translated(exc: apsw.Error) -> Exception:
    """The exception that the driver would raise for an error of apsw."""
    module = importlib.import_module(driver.driver_name)
    extended = getattr(exc, "extendedresult", 0) or getattr(exc, "result", 0)
    kind = {19: module.IntegrityError}.get(extended & 0xFF, module.DatabaseError)
    if extended & 0xFF in _OPERATIONAL:
        kind = module.OperationalError
    error: Exception = kind(str(exc))
    error.sqlite_errorcode = extended  # type: ignore[attr-defined]  # as sqlite3 does
    return error


class _Cursor:
    """An apsw cursor as the store's `Cursor`."""

    def __init__(self, connection: apsw.Connection, cursor: apsw.Cursor) -> None:
        self._cursor = cursor
        self.lastrowid = connection.last_insert_rowid()
        self.rowcount = connection.changes()

    def __iter__(self) -> Iterator[Any]:
        while (row := self.fetchone()) is not None:
            yield row

    def fetchone(self) -> Any:
        try:
            return self._cursor.fetchone()
        except apsw.Error as exc:
            raise _translated(exc) from exc

    def fetchall(self) -> list[Any]:
        return list(self)


class ApswConnection:
    """An apsw connection as the store's `Connection`.

    Args:
        vfs: what stands between SQLite and the file system; it is told of publishes.
    """

    def __init__(self, path: Path, mode: str, timeout_ms: int, vfs: CountingVFS) -> None:
        query = "mode=ro&immutable=1" if mode == "immutable" else f"mode={mode}"
        flags = apsw.SQLITE_OPEN_READWRITE if mode == "rw" else apsw.SQLITE_OPEN_READONLY
        self._vfs = vfs
        self._moves_head = False  # the open transaction did
        try:
            self._inner = apsw.Connection(
                f"file:{quote(os.fsencode(path.absolute()))}?{query}",
                flags=flags | apsw.SQLITE_OPEN_URI,
                vfs=vfs.vfs_name,
            )
        except apsw.Error as exc:
            raise _translated(exc) from exc
        self._inner.set_busy_timeout(timeout_ms)
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON"):
            self.execute(f"PRAGMA {pragma}")

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def execute(self, sql: str, parameters: Parameters = (), /) -> _Cursor:
        cursor = self._run(lambda: self._inner.cursor().execute(sql, parameters))
        if sql == "COMMIT" and self._moves_head:
            self._vfs.published()
        self._moves_head = self.in_transaction and (self._moves_head or "UPDATE head SET" in sql)
        return cursor

    def executemany(self, sql: str, parameters: Iterable[Parameters], /) -> _Cursor:
        return self._run(lambda: self._inner.cursor().executemany(sql, parameters))

    def set_progress_handler(self, handler: Callable[[], Any] | None, n: int, /) -> None:
        self._inner.set_progress_handler(None if handler is None else lambda: bool(handler()), n)

    def backup(
        self, target: ApswConnection, *, pages: int, progress: Callable[[int, int, int], object]
    ) -> None:
        """Copy all pages, telling after each step (status, pages left, pages in all), as sqlite3 does."""
        try:
            copy = target._inner.backup("main", self._inner, "main")
            try:
                while not copy.done:
                    copy.step(pages)
                    status = apsw.SQLITE_DONE if copy.done else apsw.SQLITE_OK
                    progress(status, copy.remaining, copy.page_count)
            finally:
                # Not close(): after a failed step apsw 3.54 leaves that exception set behind it.
                del copy
        except apsw.Error as exc:
            raise _translated(exc) from exc

    def close(self) -> None:
        # SQLite goes on when a last checkpoint or a lock is refused; apsw would tell of it.
        with suppress(apsw.Error):
            self._inner.close()

    def _run(self, step: Any) -> _Cursor:
        try:
            return _Cursor(self._inner, step())
        except apsw.Error as exc:
            raise _translated(exc) from exc


class CountingVFS(apsw.VFS):
    """Passes everything through; subclasses look at, or spoil, what changes files."""

    def __init__(self) -> None:
        self.vfs_name = f"counting{os.getpid()}-{next(_serial)}"
        super().__init__(self.vfs_name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        is_kept = path is not None and not flags[0] & apsw.SQLITE_OPEN_DELETEONCLOSE
        if is_kept and flags[0] & apsw.SQLITE_OPEN_CREATE and not os.path.exists(path):
            self.before("create", str(path))
        return _File(self, name, flags, path if is_kept else None)

    def xDelete(self, name: str, syncs_folder: bool) -> None:
        self.before("delete", name)
        super().xDelete(name, syncs_folder)
        self.after_delete(name, bool(syncs_folder))

    def before(self, call: str, path: str) -> bool:
        """Whether a call that changes the file is made at all; raising makes it fail."""
        return True

    def after_write(self, path: str, data: bytes, offset: int) -> None:
        """Bytes were handed to the system."""

    def after_truncate(self, path: str, size: int) -> None:
        """The file was cut to `size` bytes."""

    def after_sync(self, path: str) -> None:
        """What was handed over before is on the disk."""

    def after_delete(self, path: str, is_synced: bool) -> None:
        """The name is gone; with `is_synced` also after a power loss."""

    def published(self) -> None:
        """A commit that moved the head has returned."""


class _File(apsw.VFSFile):
    def __init__(self, vfs: CountingVFS, name: Any, flags: list[int], path: str | None) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs
        self._path = path

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._path is not None and not self._vfs.before("write", self._path):
            return
        super().xWrite(data, offset)
        if self._path is not None:
            self._vfs.after_write(self._path, bytes(data), offset)

    def xTruncate(self, size: int) -> None:
        if self._path is not None and not self._vfs.before("truncate", self._path):
            return
        super().xTruncate(size)
        if self._path is not None:
            self._vfs.after_truncate(self._path, size)

    def xSync(self, flags: int) -> None:
        if self._path is not None and not self._vfs.before("sync", self._path):
            return
        super().xSync(flags)
        if self._path is not None:
            self._vfs.after_sync(self._path)


@contextmanager
def over_apsw(vfs: CountingVFS, *, synchronous: str | None = None) -> Iterator[None]:
    """Run the store over apsw and a file system of ours.

    Args:
        synchronous: instead of whatever the store asks for.
    """

    def connect(path: Path, mode: str, **options: Any) -> Connection:
        kind = ApswConnection if synchronous is None else _Careless
        made: Connection = kind(path, mode, options.get("timeout_ms", 5_000), vfs)
        return made

    class _Careless(ApswConnection):
        def execute(self, sql: str, parameters: Parameters = (), /) -> _Cursor:
            is_wish = sql.startswith("PRAGMA synchronous")
            return super().execute(
                f"PRAGMA synchronous={synchronous}" if is_wish else sql, parameters
            )

    with connecting_by(connect):
        yield


class FaultAt(NamedTuple):
    """Which call fails, and how.

    Attributes:
        number: from 1; 0 for none.
        error: the disk is full, or fails, or writes nothing and says that it did.
        persists: all calls from there on do.
    """

    number: int
    error: Literal["full", "io", "lost"] = "full"
    persists: bool = False


class FailingVFS(CountingVFS):
    """The n-th write, sync or truncation fails, once or from then on.

    Attributes:
        count, failed: calls so far.
    """

    def __init__(self, fault: FaultAt) -> None:
        super().__init__()
        self._fault = fault
        self.count = self.failed = 0

    def before(self, call: str, path: str) -> bool:
        if call not in ("write", "sync", "truncate"):
            return True
        fault = self._fault
        self.count += 1
        if self.count == fault.number or (fault.persists and self.count > fault.number > 0):
            self.failed += 1
            if fault.error != "lost":
                raise _disk_error(call, fault.error)
            return False
        return True


def _disk_error(call: str, error: str) -> apsw.Error:
    if error == "full" and call == "write":
        return apsw.FullError("database or disk is full")
    failed = apsw.IOError("disk I/O error")
    failed.extendedresult = {  # type: ignore[attr-defined]  # set by apsw on its own errors too
        "write": apsw.SQLITE_IOERR_WRITE,
        "sync": apsw.SQLITE_IOERR_FSYNC,
        "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    }[call]
    return failed
