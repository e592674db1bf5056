"""Walking a root by descriptors: any depth, any number of entries, few open folders.

Order: the files of a folder by the bytes of their names, then each of its sub-folders likewise, all
of one before the next. Held are the rules of the folders above the visited one and a bounded number
of names (`names`), never the tree.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlindex.model.documents import Refusal, RefusalReason
from sqlindex.sources.containment import open_folder, why_not_opened
from sqlindex.sources.ignore import (
    FolderRules,
    IgnoreFileError,
    IgnoreRules,
    Inherited,
    LeftOut,
    in_environment,
)
from sqlindex.sources.left_out import ENVIRONMENT_MARKERS
from sqlindex.sources.lookup import look_up
from sqlindex.sources.names import NameFile, is_empty, read_names
from sqlindex.sources.open_folders import OpenFolders
from sqlindex.sources.paths import document_id_of, text_of

_NO_MARKERS: frozenset[str] = frozenset()
_OTHER_FILESYSTEM = LeftOut(
    RefusalReason.OTHER_FILESYSTEM,
    "another file system is mounted here, and the source stays on one",
    "register it as a source of its own, or let the source list other file systems",
)


class EmptyMountError(Exception):
    """The root was a mount point and is an empty folder now; internal to the sources."""


@dataclass(frozen=True, slots=True)
class WalkScope:
    """What of a root is walked.

    Attributes:
        part: components of the one file or folder to be listed; none for all.
        known_mounts: paths of the folders that were mount points before, empty for the root.
        is_root_mount: whether the root is on another device than the folder above it.
        one_file_system: whether other file systems below the root are left out.
    """

    part: Sequence[bytes] = ()
    known_mounts: frozenset[bytes] = frozenset()
    is_root_mount: bool = False
    one_file_system: bool = False


@dataclass(frozen=True, slots=True)
class VisitedFolder:
    """A folder while it is visited; valid until the walk goes on.

    Attributes:
        path: from the root, with a slash at its end; empty for the root.
        descriptor: open.
        names: of all that is no folder, in order, left out or not; to be used up.
        rules: what of it is left out.
        only_links: whether nothing but a link counts, since something below it was asked for.
    """

    path: bytes
    descriptor: int
    names: Iterator[bytes]
    rules: FolderRules
    only_links: bool


@dataclass(frozen=True, slots=True)
class _Entered:
    """A folder whose sub-folders are being visited."""

    rules: FolderRules
    folders: Iterator[bytes]
    held: int
    file_end: int
    path_length: int


class Walk:
    """One walk over a root or over a part of it.

    A part is walked as the whole is, except that the folders above it seem to hold only the next
    component: the same rules and refusals apply, and nothing beside it is looked at.

    Args:
        root: open descriptor; closed when the walk ends.
        rules: what is left out.
        scope: what is walked.
    """

    def __init__(self, root: int, rules: IgnoreRules, scope: WalkScope) -> None:
        self._rules = rules
        self._scope = scope
        self._open = OpenFolders(root)
        self._names = NameFile()
        self._entered: list[_Entered] = []
        self._path = b""
        self._held = 0
        self.mounts: set[bytes] = {b""} if scope.is_root_mount else set()
        """Paths of the mount points met, and of the known ones that could not be looked at."""

    def run(self) -> Iterator[VisitedFolder | Refusal]:
        """Visit the root and every folder below it that is not left out.

        Yields:
            Each folder once, and a refusal for each that is left out or cannot be listed. Its id
            ends in a slash and stands for everything below.

        Raises:
            OSError, IgnoreFileError, EmptyMountError: the root itself cannot be listed.
            StorageError: there is no room to sort the names of a large folder.
        """
        scope = self._scope
        try:
            root = self._open.last()
            if b"" in scope.known_mounts and not scope.is_root_mount and is_empty(root):
                raise EmptyMountError
            visited = self._visit(root, self._rules.at_root())
            assert isinstance(visited, VisitedFolder)  # a root is no environment
            yield visited
            while self._entered:
                name = next(self._entered[-1].folders, None)
                if name is None:
                    self._leave()
                elif (found := self._enter(name)) is not None:
                    yield found
        finally:
            self._open.close()
            self._names.close()

    def _enter(self, name: bytes) -> VisitedFolder | Refusal | None:
        inherited = self._entered[-1].rules.enter(name, text_of(name), self._path)
        if isinstance(inherited, LeftOut):
            return self._left_out(name, inherited)
        try:
            parent = self._open.last()
        except OSError as exc:
            return self._unreadable(name, f"the folder cannot be listed: {exc.strerror}")
        try:
            descriptor = open_folder(name, parent)
        except OSError as exc:
            reason, _ = why_not_opened(exc, name, parent)
            if reason is RefusalReason.SYMLINK:
                return Refusal(document_id_of(self._path + name), reason, "a symbolic link")
            if reason is RefusalReason.VANISHED:
                return None
            return self._unreadable(name, f"the folder cannot be listed: {exc.strerror}")
        refusal = self._never_listed(name, descriptor)
        if refusal is not None:
            os.close(descriptor)
            return refusal
        found = os.fstat(descriptor)
        is_mount = found.st_dev != self._open.device
        visited: VisitedFolder | LeftOut | OSError | IgnoreFileError
        above = len(self._path)
        self._open.push(name, (found.st_dev, found.st_ino), descriptor)
        self._path += name + b"/"
        try:
            visited = self._visit(descriptor, inherited)
        except (OSError, IgnoreFileError) as exc:
            visited = exc
        if is_mount and not isinstance(visited, LeftOut):
            self.mounts.add(self._path[:-1])
        if isinstance(visited, VisitedFolder):
            return visited
        self._open.pop()
        self._path = self._path[:above]
        if isinstance(visited, LeftOut):
            return self._left_out(name, visited)
        detail = visited.strerror if isinstance(visited, OSError) else str(visited)
        return self._unreadable(name, f"the folder cannot be listed: {detail}")

    def _never_listed(self, name: bytes, descriptor: int) -> Refusal | None:
        """The refusal of a folder that is not listed for what it is, not for its name."""
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) in self._open:
            return Refusal(
                document_id_of(self._path + name + b"/"),
                RefusalReason.LOOP,
                "it is a folder that it lies in (a bind mount)",
                "nothing is missing: that folder is listed already",
            )
        if found.st_dev != self._open.device:
            return self._left_out(name, _OTHER_FILESYSTEM) if self._scope.one_file_system else None
        if self._path + name not in self._scope.known_mounts:
            return None
        try:
            if not is_empty(descriptor):
                return None
        except OSError as exc:
            return self._unreadable(name, f"the folder cannot be listed: {exc.strerror}")
        return self._unreadable(
            name,
            "nothing is mounted here now, and an earlier listing found a file system",
            "mount it; or, if it is gone for good, remove the empty folder",
        )

    def _visit(self, descriptor: int, inherited: Inherited) -> VisitedFolder | LeftOut:
        """Read the folder that was entered last, unless it is an environment.

        Raises:
            OSError, IgnoreFileError: it cannot be read.
        """
        path, part, depth = self._path, self._scope.part, len(self._entered)
        rules = self._rules.in_folder(descriptor, path, inherited)
        markers = ENVIRONMENT_MARKERS if depth else _NO_MARKERS
        file_end = self._names.end
        try:
            if depth < len(part):
                found = look_up(descriptor, part[depth], markers, self._rules.ignore_case)
            else:
                found = read_names(
                    descriptor, self._names, self._held, markers, self._rules.ignore_case
                )
        except OSError:
            self._names.cut(file_end)
            raise
        if found.marker is not None:
            self._names.cut(file_end)
            return in_environment(found.marker)
        self._held += found.held
        self._entered.append(_Entered(rules, found.folders, found.held, file_end, len(path)))
        return VisitedFolder(path, descriptor, found.files, rules, depth < len(part) - 1)

    def _leave(self) -> None:
        left = self._entered.pop()
        self._held -= left.held
        self._names.cut(left.file_end)
        self._open.pop()
        if self._entered:
            self._path = self._path[: self._entered[-1].path_length]

    def _left_out(self, name: bytes, rule: LeftOut) -> Refusal:
        folder_id = document_id_of(self._path + name + b"/")
        return Refusal(folder_id, rule.reason, rule.detail, rule.hint)

    def _unreadable(
        self, name: bytes, detail: str, hint: str = "make it readable, or exclude it"
    ) -> Refusal:
        path = self._path + name + b"/"
        self.mounts.update(
            mount for mount in self._scope.known_mounts if (mount + b"/").startswith(path)
        )
        hint += "; what was indexed below it is kept"
        return Refusal(document_id_of(path), RefusalReason.UNREADABLE, detail, hint)
