"""The folder source: the files below one root as documents."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence

from sqlindex.errors import SourceError
from sqlindex.filetypes.builtin import BUILTIN_REGISTRY
from sqlindex.filetypes.registry import FileTypeRegistry
from sqlindex.filetypes.unsupported import unsupported
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal, RefusalReason
from sqlindex.mounts import filesystem_of, is_network, mounts_below, read_mounts
from sqlindex.sources.containment import (
    contained_components,
    ignores_case,
    is_on_other_device,
    open_root,
)
from sqlindex.sources.entries import entries_of
from sqlindex.sources.ignore import IgnoreFileError, IgnoreRules
from sqlindex.sources.paths import document_id_of, path_of
from sqlindex.sources.stable_read import read_stable
from sqlindex.sources.walk import EmptyMountError, Walk, WalkScope


class FolderSource:
    """The files below a root whose extension the registry knows.

    A document's id is its path relative to the root (`paths.document_id_of`). Links are never
    followed, special files never opened; see `containment` for what that protects against, and
    `ignore` for what is left out.

    Args:
        name: unique within the index.
        root: as `containment.canonical_root` gave it at registration.
        include: patterns as in `.gitignore`; if given, only files that match are listed.
        exclude: patterns of files and folders that are left out.
        hidden: whether names that begin with a dot are listed.
        use_gitignore: whether `.gitignore` files count.
        own_files: paths of the index and its sidecars, relative to the root; never listed.
        known_mounts: `mount_points` of an earlier listing: where nothing is mounted any more, an
            empty folder does not mean that its documents are gone.
        one_file_system: whether other file systems mounted below the root are left out.
        registry: which extensions are documents, and up to which size.

    Raises:
        ValueError: the root is not absolute and normal, or a pattern is malformed; a known mount is
            no document id.
    """

    def __init__(
        self,
        name: str,
        root: str,
        *,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        hidden: bool = False,
        use_gitignore: bool = True,
        own_files: Iterable[str] = (),
        known_mounts: Iterable[str] = (),
        one_file_system: bool = False,
        registry: FileTypeRegistry = BUILTIN_REGISTRY,
    ) -> None:
        if not os.path.isabs(root) or os.path.normpath(root) != root:
            raise ValueError(f"root {root!r} is not as canonical_root() gives it")
        self._name = name
        self._root = root
        self._registry = registry
        self._rules = IgnoreRules(
            include=include,
            exclude=exclude,
            hidden=hidden,
            use_gitignore=use_gitignore,
            ignore_case=ignores_case(root),
            own_files=own_files,
        )
        self._one_file_system = one_file_system
        self._mount_points = tuple(sorted(known_mounts))
        self._known_mounts = frozenset(path_of(mount) for mount in self._mount_points)
        self._root_identity: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """Unique within the index."""
        return self._name

    @property
    def root(self) -> str:
        """Canonical absolute path."""
        return self._root

    @property
    def filesystem(self) -> str | None:
        """Type of the file system that the root is on now (`ext4`, `nfs4`, `fuse.sshfs`).

        None where the system does not say, as on all but Linux.
        """
        return filesystem_of(self._root, read_mounts())

    @property
    def trusts_stat(self) -> bool:
        """Whether an unchanged stat means unchanged bytes.

        False if the root, or a file system mounted below it that is listed, is a network one: its
        sizes, times and inodes come from a cache. The files are then to be read and compared. To be
        asked once a listing has begun, since an automounter mounts only then.
        """
        mounts = read_mounts()
        if is_network(filesystem_of(self._root, mounts)):
            return False
        if self._one_file_system:
            return True
        return not any(is_network(mount.type_name) for mount in mounts_below(self._root, mounts))

    @property
    def mount_points(self) -> tuple[str, ...]:
        """Ids of the folders at which another file system begins, in order; "" for the root.

        As the last complete listing met them, with the known ones that could not be looked at, and
        what listings of parts have met since; before the first one those that were known.
        """
        return self._mount_points

    def list(self) -> Iterator[DocumentRef | Refusal]:
        """Yield every file below the root, and a refusal for each entry that is not a document.

        In the order of `walk`: a folder's files by the bytes of their names, then its sub-folders
        likewise. One stat for each file, nothing is read. What a rule leaves out has a refusal too
        (`RefusalReason.is_left_out`). A refusal whose id ends in a slash is a folder that stands
        for all that is below it: where its reason `keeps_last_version`, the folder could not be
        listed, and what was indexed below it must be kept.

        Raises:
            SourceError: the root cannot be listed, a part of its path became a link, or it was a
                mount point and nothing is mounted there now.
            StorageError: there is no room to sort the names of a folder with very many entries.
        """
        walk = yield from self._walked(())
        self._mount_points = tuple(sorted(document_id_of(path) for path in walk.mounts))

    def list_under(self, document_id: str) -> Iterator[DocumentRef | Refusal]:
        """Yield what `list` yields of one file, or of one folder and everything below it.

        Reads the ignore files of the folders above and nothing else beside it: O(depth + entries
        below it). Where it is inside a folder that is left out, cannot be listed, or is a link, the
        one refusal of the topmost such folder is yielded. Nothing is yielded where nothing is.

        Args:
            document_id: of the file; or of the folder, without a slash at its end. Empty for all.

        Raises:
            SourceError, StorageError: as `list`.
        """
        if not document_id:
            yield from self.list()
            return
        try:
            part = contained_components(document_id)
        except ValueError as exc:
            yield Refusal(document_id, RefusalReason.TRAVERSAL, str(exc))
            return
        walk = yield from self._walked(part)
        met = {document_id_of(path) for path in walk.mounts}
        self._mount_points = tuple(sorted(met.union(self._mount_points)))

    def _walked(self, part: Sequence[bytes]) -> Generator[DocumentRef | Refusal, None, Walk]:
        root = open_root(self._root, to_list=True)
        self._root_identity = _identity(root)
        scope = WalkScope(
            part,
            self._known_mounts,
            is_root_mount=is_on_other_device(self._root, self._root_identity[0]),
            one_file_system=self._one_file_system,
        )
        walk = Walk(root, self._rules, scope)
        try:
            for visited in walk.run():
                if isinstance(visited, Refusal):
                    yield visited
                else:
                    yield from entries_of(visited, self._registry)
        except EmptyMountError as exc:
            raise SourceError(
                f"source folder {self._root!r} is empty and nothing is mounted there now, where an "
                "earlier listing found a file system",
                hint="mount it, or remove the source",
            ) from exc
        except (OSError, IgnoreFileError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else str(exc)
            raise SourceError(
                f"source folder {self._root!r} cannot be listed: {reason}",
                hint="make it readable, or remove the source",
            ) from exc
        return walk

    def read(self, ref: DocumentRef) -> RawDocument | Refusal:
        """Read one listed file, bounded by its type's limit, as it was at one moment.

        A file that changes meanwhile is read once more, then refused as `CHANGED`; one that was
        replaced since the listing is read as it is now. `stat` of the result belongs to its bytes.

        Raises:
            SourceError: the root cannot be opened, or is another folder than the listed one: to
                call its files vanished would delete them all.
        """
        file_type = self._registry.for_extension(ref.type_name)
        if file_type is None:
            return unsupported(ref.document_id, ref.type_name)
        try:
            components = contained_components(ref.document_id)
        except ValueError as exc:
            return Refusal(ref.document_id, RefusalReason.TRAVERSAL, str(exc))
        root = open_root(self._root, to_list=False)
        try:
            if self._root_identity not in (None, _identity(root)):
                raise SourceError(
                    f"source folder {self._root!r} was replaced after it was listed",
                    hint="refresh again",
                )
            outcome = read_stable(
                root,
                components,
                ref.document_id,
                max_bytes=file_type.max_bytes,
                listed=ref.stat,
            )
        finally:
            os.close(root)
        if isinstance(outcome, Refusal):
            return outcome
        data, stat = outcome
        return RawDocument(data, modified_ns=stat.mtime_ns, stat=stat)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
