"""What all routes to a model's files share: copying pinned bytes, being followed and stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sqlindex.cancellation import CancelToken
from sqlindex.embedding.models import PinnedFile

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the bytes done and the bytes in all (0 if unknown)."""

BLOCK_BYTES = 1 << 20


class RouteError(Exception):
    """A route does not lead to the files; the message says why, the next route is tried."""


@dataclass(frozen=True, slots=True)
class Watch:
    """How the caller follows the work and stops it."""

    progress: Progress | None = None
    cancel: CancelToken | None = None

    def step(self, what: str, done_bytes: int = 0, total_bytes: int = 0) -> None:
        """Report progress.

        Raises:
            CancelledError: the caller cancelled.
        """
        if self.cancel is not None:
            self.cancel.check()
        if self.progress is not None:
            self.progress(what, done_bytes, total_bytes)


def copy_pinned(reader: IO[bytes], pinned: PinnedFile, folder: Path, watch: Watch) -> None:
    """Copy one file into `folder` if it is the pinned one.

    The copy is hashed while it is made, and only the copy is used: the original may change
    later. Reads at most one byte more than the pinned size, however long the original is.

    Raises:
        RouteError: the bytes differ; no file is left in `folder`.
    """
    target = folder / pinned.name
    digest = hashlib.sha256()
    done = 0
    with target.open("xb") as file:
        while block := reader.read(min(BLOCK_BYTES, pinned.byte_size + 1 - done)):
            digest.update(block)
            file.write(block)
            done += len(block)
            watch.step(f"copying {pinned.name}", done, pinned.byte_size)
    if done != pinned.byte_size or digest.hexdigest() != pinned.sha256:
        target.unlink()
        raise RouteError(f"{pinned.name} does not have the pinned bytes")
