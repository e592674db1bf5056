"""Where adapters meet the pipelines: which embedder, parsers and sources an index works with."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlindex.errors import (
    CorruptIndexError,
    EmbedderError,
    EmbedderRequiredError,
    UsageError,
)
from sqlindex.store.connection import IndexFile
from sqlindex.store.settings import get_setting

if TYPE_CHECKING:
    from sqlindex.cancellation import CancelToken
    from sqlindex.chunking.token_limit import TokenLimit
    from sqlindex.config import ChunkConfig, IndexConfig
    from sqlindex.filetypes.registry import FileType, FileTypeRegistry
    from sqlindex.indexing.diff import Listing
    from sqlindex.indexing.publishing import Gatekeeper
    from sqlindex.indexing.refresh import RefreshJob
    from sqlindex.indexing.report import ProgressSink
    from sqlindex.parsing.registry import ParserRegistry
    from sqlindex.ports import Embedder, Parser, Source
    from sqlindex.sources.filesystem import FolderSource
    from sqlindex.sources.sqlite_file import SqliteFileSource
    from sqlindex.store.catalog import DocumentRow
    from sqlindex.store.documents import LiveVersion
    from sqlindex.store.driver import Connection
    from sqlindex.store.snapshot import ChunkRow
    from sqlindex.store.sources import SourceRow

EMBEDDER_SETTING = "embedder"
CHUNKS_SETTING = "chunks"


class Wiring:
    """The adapters of one open index. Heavy ones are imported and loaded when they are used."""

    def __init__(
        self,
        file: IndexFile,
        *,
        embedder: Embedder | None,
        config: IndexConfig | None,
        file_types: FileTypeRegistry | None,
        parsers: ParserRegistry | None,
    ) -> None:
        self._file = file
        self._given_embedder = embedder
        self._own_embedder: tuple[tuple[str, int], Embedder] | None = None
        self._given_config = config
        self._file_types = file_types
        self._parsers = parsers
        self._guard = threading.Lock()
        self.host_sources: dict[str, Source] = {}
        if file_types is not None or parsers is not None:
            self._require_parsers()

    @property
    def has_given_embedder(self) -> bool:
        """Whether the host gave an embedder when it opened the index."""
        return self._given_embedder is not None

    @property
    def config(self) -> IndexConfig:
        """The host's settings, else the defaults with the chunks that the index was set up with."""
        if self._given_config is not None:
            return self._given_config
        from sqlindex.config import IndexConfig

        with self._file.reading() as connection:
            chunks = stored_chunks(connection)
        return IndexConfig() if chunks is None else IndexConfig(chunks=chunks)

    def embedder(self) -> Embedder | None:
        """The host's embedder, else the model the index was set up with, loaded on first use."""
        if self._given_embedder is not None:
            return self._given_embedder
        with self._file.reading() as connection:
            name = get_setting(connection, EMBEDDER_SETTING)
        if not name:
            return None
        with self._guard:
            # A forked child loads its own: the model's threads do not survive a fork.
            key = (name, os.getpid())
            if self._own_embedder is None or self._own_embedder[0] != key:
                from sqlindex.embedding.local import LocalEmbedder
                from sqlindex.embedding.staged import require_staged

                self._own_embedder = (key, LocalEmbedder(require_staged(name)))
            return self._own_embedder[1]

    def close(self) -> None:
        """Close the model if it was loaded here; a host's embedder stays the host's."""
        with self._guard:
            own, self._own_embedder = self._own_embedder, None
        is_ours = own is not None and own[0][1] == os.getpid()
        close = getattr(own[1], "close", None) if own is not None and is_ours else None
        if close is not None:
            close()

    def packed(self) -> dict[str, Any]:
        """What the index was opened with, ready to be pickled; `rewired` undoes it.

        Raises:
            UsageError: the host's embedder cannot be pickled.
        """
        return {
            "embedder": None if self._given_embedder is None else _pickled(self._given_embedder),
            "config": self._given_config,
            "file_types": self._file_types,
            "parsers": self._parsers,
        }

    def job(
        self,
        connection: Connection,
        listings: Sequence[Listing],
        *,
        cause: str,
        strict: bool = False,
        verify: bool = False,
        allow_bad_vectors: bool = False,
        keeps_space: bool = False,
        drop_vectors: bool = False,
        removals: tuple[SourceRow, Iterable[LiveVersion]] | None = None,
        also: Callable[[Connection], None] | None = None,
        scope: str = "",
        restart: bool = False,
        gatekeeper: Gatekeeper | None = None,
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
    ) -> RefreshJob:
        """Everything a refresh needs.

        Args:
            scope: what the build covers, if a later refresh may go on with it.
            restart: begin anew, although there is an unfinished build of the scope.
            gatekeeper: asked before the head moves.

        Raises:
            EmbedderRequiredError: the index has vectors and no embedder keeps them up.
        """
        from sqlindex.cancellation import NEVER
        from sqlindex.indexing.diff import Rules
        from sqlindex.indexing.prepare import Workshop
        from sqlindex.indexing.refresh import RefreshJob
        from sqlindex.indexing.report import guarded, no_progress
        from sqlindex.indexing.resume import plan_of

        if not keeps_space and not drop_vectors:
            self.require_embedder(connection)
        embedder = None if keeps_space else self.embedder()
        if embedder is not None:
            _require_identity(embedder)
        workshop = Workshop(
            self._registry(), self._parser_of(), self.config, _token_limit(embedder)
        )
        plan = {}
        if scope:
            rows = [listing.row for listing in listings]
            plan = plan_of(rows, workshop, embedder, allow_bad_vectors=allow_bad_vectors)
        return RefreshJob(
            listings=listings,
            workshop=workshop,
            embedder=embedder,
            scope=scope,
            plan=plan,
            restart=restart,
            cause=cause,
            rules=Rules(strict=strict, verify=verify),
            removals=removals,
            allow_bad_vectors=allow_bad_vectors,
            keeps_space=keeps_space,
            also=also,
            gatekeeper=gatekeeper,
            cancel=cancel or NEVER,
            progress=guarded(progress) if progress is not None else no_progress,
        )

    def require_embedder(self, connection: Connection) -> None:
        """Refuse to publish without vectors what has vectors now.

        Raises:
            EmbedderRequiredError: the index has vectors and no embedder keeps them up.
        """
        from sqlindex.store.head import read_head

        head = read_head(connection)
        if head.space_id is not None and head.documents and self.embedder() is None:
            raise EmbedderRequiredError(
                f"index {self._file.path} has vectors, and no embedder is given to keep them up",
                hint="open it with its embedder (a model: 'sqlindex init --embedder NAME'), or drop the vectors "
                "(drop_vectors=True, --drop-vectors)",
            )

    def require_type(self, type_name: str) -> None:
        """Refuse an extension that no file type is registered for.

        Raises:
            UsageError: there is none; the hint names those there are.
        """
        registry = self._registry()
        if registry.for_extension(type_name.removeprefix(".")) is None:
            known = ", ".join(file_type.extensions[0] for file_type in registry.types)
            raise UsageError(
                f"no file type for .{type_name.removeprefix('.')}", hint=f"one of {known}"
            )

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
                if row.kind != "host" or row.name in self.host_sources
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

    def _registry(self) -> FileTypeRegistry:
        from sqlindex.filetypes.builtin import BUILTIN_REGISTRY

        return self._file_types or BUILTIN_REGISTRY

    def _require_parsers(self) -> None:
        """Refuse file types that nothing here can read, before any document is.

        Raises:
            UsageError: a file type's parser is missing and it has no text fallback.
        """
        parser_of = self._parser_of()
        for file_type in self._registry().types:
            parser_of(file_type)

    def _parser_of(self) -> Callable[[FileType], Parser]:
        from sqlindex.parsing.registry import builtin_parsers

        parsers = self._parsers or builtin_parsers()

        def parser_of(file_type: FileType) -> Parser:
            is_missing = file_type.parser not in parsers
            return parsers.parser(
                "text" if is_missing and file_type.text_fallback else file_type.parser
            )

        return parser_of

    def _adapter(self, row: SourceRow) -> Source:
        if row.kind == "host":
            if row.name not in self.host_sources:
                raise UsageError(
                    f"source {row.name!r} belongs to a host program and cannot be listed here",
                    hint="the host registers it with add_source after opening the index",
                )
            return self.host_sources[row.name]
        if row.kind == "table":
            return table_source(row)
        return self._folder(row)

    def _folder(self, row: SourceRow) -> FolderSource:
        from sqlindex.sources.filesystem import FolderSource

        root = root_of(row)
        return FolderSource(
            row.name,
            root,
            registry=self._registry(),
            include=_patterns(row.options, "include"),
            exclude=_patterns(row.options, "exclude"),
            own_files=_own_files(self._file.path, root),
            known_mounts=row.mount_points,
            one_file_system=bool(row.options.get("one_file_system", False)),
            hidden=bool(row.options.get("hidden", False)),
        )


def stored_chunks(connection: Connection) -> ChunkConfig | None:
    """How the index was set up to cut documents; None for the default.

    Raises:
        CorruptIndexError: the setting is none that was stored.
    """
    stored = get_setting(connection, CHUNKS_SETTING)
    if not stored:
        return None
    from sqlindex.config import ChunkConfig

    try:
        return ChunkConfig(*map(int, stored.split("/")))
    except (ValueError, TypeError) as exc:
        raise CorruptIndexError(
            f"the stored size of chunks is damaged: {stored!r}",
            hint="set it anew: sqlindex init --chunk-chars 1200",
        ) from exc


def rewired(file: IndexFile, packed: Mapping[str, Any]) -> Wiring:
    """The wiring of an index file from what `Wiring.packed` gave."""
    import pickle

    embedder: bytes | None = packed["embedder"]
    given = None if embedder is None else pickle.loads(embedder)
    return Wiring(file, **{**packed, "embedder": given})


def _pickled(embedder: Embedder) -> bytes:
    # Apart from the rest, so that the error can say what it is about.
    import pickle

    try:
        return pickle.dumps(embedder)
    except Exception as exc:
        raise UsageError(
            f"the embedder {type(embedder).__name__} cannot be pickled: {exc}",
            hint="open the index in the other process, with an embedder made there",
        ) from exc


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


def _require_identity(embedder: Embedder) -> None:
    identity: object = embedder.identity
    dimensions: object = embedder.dimensions
    if not isinstance(identity, str) or not identity:
        raise EmbedderError(f"the embedder's identity is {identity!r}", hint="it must be a text")
    if not isinstance(dimensions, int) or dimensions < 1:
        raise EmbedderError(f"the embedder's dimensions are {dimensions!r}", hint="at least 1")


def _token_limit(embedder: Embedder | None) -> TokenLimit | None:
    """The limit that chunks are cut to, for an embedder that has one."""
    from sqlindex.chunking.token_limit import TokenLimit
    from sqlindex.ports import TokenLimited

    if embedder is None or not isinstance(embedder, TokenLimited):
        return None
    limit: object = embedder.token_limit
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise EmbedderError(f"the embedder's token limit is {limit!r}", hint="at least 1")
    # Counting depends on the tokenizer, which an embedder's identity names among other things.
    identity = blake2b(str(embedder.identity).encode("utf-8", "replace"), digest_size=6)
    return TokenLimit(limit, embedder.count_tokens, f"{limit}-{identity.hexdigest()}")


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
