"""What the statements of a connection may do: SQLite asks when it compiles one.

The statements of this package are constants, and the schema of a file is compared before it is
used. This is the second wall: whatever a file holds, no statement reaches another file, loads code
or changes a setting that others rest on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

READING_PRAGMAS = frozenset(
    (
        "application_id",
        "compile_options",
        "data_version",  # FTS5 asks for it in each search
        "freelist_count",
        "index_list",
        "index_xinfo",
        "integrity_check",
        "page_count",
        "page_size",
        "quick_check",
        "schema_version",
        "table_xinfo",
        "user_version",
    )
)
FOREIGN_PRAGMAS = frozenset(
    ("data_version", "encoding", "page_size", "schema_version", "table_list", "table_xinfo")
)
"""For databases that are read as sources."""

WRITING_PRAGMAS = READING_PRAGMAS | {
    "auto_vacuum",
    "busy_timeout",
    "cache_size",
    "foreign_key_check",
    "incremental_vacuum",
    "journal_mode",
    "optimize",
    "recursive_triggers",
    "secure_delete",
    "synchronous",
    "wal_autocheckpoint",
    "wal_checkpoint",
}

_READS = ("SQLITE_SELECT", "SQLITE_READ", "SQLITE_RECURSIVE", "SQLITE_TRANSACTION")
_LOADS_CODE = "load_extension"

Authorizer = Callable[[int, str | None, str | None, str | None, str | None], int]


def reading(
    sqlite: Any,
    *,
    pragmas: frozenset[str] = READING_PRAGMAS,
    makes_temporary: bool = False,
) -> Authorizer:
    """Allows to read the file.

    Args:
        sqlite: the driver's module, for SQLite's numbers.
        pragmas: those that may be asked.
        makes_temporary: also make and fill temporary tables.
    """
    reads = frozenset(getattr(sqlite, name) for name in _READS)
    ok: int = sqlite.SQLITE_OK
    deny: int = sqlite.SQLITE_DENY
    function, pragma, update = sqlite.SQLITE_FUNCTION, sqlite.SQLITE_PRAGMA, sqlite.SQLITE_UPDATE

    def authorize(
        action: int, first: str | None, second: str | None, database: str | None, _: str | None
    ) -> int:
        is_allowed = (
            action in reads
            or (action == function and second != _LOADS_CODE)
            or (action == pragma and first in pragmas)
            or (makes_temporary and database == "temp")
            # How SQLite declares the columns of a virtual table that is only read.
            or (action == update and first == "sqlite_master")
        )
        return ok if is_allowed else deny

    return authorize


def writing(sqlite: Any) -> Authorizer:
    """Allows to change the file, but no other one, and no setting that is not the writer's.

    Args:
        sqlite: the driver's module, for SQLite's numbers.
    """
    ok: int = sqlite.SQLITE_OK
    deny: int = sqlite.SQLITE_DENY
    function, pragma = sqlite.SQLITE_FUNCTION, sqlite.SQLITE_PRAGMA
    elsewhere = frozenset((sqlite.SQLITE_ATTACH, sqlite.SQLITE_DETACH))

    def authorize(
        action: int, first: str | None, second: str | None, _: str | None, __: str | None
    ) -> int:
        is_denied = (
            action in elsewhere
            or (action == function and second == _LOADS_CODE)
            or (action == pragma and first not in WRITING_PRAGMAS)
        )
        return deny if is_denied else ok

    return authorize


def copying(sqlite: Any, target: str) -> Authorizer:
    """Allows to read the file and to write a copy of it to `target` with `VACUUM INTO`.

    Args:
        sqlite: the driver's module, for SQLite's numbers.
        target: the path as the statement names it; SQLite attaches it inside.
    """
    write = writing(sqlite)

    def authorize(
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        trigger: str | None,
    ) -> int:
        if action == sqlite.SQLITE_ATTACH and first == target:
            ok: int = sqlite.SQLITE_OK
            return ok
        return write(action, first, second, database, trigger)

    return authorize
