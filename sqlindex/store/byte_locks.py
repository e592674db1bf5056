"""Locks on single bytes of an index's lock file, released by the kernel when their process ends.

On Linux they are open-file-description locks: they belong to the description that took them, so
two descriptions of one process conflict, and closing another descriptor of the file frees nothing.
Elsewhere one exclusive lock for the whole file is all there is (`flock`, or `msvcrt.locking` on
Windows), enough for one writer.
"""

from __future__ import annotations

import os
import struct
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

WRITER_BYTE = 1 << 40
"""Far behind the holder's name, which is text: locks of Windows are mandatory."""

_FLOCK = struct.Struct("@hhqqi0q")  # struct flock on 64-bit Linux

HAS_SHARED_LOCKS = sys.platform != "win32" and hasattr(fcntl, "F_OFD_SETLK")
"""Whether several descriptions can share the lock of a byte here."""

_open_descriptors: set[int] = set()


def lock_path(index_path: Path) -> Path:
    """The lock file of an index."""
    return index_path.with_name(index_path.name + "-lock")


def generation_byte(generation: int) -> int:
    """The byte whose shared lock holds a generation, and whose exclusive lock collects it."""
    return WRITER_BYTE + 1 + generation


def open_lock_file(index_path: Path, flags: int) -> int:
    """A descriptor of an index's lock file that neither an executed nor a forked child keeps.

    With open-file-description locks a lock would otherwise outlive its process in its children.
    What root makes belongs to the index's owner, as SQLite's sidecars do: it would lock them out.

    Raises:
        OSError: the file cannot be opened.
    """
    extra = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(lock_path(index_path), flags | extra, 0o600)
    _open_descriptors.add(descriptor)
    if flags & os.O_CREAT and hasattr(os, "geteuid") and os.geteuid() == 0:
        with suppress(OSError):
            owner = os.stat(index_path)
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def close_lock_file(descriptor: int) -> None:
    """Close what `open_lock_file` gave."""
    _open_descriptors.discard(descriptor)
    os.close(descriptor)


def is_file_at(descriptor: int, path: Path) -> bool:
    """Whether the descriptor is of the file that has the path now: a lock on one that was moved
    away protects nothing."""
    try:
        ours, theirs = os.fstat(descriptor), os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)


def try_lock(descriptor: int, byte: int, *, is_shared: bool = False) -> bool:
    """Take a lock at once; False if another description has one that conflicts.

    Args:
        is_shared: beside other shared ones; only where `HAS_SHARED_LOCKS`.
    """
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, byte, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        if HAS_SHARED_LOCKS:
            kind = fcntl.F_RDLCK if is_shared else fcntl.F_WRLCK
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(kind, byte))
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def unlock(descriptor: int, byte: int) -> None:
    """Give a lock back. Before closing: a child forked a moment ago may still hold a copy."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, byte, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    elif HAS_SHARED_LOCKS:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(fcntl.F_UNLCK, byte))
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _request(kind: int, byte: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0)


def _forget_in_child() -> None:
    # Only the child's references: unlocking here would free the parent's lock.
    while _open_descriptors:
        os.close(_open_descriptors.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
