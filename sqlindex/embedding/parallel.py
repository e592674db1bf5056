"""Some calls at a time, ended together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from sqlindex.embedding.stopping import Stop

_T = TypeVar("_T")


def run_parallel(work: Callable[[_T], None], pieces: Iterable[_T], width: int, stop: Stop) -> None:
    """Call `work` on each piece, at most `width` at a time, one of them in the caller's thread.

    The first error ends the others by `stop` and is raised; no thread of it is left behind. The
    threads do not keep the process alive.
    """
    todo = deque(pieces)
    errors: list[BaseException] = []

    def run() -> None:
        while not errors:
            try:
                piece = todo.popleft()
            except IndexError:
                return
            try:
                work(piece)
            except BaseException as exc:
                errors.append(exc)
                stop.set()

    threads = [
        threading.Thread(target=run, name="sqlindex service", daemon=True)
        for _ in range(min(width, len(todo)) - 1)
    ]
    try:
        for thread in threads:
            thread.start()
        run()
        for thread in threads:
            thread.join()
    except BaseException:  # an interrupt while waiting
        stop.set()
        raise
    if errors:
        try:
            raise errors[0]
        finally:
            del errors  # each holds the frames that hold this list
