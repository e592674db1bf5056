"""Where adapters meet the pipelines: which embedder, parsers and settings an index works with."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from sqlindex.adapters import SourceAdapters, registry_or_builtin
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
    from sqlindex.embedding.service_config import ServiceConfig
    from sqlindex.filetypes.registry import FileType, FileTypeRegistry
    from sqlindex.indexing.diff import Listing
    from sqlindex.indexing.publishing import Gatekeeper
    from sqlindex.indexing.refresh import RefreshJob
    from sqlindex.indexing.report import ProgressSink
    from sqlindex.model.layers import Layer
    from sqlindex.parsing.registry import ParserRegistry
    from sqlindex.ports import Embedder, Parser
    from sqlindex.store.documents import LiveVersion
    from sqlindex.store.driver import Connection
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
        self.sources = SourceAdapters(file.path, file_types)
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
                self._own_embedder = (key, _chosen_embedder(name))
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
        layers: frozenset[Layer] = frozenset(),
        workers: int = 0,
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
    ) -> RefreshJob:
        """Everything a refresh needs.

        Args:
            scope: what the build covers, if a later refresh may go on with it.
            restart: begin anew, although there is an unfinished build of the scope.
            gatekeeper: asked before the head moves.
            layers: those that are made anew.
            workers: processes that parse and embed.

        Raises:
            EmbedderRequiredError: the index has vectors and no embedder keeps them up.
        """
        from sqlindex.cancellation import NEVER, WorkerThread
        from sqlindex.indexing.diff import Rules
        from sqlindex.indexing.prepare import Workshop
        from sqlindex.indexing.refresh import RefreshJob
        from sqlindex.indexing.report import guarded, no_progress
        from sqlindex.indexing.resume import plan_of

        if not keeps_space and not drop_vectors:
            self.require_embedder(connection)
        embedder = None if keeps_space else self.embedder()
        if embedder is not None:
            with WorkerThread(cancel or NEVER) as worker:  # a service is asked here
                worker.run(partial(_require_identity, embedder))
        workshop = Workshop(
            registry_or_builtin(self._file_types),
            self._parser_of(),
            self.config,
            _token_limit(embedder),
        )
        plan = {}
        if scope:
            rows = [listing.row for listing in listings]
            plan = plan_of(
                rows, workshop, embedder, allow_bad_vectors=allow_bad_vectors, layers=layers
            )
        return RefreshJob(
            listings=listings,
            workshop=workshop,
            embedder=embedder,
            scope=scope,
            plan=plan,
            restart=restart,
            cause=cause,
            rules=Rules(strict=strict, verify=verify, anew="chunks" in layers),
            removals=removals,
            allow_bad_vectors=allow_bad_vectors,
            keeps_space=keeps_space,
            also=also,
            gatekeeper=gatekeeper,
            layers=layers,
            workers=workers,
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
        registry = registry_or_builtin(self._file_types)
        if registry.for_extension(type_name.removeprefix(".")) is None:
            known = ", ".join(file_type.extensions[0] for file_type in registry.types)
            raise UsageError(
                f"no file type for .{type_name.removeprefix('.')}", hint=f"one of {known}"
            )

    def _require_parsers(self) -> None:
        """Refuse file types that nothing here can read, before any document is.

        Raises:
            UsageError: a file type's parser is missing and it has no text fallback.
        """
        parser_of = self._parser_of()
        for file_type in registry_or_builtin(self._file_types).types:
            parser_of(file_type)

    def _parser_of(self) -> Callable[[FileType], Parser]:
        from sqlindex.parsing.registry import ParserChoice, builtin_parsers

        return ParserChoice(self._parsers or builtin_parsers())


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
    except Exception as exc:  # whatever the embedder's own pickling raises
        raise UsageError(
            f"the embedder {type(embedder).__name__} cannot be pickled: {exc}",
            hint="open the index in the other process, with an embedder made there",
        ) from exc


def _chosen_embedder(setting: str) -> Embedder:
    """The embedder that an index was set up with, not loaded yet."""
    from sqlindex.embedding.service_config import is_stored_service

    if is_stored_service(setting):
        from sqlindex.embedding.allowed_services import require_allowed
        from sqlindex.embedding.service import ServiceEmbedder

        config = service_of(setting)
        require_allowed(config)
        return ServiceEmbedder(config)
    from sqlindex.embedding.local import LocalEmbedder
    from sqlindex.embedding.staged import require_staged

    return LocalEmbedder(require_staged(setting))


def service_of(setting: str) -> ServiceConfig:
    """The service of a stored choice of embedder.

    Raises:
        CorruptIndexError: the setting is none that was stored.
    """
    from sqlindex.embedding.service_config import ServiceConfig

    try:
        return ServiceConfig.from_json(setting)
    except (ValueError, TypeError) as exc:
        raise CorruptIndexError(
            f"the stored embedding service is damaged, or of a newer version: {exc}",
            hint="choose the embedder anew: sqlindex init --embedder-url URL --embedder-model NAME",
        ) from exc


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
    fingerprint = f"{limit}-{identity.hexdigest()}"
    cuts_lines = embedder.over_long_policy == "window"
    if cuts_lines:
        fingerprint += "-lines"
    return TokenLimit(limit, embedder.count_tokens, fingerprint, cuts_lines)
