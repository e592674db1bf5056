"""A pooled read-only connection, and what it must find in the file."""

from __future__ import annotations

from pathlib import Path

from sqlindex.errors import StorageError
from sqlindex.store.driver import Connection
from sqlindex.store.expected_schema import verify_schema
from sqlindex.store.header import SCHEMA_VERSION, verify_version
from sqlindex.store.opening import FileState
from sqlindex.store.watch import Watch


class Reader:
    """A read-only connection with what was seen when it was opened.

    Attributes:
        connection: to the file.
        watch: over its statements.
        state: of a file that is read without its log, else None.
        schema_cookie: SQLite's counter of schema changes when the schema was verified.
    """

    __slots__ = ("connection", "schema_cookie", "state", "watch")

    def __init__(self, connection: Connection, watch: Watch, state: FileState | None) -> None:
        self.connection = connection
        self.watch = watch
        self.state = state
        self.schema_cookie: int | None = None

    def verify(self, path: Path) -> None:
        """Refuse another schema than ours; the first read of a transaction, so it takes the snapshot.

        Raises:
            NewerSchemaError: made by a newer version of this program.
            StorageError: made by an older one.
            ForeignSchemaError: an object is missing, changed or was added.
        """
        cookie = self.connection.execute("PRAGMA schema_version").fetchone()[0]
        if cookie == self.schema_cookie:
            return
        version = self.connection.execute("PRAGMA user_version").fetchone()[0]
        verify_version(path, version)
        if version < SCHEMA_VERSION:
            raise StorageError(
                f"index {path} has the older schema {version}",
                hint="run 'sqlindex refresh' to bring it up to date",
            )
        verify_schema(self.connection, path, version)
        self.schema_cookie = cookie
