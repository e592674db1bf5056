"""The writing connection: transactions, and a log that stays bounded."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlindex.cancellation import NEVER, CancelToken
from sqlindex.store.driver import Connection, connect, stopped_by, translated_errors
from sqlindex.store.expected_schema import verify_schema
from sqlindex.store.header import SCHEMA_VERSION, verify_version
from sqlindex.store.log_holders import log_holders
from sqlindex.store.migrate import bring_up_to_date
from sqlindex.store.opening import log_bytes_of

LOG_LIMIT_BYTES = 16_000_000
"""The writer asks for a truncating checkpoint once the log is longer."""

LOG_WAIT_MS = 500
"""How long that checkpoint waits for the readers of the moment."""

LOG_WARNING_BYTES = 64_000_000
"""Past that length the readers that keep the log are named in a warning, once for a writer."""

WRITER_CACHE_KIB = 32_768

_PAUSE_S = 0.2

_logger = logging.getLogger(__name__)


class Patience:
    """How a writer deals with readers that keep the log; kept from writer to writer.

    Attributes:
        beyond_bytes: past that length of the log a checkpoint waits for readers.
        pause_bytes: past that length the writer waits until they have ended.
    """

    __slots__ = ("beyond_bytes", "pause_bytes")

    def __init__(self, pause_bytes: int) -> None:
        self.beyond_bytes = LOG_LIMIT_BYTES
        self.pause_bytes = pause_bytes


class Writer:
    """The writing connection; every change goes through `transaction`.

    Args:
        cancel: stops a long statement of a transaction, never its commit.
    """

    def __init__(
        self,
        path: Path,
        busy_timeout_ms: int,
        patience: Patience,
        cancel: CancelToken = NEVER,
        *,
        is_repair: bool = False,
    ) -> None:
        self.path = path
        self._cancel = cancel
        self._patience = patience
        self._has_warned = False
        self._is_durable = False
        self.connection = connect(path, "rw", timeout_ms=busy_timeout_ms, is_repair=is_repair)
        try:
            for pragma in (
                "wal_autocheckpoint=0",
                "synchronous=NORMAL",
                "secure_delete=OFF",  # Debian's SQLite zeroes freed pages by default: 45 MB of log a swap
                "recursive_triggers=ON",  # else INSERT OR REPLACE passes the delete trigger
                f"cache_size=-{WRITER_CACHE_KIB}",
            ):
                self.connection.execute(f"PRAGMA {pragma}")
            version = self.connection.execute("PRAGMA user_version").fetchone()[0]
            verify_version(path, version)
            # Whatever is attached to our tables would run with our next write.
            if not is_repair or version < SCHEMA_VERSION:
                verify_schema(self.connection, path, version)
            # A copy made by VACUUM INTO or .backup is no longer in WAL mode.
            self.connection.execute("PRAGMA journal_mode=WAL").fetchone()
            if version < SCHEMA_VERSION:
                bring_up_to_date(path, self.connection, from_version=version)
        except BaseException:
            # Refused files stay as they are: closing last would copy the log into the file.
            self._close_before_a_reader()
            raise

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[Connection]:
        """One write transaction; rolled back on any exception.

        Args:
            durable: sync the log before returning, so that a power loss cannot undo the commit.
        """
        connection = self.connection
        with translated_errors(self.path):
            if durable is not self._is_durable:
                connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                self._is_durable = durable
            connection.execute("BEGIN IMMEDIATE")
            try:
                with stopped_by(self._cancel, connection):
                    yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(Exception):
                    self.roll_back()
                raise

    def roll_back(self) -> None:
        """Undo the open transaction, if there is one.

        For whoever goes on after a transaction that was undone on purpose: undoing may itself fail.
        """
        with translated_errors(self.path):
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def bound_log(self) -> None:
        """Checkpoint when the log has grown; wait when a reader keeps it from shrinking for long.

        Raises:
            CancelledError: cancelled while waiting.
        """
        if self.log_bytes() <= LOG_LIMIT_BYTES:
            return
        self._checkpoint()
        if self.log_bytes() > LOG_WARNING_BYTES:
            self._warn()
        while self.log_bytes() > self._patience.pause_bytes:
            self._cancel.check()
            time.sleep(_PAUSE_S)
            self._checkpoint()

    def _warn(self) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        holders = log_holders(self.path)
        named = ", ".join(f"process {holder}" for holder in holders) or "a reading of this process"
        _logger.warning(
            "the log of index %s is %d MB long and cannot shrink: %s has been reading for long",
            self.path,
            self.log_bytes() // 1_000_000,
            named,
            extra={"event": "log.kept", "holders": holders},
        )

    def empty_log(self) -> bool:
        """Copy the whole log into the file and cut it to nothing.

        Returns:
            False if a reader still needs what is in the log; nothing is lost then.
        """
        self._checkpoint()
        return self.log_bytes() == 0

    def log_bytes(self) -> int:
        """Length of the log on disk."""
        return log_bytes_of(self.path)

    def _checkpoint(self) -> None:
        # PASSIVE copies what no reader needs, without waiting.
        self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        log_bytes = self.log_bytes()
        # Readers that overlap without a gap would let the log grow for ever: past the limit the
        # checkpoint waits until those of the moment have ended. Past a wait in vain, one is stuck,
        # and the next wait comes only when the log has grown as much again.
        is_waiting = log_bytes > self._patience.beyond_bytes
        timeout_ms = self.connection.execute("PRAGMA busy_timeout").fetchone()[0]
        self.connection.execute(f"PRAGMA busy_timeout={LOG_WAIT_MS if is_waiting else 0}")
        try:
            truncated = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self.connection.execute(f"PRAGMA busy_timeout={timeout_ms}")
        if not truncated[0]:
            self._patience.beyond_bytes = LOG_LIMIT_BYTES
        elif is_waiting:
            self._patience.beyond_bytes = log_bytes + LOG_LIMIT_BYTES

    def close(self) -> None:
        """Copy the log into the file and close; an empty pair of sidecars stays for readers.

        Whoever closes last deletes the sidecars if it may write; a read-only handle that outlives
        the writer keeps them, so that readers who may not create them can still open the index.
        """
        with suppress(Exception):  # what was committed is in the log; the next writer copies it
            self._checkpoint()
        self._close_before_a_reader()

    def _close_before_a_reader(self) -> None:
        keeper: Connection | None = None
        try:
            with suppress(Exception):
                keeper = connect(self.path, "ro")
                keeper.execute("PRAGMA user_version").fetchone()
        finally:
            self.connection.close()
            if keeper is not None:
                keeper.close()
