"""The folder being visited and those above it, of which only the last few stay open."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from sqlindex.sources.containment import open_folder

MAX_OPEN_FOLDERS = 32


@dataclass(slots=True)
class _Entered:
    name: bytes
    identity: tuple[int, int]
    descriptor: int


class OpenFolders:
    """A stack of folders by descriptors, any number deep.

    A closed one is opened again from the nearest open folder above it, each component without
    following links, and must be the folder it was. The root stays open: to close it would mean to
    trust its path again.

    Args:
        root: open descriptor; belongs to the stack.
    """

    def __init__(self, root: int) -> None:
        found = os.fstat(root)
        self._stack = [_Entered(b"", (found.st_dev, found.st_ino), root)]
        self._identities = {self._stack[0].identity}

    @property
    def device(self) -> int:
        """Of the last folder."""
        return self._stack[-1].identity[0]

    def __contains__(self, identity: tuple[int, int]) -> bool:
        """Whether a folder of this device and inode is in the stack."""
        return identity in self._identities

    def last(self) -> int:
        """The descriptor of the last folder.

        Raises:
            OSError: a folder on the way cannot be opened again, or is not the one it was.
        """
        stack = self._stack
        at = len(stack) - 1
        while stack[at].descriptor < 0:
            at -= 1
        for depth in range(at + 1, len(stack)):
            folder = stack[depth]
            opened = open_folder(folder.name, stack[depth - 1].descriptor)
            found = os.fstat(opened)
            if (found.st_dev, found.st_ino) != folder.identity:
                os.close(opened)
                raise OSError(errno.ESTALE, "a folder above it was replaced during the listing")
            folder.descriptor = opened
            self._close_far(depth)
        return stack[-1].descriptor

    def push(self, name: bytes, identity: tuple[int, int], descriptor: int) -> None:
        """Enter a folder of the last one; its descriptor belongs to the stack now."""
        self._stack.append(_Entered(name, identity, descriptor))
        self._identities.add(identity)
        self._close_far(len(self._stack) - 1)

    def pop(self) -> None:
        """Leave the last folder."""
        left = self._stack.pop()
        self._identities.discard(left.identity)
        if left.descriptor >= 0:
            os.close(left.descriptor)

    def close(self) -> None:
        """Close every descriptor."""
        while self._stack:
            self.pop()

    def _close_far(self, depth: int) -> None:
        far = depth - MAX_OPEN_FOLDERS
        if far > 0 and self._stack[far].descriptor >= 0:
            os.close(self._stack[far].descriptor)
            self._stack[far].descriptor = -1
