"""The folder source: the files below one root as documents."""

from __future__ import annotations

import os
import stat as stat_modes
from collections.abc import Iterable, Iterator

from sqlindex.errors import SourceError
from sqlindex.filetypes.builtin import BUILTIN_REGISTRY
from sqlindex.filetypes.registry import FileTypeRegistry
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal, RefusalReason
from sqlindex.sources.containment import contained_components, ignores_case, not_a_file, open_root
from sqlindex.sources.ignore import IgnoreFileError, IgnoreRules
from sqlindex.sources.paths import document_id_of
from sqlindex.sources.stable_read import HINTS, file_stat, read_stable, too_large
from sqlindex.sources.walk import VisitedFolder, walk


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
        registry: which extensions are documents, and up to which size.

    Raises:
        ValueError: the root is not absolute and normal, or a pattern is malformed.
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
        )
        self._root_identity: tuple[int, int] | None = None
        self._ignored_count = 0

    @property
    def name(self) -> str:
        """Unique within the index."""
        return self._name

    @property
    def root(self) -> str:
        """Canonical absolute path."""
        return self._root

    @property
    def ignored_count(self) -> int:
        """Files and folders that the last listing left out; a folder counts once, unseen."""
        return self._ignored_count

    def list(self) -> Iterator[DocumentRef | Refusal]:
        """Yield every file below the root, and a refusal for each that cannot be indexed.

        In the order of `walk`: a folder's files by the bytes of their names, then its sub-folders
        likewise. One stat for each file, nothing is read. A refusal whose id ends in a slash is a
        folder that could not be listed: what was indexed below it must be kept.

        Raises:
            SourceError: the root cannot be listed, or a part of its path became a link.
        """
        self._ignored_count = 0
        root = open_root(self._root, to_list=True)
        self._root_identity = _identity(root)
        try:
            for visited in walk(root, self._rules):
                if isinstance(visited, Refusal):
                    yield visited
                else:
                    self._ignored_count += visited.left_out
                    yield from _documents(visited, self._registry)
        except (OSError, IgnoreFileError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else str(exc)
            raise SourceError(
                f"source folder {self._root!r} cannot be listed: {reason}",
                hint="make it readable, or remove the source",
            ) from exc

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
            return _unsupported(ref.document_id, ref.type_name)
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


def _documents(
    visited: VisitedFolder, registry: FileTypeRegistry
) -> Iterator[DocumentRef | Refusal]:
    """The files of one folder; its entries are used up."""
    prefix = document_id_of(visited.path)
    type_of = registry.for_extension
    next_entry = visited.entries.pop
    for _ in range(len(visited.entries)):
        entry = next_entry()
        name = entry.name
        document_id = prefix + (name if _is_plain(name) else document_id_of(os.fsencode(name)))
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # removed during the listing
        except OSError as exc:
            yield Refusal(document_id, RefusalReason.UNREADABLE, exc.strerror or "cannot stat")
            continue
        if not stat_modes.S_ISREG(found.st_mode):
            yield _no_file(document_id, found.st_mode)
            continue
        dot = name.rfind(".")
        extension = name[dot + 1 :].lower() if dot > 0 else ""
        file_type = type_of(extension)
        if file_type is None:
            yield _unsupported(document_id, extension)
        elif found.st_size > file_type.max_bytes:
            yield Refusal(
                document_id,
                RefusalReason.TOO_LARGE,
                too_large(found.st_size, file_type.max_bytes),
                HINTS[RefusalReason.TOO_LARGE],
            )
        else:
            yield DocumentRef(document_id, document_id, extension, file_stat(found))


def _is_plain(name: str) -> bool:
    """Whether a name is its own id, which is nearly always so and cheap to see."""
    return name.isascii() and "\\" not in name


def _no_file(document_id: str, mode: int) -> Refusal:
    reason, detail = not_a_file(mode)
    return Refusal(document_id, reason, detail, HINTS.get(reason, ""))


def _unsupported(document_id: str, extension: str) -> Refusal:
    detail = f"no file type for .{extension}" if extension else "a name without extension"
    return Refusal(
        document_id, RefusalReason.UNSUPPORTED, detail, "register a file type, or exclude it"
    )


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
