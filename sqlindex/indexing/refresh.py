"""Refresh an index: list → diff → build → publish, and the plan that says so beforehand."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import islice

from sqlindex.analysis.analyser import analyse, analyzer_fingerprint
from sqlindex.cancellation import CancelToken
from sqlindex.errors import (
    CorruptIndexError,
    EmbedderError,
    EmbedderMismatchError,
    SqlindexError,
)
from sqlindex.indexing.build import Embedded, embed_missing, stage_documents
from sqlindex.indexing.diff import Listing, Rules, TouchedFile, walk
from sqlindex.indexing.prepare import PreparedDocument, Workshop
from sqlindex.indexing.report import (
    Changes,
    Progress,
    ProgressSink,
    RefreshReport,
    Tally,
    changes_of,
    no_progress,
)
from sqlindex.ports import Embedder, OnFileSystem
from sqlindex.store.documents import LiveVersion, stage_removals
from sqlindex.store.driver import Connection
from sqlindex.store.generations import (
    ChangeCounts,
    begin_build,
    changed_chunks,
    clear_superseded,
    drop_build,
    end_staging,
    has_changes,
    publish,
    stage_lexical,
)
from sqlindex.store.head import Head, is_lexical_whole, read_head
from sqlindex.store.ledger import Ledger
from sqlindex.store.lexical import LexicalTable
from sqlindex.store.sources import (
    SourceRow,
    drop_file_stats,
    drop_refusals,
    put_mount_points,
    put_refusals,
)
from sqlindex.store.vectors import (
    add_space,
    find_space,
    has_vector,
    lacking_texts,
    live_parses,
    lost_texts,
    refused_chunks,
)
from sqlindex.store.writer import Writer


@dataclass(frozen=True, slots=True)
class RefreshJob:
    """Everything a refresh needs.

    Attributes:
        listings: the sources to compare; others stay as they are.
        removals: live versions of a source to end, without a listing (removing documents or a
            source).
        workshop: parses and chunks.
        embedder: None publishes without vectors, unless `keeps_space`.
        keeps_space: only remove documents; what stays keeps its vectors, and no embedder is needed.
        cause: recorded with the generation.
        allow_bad_vectors: publish a chunk lexical-only instead of failing.
        also: what else becomes true with the generation, in the publishing transaction; it is done
            too when there is nothing to publish.
    """

    listings: Sequence[Listing]
    workshop: Workshop
    embedder: Embedder | None
    cause: str = "refresh"
    rules: Rules = field(default_factory=Rules)
    removals: tuple[SourceRow, Iterable[LiveVersion]] | None = None
    allow_bad_vectors: bool = False
    keeps_space: bool = False
    also: Callable[[Connection], None] | None = None
    cancel: CancelToken = field(default_factory=CancelToken)
    progress: ProgressSink = no_progress

    @property
    def source_names(self) -> dict[int, str]:
        """Names of the sources that this job can change, by source id."""
        rows = [listing.row for listing in self.listings]
        if self.removals is not None:
            rows.append(self.removals[0])
        return {row.source_id: row.name for row in rows}


def refresh(writer: Writer, job: RefreshJob) -> RefreshReport:
    """Make the index equal to its sources and publish that as one new generation.

    Nothing is visible before the publish, and a failure or a cancel before it leaves the head as it
    was; what was parsed and embedded is kept and reused by the next refresh.
    """
    started = time.monotonic()
    with writer.transaction() as connection:
        build_id, head = begin_build(connection)
    tally = Tally()
    with closing(Ledger()) as ledger:
        for listing in job.listings:
            # Closed whatever happens: a source may hold a process or descriptors while it lists.
            with closing(_walk(writer.connection, job, listing, ledger, tally)) as found:
                for batch in _batches(found, job.workshop.config.documents_per_batch):
                    stage_documents(writer, build_id, listing.row, batch)
        _end_walk(job, ledger)
        with writer.transaction() as connection:
            stage_removals(connection, build_id, ledger.ended())
            end_staging(connection, build_id)
        space_id, is_new_space = _space(writer, job, head)
        embedded = Embedded()
        if job.embedder is not None and space_id is not None:
            embedded = embed_missing(
                writer,
                build_id,
                space_id,
                job.embedder,
                is_new_space=is_new_space,
                allow_bad_vectors=job.allow_bad_vectors,
                batch_size=job.workshop.config.embedding_batch,
                cancel=job.cancel,
                progress=job.progress,
            )
        job.cancel.check()
        changes = changes_of(
            ledger,
            job.source_names,
            unchanged=tally.unchanged,
            embedding_inputs=embedded.texts,
            rebuilt=_rebuilt(writer.connection, head, space_id, is_new_space=is_new_space),
        )
        generation = _publish(writer, job, build_id, head, changes, space_id, embedded, ledger)
    reused = 0
    if space_id is not None:
        reused = (
            read_head(writer.connection).embedded_chunks
            - refused_chunks(writer.connection, space_id)
            - (embedded.texts - len(embedded.without_vector))
        )
    return RefreshReport(
        generation=head.generation if generation is None else generation,
        is_published=generation is not None,
        changes=changes,
        embedded=embedded.texts,
        reused=max(0, reused),
        truncated=embedded.truncated,
        without_vector=tuple(embedded.without_vector),
        duration_s=time.monotonic() - started,
    )


def plan(connection: Connection, job: RefreshJob) -> Changes:
    """What `refresh` would do now: the same documents and the same number of embedding inputs.

    Reads and parses what changed, writes nothing.
    """
    head = read_head(connection)
    space = None
    if job.embedder is not None:
        _require_identity(job.embedder)
        space = find_space(connection, job.embedder.identity)
    if job.embedder is not None and space is not None:
        _require_width(job.embedder, space[1])
    space_id = 0 if space is None else space[0]
    is_new_space = job.embedder is not None and head.space_id != space_id
    planned_space = None if job.embedder is None else space_id
    skips_refused = job.allow_bad_vectors
    tally = Tally()
    with closing(Ledger()) as ledger:
        for listing in job.listings:
            with closing(_walk(connection, job, listing, ledger, tally)) as found:
                for document in found:
                    if job.embedder is not None and isinstance(document, PreparedDocument):
                        ledger.add_inputs(
                            _inputs_of(connection, document, space_id, skips_refused=skips_refused)
                        )
        _end_walk(job, ledger)
        if job.embedder is not None:
            for source_id, document_id, key in lost_texts(connection, space_id):
                if not ledger.ends(source_id, document_id):
                    ledger.add_inputs([key])
        if is_new_space:
            for source_id, document_id, parse_id in live_parses(connection):
                # Those that changed have been counted with what they will be.
                if not ledger.ends(source_id, document_id):
                    ledger.add_inputs(
                        lacking_texts(connection, space_id, parse_id, skips_refused=skips_refused)
                    )
        return changes_of(
            ledger,
            job.source_names,
            unchanged=tally.unchanged,
            embedding_inputs=ledger.inputs(),
            rebuilt=_rebuilt(connection, head, planned_space, is_new_space=is_new_space),
        )


def _walk(
    connection: Connection, job: RefreshJob, listing: Listing, ledger: Ledger, tally: Tally
) -> Generator[PreparedDocument | TouchedFile]:
    return walk(
        connection,
        listing,
        job.workshop,
        job.rules,
        ledger,
        tally,
        cancel=job.cancel,
        progress=job.progress,
    )


def _end_walk(job: RefreshJob, ledger: Ledger) -> None:
    if job.removals is not None:
        row, versions = job.removals
        for version in versions:
            ledger.add_removal(
                row.source_id, version.document_id, version.raw_digest, version.version_id
            )
    ledger.match_renames()


def _inputs_of(
    connection: Connection, document: PreparedDocument, space_id: int, *, skips_refused: bool
) -> Iterator[bytes]:
    """Keys of the embedding texts of a document that the space has no vector for."""
    if document.parse is None:
        yield from lacking_texts(
            connection, space_id, document.version.parse_id, skips_refused=skips_refused
        )
    for chunk in document.chunks:
        key = chunk.embedding_key
        if key is not None and not has_vector(
            connection, key, space_id, skips_refused=skips_refused
        ):
            yield key


def _batches(
    found: Iterator[PreparedDocument | TouchedFile], size: int
) -> Iterator[list[PreparedDocument | TouchedFile]]:
    while batch := list(islice(found, size)):
        yield batch


def _space(writer: Writer, job: RefreshJob, head: Head) -> tuple[int | None, bool]:
    """(space id, whether the head is searched with another one)."""
    embedder = job.embedder
    if job.keeps_space:
        return head.space_id, False
    if embedder is None:
        return None, False
    _require_identity(embedder)
    found = find_space(writer.connection, embedder.identity)
    if found is None:
        with writer.transaction() as connection:
            space_id = add_space(connection, embedder.identity, embedder.dimensions)
    else:
        space_id = found[0]
        _require_width(embedder, found[1])
    return space_id, head.space_id != space_id


def _require_identity(embedder: Embedder) -> None:
    identity: object = embedder.identity
    dimensions: object = embedder.dimensions
    if not isinstance(identity, str) or not identity:
        raise EmbedderError(f"the embedder's identity is {identity!r}", hint="it must be a text")
    if not isinstance(dimensions, int) or dimensions < 1:
        raise EmbedderError(f"the embedder's dimensions are {dimensions!r}", hint="at least 1")


def _require_width(embedder: Embedder, dimensions: int) -> None:
    if embedder.dimensions != dimensions:
        raise EmbedderMismatchError(
            f"the vectors of {embedder.identity} are {dimensions} wide, the embedder says {embedder.dimensions}",
            hint="an embedder of another width needs another identity",
        )


def _rebuilt(
    connection: Connection, head: Head, space_id: int | None, *, is_new_space: bool
) -> tuple[str, ...]:
    if head.documents == 0:
        return ()
    notes = []
    if is_new_space:
        notes.append("vectors: the embedder is another one than the head's")
    if head.space_id is not None and space_id is None:
        notes.append("vectors: none, the index is now lexical only")
    why = _lexical_rebuild(connection, head)
    if why:
        notes.append(f"lexical rows: {why}")
    return tuple(notes)


def _lexical_rebuild(connection: Connection, head: Head) -> str:
    """Why the lexical table must be made anew, or ''."""
    if head.analyzer != analyzer_fingerprint():
        return "the analyser changed"
    # Deleting rows from a damaged table would corrupt it further without a word.
    if not is_lexical_whole(connection, head):
        return "the table is damaged"
    return ""


def _publish(
    writer: Writer,
    job: RefreshJob,
    build_id: int,
    head: Head,
    changes: Changes,
    space_id: int | None,
    embedded: Embedded,
    ledger: Ledger,
) -> int | None:
    """Publish unless nothing differs; the new generation or None."""

    def also(connection: Connection) -> None:
        _remember(connection, job, ledger)
        if job.also is not None:
            job.also(connection)

    analyzer = analyzer_fingerprint()
    with writer.transaction() as connection:
        is_rebuilt = head.documents > 0 and bool(_lexical_rebuild(connection, head))
        is_other_space = head.documents > 0 and head.space_id != space_id
        # Vectors that were lost and are back change what is found, as a document would.
        is_same = (
            not has_changes(connection, build_id) and not is_other_space and not embedded.texts
        )
        if is_same and not is_rebuilt:
            drop_build(connection, build_id)
            also(connection)
            return None
        is_large = changed_chunks(connection, build_id) >= job.workshop.config.staged_fts_chunks
    job.progress(Progress("publish", 0, 1))
    counts = ChangeCounts(
        added=changes.count("added"),
        changed=changes.count("changed") + changes.count("reparsed"),
        removed=changes.count("removed"),
        renamed=changes.count("renamed"),
        embedded=embedded.texts,
    )

    def publish_with(staged_table: LexicalTable | None) -> int:
        return publish(
            writer,
            build_id,
            head,
            cause=job.cause,
            space_id=space_id,
            analyzer=analyzer,
            analyse=analyse,
            counts=counts,
            staged_table=staged_table,
            also=also,
        )

    generation = None
    if not is_large and not is_rebuilt:
        # A damaged text that ends cannot be taken out of the live table; the spare one never had it.
        with suppress(CorruptIndexError):
            generation = publish_with(None)
    if generation is None:
        spare: LexicalTable = "a" if head.lexical == "b" else "b"
        stage_lexical(writer, build_id, spare, analyse, job.cancel)
        generation = publish_with(spare)
        # Only gives pages back; the table is cleared anyway before it is filled again.
        with suppress(SqlindexError):
            clear_superseded(writer, head.lexical)
    job.progress(Progress("publish", 1, 1))
    return generation


def _remember(connection: Connection, job: RefreshJob, ledger: Ledger) -> None:
    """Keep what helps the next refresh and tells why documents are not in."""
    drop_file_stats(connection, ledger.removed_ids())
    drop_refusals(connection, ledger.readmitted())
    put_refusals(connection, ledger.news())
    for listing in job.listings:
        adapter = listing.adapter
        if listing.row.kind == "folder" and isinstance(adapter, OnFileSystem):
            found = adapter.mount_points
            if found != listing.row.mount_points:
                put_mount_points(connection, listing.row.source_id, found)
