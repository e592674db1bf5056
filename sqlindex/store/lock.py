"""The writer's lock: one writer across processes, released by the kernel when its process ends.

The lock lives in a file beside the index (`<index>-lock`) that is never unlinked; the holder's name
is text at its start.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from sqlindex.cancellation import CancelToken
from sqlindex.errors import LockedError, StorageError
from sqlindex.store.byte_locks import (
    WRITER_BYTE,
    close_lock_file,
    is_file_at,
    lock_path,
    open_lock_file,
    try_lock,
    unlock,
)

_NAME_BYTES = 512


class WriterLock:
    """Exclusive right to write one index, held until `release`."""

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
            unlock(self._descriptor, WRITER_BYTE)
            close_lock_file(self._descriptor)
            self._descriptor = None

    def _try(self, purpose: str) -> bool:
        try:
            descriptor = open_lock_file(self._index_path, os.O_RDWR | os.O_CREAT)
        except OSError as exc:
            raise StorageError(
                f"cannot open lock file {self._path}: {exc.strerror}",
                hint="writing an index needs write access to its folder",
            ) from exc
        held = False
        try:
            held = try_lock(descriptor, WRITER_BYTE) and is_file_at(descriptor, self._path)
            if held:
                name = f"process {os.getpid()} ({purpose} since {time.strftime('%Y-%m-%d %H:%M:%S')})\n"
                os.ftruncate(descriptor, 0)
                # The name is a courtesy; a full disk must not refuse the lock.
                with suppress(OSError):
                    os.pwrite(descriptor, name.encode()[:_NAME_BYTES], 0)
                self._descriptor = descriptor
        finally:
            if not held:
                close_lock_file(descriptor)
        return held

    def _holder(self) -> str:
        try:
            # Our own description on the lock file only: closing it drops no OFD lock of others.
            return self._path.read_bytes()[:_NAME_BYTES].decode("utf-8", "replace").strip()
        except OSError:
            return ""
