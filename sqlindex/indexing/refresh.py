"""Refresh an index: list → diff → build → publish."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from itertools import islice

from sqlindex.cancellation import NEVER, CancelToken, WorkerThread
from sqlindex.errors import EmbedderMismatchError, GateError
from sqlindex.indexing.build import stage_documents
from sqlindex.indexing.crew import Crew, CrewHands, CrewParsing
from sqlindex.indexing.diff import Listing, Rules, TouchedFile, walk
from sqlindex.indexing.embed import Embedded, embed_missing
from sqlindex.indexing.gated import hold_build
from sqlindex.indexing.inference import Encoding, Hands, OwnHands
from sqlindex.indexing.parsing import OwnParsing, Parsing
from sqlindex.indexing.prepare import PreparedDocument, Workshop
from sqlindex.indexing.publishing import Gatekeeper, lexical_rebuild, only_told, publish_build
from sqlindex.indexing.report import (
    OTHERWISE_MADE,
    Changes,
    ProgressSink,
    RefreshReport,
    Tally,
    changes_of,
    no_progress,
)
from sqlindex.indexing.resume import StagedBefore, drop_covered, open_build
from sqlindex.model.layers import Layer
from sqlindex.ports import Embedder, OnFileSystem
from sqlindex.store.builds import drop_versions
from sqlindex.store.collect import collect, is_collecting
from sqlindex.store.documents import LiveVersion, count_in_scope, stage_removals
from sqlindex.store.driver import Connection
from sqlindex.store.generations import (
    ChangeCounts,
    end_staging,
)
from sqlindex.store.head import Head, read_head
from sqlindex.store.ledger import Ledger
from sqlindex.store.scope import EVERYTHING
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
    has_vectors,
    is_same_encoding,
    refused_chunks,
    set_width,
    staged_name,
)
from sqlindex.store.writer import Writer

_ASKED_FOR = "made anew, as asked"


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
        scope: what the job covers, for a later one to go on with its build; '' if none can.
        plan: what shapes the build; a build is gone on with only under the same plan.
        restart: begin anew, although there is an unfinished build of this scope.
        also: what else becomes true with the generation, in the publishing transaction; it is done
            too when there is nothing to publish.
        gatekeeper: asked before the head moves; for a job with a scope, and without `also`.
        layers: those that are made anew, whether or not anything has changed.
        workers: processes that parse and embed; 0 for none but this.
    """

    listings: Sequence[Listing]
    workshop: Workshop
    embedder: Embedder | None
    cause: str = "refresh"
    rules: Rules = field(default_factory=Rules)
    removals: tuple[SourceRow, Iterable[LiveVersion]] | None = None
    allow_bad_vectors: bool = False
    keeps_space: bool = False
    scope: str = ""
    plan: Mapping[str, str] = field(default_factory=dict)
    restart: bool = False
    also: Callable[[Connection], None] | None = None
    gatekeeper: Gatekeeper | None = None
    layers: frozenset[Layer] = frozenset()
    workers: int = 0
    cancel: CancelToken = NEVER
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
    was. Each batch of documents and of vectors is durable before the next one: the next refresh of
    the same scope goes on behind the last.

    Raises:
        BuildChangedError: an unfinished build of this scope was begun with another plan.
        GateError: the gatekeeper refused the generation, which waits in the file; or there was
            nothing to publish, and it does not like the head.
    """
    started = time.monotonic()
    build = open_build(writer, job.scope, job.plan, restart=job.restart)
    build_id, head = build.build_id, build.head
    tally = Tally(expected=_expected(writer.connection, job))
    with (
        closing(Ledger()) as ledger,
        WorkerThread(job.cancel) as worker,
        _crew(job) as crew,
    ):
        parsing: Parsing = OwnParsing(job.workshop, worker)
        if crew is not None and crew.parses:
            parsing = CrewParsing(crew)
        for listing in job.listings:
            # Closed whatever happens: a source may hold a process or descriptors while it lists.
            with closing(
                walk_listing(writer.connection, job, listing, ledger, tally, parsing, build.before)
            ) as found:
                for batch in _batches(found, job.workshop.config.documents_per_batch):
                    stage_documents(writer, build_id, listing.row, batch)
        end_walk(job, ledger)
        if build.before is not None:
            drop_versions(writer, build.before.stale())
        with writer.transaction() as connection:
            stage_removals(connection, build_id, ledger.ended())
            end_staging(connection, build_id)
        space_id, is_new_space = _space(writer, job, build_id, head)
        embedded = Embedded()
        if job.embedder is not None and space_id is not None:
            hands: Hands = OwnHands(job.embedder, worker)
            if crew is not None and crew.embeds:
                hands = CrewHands(crew)
            embedded = embed_missing(
                writer,
                build_id,
                space_id,
                hands,
                encoding=Encoding.of(job.embedder),
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
            rebuilt=rebuilt_layers(
                writer.connection, head, space_id, is_new_space=is_new_space, layers=job.layers
            ),
            why_reparsed=_ASKED_FOR if "chunks" in job.layers else OTHERWISE_MADE,
        )
        counts = _counts(changes, embedded)
        generation = _publish(writer, job, build_id, head, counts, space_id, ledger)
    _tidy_behind(writer, job, is_published=generation is not None)
    if generation is None and job.gatekeeper is not None:
        job.gatekeeper.judge_head(writer.connection, counts)
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
        resumed=0 if build.before is None else build.before.confirmed,
        truncated=embedded.truncated,
        without_vector=tuple(embedded.without_vector),
        gate=None if job.gatekeeper is None else job.gatekeeper.result,
        duration_s=time.monotonic() - started,
    )


def _tidy_behind(writer: Writer, job: RefreshJob, *, is_published: bool) -> None:
    """Drop builds that this one has made superfluous, and collect what is out of retention now.

    What was published stays published whatever happens here: what is left over is marked in the
    file, and the next refresh goes on with it.
    """
    with only_told("tidying up behind the publish"):
        if job.scope and all(listing.scope == EVERYTHING for listing in job.listings):
            drop_covered(writer, job.plan)
        if is_published or is_collecting(writer.connection):
            collect(writer, job.cancel)


def walk_listing(
    connection: Connection,
    job: RefreshJob,
    listing: Listing,
    ledger: Ledger,
    tally: Tally,
    parsing: Parsing,
    before: StagedBefore | None = None,
) -> Generator[PreparedDocument | TouchedFile]:
    return walk(
        connection,
        listing,
        job.workshop,
        job.rules,
        ledger,
        tally,
        cancel=job.cancel,
        parsing=parsing,
        progress=job.progress,
        before=before,
    )


def _crew(job: RefreshJob) -> AbstractContextManager[Crew | None]:
    """The workers of a job; they are started when there is something to do."""
    if not job.workers:
        return nullcontext()
    return Crew(job.workers, job.workshop, job.embedder, job.cancel)


def end_walk(job: RefreshJob, ledger: Ledger) -> None:
    if job.removals is not None:
        row, versions = job.removals
        for version in versions:
            ledger.add_removal(
                row.source_id, version.document_id, version.raw_digest, version.version_id
            )
    ledger.match_renames()


def _batches(
    found: Iterator[PreparedDocument | TouchedFile], size: int
) -> Iterator[list[PreparedDocument | TouchedFile]]:
    while batch := list(islice(found, size)):
        yield batch


def _expected(connection: Connection, job: RefreshJob) -> int:
    """How many documents will be parsed, as far as that is known."""
    if not job.rules.anew:
        return 0
    rows = [listing.row for listing in job.listings]
    return sum(count_in_scope(connection, row.source_id, EVERYTHING)[0] for row in rows)


def _space(writer: Writer, job: RefreshJob, build_id: int, head: Head) -> tuple[int | None, bool]:
    """(space id, whether the head is searched with another one)."""
    embedder = job.embedder
    if job.keeps_space:
        return head.space_id, False
    if embedder is None:
        return None, False
    name = embedder.identity
    if "vectors" in job.layers:
        name = staged_name(name, build_id)
    found = find_space(writer.connection, name)
    if found is None:
        with writer.transaction() as connection:
            space_id = add_space(connection, name, embedder.dimensions)
    else:
        space_id, dimensions = found
        require_width(writer.connection, embedder, space_id, dimensions)
        if dimensions != embedder.dimensions:
            with writer.transaction() as connection:
                set_width(connection, space_id, embedder.dimensions)
    return space_id, head.space_id != space_id


def require_width(
    connection: Connection, embedder: Embedder, space_id: int, dimensions: int
) -> None:
    """Refuse an embedder of another width; a space that damage has emptied takes any."""
    if embedder.dimensions != dimensions and has_vectors(connection, space_id):
        raise EmbedderMismatchError(
            f"the vectors of {embedder.identity} are {dimensions} wide, the embedder says {embedder.dimensions}",
            hint="an embedder of another width needs another identity",
        )


def rebuilt_layers(
    connection: Connection,
    head: Head,
    space_id: int | None,
    *,
    is_new_space: bool,
    layers: frozenset[Layer] = frozenset(),
) -> tuple[str, ...]:
    if head.documents == 0:
        return ()
    notes = []
    if is_new_space and "vectors" in layers:
        notes.append(f"vectors: {_ASKED_FOR}")
    elif is_new_space and is_same_encoding(connection, head.space_id, space_id):
        notes.append("vectors: those that this embedder made last")
    elif is_new_space:
        notes.append("vectors: the embedder is another one than the head's")
    if head.space_id is not None and space_id is None:
        notes.append("vectors: none, the index is now lexical only")
    why = _ASKED_FOR if "lexical" in layers else lexical_rebuild(connection, head)
    if why:
        notes.append(f"lexical rows: {why}")
    return tuple(notes)


def _publish(
    writer: Writer,
    job: RefreshJob,
    build_id: int,
    head: Head,
    counts: ChangeCounts,
    space_id: int | None,
    ledger: Ledger,
) -> int | None:
    """Publish unless nothing differs; the new generation or None."""

    def also(connection: Connection) -> None:
        _remember(connection, job, ledger)
        if job.also is not None:
            job.also(connection)

    try:
        return publish_build(
            writer,
            build_id,
            head,
            cause=job.cause,
            space_id=space_id,
            counts=counts,
            staged_fts_chunks=job.workshop.config.staged_fts_chunks,
            cancel=job.cancel,
            progress=job.progress,
            also=also,
            gatekeeper=job.gatekeeper,
            makes_lexical_anew="lexical" in job.layers,
        )
    except GateError as exc:
        assert job.gatekeeper is not None
        hold_build(
            writer,
            build_id,
            job.gatekeeper,
            exc,
            cause=job.cause,
            space_id=space_id,
            counts=counts,
            mount_points=_new_mount_points(job),
            ledger=ledger,
        )
        raise


def _counts(changes: Changes, embedded: Embedded) -> ChangeCounts:
    return ChangeCounts(
        added=changes.count("added"),
        changed=changes.count("changed"),
        reparsed=changes.count("reparsed"),
        renamed=changes.count("renamed"),
        removed=changes.count("removed"),
        unchanged=changes.unchanged,
        embedded=embedded.texts,
    )


def _remember(connection: Connection, job: RefreshJob, ledger: Ledger) -> None:
    """Keep what helps the next refresh and tells why documents are not in."""
    if ledger.has_removals:
        drop_file_stats(connection, ledger.removed_ids())
    if ledger.has_readmitted:
        drop_refusals(connection, ledger.readmitted())
    if ledger.has_news:
        put_refusals(connection, ledger.news())
    for source_id, points in _new_mount_points(job).items():
        put_mount_points(connection, source_id, points)


def _new_mount_points(job: RefreshJob) -> dict[int, tuple[str, ...]]:
    """By source id, where other file systems begin, of folders where that has changed."""
    found = {}
    for listing in job.listings:
        adapter, row = listing.adapter, listing.row
        if row.kind != "folder" or not isinstance(adapter, OnFileSystem):
            continue
        if adapter.mount_points != row.mount_points:
            found[row.source_id] = adapter.mount_points
    return found
