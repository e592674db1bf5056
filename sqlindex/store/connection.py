"""Open index files: pooled read-only connections, and the lock for one writer at a time.

Readers never write, never checkpoint and hold no lock on the log between queries. The writer is
the only one to checkpoint, so the WAL-reset race of SQLite up to 3.51.2 cannot occur among our
connections. The index and its sidecars are never opened by plain file calls: closing such a
descriptor would drop all SQLite locks of the process.
"""

from __future__ import annotations

import os
import stat
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sqlindex.cancellation import CancelToken
from sqlindex.errors import NoIndexError, NotAnIndexError, StorageError
from sqlindex.store.driver import Connection, connect, translated_errors
from sqlindex.store.head import require_kept
from sqlindex.store.header import SCHEMA_VERSION, verify_header, verify_version

if TYPE_CHECKING:
    from sqlindex.store.held import Hold
    from sqlindex.store.writer import Patience, Writer


class IndexFile:
    """One index file, shared by the threads of a process.

    Safe for threads: each reading takes a connection of its own from a pool. The pool is emptied
    before a fork and the child opens its own connections; a reading that another thread has under
    way at that moment is the one thing that must not cross a fork.
    """

    def __init__(self, path: Path, *, busy_timeout_ms: int) -> None:
        self.path = path
        self._busy_timeout_ms = busy_timeout_ms
        self._idle: list[tuple[Connection, _FileState | None]] = []
        self._identity = self.identity()
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._is_closed = False
        self._patience: Patience | None = None
        with _files_guard:
            _files.add(self)

    @classmethod
    def open(cls, path: Path, *, make: bool, busy_timeout_ms: int) -> IndexFile:
        """Open the index at `path`; with `make`, create it when nothing is there.

        Raises:
            NotAnIndexError: not an index of this program; `NewerSchemaError` for a newer one.
            NoIndexError: nothing is there.
            StorageError: not accessible.
        """
        # One lock file and one log for all names of a file: SQLite follows links to its sidecars too.
        path = Path(os.path.realpath(path))
        if make and not path.exists():
            from sqlindex.store.migrate import create

            with suppress(FileExistsError):  # another process made it first
                create(path)
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            raise NoIndexError(
                f"there is no index at {path}",
                hint="make one with 'sqlindex init', or name another with --db",
            ) from None
        except OSError as exc:
            raise StorageError(
                f"index {path} is not accessible: {exc.strerror}",
                hint="check the path and its permissions",
            ) from exc
        if not stat.S_ISREG(mode):
            raise NotAnIndexError(
                f"{path} is not a regular file", hint="name an index made by 'sqlindex init'"
            )
        verify_header(path)
        return cls(path, busy_timeout_ms=busy_timeout_ms)

    def identity(self) -> tuple[int, int]:
        """(device, inode) of the file that has the path now; (0, 0) if there is none."""
        try:
            found = os.stat(self.path)
        except OSError:
            return (0, 0)
        return (found.st_dev, found.st_ino)

    def close(self) -> None:
        """Close the pooled connections; readings still under way finish and then close theirs."""
        with self._guard:
            self._is_closed = True
            idle, self._idle = self._idle, []
        if self._pid == os.getpid():
            for connection, _ in idle:
                connection.close()

    def pause_for_fork(self) -> None:
        """Close what a child must not inherit, and let no thread open more until `go_on`."""
        self._guard.acquire()
        for connection, _ in self._idle:
            connection.close()
        self._idle.clear()

    def go_on(self) -> None:
        """Undo `pause_for_fork`, in the parent and in the child."""
        self._guard.release()

    @contextmanager
    def reading(self, *, is_new: bool = False) -> Iterator[Connection]:
        """A connection inside one read transaction: everything read belongs to one moment.

        Keep it short: a reader that stays keeps the log from shrinking.

        Args:
            is_new: take no pooled connection, and close this one afterwards.
        """
        connection, state = self._connect_reader() if is_new else self._take()
        try:
            with translated_errors(self.path):
                connection.execute("BEGIN")
                # BEGIN is lazy: the first read takes the snapshot.
                connection.execute("SELECT generation FROM head").fetchone()
                yield connection
                connection.execute("COMMIT")
            if state is not None and state != _FileState.of(self.path):
                raise StorageError(
                    f"index {self.path} changed while it was read", hint="search again"
                )
        except BaseException:
            with suppress(Exception):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            connection.close()
            raise
        if is_new:
            connection.close()
        else:
            self._put_back(connection, state)

    def hold(self, generation: int) -> Hold:
        """Keep a generation from being collected until the hold is released.

        Raises:
            GenerationGoneError: it has been collected, or was never published.
            StorageError: the lock file cannot be read.
        """
        from sqlindex.store.held import hold

        held = hold(self.path, generation)
        try:
            with self.reading() as connection:
                require_kept(connection, generation)
        except BaseException:
            held.release()
            raise
        return held

    @contextmanager
    def writing(
        self, purpose: str, *, wait_s: float = 0.0, cancel: CancelToken | None = None
    ) -> Iterator[Writer]:
        """The index's one writer; other writers are refused until the block ends.

        Raises:
            LockedError: another writer holds the index.
            CancelledError: cancelled while waiting for the other writer.
        """
        from sqlindex.store.lock import WriterLock
        from sqlindex.store.writer import Patience, Writer

        if self._is_closed:
            raise StorageError(f"index {self.path} was closed", hint="open it again")
        self._patience = self._patience or Patience()
        lock = WriterLock(self.path)
        lock.acquire(purpose, wait_s=wait_s, cancel=cancel)
        try:
            with translated_errors(self.path):
                writer = Writer(self.path, self._busy_timeout_ms, self._patience)
                try:
                    yield writer
                finally:
                    writer.close()
        finally:
            lock.release()

    def _take(self) -> tuple[Connection, _FileState | None]:
        with self._guard:
            if self._is_closed:
                raise StorageError(f"index {self.path} was closed", hint="open it again")
            if self._pid != os.getpid():
                self._idle, self._pid = [], os.getpid()
            identity = self.identity()
            if identity != self._identity:
                # Another file has the name now, for example a restored copy.
                self._identity = identity
                while self._idle:
                    self._idle.pop()[0].close()
            while self._idle:
                connection, state = self._idle.pop()
                if state is None or state == _FileState.of(self.path):
                    return connection, state
                connection.close()
        return self._connect_reader()

    def _put_back(self, connection: Connection, state: _FileState | None) -> None:
        with self._guard:
            if not self._is_closed and self._pid == os.getpid():
                self._idle.append((connection, state))
                return
        connection.close()

    def _connect_reader(self) -> tuple[Connection, _FileState | None]:
        try:
            state = None if _may_use_log(self.path) else _FileState.of(self.path)
        except FileNotFoundError:
            raise NoIndexError(
                f"the index {self.path} is gone", hint="open another one, or make it again"
            ) from None
        mode = "ro" if state is None else "immutable"
        connection = connect(self.path, mode, timeout_ms=self._busy_timeout_ms)
        try:
            with translated_errors(self.path):
                version = connection.execute("PRAGMA user_version").fetchone()[0]
            verify_version(self.path, version)
            if version < SCHEMA_VERSION:
                raise StorageError(
                    f"index {self.path} has the older schema {version}",
                    hint="run 'sqlindex refresh' to bring it up to date",
                )
        except BaseException:
            connection.close()
            raise
        return connection, state


# SQLite counts the locks of a process in memory, and a child inherits the count without the locks:
# with an inherited handle its new connections would read without any lock on file and log.
_files: weakref.WeakSet[IndexFile] = weakref.WeakSet()
_files_guard = threading.Lock()
_paused: list[IndexFile] = []


def _before_fork() -> None:
    _files_guard.acquire()
    _paused.extend(_files)
    for file in _paused:
        file.pause_for_fork()


def _after_fork() -> None:
    while _paused:
        _paused.pop().go_on()
    _files_guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


class _FileState:
    """Identity of an index read without its log: any change shows."""

    __slots__ = ("_values",)

    def __init__(self, values: tuple[int, ...]) -> None:
        self._values = values

    @classmethod
    def of(cls, path: Path) -> _FileState:
        found = os.stat(path)
        try:
            log_bytes = os.stat(f"{path}-wal").st_size
        except OSError:
            log_bytes = 0
        return cls((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, log_bytes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FileState) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)


def _may_use_log(path: Path) -> bool:
    """Whether a reader may open the log; without it the file is read as immutable.

    Sidecars made by another user would lock the owner out, so only the owner creates them.

    Raises:
        StorageError: the log holds changes and this user cannot read them.
    """
    log = Path(f"{path}-wal")
    shared_memory = Path(f"{path}-shm")
    if log.exists() and shared_memory.exists():
        return True
    is_owner = not hasattr(os, "geteuid") or os.stat(path).st_uid == os.geteuid()
    if is_owner and os.access(path.parent, os.W_OK):
        return True
    if not log.exists() or log.stat().st_size == 0:
        return False
    raise StorageError(
        f"index {path} has unsaved changes in its log, which this user cannot read",
        hint="let its owner open it once, for example with 'sqlindex status'",
    )
