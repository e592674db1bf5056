"""Open index files: pooled read-only connections, and the lock for one writer at a time.

Readers never write, never checkpoint and hold no lock on the log between queries. The writer is
the only one to checkpoint, so the WAL-reset race of SQLite up to 3.51.2 cannot occur among our
connections. The index and its sidecars are never opened by plain file calls: closing such a
descriptor would drop all SQLite locks of the process.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sqlindex.cancellation import NEVER, CancelToken
from sqlindex.errors import NoIndexError, StorageError
from sqlindex.store.driver import Connection, connect, translated_errors
from sqlindex.store.head import require_kept
from sqlindex.store.header import verify_header
from sqlindex.store.opening import (
    FileState,
    is_on_block_device,
    may_use_log,
    refuse_shared,
    shared_file_system,
    verify_files,
)
from sqlindex.store.reader import Reader
from sqlindex.store.watch import Watch

if TYPE_CHECKING:
    from sqlindex.store.held import Hold
    from sqlindex.store.writer import Patience, Writer


DEADLINE_MS = 60_000
"""How long SQLite may work for one reading: damage can make a statement run for ever."""

LOG_PAUSE_MB = 1_000
"""Past so long a log a writer waits for readers that do not end."""


class IndexFile:
    """One index file, shared by the threads of a process.

    Safe for threads: each reading takes a connection of its own from a pool. The pool is emptied
    before a fork and the child opens its own connections; a reading that another thread has under
    way at that moment is the one thing that must not cross a fork.
    """

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout_ms: int,
        deadline_ms: int = DEADLINE_MS,
        trust_owner: bool = False,
        allow_network: bool = False,
        log_pause_mb: int = LOG_PAUSE_MB,
        shared: str | None = None,
    ) -> None:
        self.path = path
        self._log_pause_mb = log_pause_mb
        self._allow_network = allow_network
        self._busy_timeout_ms = busy_timeout_ms
        self._deadline_ms = deadline_ms
        self._trust_owner = trust_owner
        self._shared = shared
        self._idle: list[Reader] = []
        self._identity = self.identity()
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._is_closed = False
        self._patience: Patience | None = None
        with _files_guard:
            _files.add(self)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        make: bool,
        busy_timeout_ms: int,
        deadline_ms: int = DEADLINE_MS,
        allow_network: bool = False,
        trust_owner: bool = False,
        log_pause_mb: int = LOG_PAUSE_MB,
    ) -> IndexFile:
        """Open the index at `path`; with `make`, create it when nothing is there.

        Args:
            path: the index; a link to it counts as the index.
            make: create it.
            busy_timeout_ms: how long a statement waits for a lock.
            deadline_ms: how long SQLite may work for one reading.
            allow_network: make, write and follow it also where other machines may use it.
            trust_owner: take files of any owner, and write another user's index.
            log_pause_mb: a writer waits while readers keep the log longer than that.

        Raises:
            NotAnIndexError: not an index of this program; `NewerSchemaError` for a newer one.
            NoIndexError: nothing is there.
            StorageError: not accessible.
            UnsafeFileError: a file beside it is a link or a third user's.
            SharedFileSystemError: it would be made on a network file system.
        """
        # One lock file and one log for all names of a file: SQLite follows links to its sidecars too.
        path = Path(os.path.realpath(path))
        shared = None
        if not allow_network and not is_on_block_device(path):
            shared = shared_file_system(path)
        if make and not path.exists():
            from sqlindex.store.migrate import create

            if shared is not None:
                raise refuse_shared(path, shared)
            with suppress(FileExistsError):  # another process made it first
                create(path)
        verify_files(path, trust_owner=trust_owner)
        verify_header(path)
        return cls(
            path,
            busy_timeout_ms=busy_timeout_ms,
            deadline_ms=deadline_ms,
            trust_owner=trust_owner,
            allow_network=allow_network,
            log_pause_mb=log_pause_mb,
            shared=shared,
        )

    def __reduce__(self) -> tuple[Callable[..., IndexFile], tuple[object, ...]]:
        """Pickled, it is opened anew where it arrives, in the same way."""
        return _open_anew, (
            self.path,
            self._busy_timeout_ms,
            self._deadline_ms,
            self._allow_network,
            self._trust_owner,
            self._log_pause_mb,
        )

    def beside(self, path: Path, *, make: bool = False) -> IndexFile:
        """Open another index with the same trust and patience; see `open`."""
        return IndexFile.open(
            path,
            make=make,
            busy_timeout_ms=self._busy_timeout_ms,
            deadline_ms=self._deadline_ms,
            allow_network=self._allow_network,
            trust_owner=self._trust_owner,
            log_pause_mb=self._log_pause_mb,
        )

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
            for reader in idle:
                reader.connection.close()

    def pause_for_fork(self) -> None:
        """Close what a child must not inherit, and let no thread open more until `go_on`."""
        self._guard.acquire()
        for reader in self._idle:
            reader.connection.close()
        self._idle.clear()

    def go_on(self) -> None:
        """Undo `pause_for_fork`, in the parent and in the child."""
        self._guard.release()

    @contextmanager
    def reading(
        self, *, is_new: bool = False, is_timed: bool = True, cancel: CancelToken | None = None
    ) -> Iterator[Connection]:
        """A connection inside one read transaction: everything read belongs to one moment.

        Keep it short: a reader that stays keeps the log from shrinking.

        Args:
            is_new: take no pooled connection, and close this one afterwards; it may make temporary
                tables.
            is_timed: let the deadline end statements that SQLite works too long for.
            cancel: ends a statement of SQLite as well.

        Raises:
            ForeignSchemaError: the file's schema is not the one that this program makes.
            DeadlineError: SQLite worked longer than the deadline.
            CancelledError: cancelled while SQLite worked.
        """
        reader = self._connect_reader(makes_temporary=True) if is_new else self._take()
        connection = reader.connection
        reader.watch.start(timeout_ms=self._deadline_ms if is_timed else None, cancel=cancel)
        try:
            with translated_errors(self.path):
                connection.execute("BEGIN")
                # BEGIN is lazy: the first read takes the snapshot.
                reader.verify(self.path)
                yield connection
                if not is_new:  # closing ends it too, where COMMIT would meet a damaged page again
                    connection.execute("COMMIT")
            if reader.state is not None and reader.state != FileState.of(self.path):
                raise StorageError(
                    f"index {self.path} changed while it was read", hint="search again"
                )
        except BaseException:
            with suppress(Exception):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            connection.close()
            reader.watch.check()
            raise
        if is_new:
            connection.close()
        else:
            self._put_back(reader)

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
    def holding(self, *generations: int) -> Iterator[None]:
        """Keep generations from being collected while the block runs.

        Where this user may not read the lock file nothing is held: each reading of a generation
        checks that it is kept, so an answer is right or an error either way.

        Raises:
            GenerationGoneError: one has been collected, or was never published.
        """
        with ExitStack() as stack:
            for generation in generations:
                with suppress(StorageError):
                    stack.callback(self.hold(generation).release)
            yield

    @contextmanager
    def writing(
        self,
        purpose: str,
        *,
        wait_s: float = 0.0,
        cancel: CancelToken | None = None,
        is_repair: bool = False,
    ) -> Iterator[Writer]:
        """The index's one writer; other writers are refused until the block ends.

        Args:
            purpose: told to whoever is refused.
            wait_s: how long to wait for another writer.
            cancel: checked while waiting.
            is_repair: the schema is not compared, and the writer may go past constraints.

        Raises:
            LockedError: another writer holds the index.
            CancelledError: cancelled while waiting for the other writer, or a statement was
                stopped.
            SharedFileSystemError: it lies on a network file system and that was not allowed.
            UnsafeFileError: it is another user's, or a file beside it is a link.
            ForeignSchemaError: the file's schema is not the one that this program makes.
        """
        from sqlindex.store.lock import WriterLock
        from sqlindex.store.writer import Patience, Writer

        if self._is_closed:
            raise StorageError(f"index {self.path} was closed", hint="open it again")
        if self._shared is not None:
            raise refuse_shared(self.path, self._shared)
        verify_files(self.path, trust_owner=self._trust_owner, is_written=True)
        self._patience = self._patience or Patience(1_000_000 * self._log_pause_mb)
        lock = WriterLock(self.path)
        lock.acquire(purpose, wait_s=wait_s, cancel=cancel)
        try:
            with translated_errors(self.path):
                writer = Writer(
                    self.path,
                    self._busy_timeout_ms,
                    self._patience,
                    cancel or NEVER,
                    is_repair=is_repair,
                )
                try:
                    yield writer
                finally:
                    writer.close()
        finally:
            lock.release()

    def _take(self) -> Reader:
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
                    self._idle.pop().connection.close()
            while self._idle:
                reader = self._idle.pop()
                if reader.state is None or reader.state == FileState.of(self.path):
                    return reader
                reader.connection.close()
        return self._connect_reader()

    def _put_back(self, reader: Reader) -> None:
        with self._guard:
            if not self._is_closed and self._pid == os.getpid():
                self._idle.append(reader)
                return
        reader.connection.close()

    def _connect_reader(self, *, makes_temporary: bool = False) -> Reader:
        try:
            verify_files(self.path, trust_owner=self._trust_owner)
            state = None if may_use_log(self.path, shared=self._shared) else FileState.of(self.path)
        except (FileNotFoundError, NoIndexError):
            raise NoIndexError(
                f"the index {self.path} is gone", hint="open another one, or make it again"
            ) from None
        watch = Watch()
        connection = connect(
            self.path,
            "ro" if state is None else "immutable",
            timeout_ms=self._busy_timeout_ms,
            watch=watch,
            makes_temporary=makes_temporary,
        )
        return Reader(connection, watch, state)


def _open_anew(
    path: Path,
    busy_timeout_ms: int,
    deadline_ms: int,
    allow_network: bool,
    trust_owner: bool,
    log_pause_mb: int,
) -> IndexFile:
    return IndexFile.open(
        path,
        make=False,
        busy_timeout_ms=busy_timeout_ms,
        deadline_ms=deadline_ms,
        allow_network=allow_network,
        trust_owner=trust_owner,
        log_pause_mb=log_pause_mb,
    )


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
