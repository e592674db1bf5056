"""Generations that somebody still reads: held by a shared lock, collected under an exclusive one.

A process that must keep a generation (an open cursor, a snapshot) takes the shared lock of the
generation's byte in the lock file; no row is written, and the kernel gives the lock back when the
process ends. The collector takes the exclusive lock of each generation it drops until it has
committed that, and a holder looks after locking whether the generation is still kept: looking
alone, by either side, would leave a moment between look and deed.

A description does not see its own locks, so a process holds through one description, with a count
for each generation, and collects through another. Where locks cannot be shared (macOS, Windows) a
hold protects nothing; every reading checks that its generation is kept, so an answer is still right
or an error.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlindex.errors import LockedError, StorageError
from sqlindex.store.byte_locks import (
    HAS_SHARED_LOCKS,
    close_lock_file,
    generation_byte,
    is_file_at,
    lock_path,
    open_lock_file,
    try_lock,
    unlock,
)

_WAIT_S = 2.0
"""How long a holder waits for a collector, which keeps a byte for one short transaction."""


@dataclass(slots=True)
class _Description:
    descriptor: int
    holds: Counter[int] = field(default_factory=Counter)


_guard = threading.Lock()
_descriptions: dict[Path, _Description] = {}
_abandoned: deque[Hold] = deque()


class Hold:
    """One hold of one generation, until `release` or the end of the process.

    A forked child does not inherit it: `is_held` is False there.
    """

    def __init__(self, path: Path, generation: int, *, is_counted: bool = True) -> None:
        self.generation = generation
        self._path = path
        self._pid = os.getpid()
        self._is_counted = is_counted
        self._is_released = False

    @property
    def is_held(self) -> bool:
        """Whether this process still has it."""
        return not self._is_released and self._pid == os.getpid()

    def release(self) -> None:
        """Let the generation be collected; harmless when it was released before."""
        if self.is_held:
            with _guard:
                self._release()
                _release_abandoned()

    def abandon(self) -> None:
        """Release from a finalizer, which may run in the midst of anything: now if that can be, else
        with the next hold or release."""
        if not self.is_held:
            return
        _abandoned.append(self)
        if _guard.acquire(blocking=False):
            try:
                _release_abandoned()
            finally:
                _guard.release()

    def _release(self) -> None:
        if not self.is_held:
            return
        self._is_released = True
        held = _descriptions.get(self._path)
        if held is None or not self._is_counted:
            return
        held.holds[self.generation] -= 1
        if held.holds[self.generation] == 0:
            del held.holds[self.generation]
            unlock(held.descriptor, generation_byte(self.generation))
        if not held.holds:
            del _descriptions[self._path]
            close_lock_file(held.descriptor)


def _release_abandoned() -> None:
    while _abandoned:
        _abandoned.popleft()._release()


def hold(index_path: Path, generation: int) -> Hold:
    """Hold a generation. The caller checks afterwards that it is still kept (`head.require_kept`).

    Raises:
        LockedError: a collector keeps the generation's byte for longer than it ever should.
        StorageError: the lock file cannot be opened.
    """
    path = lock_path(index_path)
    deadline = time.monotonic() + _WAIT_S
    while (is_counted := _try_hold(index_path, path, generation)) is None:
        if time.monotonic() > deadline:
            raise LockedError(
                f"generation {generation} of index {index_path} is being collected",
                hint="start again from the head",
            )
        time.sleep(0.01)
    return Hold(path, generation, is_counted=is_counted)


def _try_hold(index_path: Path, path: Path, generation: int) -> bool | None:
    """True when the generation is locked; False where nothing can or need be; None if not yet."""
    if not HAS_SHARED_LOCKS:
        return False
    with _guard:
        _release_abandoned()
        held = _descriptions.get(path)
        if held is not None and not is_file_at(held.descriptor, path):
            raise StorageError(
                f"the lock file {path} was replaced while generations were held",
                hint="close the index's cursors and snapshots, then open it again",
            )
        if held is None:
            descriptor = _open_to_hold(index_path, path)
            if descriptor is None:  # no writer can be there: nothing will be collected
                return False
            held = _Description(descriptor)
        is_locked = held.holds[generation] > 0 or try_lock(
            held.descriptor, generation_byte(generation), is_shared=True
        )
        if is_locked:
            held.holds[generation] += 1
            _descriptions[path] = held
        elif path not in _descriptions:
            close_lock_file(held.descriptor)
        return is_locked or None


def _open_to_hold(index_path: Path, path: Path) -> int | None:
    """A descriptor of the lock file; None if there is none and none can be made here."""
    try:
        return open_lock_file(index_path, os.O_RDONLY)  # shared locks need no right to write
    except FileNotFoundError:
        pass
    except OSError as exc:
        raise StorageError(
            f"cannot open lock file {path}: {exc.strerror}",
            hint="holding a generation needs read access to it",
        ) from exc
    # A file of another user would lock the owner out.
    is_owner = not hasattr(os, "geteuid") or os.stat(index_path).st_uid == os.geteuid()
    if not is_owner:
        return None
    try:
        return open_lock_file(index_path, os.O_RDWR | os.O_CREAT)
    except OSError:
        return None


@contextmanager
def excluded(index_path: Path, generations: Iterable[int]) -> Iterator[list[int]]:
    """Those of `generations` that nobody holds; nobody can until the block ends.

    For the index's writer: it drops them within the block.
    """
    wanted = list(generations)
    if not wanted or not HAS_SHARED_LOCKS:
        yield wanted
        return
    descriptor = open_lock_file(index_path, os.O_RDWR | os.O_CREAT)
    free: list[int] = []
    try:
        for generation in wanted:
            if try_lock(descriptor, generation_byte(generation)):
                free.append(generation)
        yield free
    finally:
        for generation in free:
            unlock(descriptor, generation_byte(generation))
        close_lock_file(descriptor)


def _forget_in_child() -> None:
    # The descriptors are closed by byte_locks; another thread may have had the guard.
    global _guard
    _guard = threading.Lock()
    _descriptions.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
