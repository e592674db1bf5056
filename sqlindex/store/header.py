"""What the first page says of a file: whether it is an index, and of which schema."""

from __future__ import annotations

from pathlib import Path

from sqlindex.errors import NewerSchemaError, NotAnIndexError
from sqlindex.store.driver import read_header

APPLICATION_ID = 0x73716978
"""`sqix`: says that an SQLite file is one of ours (`PRAGMA application_id`, seen by `file`)."""

SCHEMA_VERSION = 7
"""Number of the last migration; kept as a constant so that opening an index reads no SQL files."""


def verify_header(path: Path) -> int:
    """The schema version of the index at `path`, read without changing anything.

    Raises:
        NotAnIndexError: an SQLite file of another program, or no SQLite file.
        NewerSchemaError: made by a newer version of this program.
    """
    application_id, user_version = read_header(path)
    if application_id != APPLICATION_ID or user_version < 1:
        raise NotAnIndexError(
            f"{path} is not a sqlindex file", hint="name an index made by 'sqlindex init'"
        )
    verify_version(path, user_version)
    return user_version


def verify_version(path: Path, user_version: int) -> None:
    """Refuse a schema that this program does not know yet."""
    if user_version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"index {path} was made by a newer version (schema {user_version}, this program knows {SCHEMA_VERSION})",
            hint="upgrade sqlindex",
        )
