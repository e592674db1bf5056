"""The writer's lock: one writer across processes, released by the kernel when its process ends.

The lock lives in a file beside the index (`<index>-lock`) that is never unlinked. On Linux it is an
open-file-description lock on one byte far behind the holder's name, which is text at the start of
the file; elsewhere `flock` (macOS) or `msvcrt.locking` (Windows) on the same file.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

from sqlindex.cancellation import CancelToken
from sqlindex.errors import LockedError, StorageError

_WRITER_BYTE = 1 << 40
_NAME_BYTES = 512
_FLOCK = struct.Struct("@hhqqi0q")  # struct flock on 64-bit Linux

_open_descriptors: set[int] = set()


def lock_path(index_path: Path) -> Path:
    """The lock file of an index."""
    return index_path.with_name(index_path.name + "-lock")


class WriterLock:
    """Exclusive right to write one index, held until `release`.

    A forked child closes its copy at once: with open-file-description locks the parent's lock would
    otherwise outlive the parent.
    """

    def __init__(self, index_path: Path) -> None:
        self._path = lock_path(index_path)
        self._index_path = index_path
        self._descriptor: int | None = None

    def acquire(
        self, purpose: str, *, wait_s: float = 0.0, cancel: CancelToken | None = None
    ) -> None:
        """Take the lock, waiting up to `wait_s` seconds.

        Args:
            purpose: what the holder does, shown to whoever is refused.
            wait_s: 0 to fail at once.
            cancel: checked while waiting.

        Raises:
            LockedError: another writer holds it; the message names the holder.
            CancelledError: cancelled while waiting.
            StorageError: the lock file cannot be made.
        """
        deadline = time.monotonic() + wait_s
        while not self._try(purpose):
            if time.monotonic() >= deadline:
                holder = self._holder() or "an unknown process"
                raise LockedError(
                    f"index {self._index_path} is being written by {holder}",
                    hint="searches go on; retry later, or use --wait SECONDS",
                )
            if cancel is not None:
                cancel.check()
            time.sleep(0.05)

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self._descriptor is not None:
            # Unlocked before closing: a child forked a moment ago may still hold a copy.
            _unlock(self._descriptor)
            _open_descriptors.discard(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _try(self, purpose: str) -> bool:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except OSError as exc:
            raise StorageError(
                f"cannot open lock file {self._path}: {exc.strerror}",
                hint="writing an index needs write access to its folder",
            ) from exc
        _open_descriptors.add(descriptor)
        held = False
        try:
            # The inode is compared after locking: a lock on a file that was moved away protects nothing.
            held = _lock(descriptor) and _same_file(descriptor, self._path)
            if held:
                name = f"process {os.getpid()} ({purpose} since {time.strftime('%Y-%m-%d %H:%M:%S')})\n"
                os.ftruncate(descriptor, 0)
                with suppress(
                    OSError
                ):  # the name is a courtesy; a full disk must not refuse the lock
                    os.pwrite(descriptor, name.encode()[:_NAME_BYTES], 0)
                self._descriptor = descriptor
        finally:
            if not held:
                _open_descriptors.discard(descriptor)
                os.close(descriptor)
        return held

    def _holder(self) -> str:
        try:
            # Our own description on the lock file only: closing it drops no OFD lock of others.
            return self._path.read_bytes()[:_NAME_BYTES].decode("utf-8", "replace").strip()
        except OSError:
            return ""


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        ours, theirs = os.fstat(descriptor), os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)


def _lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _WRITER_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        if hasattr(fcntl, "F_OFD_SETLK"):
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(fcntl.F_WRLCK))
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _WRITER_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        return
    import fcntl

    if hasattr(fcntl, "F_OFD_SETLK"):
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(fcntl.F_UNLCK))
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _request(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, _WRITER_BYTE, 1, 0)


def _forget_in_child() -> None:
    # Only the child's references: unlocking here would free the parent's lock.
    while _open_descriptors:
        os.close(_open_descriptors.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
