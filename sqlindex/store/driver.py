"""The one module that imports SQLite, and how a connection is opened.

Two SQLite libraries in one process must never open one file: POSIX locks belong to the process,
so when one library closes its handle the other loses its locks without notice and acknowledged
writes can vanish. The default is therefore Python's own `sqlite3`, which a host is likely to use
as well; `SQLINDEX_DRIVER=pysqlite3` chooses the other one for the whole process.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

from sqlindex.cancellation import NEVER, CancelToken
from sqlindex.errors import (
    CancelledError,
    CorruptIndexError,
    FilterError,
    LockedError,
    NotAnIndexError,
    OptionalDependencyError,
    SqlindexError,
    StorageError,
)
from sqlindex.store import permissions
from sqlindex.store.watch import OPERATIONS_PER_LOOK, Watch

MINIMUM_VERSION = (3, 40, 0)
"""STRICT tables (3.37), FTS5 and the statements of this package are tested from here on."""

DRIVER_NAMES = ("sqlite3", "pysqlite3")


def _load() -> Any:
    name = os.environ.get("SQLINDEX_DRIVER") or "sqlite3"
    if name not in DRIVER_NAMES:
        raise OptionalDependencyError(
            f"SQLINDEX_DRIVER={name!r} is no known driver", hint=f"one of {', '.join(DRIVER_NAMES)}"
        )
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise OptionalDependencyError(
            f"the SQLite driver {name!r} is not installed", hint="pip install 'sqlindex[vec]'"
        ) from exc


_sqlite: Any = _load()
driver_name: str = _sqlite.__name__
sqlite_version: str = _sqlite.sqlite_version
DatabaseError: type[Exception] = _sqlite.DatabaseError

Value: TypeAlias = str | bytes | int | float | None
Row: TypeAlias = tuple[Any, ...]
Parameters: TypeAlias = Sequence[Value] | Mapping[str, Value]


class Cursor(Protocol):
    """What the store asks of a cursor."""

    @property
    def lastrowid(self) -> int | None: ...
    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """What the store asks of a driver's connection, so that fault tests can stand in between."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, parameters: Parameters = ..., /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Iterable[Parameters], /) -> Cursor: ...
    def set_progress_handler(self, handler: Callable[[], int] | None, n: int, /) -> None: ...
    def close(self) -> None: ...


MAX_VALUE_BYTES = 64 << 20
"""No row of an index is longer: SQLite refuses to make one, and to load one that a file holds."""

_LIMITS = {"SQLITE_LIMIT_LENGTH": MAX_VALUE_BYTES, "SQLITE_LIMIT_SQL_LENGTH": 1_000_000}


def connect(
    path: Path,
    mode: str,
    *,
    timeout_ms: int = 5_000,
    watch: Watch | None = None,
    makes_temporary: bool = False,
    copies_to: str | None = None,
    is_repair: bool = False,
) -> Connection:
    """Open the file at `path` in autocommit mode.

    Its statements may do what `store.permissions` allows.

    Args:
        path: the index file.
        mode: `rw` (must exist), `ro`, or `immutable` (read-only, locks and log ignored).
        timeout_ms: how long a statement waits for a lock.
        watch: asked now and then whether a statement shall go on.
        makes_temporary: also a read-only connection may make temporary tables.
        is_repair: statements may go past constraints and into the schema's own table.
        copies_to: where `VACUUM INTO` may write, as the statement names it; None for nowhere.

    Raises:
        StorageError: the file cannot be opened.
    """
    with translated_errors(path):
        connection = _connect(path, mode, timeout_ms)
        connection.execute("PRAGMA mmap_size=0")
        if mode != "rw" and not makes_temporary and copies_to is None:
            connection.execute("PRAGMA query_only=ON")
        if hasattr(connection, "setlimit"):  # pysqlite3 has none; SQLite's own limit is 1 GB
            for name, limit in _LIMITS.items():
                connection.setlimit(getattr(_sqlite, name), limit)
            # A copy is made by way of an attached file.
            connection.setlimit(_sqlite.SQLITE_LIMIT_ATTACHED, 0 if copies_to is None else 1)
        if copies_to is not None:
            authorizer = permissions.copying(_sqlite, copies_to)
        elif mode == "rw":
            authorizer = permissions.writing(
                _sqlite,
                pragmas=permissions.REPAIRING_PRAGMAS if is_repair else permissions.WRITING_PRAGMAS,
            )
        else:
            authorizer = permissions.reading(_sqlite, makes_temporary=makes_temporary)
        connection.set_authorizer(authorizer)
        if watch is not None:
            connection.set_progress_handler(watch, OPERATIONS_PER_LOOK)
    opened: Connection = connection
    return opened


def _connect(path: Path, mode: str, timeout_ms: int) -> Any:
    query = "mode=ro&immutable=1" if mode == "immutable" else f"mode={mode}"
    connection = _sqlite.connect(
        f"{file_uri(path)}?{query}",
        uri=True,
        isolation_level=None,
        timeout=timeout_ms / 1_000,
        check_same_thread=False,
        cached_statements=256,
    )
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    return connection


def read_any_text(connection: Connection) -> None:
    """Let text that is no UTF-8 be read, each bad byte as a lone surrogate, instead of ending a query.

    For looking at damage: a checksum over such a text tells which row it is.
    """
    connection.text_factory = _any_text  # type: ignore[attr-defined]  # of the DB-API


def _any_text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


def file_uri(path: Path) -> str:
    """The name of a file as SQLite takes it, also in statements; any bytes can be in it."""
    # Only '?', '#' and '%' are special in SQLite's URIs; a byte name that is no UTF-8 stays as it is.
    return f"file:{quote(os.fsencode(path.absolute()))}"


_COPY_STEP_PAGES = 256
_OK, _BUSY, _LOCKED = 0, 5, 6


def copy_pages(origin: Connection, target: Connection, step: Callable[[int, int], None]) -> None:
    """Let `target` hold what `origin` reads, page by page, in one transaction of the target.

    Inside a read transaction of `origin` all pages are of that moment, whatever others write. In
    WAL mode readers of the target go on with what it held before.

    Args:
        origin: opened by `connect`, with at least two pages.
        target: opened by `connect`, not in a transaction.
        step: called with (pages copied, pages in all) after every MB, at least once before the
            commit; what it raises undoes the whole copy.

    Raises:
        DatabaseError: the disk is full or failing, or another connection writes the target.
    """
    total = origin.execute("PRAGMA page_count").fetchone()[0]
    copying: Any = origin

    def report(status: int, remaining: int, pages: int) -> None:
        if status == _OK:
            step(pages - remaining, pages)
        elif status in (_BUSY, _LOCKED):
            # The busy time-out has passed; the driver itself would try again for ever.
            raise _sqlite.OperationalError("database is locked")

    copying.backup(target, pages=min(_COPY_STEP_PAGES, total - 1), progress=report)


STEPS_PER_CHECK = 50_000
"""Instructions of SQLite's machine between two looks at a token: 2 to 50 ms."""


@contextmanager
def stopped_by(cancel: CancelToken, connection: Connection) -> Iterator[None]:
    """Let a cancel stop the statements of the block; `translate` makes it a `CancelledError`.

    A statement that is stopped undoes its own changes. Leave COMMIT out of the block: it could be
    reported as stopped when it has been done.
    """
    if cancel is NEVER:
        yield
        return
    connection.set_progress_handler(lambda: int(cancel.is_cancelled), STEPS_PER_CHECK)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def connect_foreign(path: Path, *, is_immutable: bool, timeout_ms: int) -> Connection:
    """Open a database that is not ours, to read it and nothing else.

    Only in a process where no other library may have it open. Statements that would write, attach,
    load code or set something are not even compiled.

    Args:
        path: the database.
        is_immutable: take no locks, make no sidecars and ignore the log.
        timeout_ms: how long a statement waits for a lock.

    Raises:
        DatabaseError: the file cannot be opened.
    """
    query = "mode=ro&immutable=1" if is_immutable else "mode=ro"
    connection = _sqlite.connect(
        f"{file_uri(path)}?{query}",
        uri=True,
        isolation_level=None,
        timeout=timeout_ms / 1_000,
    )
    for pragma in ("query_only=ON", "trusted_schema=OFF", "cell_size_check=ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.set_authorizer(permissions.reading(_sqlite, pragmas=permissions.FOREIGN_PRAGMAS))
    foreign: Connection = connection
    return foreign


def connect_memory() -> Connection:
    """A private database in memory, to ask the library what it can do."""
    connection: Connection = _sqlite.connect(":memory:", isolation_level=None)
    return connection


def connect_scratch() -> Connection:
    """A private temporary database: in a cache of 2 MB, beyond it in a file that SQLite deletes.

    One transaction that never ends: nothing of it outlives the connection.
    """
    connection: Connection = _sqlite.connect("", isolation_level=None, check_same_thread=False)
    for statement in ("PRAGMA journal_mode=OFF", "PRAGMA cache_size=-2000", "BEGIN"):
        connection.execute(statement)
    return connection


def is_complete_statement(sql: str) -> bool:
    """Whether `sql` ends a statement; triggers with their inner semicolons count as one."""
    complete: bool = _sqlite.complete_statement(sql)
    return complete


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn the driver's exceptions into ours, naming the file and what to do."""
    permissions.forget_denials()
    try:
        yield
    # Python's module cannot even say what is wrong when the message quotes a damaged schema.
    except (DatabaseError, UnicodeDecodeError) as exc:
        raise translate(exc, path) from exc


_NO_ROOM_FOR_SHARED_MEMORY = 4_874
"""SQLITE_IOERR_SHMSIZE: a full disk, met while the `-shm` file is made."""


def translate(exc: Exception, path: Path) -> SqlindexError:
    """The error of ours that says what `exc`, raised by the driver on `path`, means."""
    # Extended codes keep the primary code in the low byte; older drivers have only the message.
    code = getattr(exc, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    text = str(exc)
    if (
        primary == 23 or "authoriz" in text or "prohibited" in text
    ) and not permissions.was_denied():
        # SQLite asked for leave when Ctrl-C came, and took the interrupt for a no.
        raise KeyboardInterrupt from exc
    if primary in (5, 6) or "locked" in text:
        return LockedError(
            f"index {path} is busy: {text}", hint="retry when the other program is done"
        )
    if primary == 13 or code == _NO_ROOM_FOR_SHARED_MEMORY or "is full" in text:
        return StorageError(
            f"no space left while writing index {path}",
            hint="free space, then run the command again",
        )
    if primary == 8 or "readonly" in text:
        return StorageError(
            f"index {path} cannot be written: {text}",
            hint="check permissions of the file and its folder",
        )
    if primary == 26 or "not a database" in text:
        return NotAnIndexError(
            f"{path} is not an SQLite file", hint="name an index made by 'sqlindex init'"
        )
    if primary == 11 or "malformed" in text:
        return CorruptIndexError(
            f"index {path} is damaged: {text}",
            hint="run 'sqlindex repair', or restore a backup",
        )
    if primary == 14 or "unable to open" in text:
        return StorageError(
            f"index {path} cannot be opened: {text}",
            hint="check that it exists and its folder is accessible",
        )
    if primary == 10 or "disk I/O" in text:
        return StorageError(
            f"reading or writing index {path} failed: {text}",
            hint="check the disk, then run 'sqlindex check'",
        )
    if text == "string or blob too big":
        return CorruptIndexError(
            f"index {path} holds, or was to hold, a value of more than {MAX_VALUE_BYTES >> 20} MB",
            hint="run 'sqlindex check'; a document's fields must be smaller",
        )
    if any(words in text for words in ("too complex", "too large", "too many", "too big")):
        return FilterError(
            f"the request is more than SQLite takes: {text}", hint="use fewer or shorter filters"
        )
    if primary == 9 or text == "interrupted":
        return CancelledError(
            f"work on index {path} was cancelled",
            hint="the last published generation is unchanged",
        )
    return CorruptIndexError(f"index {path}: {text}", hint="run 'sqlindex repair'")


def is_damage(exc: Exception) -> bool:
    """Whether an exception of the driver tells of the file's contents, not of locks, disk or a cancel."""
    return not isinstance(translate(exc, Path()), LockedError | StorageError | CancelledError)


def read_header(path: Path) -> tuple[int, int]:
    """`application_id` and `user_version` of the file's first page, without touching anything.

    Opened as immutable, so no lock is taken and no sidecar is created or changed. The file is not
    opened by ourselves: closing a plain descriptor would drop SQLite's locks of this process.

    Raises:
        NotAnIndexError: not an SQLite file.
    """
    with translated_errors(path):
        connection = _connect(path, "immutable", 0)
        try:
            # While a checkpoint runs, or after one that met a full disk, page 1 may count more pages
            # than the file has yet; without this SQLite calls that malformed.
            connection.execute("PRAGMA writable_schema=ON")
            application_id = connection.execute("PRAGMA application_id").fetchone()[0]
            user_version = connection.execute("PRAGMA user_version").fetchone()[0]
        finally:
            connection.close()
    return application_id, user_version
