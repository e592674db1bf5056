"""What a file is like inside: free pages, its log and who keeps that, tags."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sqlindex.store.driver import Connection

_LOCKS = Path("/proc/locks")
# SQLite locks a byte of the -shm file for each mark up to which somebody reads the log; the mark before
# these needs nothing of the log.
_READ_MARKS = range(124, 128)
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


def log_holders(path: Path) -> tuple[int, ...]:
    """Ids of other processes that read by way of the log at this moment, as far as Linux tells.

    As long as they do, the log cannot begin anew. A reading lasts as long as a query.
    """
    try:
        inode = os.stat(f"{path}-shm").st_ino
        lines = _LOCKS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(sorted(set(_holders(lines, inode)) - {os.getpid()}))


def _holders(lines: list[str], inode: int) -> Iterator[int]:
    for line in lines:
        # 1: POSIX  ADVISORY  READ 4711 00:1b:218698 124 124
        fields = line.split()
        with suppress(ValueError, IndexError):
            is_ours = fields[1] == "POSIX" and int(fields[5].rsplit(":", 1)[1]) == inode
            if is_ours and int(fields[6]) in _READ_MARKS:
                yield int(fields[4])


def foreign_sidecars(path: Path) -> tuple[str, ...]:
    """Files beside the index that belong to another user than it does; they can lock its owner out."""
    found = []
    for suffix in _SIDECARS:
        with suppress(OSError):
            if os.stat(f"{path}{suffix}").st_uid != os.stat(path).st_uid:
                found.append(f"{path.name}{suffix}")
    return tuple(found)
