"""The names in a folder, sorted by their bytes: many of them are sorted on disk, not in memory.

A folder with a million entries and a folder with a million sub-folders cost the same few megabytes
as small ones: beyond `MAX_NAMES_HELD` names are sorted in runs, written to one anonymous temporary
file, and merged as they are asked for. Folders are left in the reverse order of entering them, so
the file is a stack: leaving a folder cuts its runs off.
"""

from __future__ import annotations

import heapq
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO

from sqlindex.errors import StorageError

MAX_NAMES_HELD = 50_000
"""Names in memory: of one folder while it is read, and of sub-folders still to be visited."""
_READ_BYTES = 32 * 1024


class NameFile:
    """Runs of names in an anonymous temporary file that only its last runs leave.

    It is made with the first run. It cannot be opened by others and is gone with the process.

    Raises:
        StorageError: from every method, if the file cannot be made, written or read.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self.end = 0
        """Bytes in the file, which is where the next run begins."""

    def append(self, names: list[bytes]) -> Iterator[bytes]:
        """Write names, none of which holds a NUL, and give them back one by one when asked."""
        start = self.end
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as the walk is
            rest = memoryview(b"\0".join(names) + b"\0")
            while rest:
                written = os.pwrite(self._file.fileno(), rest, self.end)
                self.end += written
                rest = rest[written:]
        except OSError as exc:
            raise _storage_error(exc) from exc
        return self._read(self._file.fileno(), start, self.end)

    def _read(self, file: int, start: int, end: int) -> Iterator[bytes]:
        begun = b""
        while start < end:
            try:
                piece = os.pread(file, min(_READ_BYTES, end - start), start)
            except OSError as exc:
                raise _storage_error(exc) from exc
            if not piece:
                raise StorageError("the temporary file of a listing was cut short")
            start += len(piece)
            *whole, begun = (begun + piece).split(b"\0")
            yield from whole

    def cut(self, end: int) -> None:
        """Drop all runs from this position on."""
        if self._file is not None and end < self.end:
            try:
                os.ftruncate(self._file.fileno(), end)
            except OSError as exc:
                raise _storage_error(exc) from exc
            self.end = end

    def close(self) -> None:
        """Give the space back; what was appended can no longer be read."""
        if self._file is not None:
            self._file.close()


def _storage_error(exc: OSError) -> StorageError:
    return StorageError(
        f"the names of a large folder cannot be sorted in {tempfile.gettempdir()!r}: "
        f"{exc.strerror}",
        hint="make room there, or set TMPDIR to a folder with room",
    )


class SortedNames:
    """Names that are added in any order and taken in the order of their bytes, each once.

    A directory that changes while it is read may name an entry twice.
    """

    def __init__(self, file: NameFile) -> None:
        self._file = file
        self._runs: list[Iterator[bytes]] = []
        self.held: list[bytes] = []
        """Names not yet written; the caller appends to it and calls `spill` when they are many."""

    def spill(self) -> None:
        """Sort the names that are held and write them out."""
        if self.held:
            self.held.sort()
            self._runs.append(self._file.append(self.held))
            self.held.clear()

    def take(self) -> Iterator[bytes]:
        """All names in order; to be called once."""
        self.held.sort()
        names = heapq.merge(*self._runs, self.held) if self._runs else iter(self.held)
        last = None
        for name in names:
            if name != last:
                yield name
                last = name


@dataclass(slots=True)
class FolderNames:
    """What a folder holds.

    Attributes:
        files: names of all that is no folder, links to folders among it.
        folders: names of its folders.
        held: how many names of folders are in memory.
        marker: the name that was looked for, if it is there.
    """

    files: Iterator[bytes] = field(default_factory=lambda: iter(()))
    folders: Iterator[bytes] = field(default_factory=lambda: iter(()))
    held: int = 0
    marker: str | None = None


def read_names(
    folder: int, file: NameFile, held: int, markers: frozenset[str], ignore_case: bool
) -> FolderNames:
    """Read a folder whole, in memory bounded by `MAX_NAMES_HELD` names.

    Args:
        folder: open descriptor.
        file: where the names go that are too many.
        held: how many names of other folders are in memory.
        markers: lower-case names; when one is met, reading ends and only `marker` is set.
        ignore_case: whether a marker counts in any case of its letters.

    Raises:
        OSError: it cannot be read; what was written to `file` is for the caller to cut off.
        StorageError: the temporary file failed.
    """
    files, folders = SortedNames(file), SortedNames(file)
    add_file, add_folder = files.held.append, folders.held.append
    fsencode = os.fsencode
    limit = MAX_NAMES_HELD
    with os.scandir(folder) as scan:
        while True:
            for entry in islice(scan, limit):
                name = entry.name
                if name in markers or (ignore_case and name.lower() in markers):
                    return FolderNames(marker=name)
                if entry.is_dir(follow_symlinks=False):
                    add_folder(fsencode(name))
                else:
                    add_file(fsencode(name))
            if len(files.held) + len(folders.held) < limit:
                break
            files.spill()
            folders.spill()
    if held + len(folders.held) > limit:
        folders.spill()
    return FolderNames(files.take(), folders.take(), len(folders.held))


def is_empty(folder: int) -> bool:
    """Whether a folder has no entry. Raises OSError if it cannot be read."""
    with os.scandir(folder) as scan:
        return next(scan, None) is None
