"""What is looked at before an index is opened: its files, their owners, where they lie.

Nothing here opens a file. SQLite follows links to sidecars and takes over whatever log or journal
lies beside a file, so what lies there must be the index's own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sqlindex.errors import (
    NoIndexError,
    NotAnIndexError,
    SharedFileSystemError,
    StorageError,
    UnsafeFileError,
)

if TYPE_CHECKING:
    from sqlindex.mounts import Mount

SIDECARS = ("-wal", "-shm", "-journal", "-lock")

_ROOT = 0


def verify_files(path: Path, *, trust_owner: bool, is_written: bool = False) -> None:
    """Refuse an index, or a file beside it, through which another user could lead us astray.

    Args:
        path: the index, without links.
        trust_owner: take files of any owner.
        is_written: for a writer: the index must be this user's, or root's.

    Raises:
        NoIndexError: there is none.
        NotAnIndexError: it is no regular file.
        UnsafeFileError: a sidecar is a link, has a second name or is a third user's; or another
            user's index was to be written.
        StorageError: it is not accessible.
    """
    index = _status(path)
    if not stat.S_ISREG(index.st_mode):
        raise NotAnIndexError(
            f"{path} is not a regular file", hint="name an index made by 'sqlindex init'"
        )
    own = {_ROOT, os.geteuid()} if hasattr(os, "geteuid") else {index.st_uid}
    if is_written and not trust_owner and index.st_uid not in own:
        raise UnsafeFileError(
            f"index {path} belongs to another user (id {index.st_uid}) and is not written",
            hint="search it as it is; to write it, run as its owner or trust it (--trust-owner)",
        )
    for suffix in SIDECARS:
        try:
            beside = os.lstat(f"{path}{suffix}")
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(beside.st_mode):
            fault = "is not a regular file"
        elif beside.st_nlink > 1:
            fault = "is another file's second name"
        elif not trust_owner and beside.st_uid not in own | {index.st_uid}:
            fault = f"belongs to a third user (id {beside.st_uid})"
        else:
            continue
        raise UnsafeFileError(
            f"{path}{suffix} {fault}; the index is not opened",
            hint="find out who put it there; without it the index shows its last saved state",
        )


def _status(path: Path) -> os.stat_result:
    try:
        return os.stat(path)
    except FileNotFoundError:
        raise NoIndexError(
            f"there is no index at {path}",
            hint="make one with 'sqlindex init', or name another with --db",
        ) from None
    except OSError as exc:
        raise StorageError(
            f"index {path} is not accessible: {exc.strerror}",
            hint="check the path and its permissions",
        ) from exc


def shared_file_system(path: Path, mounts: Iterable[Mount] | None = None) -> str | None:
    """The type of the file system that an index lies on, or would, if other kernels serve it too.

    SQLite's log needs locks and shared memory that all who use it see.

    Args:
        path: without links.
        mounts: the table of mounts; the kernel's if None.
    """
    from sqlindex.mounts import filesystem_of, is_shared_with_other_kernels, read_mounts

    if mounts is None:
        mounts = read_mounts()
    kind = filesystem_of(str(path), mounts)
    return kind if is_shared_with_other_kernels(kind) else None


def is_on_block_device(path: Path) -> bool:
    """Whether a path, or the folder that it would be made in, is on a disk of this machine.

    Says so without reading the table of mounts. False where the kernel numbers no device: network
    file systems, but also those in memory and layered ones.
    """
    if not hasattr(os, "major"):
        return True
    for place in (path, path.parent):
        try:
            return os.major(os.stat(place).st_dev) != 0
        except OSError:
            continue
    return False


def refuse_shared(path: Path, kind: str) -> SharedFileSystemError:
    """The error that says that an index is not written there."""
    return SharedFileSystemError(
        f"index {path} lies on {kind}, which other machines may use as well; "
        "their locks and shared memory do not reach this one",
        hint="keep the index on a local disk, or allow it (--allow-network) if only this machine uses it",
    )


class FileState:
    """Identity of an index read without its log: any change shows."""

    __slots__ = ("_values",)

    def __init__(self, values: tuple[int, ...]) -> None:
        self._values = values

    @classmethod
    def of(cls, path: Path) -> FileState:
        """As it is now.

        Raises:
            FileNotFoundError: it is gone.
        """
        found = os.stat(path)
        return cls(
            (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, log_bytes_of(path))
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileState) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)


def log_bytes_of(path: Path) -> int:
    """Length of an index's log; 0 if there is none."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


def may_use_log(path: Path, *, shared: str | None) -> bool:
    """Whether a reader may open the log; without it the file is read as immutable.

    Sidecars made by another user would lock the owner out, so only the owner creates them.

    Args:
        path: the index.
        shared: type of the file system, if other machines may use it and that was not allowed.

    Raises:
        FileNotFoundError: the index is gone.
        StorageError: the log holds changes and this user cannot read them.
        SharedFileSystemError: the log holds changes of what may be another machine.
    """
    owner = os.stat(path).st_uid
    if shared is None:
        if os.path.exists(f"{path}-wal") and os.path.exists(f"{path}-shm"):
            return True
        is_owner = not hasattr(os, "geteuid") or owner == os.geteuid()
        if is_owner and os.access(path.parent, os.W_OK):
            return True
    if log_bytes_of(path) == 0:
        return False
    if shared is not None:
        raise refuse_shared(path, shared)
    raise StorageError(
        f"index {path} has unsaved changes in its log, which this user cannot read",
        hint="let its owner open it once, for example with 'sqlindex status'",
    )
