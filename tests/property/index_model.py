"""What an index must hold, in dictionaries: files on disk, generations, what is kept of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

Key = tuple[str, str]
"""(source, document id)"""

BAD_IGNORE_FILE = b"x" * 100_000 + b"\n"
"""A folder with such a `.gitignore` is not listed: what was indexed below it stays."""

_IGNORE_FILE = ".gitignore"
_INDEXED = (".txt", ".md", ".py")


@dataclass(slots=True)
class Cell:
    """The inode of a file: hard links share it."""

    data: bytes
    is_readable: bool = True


class Folder:
    """A folder of real files, and what lies in it as a dictionary.

    Each method changes both. A path that is in the way is removed first, with all below it, and
    folders above are made.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root = root
        self.files: dict[str, Cell | None] = {}
        """By path from the root; None for what is no file (a link, a FIFO)."""

    # What a complete listing must find

    def documents(self) -> dict[str, str]:
        """Text by document id."""
        return {
            path: cell.data.decode()
            for path, cell in self.files.items()
            if cell is not None and b"\0" not in cell.data and not self.is_unreadable(path)
            if path.endswith(_INDEXED)
        }

    def is_unreadable(self, path: str) -> bool:
        """Whether nobody can tell now what is there."""
        cell = self.files.get(path)
        return (cell is not None and not cell.is_readable) or any(
            path.startswith(folder) for folder in self._blocked()
        )

    def _blocked(self) -> Iterator[str]:
        for path, cell in self.files.items():
            if cell is not None and cell.data == BAD_IGNORE_FILE:
                yield path.removesuffix(_IGNORE_FILE)

    # What happens to files

    def paths(self) -> list[str]:
        """Of all files, links and FIFOs, but for ignore files."""
        return sorted(path for path in self.files if not path.endswith(_IGNORE_FILE))

    def regular(self) -> list[str]:
        """Of all files, but for ignore files."""
        return [path for path in self.paths() if self.files[path] is not None]

    def write(self, path: str, data: bytes) -> None:
        """Write over the file that is there, and over its other links; or make one."""
        cell = self.files.get(path)
        if cell is None:
            self._make_room(path)
            cell = self.files[path] = Cell(data)
        else:
            self.change_mode(path, is_readable=True)
        cell.data = data
        (self.root / path).write_bytes(data)

    def append(self, path: str, data: bytes) -> None:
        """Write behind what is there."""
        cell = self.files[path]
        assert cell is not None
        self.write(path, cell.data + data)

    def replace(self, path: str, data: bytes) -> None:
        """Put another file in the place of what is there, as editors do."""
        if self.files.get(path) is None:
            self._make_room(path)
        beside = self.root.parent / "beside"
        beside.write_bytes(data)
        os.replace(beside, self.root / path)
        self.files[path] = Cell(data)

    def block(self, folder: str) -> None:
        """Make a folder that cannot be listed."""
        self.write(f"{folder}/{_IGNORE_FILE}", BAD_IGNORE_FILE)

    def rename(self, old: str, new: str) -> None:
        """Move a file, or a folder with all below it."""
        self._make_room(new)
        (self.root / old).rename(self.root / new)
        for path in [path for path in self.files if is_at(path, old)]:
            self.files[new + path[len(old) :]] = self.files.pop(path)

    def delete(self, path: str) -> None:
        """Remove what is there, with all below it."""
        target = self.root / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        self.files = {other: cell for other, cell in self.files.items() if not is_at(other, path)}

    def touch(self, path: str, seconds: int) -> None:
        """Change the times of a file, and nothing else."""
        os.utime(self.root / path, (seconds, seconds))

    def change_mode(self, path: str, *, is_readable: bool) -> None:
        """Change who may read a file; root may always."""
        cell = self.files[path]
        assert cell is not None
        os.chmod(self.root / path, 0o644 if is_readable else 0)
        cell.is_readable = is_readable or os.geteuid() == 0

    def hard_link(self, old: str, new: str) -> None:
        """Give a file another name."""
        self._make_room(new)
        os.link(self.root / old, self.root / new)
        self.files[new] = self.files[old]

    def symlink(self, path: str, target: str) -> None:
        """Make a link, whether it leads somewhere or not."""
        self._make_room(path)
        (self.root / path).symlink_to(target)
        self.files[path] = None

    def fifo(self, path: str) -> None:
        """Make a FIFO, which nobody writes to."""
        self._make_room(path)
        os.mkfifo(self.root / path)
        self.files[path] = None

    def _make_room(self, path: str) -> None:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            above = self.root / "/".join(parts[:depth])
            if above.is_symlink() or not above.is_dir():
                self.delete("/".join(parts[:depth]))
                above.mkdir()
        self.delete(path)


def is_at(path: str, place: str) -> bool:
    """Whether a path is that place, or lies below it."""
    return path == place or path.startswith(place + "/")


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation: the text of each document, and the encoding of its vectors or None."""

    documents: Mapping[Key, str] = field(default_factory=lambda: MappingProxyType({}))
    space: str | None = None


@dataclass(frozen=True, slots=True)
class IndexModel:
    """An index: its generations that can be read, and what decides how long.

    Each method gives the index afterwards.

    Attributes:
        kept: by number, ascending; the head is the last.
        tags: generation by name.
        retention: how many generations stay.
        keeps_vectors: whether vectors outlive their last use.
    """

    kept: Mapping[int, Generation] = field(
        default_factory=lambda: MappingProxyType({0: Generation()})
    )
    tags: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    retention: int = 5
    keeps_vectors: bool = True

    @property
    def number(self) -> int:
        """Of the head."""
        return max(self.kept)

    @property
    def head(self) -> Generation:
        """What is searched."""
        return self.kept[self.number]

    def published(self, documents: Mapping[Key, str], space: str | None) -> IndexModel:
        """Documents and vectors become the next generation, unless they are those of the head.

        An index without documents has no vectors that could be other ones.
        """
        if documents == self.head.documents and (space == self.head.space or not documents):
            return self
        generation = Generation(MappingProxyType(dict(documents)), space)
        return replace(self, kept={**self.kept, self.number + 1: generation})

    def collected(self, held: Collection[int]) -> IndexModel:
        """The latest generations stay, and those that are tagged or held."""
        latest = sorted(self.kept)[-self.retention :]
        staying = {*latest, *self.tags.values(), *held}
        return replace(self, kept={n: g for n, g in self.kept.items() if n in staying})

    def purged(self, key: Key) -> IndexModel:
        """A document never was; that it has left the head is a generation of its own."""
        index = self
        if key in self.head.documents:
            index = self.published(_without(self.head, key).documents, self.head.space)
        return replace(index, kept={n: _without(g, key) for n, g in index.kept.items()})

    def tagged(self, name: str, number: int) -> IndexModel:
        """A generation gets a name, another one loses it."""
        return replace(self, tags={**self.tags, name: number})

    def untagged(self, name: str) -> IndexModel:
        """A generation loses a name."""
        return replace(self, tags={n: g for n, g in self.tags.items() if n != name})

    def retaining(self, generations: int, *, keeps_vectors: bool) -> IndexModel:
        """Something else is kept from now on."""
        return replace(self, retention=generations, keeps_vectors=keeps_vectors)


def _without(generation: Generation, key: Key) -> Generation:
    documents = {other: text for other, text in generation.documents.items() if other != key}
    return replace(generation, documents=documents)


def listed(
    head: Mapping[Key, str], source: str, folder: Folder, part: str | None = None
) -> dict[Key, str]:
    """The documents of the head with those of a folder, or of a part of it, as they are now."""
    found = {
        (source, id_): text
        for id_, text in folder.documents().items()
        if part is None or is_at(id_, part)
    }
    staying = {
        (name, id_): text
        for (name, id_), text in head.items()
        if name != source
        or (part is not None and not is_at(id_, part))
        or folder.is_unreadable(id_)
    }
    return {**staying, **found}


def written(key: Key, text: str) -> tuple[str, str]:
    """What decides how a document is cut: its extension, that of host's documents, and its text."""
    suffix = Path(key[1]).suffix
    return suffix if suffix in _INDEXED else ".txt", text


def difference(old: Mapping[Key, str], new: Mapping[Key, str]) -> tuple[int, int, int]:
    """How many documents came, went and changed."""
    changed = [key for key in old.keys() & new.keys() if old[key] != new[key]]
    return len(new.keys() - old.keys()), len(old.keys() - new.keys()), len(changed)
