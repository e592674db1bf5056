"""Views of generations that were searched lately, so that searches in turn do not read them anew."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from sqlindex.cancellation import CancelToken

if TYPE_CHECKING:
    from sqlindex.search.semantic.view import GenerationView

OLDER_BYTES = 256_000_000
"""What views of generations behind the head may take together, beyond the last one used."""

OLDER_VIEWS = 8


class ViewKey(NamedTuple):
    """Device and inode of the file, generation, vector space and chunks.

    A purge takes chunks out of a generation, which is another one to its views then.
    """

    device: int
    inode: int
    generation: int
    space_id: int
    chunks: int


class ViewCache:
    """Holds the head's view, and those of older generations by last use; safe for threads.

    Memory: each view takes 4 × dimensions bytes for each distinct text and 24 for each chunk. Kept
    are the head's, the last used one of an older generation whatever its size, and further older
    ones as long as all of them take no more than 256 MB. Whoever never asks for an older generation
    holds one view.
    """

    def __init__(self) -> None:
        self._begin()
        self._head: tuple[ViewKey, GenerationView] | None = None
        self._older: OrderedDict[ViewKey, GenerationView] = OrderedDict()

    def view(
        self,
        key: ViewKey,
        read: Callable[[], GenerationView],
        *,
        is_head: bool,
        cancel: CancelToken,
    ) -> GenerationView:
        """The view of that key; of several threads that want it one reads it, the others wait.

        Raises:
            CancelledError: cancelled while another thread reads it.
        """
        if self._pid != os.getpid():
            # A forked child: whichever thread was reading is none of its own.
            self._begin()
        with self._guard:
            view = self._known(key, is_head=is_head)
            if view is not None:
                return view
            reading = self._reading.setdefault(key, Lock())
        with cancel.holding(reading):
            with self._guard:
                view = self._known(key, is_head=is_head)
                if view is not None:
                    return view
                if is_head:
                    self._head = None  # the old one's memory first
            try:
                view = read()
                with self._guard:
                    if is_head:
                        self._head = (key, view)
                    else:
                        self._keep_older(key, view)
                return view
            finally:
                with self._guard:
                    self._reading.pop(key, None)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._guard = Lock()
        self._reading: dict[ViewKey, Lock] = {}

    def _known(self, key: ViewKey, *, is_head: bool) -> GenerationView | None:
        self._drop_outdated(key)
        if self._head is not None and self._head[0] == key:
            view = self._head[1]
            if not is_head:  # it was, and is asked for by number now
                self._head = None
                self._keep_older(key, view)
            return view
        found = self._older.get(key)
        if found is not None:
            self._older.move_to_end(key)
        return found

    def _keep_older(self, key: ViewKey, view: GenerationView) -> None:
        self._older[key] = view
        while len(self._older) > 1 and (
            len(self._older) > OLDER_VIEWS
            or sum(kept.nbytes for kept in self._older.values()) > OLDER_BYTES
        ):
            self._older.popitem(last=False)

    def _drop_outdated(self, key: ViewKey) -> None:
        """Views of another file that had the name, and of the generation before a purge."""
        if self._head is not None and _is_outdated(self._head[0], key):
            self._head = None
        for other in [other for other in self._older if _is_outdated(other, key)]:
            del self._older[other]


def _is_outdated(key: ViewKey, now: ViewKey) -> bool:
    if key[:2] != now[:2]:
        return True
    return key.generation == now.generation and key.chunks != now.chunks
