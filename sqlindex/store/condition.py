"""What a file is like inside: free pages, journal mode, tags, owners."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sqlindex.store.driver import Connection

_SIDECARS = ("-wal", "-shm", "-lock")
_TAGS = "SELECT name FROM tag ORDER BY name"


def free_bytes(connection: Connection) -> int:
    """Size of the pages that hold nothing."""
    pages = connection.execute("PRAGMA freelist_count").fetchone()[0]
    return int(pages * connection.execute("PRAGMA page_size").fetchone()[0])


def journal_mode(connection: Connection) -> str:
    """`wal`, or another word for a copy that nobody has written to yet."""
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def tag_names(connection: Connection) -> tuple[str, ...]:
    """Names of the tags, in order."""
    return tuple(row[0] for row in connection.execute(_TAGS))


def foreign_sidecars(path: Path) -> tuple[str, ...]:
    """Files beside the index that belong to another user than it does; they can lock its owner out."""
    found = []
    for suffix in _SIDECARS:
        with suppress(OSError):
            if os.stat(f"{path}{suffix}").st_uid != os.stat(path).st_uid:
                found.append(f"{path.name}{suffix}")
    return tuple(found)
