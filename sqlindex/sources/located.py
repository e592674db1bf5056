"""Which registered folders a path of the file system lies in, and under which id."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from sqlindex.model.documents import DocumentRef, RawDocument, Refusal
from sqlindex.sources.paths import document_id_of


def located(path: str | os.PathLike[str], roots: Mapping[str, str]) -> list[tuple[str, str]]:
    """(source, document id) of a file or folder, for each root that it is or lies in.

    Links above the path are resolved, the path itself is not: a link inside a root is what that
    root lists under the link's name. Only a link that leads to a root itself is followed.

    Args:
        path: relative to the working folder, or absolute; it need not exist.
        roots: canonical root by source.

    Returns:
        Roots in order of their names; the id of a root itself is an empty text.
    """
    absolute = os.path.abspath(os.path.expanduser(os.fspath(path)))
    folder, name = os.path.split(absolute)
    spelled = os.path.join(os.path.realpath(folder), name)
    resolved = os.path.realpath(absolute)
    found = []
    for source, root in sorted(roots.items()):
        if resolved == root:
            found.append((source, ""))
            continue
        prefix = root.rstrip("/") + "/"
        # As written too: a folder above may have become a link that leads out of the root.
        for spelling in dict.fromkeys((spelled, absolute)):
            if spelling.startswith(prefix):
                found.append((source, document_id_of(os.fsencode(spelling[len(prefix) :]))))
    return found


class PartlyListed(Protocol):
    """A source that can list a part of itself."""

    @property
    def name(self) -> str: ...
    @property
    def trusts_stat(self) -> bool: ...
    @property
    def mount_points(self) -> tuple[str, ...]: ...
    def list_under(self, document_id: str) -> Iterator[DocumentRef | Refusal]: ...
    def read(self, ref: DocumentRef) -> RawDocument | Refusal: ...


class PartOfFolder:
    """Some files and folders of a source, listed without looking at the rest.

    Args:
        whole: the source.
        ids: of the files and folders, none below another.
    """

    def __init__(self, whole: PartlyListed, ids: Sequence[str]) -> None:
        self._whole = whole
        self._ids = ids

    @property
    def name(self) -> str:
        """Name of the source."""
        return self._whole.name

    @property
    def trusts_stat(self) -> bool:
        """As the source says."""
        return self._whole.trusts_stat

    @property
    def mount_points(self) -> tuple[str, ...]:
        """As the source says, with what this part has met."""
        return self._whole.mount_points

    def list(self) -> Iterator[DocumentRef | Refusal]:
        """Yield what the whole source would list there."""
        for document_id in self._ids:
            yield from self._whole.list_under(document_id)

    def read(self, ref: DocumentRef) -> RawDocument | Refusal:
        """Read one listed document."""
        return self._whole.read(ref)
