"""The index: opens the file and wires sources, parsers and embedders to the pipelines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlindex.adapters import require_host, uri_of
from sqlindex.cancellation import NEVER, CancelToken
from sqlindex.config import ChunkConfig, IndexConfig, Retention, SearchConfig
from sqlindex.encodable import is_encodable
from sqlindex.errors import SqlindexError, UsageError
from sqlindex.model.requests import DEFAULT_LIMIT, MAX_LIMIT, Filters, Mode, SearchRequest
from sqlindex.search.searcher import Searcher
from sqlindex.store.connection import IndexFile
from sqlindex.store.settings import get_setting, put_setting
from sqlindex.wiring import CHUNKS_SETTING, EMBEDDER_SETTING, Wiring, rewired

if TYPE_CHECKING:
    from sqlindex.embedding.service_config import ServiceConfig
    from sqlindex.filetypes.registry import FileTypeRegistry
    from sqlindex.gating import QuestionGate
    from sqlindex.indexing.purge import Purge
    from sqlindex.indexing.repair import RepairReport
    from sqlindex.indexing.report import Changes, ProgressSink, RefreshReport
    from sqlindex.indexing.rollback import RollbackReport
    from sqlindex.model.comparison import GenerationDiff
    from sqlindex.model.history import Generation, ListedDocument
    from sqlindex.model.languages import LanguageSigns
    from sqlindex.model.layers import Layer
    from sqlindex.model.links import DocumentLink
    from sqlindex.model.questions import Question, QuestionImport
    from sqlindex.model.results import Chunk, DocumentChunk, SearchResult
    from sqlindex.model.status import FileCondition, FileStatus, IndexStatus, RefusedDocument
    from sqlindex.model.stored import StoredDocument
    from sqlindex.parsing.registry import ParserRegistry
    from sqlindex.ports import Embedder, PublishGate, Source
    from sqlindex.questions import DocumentName
    from sqlindex.snapshot import Snapshot
    from sqlindex.sources.memory import Document
    from sqlindex.store.backup import Backup
    from sqlindex.store.check import Finding
    from sqlindex.store.collect import Collected
    from sqlindex.store.compact import Compaction, CompactMode
    from sqlindex.store.documents import LiveVersion
    from sqlindex.store.driver import Connection
    from sqlindex.store.sources import SourceRow
    from sqlindex.store.vector_transfer import VectorTransfer


class Index:
    """A search index in one SQLite file.

    Use it as a context manager. One object serves all threads of a process; searches go on while a
    refresh runs, in this process or another. A forked child opens connections of its own.

    Pickled, it is its path and what it was opened with, the host's embedder included; unpickled, in
    another process too, it is opened anew, and closed by whoever has it there. Sources of the host
    are not taken along.
    """

    def __init__(self, file: IndexFile, wiring: Wiring, search_config: SearchConfig) -> None:
        self._file = file
        self._wiring = wiring
        self._search_config = search_config
        self._searcher = Searcher(file, search_config, uri_of)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        embedder: Embedder | None = None,
        config: IndexConfig | None = None,
        search_config: SearchConfig | None = None,
        file_types: FileTypeRegistry | None = None,
        parsers: ParserRegistry | None = None,
        allow_network: bool = False,
        trust_owner: bool = False,
    ) -> Index:
        """Open the index at `path`.

        Its files, their owners and its schema are looked at before anything of it is used.

        Args:
            path: the SQLite file; its sidecars `-wal`, `-shm` and `-lock` lie beside it.
            create: make a new index (mode 0600) if nothing is there.
            embedder: makes vectors; it stays the caller's and is never closed here. Without one
                the model that the index was set up with is used (`set_embedder`), if any.
            config: how documents are cut and staged; if None, cut as the index was set up
                (`set_chunks`).
            search_config: how channels are weighted and fused.
            file_types: which extensions are indexed; the built-in ones if None.
            parsers: the built-in ones if None.
            allow_network: make, write and follow an index also on a file system that other
                machines may use; only if no other one does.
            trust_owner: take files of any owner, and write another user's index.

        Raises:
            NoIndexError: there is no such file and `create` is False.
            StorageError: the file or its folder is not accessible.
            UnsafeFileError: a file beside it is a link or a third user's.
            SharedFileSystemError: it would be made on a network file system.
            NotAnIndexError: the file is not an index; `NewerSchemaError` if a newer version made it.
        """
        search_config = search_config or SearchConfig()
        file = IndexFile.open(
            Path(path),
            make=create,
            busy_timeout_ms=search_config.busy_timeout_ms,
            deadline_ms=search_config.deadline_ms,
            allow_network=allow_network,
            trust_owner=trust_owner,
            log_pause_mb=(config or IndexConfig()).log_pause_mb,
        )
        wiring = Wiring(
            file,
            embedder=embedder,
            config=config,
            file_types=file_types,
            parsers=parsers,
        )
        return cls(file, wiring, search_config)

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Index], tuple[object, ...]]:
        return _opened_anew, (self._file, self._wiring.packed(), self._search_config)

    @property
    def path(self) -> Path:
        """The index file."""
        return self._file.path

    def close(self) -> None:
        """Close the file, and the model if the index loaded it itself."""
        self._file.close()
        self._wiring.close()

    # Sources

    def add_source(
        self,
        source: str | os.PathLike[str] | Source,
        *,
        name: str | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        hidden: bool = False,
        one_file_system: bool = False,
    ) -> str:
        """Register a folder, or a source of the host; nothing is indexed before `refresh`.

        Args:
            source: a folder, or an object with `name`, `list` and `read`. A host's source lives in
                this process: register it again after opening the index, then refresh.
            name: of a folder's source; its last path component if None, numbered if that is taken.
            include: patterns in the syntax of `.gitignore`; only matching files are listed.
            exclude: patterns of files and folders to leave out.
            hidden: list hidden files and folders too.
            one_file_system: leave out what is mounted below the folder.

        Returns:
            The source's name.

        Raises:
            DuplicateError: the name or the folder is registered already.
            UsageError: there is no such folder.
        """
        from sqlindex.registration import register_folder, register_host

        if isinstance(source, (str, os.PathLike)):
            return register_folder(
                self._file,
                source,
                name,
                include=include,
                exclude=exclude,
                hidden=hidden,
                one_file_system=one_file_system,
            )
        added = register_host(self._file, source)
        self._wiring.sources.of_host[added] = source
        return added

    def add_table(
        self,
        database: str | os.PathLike[str],
        *,
        name: str | None = None,
        table: str | None = None,
        query: str | None = None,
        id: str | None = None,
        text: str | Sequence[str] = (),
        title: str | None = None,
        date: str | None = None,
        tags: str | None = None,
        uri: str | None = None,
        path: str | None = None,
        metadata: str | Sequence[str] = (),
        type_name: str = "txt",
    ) -> str:
        """Register a table, view or query of an SQLite file; nothing is indexed before `refresh`.

        A process of its own reads the file and changes nothing in it. The first row is read now, to
        see that it can. For a database that the host has open, `SqliteTableSource` reads through the
        host's connection.

        Args:
            database: the file.
            name: of the source; the table's or the file's name if None, numbered if that is taken.
            table: a table or a view; or
            query: one SELECT without parameters, used as a sub-select.
            id: column of the identity; the primary key of one column, or the rowid, if None.
            text: columns that are searched; by default those declared as text (of a query: all)
                without another role.
            title, date, tags, uri, path: columns as the fields of `Document`.
            metadata: columns that become fields for filters.
            type_name: extension of the file type whose parser reads the texts.

        Returns:
            The source's name.

        Raises:
            DuplicateError: the name, or the same selection of the file, is registered already.
            UsageError: there is no such file, table or column; the query is no single SELECT; the
                file is this index.
            SourceError: the file cannot be read.
        """
        from sqlindex.registration import register_table
        from sqlindex.sources.table_selection import SqliteTable, several

        self._wiring.require_type(type_name)
        wanted = SqliteTable(
            table=table,
            query=query,
            id=id,
            text=several(text),
            title=title,
            date=date,
            tags=tags,
            uri=uri,
            path=path,
            metadata=several(metadata),
            type_name=type_name,
        )
        return register_table(self._file, database, name, wanted)

    def remove_source(
        self, name: str, *, cancel: CancelToken | None = None, wait_s: float = 0.0
    ) -> RefreshReport:
        """Remove a source and its documents: one published generation."""
        from sqlindex.indexing.refresh import refresh
        from sqlindex.store.documents import live_in_scope
        from sqlindex.store.scope import EVERYTHING
        from sqlindex.store.sources import find_source, remove_source

        with self._file.writing("source remove", wait_s=wait_s, cancel=cancel) as writer:
            row = find_source(writer.connection, name)
            job = self._wiring.job(
                writer.connection,
                (),
                cause="source removed",
                keeps_space=True,
                removals=(row, live_in_scope(writer.connection, row.source_id, EVERYTHING)),
                also=lambda connection: remove_source(connection, row.source_id),
                cancel=cancel,
            )
            report = refresh(writer, job)
        self._wiring.sources.of_host.pop(name, None)
        return report

    def move_source(self, name: str, place: str | os.PathLike[str], *, force: bool = False) -> None:
        """Tell where a source's folder or database lies now; nothing is indexed before `refresh`.

        Its documents stay what they are, ids and vectors included: a refresh after a mere move
        finds no change and embeds nothing.

        Args:
            place: the folder, or the database file.
            force: also if none of the source's documents lies in the new folder.

        Raises:
            UnknownSourceError: no source of that name.
            UsageError: it is a host's source, there is nothing at that place, or none of a
                folder's documents lies there.
            DuplicateError: the folder is registered already.
            SourceError: the database cannot be read.
        """
        from sqlindex.registration import move

        move(self._file, name, place, force=force)

    def set_embedder(self, choice: str | ServiceConfig | None) -> None:
        """Choose the model or service that this index is refreshed and searched with; None for none.

        Nothing is loaded, downloaded or asked here; the next refresh makes the vectors. A service is
        stored without its key, and this user is marked as allowing it on this machine (see
        `embedding.allowed_services`).

        Raises:
            UnknownModelError: no model of that name.
            StorageError: what this user allows cannot be written.
        """
        stored = choice or ""
        if isinstance(choice, str):
            from sqlindex.embedding.models import known_model

            known_model(choice)
        elif choice is not None:
            from sqlindex.embedding.allowed_services import allow_service

            allow_service(choice)
            stored = choice.to_json()
        with self._file.writing("set embedder") as writer, writer.transaction() as connection:
            put_setting(connection, EMBEDDER_SETTING, str(stored))

    def service(self) -> ServiceConfig | None:
        """The embedding service that this index was set up with; None for a model, or none.

        Raises:
            CorruptIndexError: what is stored is none.
        """
        from sqlindex.embedding.service_config import is_stored_service
        from sqlindex.wiring import service_of

        with self._file.reading() as connection:
            setting = get_setting(connection, EMBEDDER_SETTING) or ""
        return service_of(setting) if is_stored_service(setting) else None

    def set_chunks(self, chunks: ChunkConfig | None) -> None:
        """Choose how this index cuts documents, where no `config` is given; None for the default.

        Nothing is cut here; the next refresh cuts every document anew and embeds what is new.
        """
        with self._file.writing("set chunks") as writer, writer.transaction() as connection:
            put_setting(connection, CHUNKS_SETTING, "" if chunks is None else chunks.fingerprint)

    # The write side

    def refresh(
        self,
        sources: Iterable[str] | None = None,
        *,
        paths: Iterable[str | os.PathLike[str]] | None = None,
        strict: bool = False,
        verify: bool = False,
        allow_bad_vectors: bool = False,
        drop_vectors: bool = False,
        restart: bool = False,
        gate: PublishGate | None = None,
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
        wait_s: float = 0.0,
    ) -> RefreshReport:
        """Make the index equal to its sources and publish that as one new generation.

        A failure or a cancel before the publish leaves the last generation as it was. Each batch
        of documents and of vectors is durable: the next refresh of the same sources and paths goes
        on with what was staged, if embedder, parsers, chunk sizes and sources are still the same.

        Args:
            sources: names; None for all that can be listed in this process.
            paths: only these files and folders of folder sources; the cost follows them and not
                the rest. One that is gone is removed from the index.
            strict: a refused document fails the refresh (formats that are not indexed excepted).
            verify: read and hash every file, not only those whose size, times or inode changed.
            allow_bad_vectors: publish a chunk lexical-only when its vector is refused.
            drop_vectors: without an embedder, publish an index that had vectors as lexical only.
            restart: begin anew, although an unfinished build was begun with other settings; what it
                has parsed and embedded is reused where it is still valid.
            gate: what the golden questions must find in the new generation, before it becomes the
                head: `Gate("ndcg@10 >= 0.8")`. If they do not, the head stays, and the new
                generation waits in the file: `publish` and `discard` decide on it, or another
                refresh, which goes on from it. If there is nothing to publish, the head is
                measured: a refresh that returns has left a head that meets the gate.
            cancel: ends it within 2 s, also while the embedder hangs: calls of parser and embedder
                then come from a worker thread, one at a time. A source that hangs is waited for.
            progress: called with `Progress`.
            wait_s: how long to wait for another writer.

        Raises:
            GateError: a condition of the gate is missed; it says which questions fell, and whether
                a new generation waits (`is_held`).
            LockedError: another writer holds the index.
            BuildChangedError: an unfinished build of the same sources was begun with other settings.
            UsageError: a path lies in no registered folder, or nothing was ever there; or there is
                a gate and no question that expects a document.
            SourceError: a source cannot be listed.
            EmbedderRequiredError: the index has vectors and no embedder is given.
            EmbedderError: the embedder failed or gave a bad vector.
            CancelledError: cancelled before the publish.
            StorageError: the disk is full or failing.
        """
        from sqlindex.indexing.refresh import refresh
        from sqlindex.indexing.resume import scope_of_request

        names = None if sources is None else _several(sources)
        with self._file.writing("refresh", wait_s=wait_s, cancel=cancel) as writer:
            listings = self._wiring.sources.listings(writer.connection, names, paths)
            gatekeeper = None
            if gate is not None:
                embedder = self._wiring.embedder()
                gatekeeper = self._gatekeeper(writer.connection, gate, embedder, cancel, progress)
            job = self._wiring.job(
                writer.connection,
                listings,
                cause="refresh",
                scope=scope_of_request(
                    names, None if paths is None else {li.row.name: li.scope for li in listings}
                ),
                restart=restart,
                gatekeeper=gatekeeper,
                strict=strict,
                verify=verify,
                allow_bad_vectors=allow_bad_vectors,
                drop_vectors=drop_vectors,
                cancel=cancel,
                progress=progress,
            )
            return refresh(writer, job)

    def plan(
        self,
        sources: Iterable[str] | None = None,
        *,
        paths: Iterable[str | os.PathLike[str]] | None = None,
        strict: bool = False,
        verify: bool = False,
        allow_bad_vectors: bool = False,
        drop_vectors: bool = False,
        restart: bool = False,
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
    ) -> Changes:
        """What `refresh` would do now, in documents and embedding inputs; writes nothing.

        An embedder that runs in this process embeds a few texts, so that `Changes.estimate` can tell
        how long all of them will take; a service is not asked.

        Takes the arguments of `refresh`, and fails where it would fail for what is asked.

        Raises:
            BuildChangedError: an interrupted refresh was begun with other settings.
        """
        from sqlindex.indexing.plan import plan
        from sqlindex.indexing.resume import scope_of_request

        names = None if sources is None else _several(sources)

        with self._file.reading(is_timed=False, cancel=cancel) as connection:
            listings = self._wiring.sources.listings(connection, names, paths)
            job = self._wiring.job(
                connection,
                listings,
                cause="refresh",
                scope=scope_of_request(
                    names, None if paths is None else {li.row.name: li.scope for li in listings}
                ),
                restart=restart,
                strict=strict,
                verify=verify,
                allow_bad_vectors=allow_bad_vectors,
                drop_vectors=drop_vectors,
                cancel=cancel,
                progress=progress,
            )
            return plan(connection, job)

    def reindex(
        self,
        layers: Iterable[Layer] | None = None,
        *,
        workers: int = 0,
        allow_bad_vectors: bool = False,
        restart: bool = False,
        gate: PublishGate | None = None,
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
        wait_s: float = 0.0,
    ) -> RefreshReport:
        """Make the index, or layers of it, anew beside what is served, and publish that once.

        For when what is stored is in doubt though nothing that made it has changed: a parser or a
        model that was mended under its old version, a driver that computed wrongly. Searches are
        answered from the last generation until the new one is published, and a failure or a cancel
        before that leaves it. Each batch is durable: another call goes on where this one stopped,
        also when refreshes have been published in between.

        Args:
            layers: `chunks`: every document that a source lists here is read, parsed and cut, as it
                is now; what comes out equal is stored once. `lexical`: the full-text table. `vectors`:
                those of the present embedder, beside the old ones, which earlier generations keep.
                All of them if None. Layers that are not named are reused: without `vectors` only
                texts that have none are embedded, without `chunks` no source is read. Documents
                that were pushed keep their chunks.
            workers: processes that parse and embed for this one, which alone writes. Each has a copy
                of the embedder, and of a local model uses one processor. An embedder that cannot be
                pickled, or is defined in the program's own script, is called here. None if 0.
            allow_bad_vectors: publish a chunk lexical-only when its vector is refused.
            restart: begin anew, although an interrupted reindex was begun with other layers or
                settings.
            gate: what the golden questions must find in the new generation; see `refresh`.
            cancel: ends it within 2 s.
            progress: called with `Progress`.
            wait_s: how long to wait for another writer.

        Raises:
            UsageError: a layer that does not exist, or vectors without an embedder.
            BuildChangedError: an unfinished reindex was begun with other layers or settings.
            WorkerDiedError: workers died twice over the same text or batch, or cannot be started.
            As `refresh`.
        """
        from sqlindex.indexing.refresh import refresh
        from sqlindex.indexing.resume import REINDEX_SCOPE
        from sqlindex.model.layers import chosen_layers

        if workers < 0:
            raise ValueError(f"workers must not be negative, not {workers}")
        with self._file.writing("reindex", wait_s=wait_s, cancel=cancel) as writer:
            embedder = self._wiring.embedder()
            chosen = chosen_layers(layers, has_embedder=embedder is not None)
            reads = "chunks" in chosen
            gatekeeper = None
            if gate is not None:
                gatekeeper = self._gatekeeper(writer.connection, gate, embedder, cancel, progress)
            job = self._wiring.job(
                writer.connection,
                self._wiring.sources.listings(writer.connection, None) if reads else (),
                cause="reindex",
                scope=REINDEX_SCOPE,
                layers=chosen,
                workers=workers,
                restart=restart,
                gatekeeper=gatekeeper,
                allow_bad_vectors=allow_bad_vectors,
                cancel=cancel,
                progress=progress,
            )
            return refresh(writer, job)

    def publish(
        self,
        *,
        gate: PublishGate | None = None,
        force: bool = False,
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
        wait_s: float = 0.0,
    ) -> int:
        """Publish the generation that a gate keeps back, just as it was measured.

        `status().gated` says what waits. Nothing is read or embedded but, for a gate, the questions.

        Args:
            gate: another one, which is asked instead; or
            force: publish it without.
            cancel: checked until the publish.
            progress: called with `Progress`.
            wait_s: how long to wait for another writer.

        Returns:
            The generation, which is the head now.

        Raises:
            GateError: the other gate is missed as well; the generation waits on.
            UsageError: no generation waits behind a gate; or neither or both of `gate` and `force`.
            StaleBuildError: the head, or a source, has changed since: it cannot be published as it
                was measured. Refresh again.
            LockedError: another writer holds the index.
            CancelledError: cancelled before the publish.
        """
        from sqlindex.indexing.gated import publish_gated, require_gated
        from sqlindex.indexing.report import guarded, no_progress

        if (gate is None) is not force:
            raise UsageError(
                "publishing what a gate keeps back needs another gate, or force",
                hint="name one of them",
            )
        with self._file.writing("publish", wait_s=wait_s, cancel=cancel) as writer:
            gatekeeper = None
            if gate is not None:
                space_id = require_gated(writer.connection).record.space_id
                embedder = None if space_id is None else self._wiring.embedder()
                gatekeeper = self._gatekeeper(writer.connection, gate, embedder, cancel, progress)
            return publish_gated(
                writer,
                gatekeeper,
                staged_fts_chunks=self._wiring.config.staged_fts_chunks,
                cancel=cancel or NEVER,
                progress=no_progress if progress is None else guarded(progress),
            )

    def discard(self, *, cancel: CancelToken | None = None, wait_s: float = 0.0) -> None:
        """Drop the generation that a gate keeps back; the head stays.

        Its vectors are reused if the texts come back, for as long as retention keeps unused ones.

        Raises:
            UsageError: no generation waits behind a gate.
            LockedError: another writer holds the index.
        """
        from sqlindex.indexing.gated import discard_gated

        with self._file.writing("discard", wait_s=wait_s, cancel=cancel) as writer:
            discard_gated(writer, cancel or NEVER)

    def _gatekeeper(
        self,
        connection: Connection,
        gate: PublishGate,
        embedder: Embedder | None,
        cancel: CancelToken | None,
        progress: ProgressSink | None,
    ) -> QuestionGate:
        """What judges a generation by the questions that the index holds now."""
        from sqlindex.gating import QuestionGate
        from sqlindex.indexing.report import guarded, no_progress
        from sqlindex.store.questions import list_questions

        return QuestionGate(
            gate,
            list_questions(connection),
            embedder=embedder,
            config=self._search_config,
            cancel=cancel or NEVER,
            progress=no_progress if progress is None else guarded(progress),
        )

    def upsert(
        self,
        source: str,
        documents: Iterable[Document],
        *,
        remove: Iterable[str] = (),
        allow_bad_vectors: bool = False,
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
        wait_s: float = 0.0,
    ) -> RefreshReport:
        """Add, replace and remove documents of a host and publish that as one generation.

        Documents that are not named stay. The cost follows the change, not the index. The source is
        registered if it is new.

        Args:
            documents: any iterable; a generator is read as the work goes on, a batch at a time, so
                it may be longer than memory. An id must not come twice.
            remove: ids of documents to take out in the same generation; unknown ones are ignored.

        Raises:
            UsageError: the source is a folder, or an id is both pushed and removed.
            SourceError: an id comes twice, or a document is malformed; nothing is published.
        """
        from sqlindex.indexing.diff import Listing
        from sqlindex.indexing.refresh import refresh
        from sqlindex.sources.pushed import PushedDocuments
        from sqlindex.store.scope import NOTHING
        from sqlindex.store.sources import add_source, list_sources

        gone = _distinct_ids(remove)
        with self._file.writing("upsert", wait_s=wait_s, cancel=cancel) as writer:
            self._wiring.require_embedder(writer.connection)
            known = {row.name: row for row in list_sources(writer.connection)}
            row = known.get(source)
            if row is None:
                with writer.transaction() as connection:
                    row = add_source(connection, source, "host", None, {})
            require_host(row)
            listing = Listing(row, PushedDocuments(source, documents, not_among=gone), NOTHING)
            job = self._wiring.job(
                writer.connection,
                (listing,),
                cause="upsert",
                removals=(row, _live(writer.connection, row, gone)),
                also=_forgetting(row, gone),
                allow_bad_vectors=allow_bad_vectors,
                cancel=cancel,
                progress=progress,
            )
            return refresh(writer, job)

    def remove(
        self,
        source: str,
        document_ids: Iterable[str],
        *,
        cancel: CancelToken | None = None,
        wait_s: float = 0.0,
    ) -> RefreshReport:
        """Remove documents of a host and publish that as one generation; unknown ids are ignored."""
        from sqlindex.indexing.refresh import refresh
        from sqlindex.store.sources import find_source

        gone = _distinct_ids(document_ids)
        with self._file.writing("remove", wait_s=wait_s, cancel=cancel) as writer:
            row = find_source(writer.connection, source)
            require_host(row)
            job = self._wiring.job(
                writer.connection,
                (),
                cause="remove",
                keeps_space=True,
                removals=(row, _live(writer.connection, row, gone)),
                also=_forgetting(row, gone),
                cancel=cancel,
            )
            return refresh(writer, job)

    def rollback(
        self, at: int | str, *, cancel: CancelToken | None = None, wait_s: float = 0.0
    ) -> RollbackReport:
        """Publish the documents of a kept generation as a new generation.

        Texts and vectors are shared, not copied; the cost follows the documents that differ. The
        sources themselves stay as they are: the next refresh follows them again.

        Args:
            at: the generation, as `search` takes it: a number, a tag, a date or `head~1`.
            cancel: checked until the publish.
            wait_s: how long to wait for another writer.

        Raises:
            UnknownGenerationError: there was never such a generation.
            GenerationGoneError: it has been collected.
            DuplicateError: a source that comes back has a name that another one has taken since.
            LockedError: another writer holds the index.
            CancelledError: cancelled before the publish.
        """
        from sqlindex.indexing.rollback import rollback
        from sqlindex.store.history import resolve

        with self._file.writing("rollback", wait_s=wait_s, cancel=cancel) as writer:
            return rollback(
                writer,
                lambda connection: resolve(connection, at),
                staged_fts_chunks=self._wiring.config.staged_fts_chunks,
                cancel=cancel or NEVER,
            )

    def collect(
        self,
        retention: Retention | None = None,
        *,
        cancel: CancelToken | None = None,
        wait_s: float = 0.0,
    ) -> Collected:
        """Drop generations that are no longer kept, and delete what only they used.

        Every refresh that publishes does this too. The head, tagged generations and those that a
        reader holds stay. The file does not shrink: freed pages are used again.

        Args:
            retention: what to keep from now on; as before if None.
            cancel: checked between steps; the next collection goes on.
            wait_s: how long to wait for another writer.

        Raises:
            LockedError: another writer holds the index.
            CancelledError: cancelled between two steps.
            StorageError: the disk is full or failing.
        """
        from sqlindex.store.collect import collect, put_retention

        with self._file.writing("collect", wait_s=wait_s, cancel=cancel) as writer:
            if retention is not None:
                with writer.transaction() as connection:
                    put_retention(connection, retention)
            return collect(writer, cancel or NEVER)

    def retention(self) -> Retention:
        """What collection leaves of the past."""
        from sqlindex.store.collect import get_retention

        with self._file.reading() as connection:
            return get_retention(connection)

    # The file

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
    ) -> Backup:
        """Copy the index, as it is at one moment, to a new file; readers and the writer go on.

        The copy is an index with every kept generation. It gets its name when it is whole and
        synced: a failure, a cancel or a kill leaves nothing there.

        Args:
            path: in a folder that exists; made with mode 0600.
            force: an earlier backup at `path` that nobody has open is replaced.
            cancel: checked after every MB.
            progress: called with `Progress` of phase `copy`, in pages.

        Raises:
            DuplicateError: something is at `path` already.
            UsageError: `path` is the index itself or one of its sidecars.
            NotAnIndexError: what `force` would replace is no index; it is left as it is.
            LockedError: what `force` would replace is in use.
            CancelledError: cancelled.
            StorageError: the folder cannot be written, or the disk is full.
        """
        from sqlindex.store.backup import back_up

        step = _step(cancel, progress)
        return back_up(self._file, Path(path), replaces=force, step=step)

    def import_vectors(
        self,
        other: str | os.PathLike[str],
        *,
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
        wait_s: float = 0.0,
    ) -> VectorTransfer:
        """Take over the vectors of another index file, so that a refresh need not make them.

        They are found again by document encoding and exact text: a fork of an index, or one with
        other documents that share texts, costs no inference for those. No generation changes.
        Vectors that no refresh takes up stay as long as unused ones do (`Retention.vector_days`).

        Args:
            other: an index, or what `export_vectors` made; it is read, never written. A vector is as
                good as the file that it comes from: its bytes are checked, not its meaning.
            cancel: checked between steps; the next import goes on with the rest.
            progress: called with `Progress` of phase `copy`, in vectors.
            wait_s: how long to wait for another writer.

        Raises:
            NoIndexError: there is no such file; `NotAnIndexError` if it is no index.
            UsageError: it is this index.
            EmbedderMismatchError: both have vectors of one encoding, of different widths.
            LockedError: another writer holds the index.
            CancelledError: cancelled.
            StorageError: the disk is full or failing.
        """
        from sqlindex.store.vector_transfer import import_vectors

        return import_vectors(
            self._file, Path(other), cancel or NEVER, _step(cancel, progress), wait_s=wait_s
        )

    def export_vectors(
        self,
        path: str | os.PathLike[str],
        *,
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
    ) -> VectorTransfer:
        """Write all vectors to an index file without documents, for `import_vectors`.

        Args:
            path: made with mode 0600 if nothing is there; else an index, which gets what it lacks.
            cancel: checked between steps; the next export goes on with the rest.
            progress: called with `Progress` of phase `copy`, in vectors.

        Raises:
            UsageError: `path` is this index.
            NotAnIndexError: what is at `path` is no index; it is left as it is.
            EmbedderMismatchError: both have vectors of one encoding, of different widths.
            LockedError: somebody writes the index at `path`.
            CancelledError: cancelled.
            StorageError: the folder cannot be written, or the disk is full.
        """
        from sqlindex.store.vector_transfer import export_vectors

        return export_vectors(self._file, Path(path), cancel or NEVER, _step(cancel, progress))

    def compact(
        self,
        mode: CompactMode = "incremental",
        *,
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
        wait_s: float = 0.0,
    ) -> Compaction:
        """Collect what is no longer kept, and give free space of the file back; searches go on.

        A failure, a cancel or a kill leaves the index as it was, or smaller.

        Args:
            mode: `incremental` cuts free pages off, in small steps; bytes of deleted documents can
                remain inside pages that are still used. `full` writes the whole file anew, so
                nothing deleted is left; it needs the file's size twice on disk while it runs.
            cancel: checked between steps.
            progress: called with `Progress` of phase `copy`, in pages.
            wait_s: how long to wait for another writer.

        Raises:
            ValueError: no such mode.
            LockedError: another writer holds the index.
            CancelledError: cancelled.
            StorageError: the disk is full or failing.
        """
        from sqlindex.store.compact import compact

        if mode not in ("incremental", "full"):
            raise ValueError(f"mode {mode!r} is not 'incremental' or 'full'")
        step = _step(cancel, progress)
        with self._file.writing("compact", wait_s=wait_s, cancel=cancel) as writer:
            return compact(writer, mode, cancel or CancelToken(), step)

    def purge(
        self,
        documents: str | Iterable[str],
        *,
        source: str | None = None,
        cancel: CancelToken | None = None,
        wait_s: float = 0.0,
    ) -> Purge:
        """Remove documents from all generations, and every byte of them from the file and its log.

        A generation without them is published, and they are deleted from the history, with vectors
        that no other document uses (other unused vectors go as well); then the file is written anew, as
        `compact("full")` does. No golden question expects them any more. Their names in links of other
        documents, in what a user wrote (questions, exclude patterns, tags) and in backups stay. What is cancelled or killed in between is
        finished by the next call, also by one for no document.

        Args:
            documents: ids or paths, of any generation.
            source: whose documents; None for whichever one has them.
            cancel: checked between steps.
            wait_s: how long to wait for another writer, and then for readers.

        Raises:
            UnknownDocumentError: there is no trace of one, or several sources have it.
            LockedError: another writer holds the index, or a reader a generation that shows one, and
                nothing is changed; or a reader needs the file as it was, and the purge is not finished.
            CorruptIndexError: a damaged text may be that of a document; the purge is not finished.
            CancelledError: cancelled.
            StorageError: the disk is full or failing.
        """
        from sqlindex.adapters import is_in_folder
        from sqlindex.indexing.purge import purge

        wanted = sorted(_distinct_ids([documents] if isinstance(documents, str) else documents))
        with self._file.writing("purge", wait_s=wait_s, cancel=cancel) as writer:
            return purge(
                writer,
                wanted,
                source,
                is_there=lambda place: (
                    place.folder is not None and is_in_folder(place.folder, place.document_id)
                ),
                staged_fts_chunks=self._wiring.config.staged_fts_chunks,
                cancel=cancel or CancelToken(),
                wait_s=wait_s,
            )

    # The read side

    def search(
        self,
        query: str,
        *,
        mode: Mode | None = None,
        limit: int = DEFAULT_LIMIT,
        offset: int = 0,
        filters: Filters | None = None,
        at: int | str | None = None,
        cursor: str | None = None,
        cancel: CancelToken | None = None,
    ) -> SearchResult:
        """Search the head, or an earlier generation as it was.

        Args:
            query: as typed; any characters, never search syntax.
            mode: `lexical`, `semantic` or `hybrid`; None for hybrid if the generation has vectors and
                there is an embedder, else lexical. Behind the head, words are not indexed: None
                means semantic there.
            limit: 1 to 100.
            offset: hits to leave out, for paging.
            filters: which documents may be found, in every channel.
            at: a kept generation: its number, `head`, `head~1` for the one before, a tag, or a date
                for the last one published by then (a day means its end; local time without a zone).
            cursor: `cursor` of the page before: goes on in the same generation, with the same mode.
                Repeat query and filters; the limit may be another.
            cancel: ends it within 2 s, also while the embedder hangs, which is then called from a
                worker thread.

        Returns:
            Hits of exactly one generation, best first, ties by (source, document id, start).

        Raises:
            ValueError: limit, offset or mode out of range.
            EmbedderRequiredError: semantic or hybrid without an embedder.
            EmbedderMismatchError: the embedder is not the one that made the vectors.
            FilterError: a filter is malformed.
            UnknownSourceError: a filter names a source that is not registered.
            UnknownGenerationError: there is no such generation; the hint says which are kept.
            GenerationGoneError: it has been collected.
            LexicalHistoryError: lexical or hybrid, and the generation is not the head.
            StaleCursorError: the generation of the cursor no longer answers; start again.
            UsageError: the cursor is malformed or belongs to another search.
            CorruptIndexError: a stored row is damaged.
        """
        generation = None if at is None else self._resolve(at)
        request = SearchRequest(
            query, mode, limit, offset, filters or Filters(), generation, cursor
        )
        return self._searcher.search(request, self._wiring.embedder, cancel or NEVER)

    def get(
        self, path_or_id: str, *, source: str | None = None, at: int | str | None = None
    ) -> StoredDocument:
        """A document of the head, or of a generation (`at`, see `search`), by its id or path.

        Raises:
            UnknownDocumentError: there is none, or several sources have one.
        """
        from sqlindex.search.lookup import get_document

        with self._file.reading() as connection:
            return get_document(connection, path_or_id, source, uri_of, _number(connection, at))

    def chunks(
        self, path_or_id: str, *, source: str | None = None, at: int | str | None = None
    ) -> list[DocumentChunk]:
        """How a document is cut: its chunks in order, and why each ends where it does.

        Raises:
            UnknownDocumentError: there is none, or several sources have one.
        """
        from sqlindex.search.lookup import get_chunks

        with self._file.reading() as connection:
            return get_chunks(connection, path_or_id, source, uri_of, _number(connection, at))

    def links(
        self,
        path_or_id: str,
        *,
        source: str | None = None,
        at: int | str | None = None,
        cancel: CancelToken | None = None,
    ) -> list[DocumentLink]:
        """The links of a document in order, each with the document of its generation that it leads to.

        Cost: O(links of the document × log documents).

        Raises:
            UnknownDocumentError: there is no such document, or several sources have one.
        """
        from sqlindex.search.links import outgoing_links

        with self._file.reading(cancel=cancel) as connection:
            return outgoing_links(connection, path_or_id, source, _number(connection, at))

    def backlinks(
        self,
        path_or_id: str,
        *,
        source: str | None = None,
        at: int | str | None = None,
        cancel: CancelToken | None = None,
    ) -> list[DocumentLink]:
        """The links of the generation's other documents that lead to this one.

        By source, document id and position. Cost: O(links that end in one of the document's names
        × log documents).

        Raises:
            UnknownDocumentError: there is no such document, or several sources have one.
        """
        from sqlindex.search.links import backlinks

        with self._file.reading(cancel=cancel) as connection:
            return backlinks(connection, path_or_id, source, _number(connection, at))

    def get_chunk(self, chunk_id: str, *, at: int | str | None = None) -> Chunk:
        """A chunk of the head, or of a generation, by the id that a hit carries: O(chunks).

        Raises:
            UnknownDocumentError: the generation has no such chunk.
        """
        from sqlindex.search.lookup import get_chunk

        with self._file.reading() as connection:
            return get_chunk(connection, chunk_id, uri_of, _number(connection, at))

    def documents(
        self, at: int | str | None = None, *, source: str | None = None
    ) -> Iterator[ListedDocument]:
        """All documents of the head or of a generation, by id and source.

        Read in pages while the caller goes on; from the first one on a refresh changes nothing of it.

        Args:
            at: see `search`.
            source: only of this source.

        Raises:
            UnknownGenerationError: there is no such generation.
            GenerationGoneError: it has been collected.
            UnknownSourceError: no source was ever named so.
        """
        from sqlindex.search.lookup import walk_documents

        generation = self._resolve("head" if at is None else at)
        return walk_documents(self._file, generation, source)

    # Golden questions

    def questions(self, *, with_damaged: bool = False) -> list[Question]:
        """The golden questions, in the order in which they were added.

        Args:
            with_damaged: those that no longer say what was stored are listed too, as far as they
                can be read, and marked (`is_damaged`).

        Raises:
            CorruptIndexError: one no longer says what was stored.
        """
        from sqlindex.store.questions import list_questions

        with self._file.reading() as connection:
            return list_questions(connection, with_damaged=with_damaged)

    def add_question(
        self,
        text: str,
        expected: Iterable[DocumentName] | Mapping[DocumentName, int] = (),
        *,
        source: str | None = None,
        id: str | None = None,
        class_name: str | None = None,
        is_answerable: bool = True,
        wait_s: float = 0.0,
    ) -> Question:
        """Store what people ask and which documents should be found.

        Questions belong to the index: no refresh, rollback or collection touches them. A purge
        takes its documents out of them.

        Args:
            text: searched as it is.
            expected: documents by id or path, or (source, document id); a mapping gives the grade
                of each, 1 to 20, which is 1 otherwise. A document may come later: it then needs its
                source, unless there is one only.
            source: of all that are named by id or path.
            id: if None, `q` and the next number: of the first question `q1`, of the tenth `q10`.
            class_name: its kind, in words of your own.
            is_answerable: False for a question that no document answers; it expects none.
            wait_s: how long to wait for another writer.

        Returns:
            The question as it is stored; `is_indexed` of an expectation says whether the head
            holds the document.

        Raises:
            DuplicateError: there is a question of that id.
            UsageError: a document is ambiguous, its source cannot be told, or a value is malformed.
            LockedError: another writer holds the index.
        """
        from sqlindex.questions import add

        return add(
            self._file,
            text,
            expected,
            source=source,
            id=id,
            class_name=class_name,
            is_answerable=is_answerable,
            wait_s=wait_s,
        )

    def remove_questions(self, ids: Iterable[str], *, wait_s: float = 0.0) -> None:
        """Forget golden questions, all of them or, after an error, none.

        Raises:
            UnknownQuestionError: there is no question of an id.
            LockedError: another writer holds the index.
        """
        from sqlindex.questions import remove

        remove(self._file, ids, wait_s=wait_s)

    def import_questions(
        self, path: str | os.PathLike[str], *, source: str | None = None, wait_s: float = 0.0
    ) -> QuestionImport:
        """Store the questions of a folder or a file; those of the same ids are replaced.

        Args:
            path: a folder with `queries.jsonl` and `qrels.tsv`, as BEIR has them, or a file of JSON
                Lines: `{"id", "text", "expect": {document: grade} or [document, …], "class",
                "answerable"}`.
            source: of the documents; None for whichever one has them. `SOURCE:ID` names both.
            wait_s: how long to wait for another writer.

        Raises:
            UsageError: a file is missing or malformed (the message names the line), or a document
                is ambiguous; nothing is stored.
            LockedError: another writer holds the index.
        """
        from sqlindex.questions import import_file

        return import_file(self._file, Path(path), source=source, wait_s=wait_s)

    # The past

    def history(
        self, limit: int | None = None, *, with_collected: bool = False
    ) -> list[Generation]:
        """Published generations, newest first.

        Args:
            limit: at most so many.
            with_collected: also those that can no longer be read.
        """
        from sqlindex.store.history import list_generations

        if limit is not None and limit < 0:
            raise ValueError(f"limit must not be negative, not {limit}")
        with self._file.reading() as connection:
            return list_generations(connection, limit=limit, with_collected=with_collected)

    def snapshot(self, at: int | str | None = None) -> Snapshot:
        """Pin a generation: it can be read until the snapshot is closed, whatever is published.

        Args:
            at: see `search`; the head if None.

        Raises:
            UnknownGenerationError: there is no such generation.
            GenerationGoneError: it has been collected.
            StorageError: the lock file cannot be read, so nothing can be held.
        """
        from sqlindex.snapshot import Snapshot

        generation = self._resolve("head" if at is None else at)
        return Snapshot(self._file, self._wiring, self._searcher, generation)

    def tag(
        self,
        name: str,
        at: int | str | None = None,
        *,
        force: bool = False,
        wait_s: float = 0.0,
    ) -> int:
        """Give a generation a name; while it has one it is not collected.

        Args:
            name: up to 100 characters; not like a number, a date or `head`.
            at: see `search`; the head if None.
            force: move a name that another generation has.
            wait_s: how long to wait for another writer.

        Returns:
            The generation.

        Raises:
            UsageError: the name cannot be told from a number, a date or `head`, or is malformed.
            DuplicateError: another generation has the name, and not `force`.
            UnknownGenerationError: there is no such generation.
            GenerationGoneError: it has been collected.
            LockedError: another writer holds the index.
        """
        from sqlindex.store.history import put_tag

        wanted = "head" if at is None else at
        with (
            self._file.writing("tag", wait_s=wait_s) as writer,
            writer.transaction(durable=True) as connection,
        ):
            return put_tag(connection, name, wanted, force=force)

    def untag(self, name: str, *, wait_s: float = 0.0) -> int:
        """Take a name away; the generation that had it may be collected after the next refresh.

        Raises:
            UnknownGenerationError: there is no such tag.
            LockedError: another writer holds the index.
        """
        from sqlindex.store.history import drop_tag

        with (
            self._file.writing("untag", wait_s=wait_s) as writer,
            writer.transaction() as connection,
        ):
            return drop_tag(connection, name)

    def tags(self) -> dict[str, int]:
        """The generation of each tag, by generation and name."""
        from sqlindex.store.history import list_tags

        with self._file.reading() as connection:
            return dict(list_tags(connection))

    def diff(
        self,
        a: int | str,
        b: int | str | None = None,
        *,
        query: str | None = None,
        mode: Mode | None = None,
        limit: int = DEFAULT_LIMIT,
        cancel: CancelToken | None = None,
    ) -> GenerationDiff:
        """What turns generation `a` into `b`: documents, their chunks, and the ranking of a query.

        Cost: O(document versions that came or went between them), and with a query two searches.

        Args:
            a, b: see `search`; `b` is the head if None. `a` may be the later one.
            query: compare its first hits in both, and say why they moved.
            mode: of that search; semantic if None.
            limit: hits compared, 1 to 100.
            cancel: checked within the searches.

        Raises:
            UnknownGenerationError: there is no such generation.
            GenerationGoneError: one has been collected.
            LexicalHistoryError: lexical or hybrid, and one of them is not the head.
            EmbedderRequiredError: a query without an embedder.
            EmbedderMismatchError: the embedder is not the one that made the vectors of both.
        """
        from sqlindex.search.compare import compare, compare_rankings

        with self._file.reading() as connection:
            old, new = (_number(connection, "head" if at is None else at) for at in (a, b))
        assert old is not None
        assert new is not None
        if query is None:
            with self._file.reading() as connection:
                return compare(connection, old, new)[0]
        SearchRequest(query, mode, limit)  # says what is wrong with them

        # Without vectors there is nothing to rank by but words: the error of a search says so.
        meant = mode or ("semantic" if self.status().space is not None else None)

        def ranking_at(generation: int) -> SearchResult:
            request = SearchRequest(query, meant, MAX_LIMIT, at=generation)
            return self._searcher.search(request, self._wiring.embedder, cancel or CancelToken())

        with self._file.holding(old, new):
            before, after = ranking_at(old), ranking_at(new)
            with self._file.reading() as connection:
                diff, pairs = compare(connection, old, new)
                ranking = compare_rankings(connection, pairs, query, before, after, limit)
        return replace(diff, ranking=ranking)

    def _resolve(self, at: int | str) -> int:
        from sqlindex.store.history import resolve

        with self._file.reading() as connection:
            return resolve(connection, at)

    # Its state

    def status(self) -> IndexStatus:
        """What the index holds: generation, sources, counts, embedder, sizes."""
        from sqlindex.overview import status_of

        return status_of(self._file, has_given_embedder=self._wiring.has_given_embedder)

    def condition(self) -> FileCondition:
        """What the file is like inside: free pages, its log and who keeps that, owners, tags."""
        from sqlindex.overview import condition_of

        return condition_of(self._file)

    def language_signs(self) -> LanguageSigns:
        """Which languages a sample of the head's documents seems to be in.

        Looks at the beginnings of at most 100 documents.
        """
        from sqlindex.overview import language_signs_of

        return language_signs_of(self._file)

    def unreachable(self) -> dict[str, SqlindexError]:
        """Why registered databases cannot be read now, by the name of their source.

        Reads one row of each, in a process of its own.
        """
        from sqlindex.registration import unreachable_tables

        return unreachable_tables(self._file)

    def file_status(self, path: str | os.PathLike[str]) -> list[FileStatus]:
        """Whether a file or folder is in the index, and if not, why, and what would change that.

        As the last refresh saw it; nothing is read from disk.

        Args:
            path: relative to the working folder, or absolute.

        Returns:
            One for each folder source that it lies in, by source; none if it lies in none.
        """
        from sqlindex.overview import file_status_of

        return file_status_of(self._file, path)

    def refused(self, *, with_left_out: bool = False) -> Sequence[RefusedDocument]:
        """Documents that the last refresh saw and did not index, with reason and hint.

        Args:
            with_left_out: also what rules of a source leave out (hidden, ignored, …); a left-out
                folder stands for all that lies below it.
        """
        from sqlindex.overview import refused_of

        return refused_of(self._file, with_left_out=with_left_out)

    def check(
        self,
        *,
        quick: bool = False,
        cancel: CancelToken | None = None,
        step: Callable[[str], None] | None = None,
    ) -> list[Finding]:
        """Every broken invariant of the file; an empty list means none was found.

        Args:
            quick: leave out what reads texts, chunks, vectors and postings.
            cancel: checked between the parts and inside long statements.
            step: called with the name of each part before it runs.

        Raises:
            ForeignSchemaError: tables, indexes, triggers or views are not those that this program
                makes; nothing is read by way of them.
        """
        from sqlindex.analysis.analyser import analyse, analyzer_fingerprint
        from sqlindex.chunking.identity import content_fingerprint
        from sqlindex.indexing.build import key_at
        from sqlindex.indexing.prepare import input_mark
        from sqlindex.store.check import find_faults
        from sqlindex.store.driver import read_any_text

        token = cancel or NEVER

        def next_step(name: str) -> None:
            token.check()
            if step is not None:
                step(name)

        # A pooled connection can hold FTS5's structure of an earlier generation, which the integrity
        # check of SQLite 3.44 and later takes for the present one and reports as corruption.
        with self._file.reading(is_new=True, is_timed=False, cancel=token) as connection:
            read_any_text(connection)
            return list(
                find_faults(
                    connection,
                    quick=quick,
                    analyse=analyse,
                    analyzer=analyzer_fingerprint(),
                    fingerprint=content_fingerprint,
                    embedding_key=key_at,
                    input_mark=input_mark(),
                    step=next_step,
                )
            )

    def repair(
        self,
        *,
        cancel: CancelToken | None = None,
        step: Callable[[str], None] | None = None,
        wait_s: float = 0.0,
    ) -> RepairReport:
        """Make a damaged index whole again: derived rows anew, lost ones named and bypassed.

        Embeds nothing and reads no source. Documents that are damaged end in a new generation, and
        the next refresh reads them again; in older generations they are missing from then on. A
        damaged vector is left out of semantic search until the next refresh makes it again. Cost:
        that of two full checks, and where the lexical table is wrong of analysing every chunk.

        Args:
            cancel: checked between the steps; those done stay done.
            step: called with the name of each step before it runs.
            wait_s: how long to wait for another writer.

        Raises:
            CorruptIndexError: pages of a table are damaged; nothing is changed then.
            ForeignSchemaError: the file holds what this program did not make and could run.
            LockedError: another writer holds the index.
            CancelledError: cancelled.
        """
        from sqlindex.indexing.repair import RepairReport, repair
        from sqlindex.store.head import read_head

        token = cancel or CancelToken()

        def next_step(name: str) -> None:
            token.check()
            if step is not None:
                step(name)

        with self._file.writing("repair", wait_s=wait_s, cancel=cancel, is_repair=True) as writer:
            before = writer.connection.execute("SELECT max(generation) FROM generation").fetchone()
            mended = repair(writer, cancel=token, step=next_step)
            generation = read_head(writer.connection).generation
        return RepairReport(
            generation=generation,
            is_published=before != (generation,),
            mended=mended,
            remaining=tuple(self.check(cancel=cancel, step=step)),
        )

    def salvage(
        self,
        out: str | os.PathLike[str],
        *,
        cancel: CancelToken | None = None,
        wait_s: float = 0.0,
    ) -> RepairReport:
        """Copy what can be read into a new index at `out` and repair that; this file stays as it is.

        For files of which pages are damaged, which `repair` refuses. Nothing is at `out` before all is
        copied; if the repair of it does not end, `repair` it again.

        Args:
            out: the new file.
            cancel: checked all along.
            wait_s: how long to wait for another writer.

        Returns:
            What the repair of the new index did; tables that could not be read in full are named
            first.

        Raises:
            UsageError: there is something at `out`.
            StorageError: it cannot be written.
            CorruptIndexError: not even the list of tables can be read.
        """
        from dataclasses import replace

        from sqlindex.indexing.repair import Mended
        from sqlindex.store.driver import read_any_text
        from sqlindex.store.salvage import salvage
        from sqlindex.store.watch import CheckedConnection

        with self._file.writing("salvage", wait_s=wait_s, cancel=cancel, is_repair=True) as writer:
            read_any_text(writer.connection)
            damaged = CheckedConnection(writer.connection, cancel or NEVER)
            torn = salvage(damaged, writer.path, Path(out))
        with Index.open(out) as index:
            report = index.repair(cancel=cancel)
        return replace(
            report,
            mended=(*(Mended(f"rows of table {table}", "lost") for table in torn), *report.mended),
        )


def _number(connection: Connection, at: int | str | None) -> int | None:
    """The number of the generation that is meant; None for the head."""
    if at is None:
        return None
    from sqlindex.store.history import resolve

    return resolve(connection, at)


def _step(cancel: CancelToken | None, progress: ProgressSink | None) -> Callable[[int, int], None]:
    """What a copy calls after every step."""
    from sqlindex.indexing.report import Progress, guarded, no_progress

    told = no_progress if progress is None else guarded(progress)

    def step(done: int, total: int) -> None:
        if cancel is not None:
            cancel.check()
        told(Progress("copy", done, total))

    return step


def _opened_anew(file: IndexFile, wiring: Mapping[str, Any], config: SearchConfig) -> Index:
    """The index that was pickled."""
    return Index(file, rewired(file, wiring), config)


def _several(names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise ValueError("sources must be several names, not one text")
    return list(names)


def _distinct_ids(ids: Iterable[str]) -> frozenset[str]:
    if isinstance(ids, str):
        raise ValueError("document ids must be several ids, not one text")
    distinct = frozenset(ids)
    for document_id in distinct:
        if not isinstance(document_id, str):
            raise ValueError(f"{document_id!r} is no document id")
    # What UTF-8 cannot say is no document's id, and unknown ids are ignored.
    return frozenset(i for i in distinct if i.isascii() or is_encodable(i))


def _live(connection: Connection, row: SourceRow, ids: Iterable[str]) -> Iterator[LiveVersion]:
    """The head's versions of those documents that it has."""
    from sqlindex.store.documents import live_version

    found = (live_version(connection, row.source_id, document_id) for document_id in sorted(ids))
    return (version for version in found if version is not None)


def _forgetting(row: SourceRow, ids: Iterable[str]) -> Callable[[Connection], None]:
    """Drops what is recorded of refused documents that the host no longer wants."""
    from sqlindex.store.sources import drop_refusals

    return lambda connection: drop_refusals(connection, [(row.source_id, id_) for id_ in ids])
