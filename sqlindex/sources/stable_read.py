"""Reading a file whole, as it was at one moment, from where it was listed."""

from __future__ import annotations

import errno
import os
import stat as stat_modes
from collections.abc import Sequence

from sqlindex.model.documents import FileStat, Refusal, RefusalReason
from sqlindex.sources.containment import (
    NotOpenedError,
    not_a_file,
    open_file,
    open_parent,
    read_bounded,
)

_ATTEMPTS = 2
_HALF = 2**63

HINTS = {
    RefusalReason.CHANGED: "refresh again when it is at rest; the version indexed before is kept",
    RefusalReason.SYMLINK: "index the folder that the link leads to as a source of its own",
    RefusalReason.UNREADABLE: "make it readable, or exclude it",
    RefusalReason.TOO_LARGE: "split it, or exclude it; a Python program can register its file type "
    "with a larger max_bytes: Index.open(..., file_types=...)",
}
"""What to do about a refusal, by its reason."""


def file_stat(found: os.stat_result) -> FileStat:
    """What is kept of a stat; equal values and no race mean equal bytes."""
    numbers = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)
    return FileStat(*map(_storable, numbers))


def _storable(number: int) -> int:
    """The number in 64 bits with a sign, as SQLite stores it: times end in 2262, inodes wrap."""
    return (number + _HALF) % (2 * _HALF) - _HALF


def read_stable(
    root: int,
    components: Sequence[bytes],
    document_id: str,
    *,
    max_bytes: int,
    listed: FileStat | None,
) -> tuple[bytes, FileStat] | Refusal:
    """The bytes of a file and the stat that belongs to them.

    Size, times, device and inode are compared before and after reading, and after reading the path
    must still lead to that file; the first attempt also wants the file that was listed. A change
    costs one more attempt with whatever is there then.

    A write within the same tick of the file system's clock as the one before it leaves no trace if
    it keeps the size; whoever keeps the stat must not rely on one that was fresh when it was read.
    On a network file system the compared values come from a cache, so the check is weaker there.

    Args:
        root: open descriptor.
        components: path below the root.
        document_id: for the refusal.
        max_bytes: a larger file is refused; never more than one byte over it is read.
        listed: stat from the listing, if there was one.
    """
    for attempt in range(_ATTEMPTS):
        try:
            parent = open_parent(root, components)
            try:
                read = _read_once(parent, components[-1], max_bytes, None if attempt else listed)
            finally:
                os.close(parent)
        except NotOpenedError as exc:
            return Refusal(document_id, exc.reason, exc.detail, HINTS.get(exc.reason, ""))
        if read is not None:
            return read
    return Refusal(
        document_id,
        RefusalReason.CHANGED,
        "it changed while it was read, twice",
        HINTS[RefusalReason.CHANGED],
    )


def _read_once(
    parent: int, name: bytes, max_bytes: int, listed: FileStat | None
) -> tuple[bytes, FileStat] | None:
    """One attempt; None if the file changed meanwhile.

    Raises:
        NotOpenedError: it cannot be read, whatever the attempt.
    """
    file = open_file(name, parent)
    try:
        found = os.fstat(file)
        if not stat_modes.S_ISREG(found.st_mode):
            raise NotOpenedError(*not_a_file(found.st_mode))
        before = file_stat(found)
        if listed is not None and _identity(before) != _identity(listed):
            return None
        data = read_bounded(file, max_bytes, before.byte_size)
        after = file_stat(os.fstat(file))
        if len(data) > max_bytes:
            raise NotOpenedError(RefusalReason.TOO_LARGE, too_large(after.byte_size, max_bytes))
        if before != after or len(data) != after.byte_size:
            return None
        now_there = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if (now_there.st_dev, now_there.st_ino) != _identity(after):
            return None
    except FileNotFoundError:
        return None  # removed or about to be replaced: the next attempt sees which
    except OSError as exc:
        if exc.errno == errno.ESTALE:
            return None  # replaced on its server; opening it again finds the new one
        raise NotOpenedError(
            RefusalReason.UNREADABLE, exc.strerror or "the operating system refused it"
        ) from exc
    finally:
        os.close(file)
    return data, after


def _identity(stat: FileStat) -> tuple[int, int]:
    return stat.device, stat.inode


def too_large(byte_size: int, max_bytes: int) -> str:
    """The detail of a `TOO_LARGE` refusal."""
    return f"{byte_size:,} bytes; the limit of its file type is {max_bytes:,} bytes"
