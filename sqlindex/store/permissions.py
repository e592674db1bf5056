"""What the statements of a connection may do: SQLite asks when it compiles one.

The statements of this package are constants, and the schema of a file is compared before it is
used. This is the second wall: whatever a file holds, no statement reaches another file, loads code
or changes a setting that others rest on.

SQLite takes an exception out of such a question for a no. A `KeyboardInterrupt` can come there as anywhere, and
would then pass for damage of a sound file. So what is allowed is answered from a cache, which runs no Python code
that could be interrupted; and a no that nobody meant is told from one that was (`was_denied`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, lru_cache
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
        "journal_mode",
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

REPAIRING_PRAGMAS = WRITING_PRAGMAS | {"ignore_check_constraints", "writable_schema"}

_READS = ("SQLITE_SELECT", "SQLITE_READ", "SQLITE_RECURSIVE", "SQLITE_TRANSACTION")
_LOADS_CODE = "load_extension"

Authorizer = Callable[[int, str | None, str | None, str | None, str | None], int]

_KEPT_ANSWERS = 4_096
_last = threading.local()


def was_denied() -> bool:
    """Whether a no since `forget_denials`, in this thread, was meant."""
    return getattr(_last, "is_denial", False)


def forget_denials() -> None:
    """Begin anew: what was denied before is somebody else's."""
    _last.is_denial = False


class _Denied(Exception):
    """Says no to SQLite, and is not kept by the cache."""


def _deny() -> int:
    _last.is_denial = True
    raise _Denied


@cache
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
    function, pragma, update = sqlite.SQLITE_FUNCTION, sqlite.SQLITE_PRAGMA, sqlite.SQLITE_UPDATE

    @lru_cache(_KEPT_ANSWERS)
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
        return ok if is_allowed else _deny()

    return authorize


@cache
def writing(sqlite: Any, *, pragmas: frozenset[str] = WRITING_PRAGMAS) -> Authorizer:
    """Allows to change the file, but no other one, and no setting that is not the writer's.

    Args:
        sqlite: the driver's module, for SQLite's numbers.
        pragmas: settings that are.
    """
    ok: int = sqlite.SQLITE_OK
    function, pragma = sqlite.SQLITE_FUNCTION, sqlite.SQLITE_PRAGMA
    elsewhere = frozenset((sqlite.SQLITE_ATTACH, sqlite.SQLITE_DETACH))

    @lru_cache(_KEPT_ANSWERS)
    def authorize(
        action: int, first: str | None, second: str | None, _: str | None, __: str | None
    ) -> int:
        is_denied = (
            action in elsewhere
            or (action == function and second == _LOADS_CODE)
            or (action == pragma and first not in pragmas)
        )
        return _deny() if is_denied else ok

    return authorize


def copying(sqlite: Any, target: str) -> Authorizer:
    """Allows to read the file and to write a copy of it to `target` with `VACUUM INTO`.

    Args:
        sqlite: the driver's module, for SQLite's numbers.
        target: the path as the statement names it; SQLite attaches it inside.
    """
    write = writing(sqlite)

    @lru_cache(_KEPT_ANSWERS)
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
