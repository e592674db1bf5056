"""Walking a root by descriptors: any depth, few open folders, nothing held but what is to come.

Order: the files of a folder by the bytes of their names, then each of its sub-folders likewise, all
of one before the next. Held in memory are the names of one folder and the names of sub-folders
still to be visited, never the tree.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from sqlindex.model.documents import Refusal, RefusalReason
from sqlindex.sources.containment import open_folder, why_not_opened
from sqlindex.sources.ignore import IgnoreFileError, IgnoreRules, Inherited
from sqlindex.sources.left_out import ENVIRONMENT_MARKERS
from sqlindex.sources.paths import document_id_of

MAX_OPEN_FOLDERS = 32


@dataclass(slots=True)
class Folder:
    """A folder to be visited; its path is in the chain of parents, so depth costs no memory."""

    name: bytes
    parent: Folder | None
    depth: int
    inherited: Inherited
    identity: tuple[int, int] | None = field(default=None, init=False)

    def path(self) -> bytes:
        """From the root, with a slash at its end; empty for the root."""
        names = [b""]
        folder = self
        while folder.parent is not None:
            names.append(folder.name)
            folder = folder.parent
        return b"/".join(reversed(names))


@dataclass(frozen=True, slots=True)
class VisitedFolder:
    """A folder while it is visited.

    Attributes:
        path: from the root, with a slash at its end; empty for the root.
        entries: all that is no folder and not left out, last name first, so that a consumer
            that pops them frees each. Valid until the walk goes on.
        left_out: how many files and folders directly in it were left out.
    """

    path: bytes
    entries: list[os.DirEntry[str]]
    left_out: int


class FolderChain:
    """The folder being visited and those above it, of which only the last few stay open.

    A closed one is opened again from the nearest open folder above it, each component without
    following links, and must be the folder it was.
    """

    def __init__(self, root_folder: Folder, root: int) -> None:
        self._folders = [root_folder]
        self._descriptors = [root]

    def parent_of(self, folder: Folder) -> int:
        """The open parent of a folder, which is the last folder entered or above it.

        Raises:
            OSError: a folder on the way cannot be opened again, or is not the one it was.
        """
        descriptors = self._descriptors
        self._leave_below(folder.depth)
        at = max(depth for depth, descriptor in enumerate(descriptors) if descriptor >= 0)
        for depth in range(at + 1, folder.depth):
            self._open(self._folders[depth], depth)
        return descriptors[folder.depth - 1]

    def enter(self, folder: Folder) -> int:
        """Open a folder whose parent is open; the descriptor belongs to the chain.

        Raises:
            OSError: it cannot be opened.
        """
        self._folders.append(folder)
        self._descriptors.append(-1)
        return self._open(folder, folder.depth)

    def close(self) -> None:
        """Close every descriptor, the root's too."""
        self._leave_below(0)

    def _leave_below(self, depth: int) -> None:
        for descriptor in self._descriptors[depth:]:
            if descriptor >= 0:
                os.close(descriptor)
        del self._descriptors[depth:], self._folders[depth:]

    def _open(self, folder: Folder, depth: int) -> int:
        descriptors = self._descriptors
        opened = descriptors[depth] = open_folder(folder.name, descriptors[depth - 1])
        found = os.fstat(opened)
        identity = (found.st_dev, found.st_ino)
        if folder.identity is None:
            folder.identity = identity
        elif folder.identity != identity:
            raise OSError(errno.ESTALE, "a folder above it was replaced during the listing")
        # The root stays open: to close it would mean to trust its path again.
        farthest = depth - MAX_OPEN_FOLDERS
        if farthest > 0 and descriptors[farthest] >= 0:
            os.close(descriptors[farthest])
            descriptors[farthest] = -1
        return opened


def walk(root: int, rules: IgnoreRules) -> Iterator[VisitedFolder | Refusal]:
    """Visit the root and every folder below it that is not left out.

    Args:
        root: open descriptor; closed when the walk ends.
        rules: what is left out.

    Yields:
        Each folder once, and a refusal for each that cannot be listed. Its id ends in a slash and
        stands for everything below: nothing there may be taken for deleted.

    Raises:
        OSError, IgnoreFileError: the root itself cannot be listed.
    """
    top = Folder(b"", None, 0, rules.at_root())
    chain = FolderChain(top, root)
    try:
        visited, pending = _visit(root, b"", top, rules)
        yield from visited
        while pending:
            folder = pending.pop()
            try:
                parent = chain.parent_of(folder)
            except OSError as exc:
                yield _unreadable(folder.path(), exc)
                continue
            try:
                descriptor = chain.enter(folder)
            except OSError as exc:
                reason, _ = why_not_opened(exc, folder.name, parent)
                if reason is RefusalReason.SYMLINK:
                    yield Refusal(document_id_of(folder.path()[:-1]), reason, "a symbolic link")
                elif reason is not RefusalReason.VANISHED:
                    yield _unreadable(folder.path(), exc)
                continue
            try:
                visited, folders = _visit(descriptor, folder.path(), folder, rules)
            except (OSError, IgnoreFileError) as exc:
                yield _unreadable(folder.path(), exc)
                continue
            yield from visited
            pending.extend(folders)
    finally:
        chain.close()


def _visit(
    descriptor: int, path: bytes, folder: Folder, rules: IgnoreRules
) -> tuple[list[VisitedFolder | Refusal], list[Folder]]:
    """One folder's entries (after refusals of its ignore files), and its folders, last first."""
    inside = rules.in_folder(descriptor, path, folder.inherited)
    entries: list[os.DirEntry[str]] = []
    folders: list[Folder] = []
    left_out = 0
    with os.scandir(descriptor) as scan:
        for entry in scan:
            name = entry.name
            if name in ENVIRONMENT_MARKERS and folder.parent is not None:
                return [VisitedFolder(path, [], 1)], []
            if not entry.is_dir(follow_symlinks=False):
                if inside.leaves_out(name):
                    left_out += 1
                else:
                    entries.append(entry)
                continue
            inherited = inside.enter(name)
            if inherited is None:
                left_out += 1
            else:
                folders.append(Folder(os.fsencode(name), folder, folder.depth + 1, inherited))
    entries.sort(key=_name_bytes, reverse=True)
    folders.sort(key=attrgetter("name"), reverse=True)
    refusals = [
        Refusal(
            document_id_of(path + link),
            RefusalReason.SYMLINK,
            "an ignore file that is a symbolic link has no effect",
            "replace the link by a file",
        )
        for link in inside.links
        # One that is listed is refused with the other links.
        if inside.leaves_out(os.fsdecode(link))
    ]
    return [*refusals, VisitedFolder(path, entries, left_out)], folders


def _name_bytes(entry: os.DirEntry[str]) -> bytes:
    return os.fsencode(entry.name)


def _unreadable(path: bytes, exc: OSError | IgnoreFileError) -> Refusal:
    detail = exc.strerror if isinstance(exc, OSError) else str(exc)
    return Refusal(
        document_id_of(path),
        RefusalReason.UNREADABLE,
        f"the folder cannot be listed: {detail}",
        "make it readable, or exclude it; what was indexed below it is kept",
    )
