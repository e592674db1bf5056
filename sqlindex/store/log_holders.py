"""Who keeps the log: processes that read by way of it, as Linux tells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_LOCKS = Path("/proc/locks")
# SQLite locks a byte of the -shm file for each mark up to which somebody reads the log. Whoever reads by the
# first one needs nothing of the log, and nothing of it may be copied into the file meanwhile.
_READ_MARKS = range(123, 128)


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
