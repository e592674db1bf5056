"""Which adapter lists a registered source, and where its documents lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlindex.errors import UsageError

if TYPE_CHECKING:
    from sqlindex.filetypes.registry import FileTypeRegistry
    from sqlindex.indexing.diff import Listing
    from sqlindex.ports import Source
    from sqlindex.sources.filesystem import FolderSource
    from sqlindex.sources.sqlite_file import SqliteFileSource
    from sqlindex.store.catalog import DocumentRow
    from sqlindex.store.driver import Connection
    from sqlindex.store.snapshot import ChunkRow
    from sqlindex.store.sources import SourceRow


class SourceAdapters:
    """What lists the sources of one open index.

    Attributes:
        of_host: by name, the sources that the host has registered here.
    """

    def __init__(self, index_path: Path, file_types: FileTypeRegistry | None) -> None:
        self._index_path = index_path
        self._file_types = file_types
        self.of_host: dict[str, Source] = {}

    def listings(
        self,
        connection: Connection,
        names: Iterable[str] | None,
        paths: Iterable[str | os.PathLike[str]] | None = None,
    ) -> list[Listing]:
        """The named sources with what lists them; all that can be listed here if None.

        Args:
            paths: only the parts of folder sources that these are.

        Raises:
            UnknownSourceError: no source of a name.
            UsageError: a named source belongs to a host that has not registered it here, or a path
                lies in none.
        """
        from sqlindex.indexing.diff import Listing
        from sqlindex.store.sources import find_source, list_sources

        if isinstance(names, str):
            raise ValueError("sources must be several names, not one text")
        if paths is not None:
            return self._parts(connection, paths, names)
        if names is not None:
            rows = [find_source(connection, name) for name in dict.fromkeys(names)]
        else:
            rows = [
                row
                for row in list_sources(connection)
                if row.kind != "host" or row.name in self.of_host
            ]
        return [Listing(row, self._adapter(row)) for row in rows]

    def _parts(
        self,
        connection: Connection,
        paths: Iterable[str | os.PathLike[str]],
        names: Iterable[str] | None,
    ) -> list[Listing]:
        """The parts of folder sources that these files and folders are.

        Args:
            names: sources to look in; None for all folders.

        Raises:
            UsageError: a path lies in no registered folder, or there is nothing at any of them and
                nothing was indexed from there. One that came and went is ignored beside others.
            UnknownSourceError: no source of a name.
        """
        from sqlindex.indexing.diff import Listing
        from sqlindex.sources.located import PartOfFolder, located
        from sqlindex.store.scope import EVERYTHING, scope_of
        from sqlindex.store.sources import find_source, is_known, list_sources

        if isinstance(paths, (str, bytes)):
            raise ValueError("paths must be several paths, not one text")
        if names is None:
            rows = list_sources(connection)
        else:
            rows = [find_source(connection, name) for name in dict.fromkeys(names)]
        row_by_name = {row.name: row for row in rows if row.kind == "folder"}
        roots = {name: root_of(row) for name, row in row_by_name.items()}
        ids: dict[str, list[str]] = {}
        never_seen: list[str] = []
        for given in paths:
            path = _usable_path(given)
            places = located(path, roots)
            if not roots:
                raise UsageError(
                    f"{path} can be no part of {', '.join(row.name for row in rows) or 'any source'}",
                    hint="paths are parts of registered folders",
                )
            if not places:
                raise UsageError(
                    f"{path} lies in no registered folder",
                    hint=f"registered: {', '.join(roots.values()) or 'none'}",
                )
            if not os.path.lexists(path) and not any(
                is_known(connection, row_by_name[name].source_id, document_id)
                for name, document_id in places
            ):
                never_seen.append(path)
                continue
            for name, document_id in places:
                ids.setdefault(name, []).append(document_id)
        if never_seen and not ids:
            raise UsageError(
                f"there is no {', '.join(never_seen[:9])}, and nothing was indexed from there",
                hint="name a file or folder below a registered one",
            )
        listings = []
        for name, parts in sorted(ids.items()):
            scope, row = scope_of(parts), row_by_name[name]
            folder = self._folder(row)
            adapter = folder if scope == EVERYTHING else PartOfFolder(folder, scope)
            listings.append(Listing(row, adapter, scope))
        return listings

    def _adapter(self, row: SourceRow) -> Source:
        if row.kind == "host":
            if row.name not in self.of_host:
                raise UsageError(
                    f"source {row.name!r} belongs to a host program and cannot be listed here",
                    hint="the host registers it with add_source after opening the index",
                )
            return self.of_host[row.name]
        if row.kind == "table":
            return table_source(row)
        return self._folder(row)

    def _folder(self, row: SourceRow) -> FolderSource:
        from sqlindex.sources.filesystem import FolderSource

        root = root_of(row)
        return FolderSource(
            row.name,
            root,
            registry=registry_or_builtin(self._file_types),
            include=_patterns(row.options, "include"),
            exclude=_patterns(row.options, "exclude"),
            own_files=_own_files(self._index_path, root),
            known_mounts=row.mount_points,
            one_file_system=bool(row.options.get("one_file_system", False)),
            hidden=bool(row.options.get("hidden", False)),
        )


def registry_or_builtin(file_types: FileTypeRegistry | None) -> FileTypeRegistry:
    """The host's file types, else the built-in ones."""
    from sqlindex.filetypes.builtin import BUILTIN_REGISTRY

    return file_types or BUILTIN_REGISTRY


def root_of(row: SourceRow) -> str:
    """Path of a folder source's root."""
    from sqlindex.sources.paths import path_of

    assert row.root is not None
    return os.fsdecode(path_of(row.root))


def is_in_folder(root: str, document_id: str) -> bool:
    """Whether the file of a folder's document is there."""
    from sqlindex.sources.paths import path_of

    try:
        return os.path.lexists(os.path.join(path_of(root), path_of(document_id)))
    except ValueError:  # no path has this id
        return False


def uri_of(row: ChunkRow | DocumentRow) -> str | None:
    """Where a document can be opened again: what its host or row gave, else a `file:` URL."""
    if row.uri is not None or row.root is None:
        return row.uri
    from sqlindex.sources.paths import database_uri, file_uri, path_of

    if row.source_kind == "table":
        return database_uri(row.root, row.source_table, row.document_id)
    return file_uri(os.fsdecode(path_of(row.root)), row.document_id)


def table_source(row: SourceRow) -> SqliteFileSource:
    """What lists a registered table of a database file."""
    from sqlindex.sources.sqlite_file import SqliteFileSource
    from sqlindex.sources.table_selection import SqliteTable

    assert row.root is not None
    return SqliteFileSource(row.name, row.root, SqliteTable.from_options(row.options))


def check_patterns(*lists: Sequence[str]) -> None:
    """Refuse patterns that a listing could not use.

    Raises:
        UsageError: a pattern is malformed; the message names it.
    """
    from sqlindex.sources.ignore import IgnoreRules

    for patterns in lists:
        if isinstance(patterns, str):
            raise ValueError("patterns must be several texts, not one")
        try:
            IgnoreRules(
                include=patterns, exclude=(), hidden=False, use_gitignore=True, ignore_case=False
            )
        except ValueError as exc:
            raise UsageError(str(exc), hint="patterns have the syntax of .gitignore") from exc


def require_other_file(index_path: Path, root: str) -> None:
    """Refuse the index as a source of itself.

    Raises:
        UsageError: `root`, escaped, is the index or one of its sidecars.
    """
    from sqlindex.sources.paths import path_of

    path = os.fsdecode(path_of(root))
    for suffix in ("", "-wal", "-shm", "-lock"):
        own = f"{index_path}{suffix}"
        if os.path.exists(own) and os.path.samefile(path, own):
            raise UsageError(
                f"database {root} is this index", hint="name the database whose rows are documents"
            )


def require_host(row: SourceRow) -> None:
    """Refuse to push documents into what is listed."""
    if row.kind != "host":
        raise UsageError(
            f"source {row.name!r} is a {row.kind}; its documents come from there",
            hint="use another source name for pushed documents",
        )


def _usable_path(given: str | os.PathLike[str]) -> str:
    path: object = os.fspath(given)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str) or not path or "\0" in path:
        raise UsageError(f"{path!r} is no path", hint="name a file or folder")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise UsageError(f"{path!r} is no path", hint="it holds a lone surrogate") from None
    return os.path.expanduser(path)


def _patterns(options: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = options.get(name, ())
    return tuple(str(pattern) for pattern in value) if isinstance(value, list) else ()


def _own_files(index_path: Path, root: str) -> tuple[str, ...]:
    """The index and its sidecars, relative to a source's root, if they lie below it."""
    folder = os.path.realpath(index_path.parent)
    if not Path(folder).is_relative_to(root):
        return ()
    relative = os.path.relpath(os.path.join(folder, index_path.name), root)
    return tuple(f"{relative}{suffix}" for suffix in ("", "-wal", "-shm", "-lock"))
