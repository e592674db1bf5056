"""A lock between processes that install the same model, so that it is downloaded once.

Only a courtesy: the staged folder appears by a rename, so installs that could not lock would
still not harm each other.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlindex.embedding.pinned_copy import Watch

_POLL_SECONDS = 0.05


@contextmanager
def install_lock(path: Path, watch: Watch) -> Iterator[None]:
    """Hold the lock of that file; the kernel releases it when the process ends.

    Raises:
        CancelledError: the caller cancelled while waiting.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while not _try_lock(descriptor):
            watch.step("waiting for another install")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
