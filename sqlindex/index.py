"""The index: opens the file and wires sources, parsers and embedders to the pipelines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from sqlindex.cancellation import CancelToken
from sqlindex.config import IndexConfig, Retention, SearchConfig
from sqlindex.errors import SqlindexError
from sqlindex.model.requests import DEFAULT_LIMIT, Filters, Mode, SearchRequest
from sqlindex.search.searcher import Searcher
from sqlindex.store.connection import IndexFile
from sqlindex.store.settings import put_setting
from sqlindex.wiring import EMBEDDER_SETTING, Wiring, require_host, uri_of

if TYPE_CHECKING:
    from sqlindex.filetypes.registry import FileTypeRegistry
    from sqlindex.indexing.report import Changes, ProgressSink, RefreshReport
    from sqlindex.indexing.rollback import RollbackReport
    from sqlindex.model.links import DocumentLink
    from sqlindex.model.results import Chunk, DocumentChunk, SearchResult
    from sqlindex.model.status import FileStatus, IndexStatus, RefusedDocument
    from sqlindex.model.stored import StoredDocument
    from sqlindex.parsing.registry import ParserRegistry
    from sqlindex.ports import Embedder, Source
    from sqlindex.sources.memory import Document
    from sqlindex.store.check import Finding
    from sqlindex.store.collect import Collected
    from sqlindex.store.documents import LiveVersion
    from sqlindex.store.driver import Connection
    from sqlindex.store.sources import SourceRow


class Index:
    """A search index in one SQLite file.

    Use it as a context manager. One object serves all threads of a process; searches go on while a
    refresh runs, in this process or another. A forked child opens connections of its own.
    """

    def __init__(self, file: IndexFile, wiring: Wiring, search_config: SearchConfig) -> None:
        self._file = file
        self._wiring = wiring
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
    ) -> Index:
        """Open the index at `path`.

        Args:
            path: the SQLite file; its sidecars `-wal`, `-shm` and `-lock` lie beside it.
            create: make a new index (mode 0600) if nothing is there.
            embedder: makes vectors; it stays the caller's and is never closed here. Without one
                the model that the index was set up with is used (`set_embedder`), if any.
            config: how documents are cut and staged.
            search_config: how channels are weighted and fused.
            file_types: which extensions are indexed; the built-in ones if None.
            parsers: the built-in ones if None.

        Raises:
            NoIndexError: there is no such file and `create` is False.
            StorageError: the file or its folder is not accessible.
            NotAnIndexError: the file is not an index; `NewerSchemaError` if a newer version made it.
        """
        search_config = search_config or SearchConfig()
        file = IndexFile.open(
            Path(path), make=create, busy_timeout_ms=search_config.busy_timeout_ms
        )
        wiring = Wiring(
            file,
            embedder=embedder,
            config=config or IndexConfig(),
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
        self._wiring.host_sources[added] = source
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

    def remove_source(self, name: str, *, wait_s: float = 0.0) -> RefreshReport:
        """Remove a source and its documents: one published generation."""
        from sqlindex.indexing.refresh import refresh
        from sqlindex.store.documents import live_in_scope
        from sqlindex.store.scope import EVERYTHING
        from sqlindex.store.sources import find_source, remove_source

        with self._file.writing("source remove", wait_s=wait_s) as writer:
            row = find_source(writer.connection, name)
            job = self._wiring.job(
                writer.connection,
                (),
                cause="source removed",
                keeps_space=True,
                removals=(row, live_in_scope(writer.connection, row.source_id, EVERYTHING)),
                also=lambda connection: remove_source(connection, row.source_id),
            )
            report = refresh(writer, job)
        self._wiring.host_sources.pop(name, None)
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

    def set_embedder(self, name: str | None) -> None:
        """Choose the model that this index is refreshed and searched with; None for none.

        Nothing is loaded or downloaded here; the next refresh makes the vectors.

        Raises:
            UnknownModelError: no model of that name.
        """
        if name is not None:
            from sqlindex.embedding.models import known_model

            known_model(name)
        with self._file.writing("set embedder") as writer, writer.transaction() as connection:
            put_setting(connection, EMBEDDER_SETTING, name or "")

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
            cancel: checked between documents and batches.
            progress: called with `Progress`.
            wait_s: how long to wait for another writer.

        Raises:
            LockedError: another writer holds the index.
            BuildChangedError: an unfinished build of the same sources was begun with other settings.
            UsageError: a path lies in no registered folder, or nothing was ever there.
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
            listings = self._wiring.listings(writer.connection, names, paths)
            job = self._wiring.job(
                writer.connection,
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
        cancel: CancelToken | None = None,
        progress: ProgressSink | None = None,
    ) -> Changes:
        """What `refresh` would do now, in documents and embedding inputs; writes nothing."""
        from sqlindex.indexing.refresh import plan

        with self._file.reading() as connection:
            job = self._wiring.job(
                connection,
                self._wiring.listings(connection, sources, paths),
                cause="refresh",
                strict=strict,
                verify=verify,
                allow_bad_vectors=allow_bad_vectors,
                drop_vectors=drop_vectors,
                cancel=cancel,
                progress=progress,
            )
            return plan(connection, job)

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
        self, source: str, document_ids: Iterable[str], *, wait_s: float = 0.0
    ) -> RefreshReport:
        """Remove documents of a host and publish that as one generation; unknown ids are ignored."""
        from sqlindex.indexing.refresh import refresh
        from sqlindex.store.sources import find_source

        gone = _distinct_ids(document_ids)
        with self._file.writing("remove", wait_s=wait_s) as writer:
            row = find_source(writer.connection, source)
            require_host(row)
            job = self._wiring.job(
                writer.connection,
                (),
                cause="remove",
                keeps_space=True,
                removals=(row, _live(writer.connection, row, gone)),
                also=_forgetting(row, gone),
            )
            return refresh(writer, job)

    def rollback(
        self, generation: int, *, cancel: CancelToken | None = None, wait_s: float = 0.0
    ) -> RollbackReport:
        """Publish the documents of a kept generation as a new generation.

        Texts and vectors are shared, not copied; the cost follows the documents that differ. The
        sources themselves stay as they are: the next refresh follows them again.

        Raises:
            GenerationGoneError: the generation has been collected, or was never published.
            DuplicateError: a source that comes back has a name that another one has taken since.
            LockedError: another writer holds the index.
            CancelledError: cancelled before the publish.
        """
        from sqlindex.indexing.rollback import rollback

        with self._file.writing("rollback", wait_s=wait_s, cancel=cancel) as writer:
            return rollback(
                writer,
                lambda _: generation,
                staged_fts_chunks=self._wiring.config.staged_fts_chunks,
                cancel=cancel or CancelToken(),
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
            return collect(writer, cancel or CancelToken())

    def retention(self) -> Retention:
        """What collection leaves of the past."""
        from sqlindex.store.collect import get_retention

        with self._file.reading() as connection:
            return get_retention(connection)

    # The read side

    def search(
        self,
        query: str,
        *,
        mode: Mode | None = None,
        limit: int = DEFAULT_LIMIT,
        offset: int = 0,
        filters: Filters | None = None,
        cancel: CancelToken | None = None,
    ) -> SearchResult:
        """Search the head.

        Args:
            query: as typed; any characters, never search syntax.
            mode: `lexical`, `semantic` or `hybrid`; None for hybrid if the generation has vectors and
                there is an embedder, else lexical.
            limit: 1 to 100.
            offset: hits to leave out, for paging.
            filters: which documents may be found, in every channel.
            cancel: checked before and inside every step.

        Returns:
            Hits of exactly one generation, best first, ties by (source, document id, start).

        Raises:
            ValueError: limit, offset or mode out of range.
            EmbedderRequiredError: semantic or hybrid without an embedder.
            EmbedderMismatchError: the embedder is not the one that made the vectors.
            FilterError: a filter is malformed.
            UnknownSourceError: a filter names a source that is not registered.
            CorruptIndexError: a stored row is damaged.
        """
        request = SearchRequest(query, mode, limit, offset, filters or Filters())
        return self._searcher.search(request, self._wiring.embedder, cancel or CancelToken())

    def get(self, path_or_id: str, *, source: str | None = None) -> StoredDocument:
        """A document of the head by its id or path.

        Raises:
            UnknownDocumentError: there is none, or several sources have one.
        """
        from sqlindex.search.lookup import get_document

        with self._file.reading() as connection:
            return get_document(connection, path_or_id, source, uri_of)

    def chunks(self, path_or_id: str, *, source: str | None = None) -> list[DocumentChunk]:
        """How a document of the head is cut: its chunks in order, and why each ends where it does.

        Raises:
            UnknownDocumentError: there is none, or several sources have one.
        """
        from sqlindex.search.lookup import get_chunks

        with self._file.reading() as connection:
            return get_chunks(connection, path_or_id, source, uri_of)

    def links(self, path_or_id: str, *, source: str | None = None) -> list[DocumentLink]:
        """The links of a document of the head in order, each with the document that it leads to.

        Cost: O(links of the document × log documents).

        Raises:
            UnknownDocumentError: there is no such document, or several sources have one.
        """
        from sqlindex.search.links import outgoing_links

        with self._file.reading() as connection:
            return outgoing_links(connection, path_or_id, source)

    def backlinks(self, path_or_id: str, *, source: str | None = None) -> list[DocumentLink]:
        """The links of the head's other documents that lead to this one.

        By source, document id and position. Cost: O(links that end in one of the document's names
        × log documents).

        Raises:
            UnknownDocumentError: there is no such document, or several sources have one.
        """
        from sqlindex.search.links import backlinks

        with self._file.reading() as connection:
            return backlinks(connection, path_or_id, source)

    def get_chunk(self, chunk_id: str) -> Chunk:
        """A chunk of the head by the id that a hit carries: O(chunks).

        Raises:
            UnknownDocumentError: the head has no such chunk.
        """
        from sqlindex.search.lookup import get_chunk

        with self._file.reading() as connection:
            return get_chunk(connection, chunk_id, uri_of)

    def status(self) -> IndexStatus:
        """What the index holds: generation, sources, counts, embedder, sizes."""
        from sqlindex.overview import status_of

        return status_of(self._file, has_given_embedder=self._wiring.has_given_embedder)

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
            quick: leave out what reads texts, vectors and postings.
            cancel: checked between the parts.
            step: called with the name of each part before it runs.
        """
        from sqlindex.analysis.analyser import analyse, analyzer_fingerprint
        from sqlindex.chunking.embedding_text import embedding_key
        from sqlindex.chunking.identity import content_fingerprint
        from sqlindex.indexing.build import text_at
        from sqlindex.store.check import find_faults

        token = cancel or CancelToken()

        def next_step(name: str) -> None:
            token.check()
            if step is not None:
                step(name)

        # A pooled connection can hold FTS5's structure of an earlier generation, which the integrity
        # check of SQLite 3.44 and later takes for the present one and reports as corruption.
        with self._file.reading(is_new=True) as connection:
            return list(
                find_faults(
                    connection,
                    quick=quick,
                    analyse=analyse,
                    analyzer=analyzer_fingerprint(),
                    fingerprint=content_fingerprint,
                    embedding_key=lambda text, place: embedding_key(text_at(text, place)),
                    step=next_step,
                )
            )


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
    return frozenset(i for i in distinct if i.isascii() or _is_encodable(i))


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _live(connection: Connection, row: SourceRow, ids: Iterable[str]) -> Iterator[LiveVersion]:
    """The head's versions of those documents that it has."""
    from sqlindex.store.documents import live_version

    found = (live_version(connection, row.source_id, document_id) for document_id in sorted(ids))
    return (version for version in found if version is not None)


def _forgetting(row: SourceRow, ids: Iterable[str]) -> Callable[[Connection], None]:
    """Drops what is recorded of refused documents that the host no longer wants."""
    from sqlindex.store.sources import drop_refusals

    return lambda connection: drop_refusals(connection, [(row.source_id, id_) for id_ in ids])
