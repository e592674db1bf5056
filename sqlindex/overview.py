"""What an index says of itself: state, sources, refused documents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from sqlindex.adapters import root_of
from sqlindex.analysis.languages import language_signs
from sqlindex.errors import CorruptIndexError
from sqlindex.model.gate import GatedGeneration
from sqlindex.model.languages import LanguageSigns
from sqlindex.model.packed import packed
from sqlindex.model.status import (
    FileCondition,
    FileStatus,
    IndexStatus,
    RefusedDocument,
    SourceStatus,
    UnfinishedRefresh,
)
from sqlindex.sources.located import located
from sqlindex.sources.paths import path_of
from sqlindex.store.builds import NO_EMBEDDER, UnfinishedBuild, unfinished_builds
from sqlindex.store.collect import is_collecting, kept_generations
from sqlindex.store.condition import (
    foreign_sidecars,
    free_bytes,
    journal_mode,
    tag_names,
)
from sqlindex.store.connection import IndexFile
from sqlindex.store.documents import count_in_scope
from sqlindex.store.driver import Connection, driver_name, sqlite_version
from sqlindex.store.gated import GatedBuild, gated_build
from sqlindex.store.head import read_head
from sqlindex.store.header import SCHEMA_VERSION
from sqlindex.store.log_holders import log_holders
from sqlindex.store.parses import count_cut_otherwise
from sqlindex.store.samples import sample_beginnings
from sqlindex.store.scope import EVERYTHING
from sqlindex.store.settings import get_setting
from sqlindex.store.sources import SourceRow, count_refusals, list_sources, refusal_of, refusals
from sqlindex.store.vectors import space_of
from sqlindex.wiring import EMBEDDER_SETTING, service_of, stored_chunks

_SAMPLED_DOCUMENTS = 100
_SAMPLED_CHARS = 2_000


def language_signs_of(file: IndexFile) -> LanguageSigns:
    """Which languages the beginnings of a sample of the head's documents are in."""
    with file.reading() as connection:
        texts = sample_beginnings(connection, documents=_SAMPLED_DOCUMENTS, chars=_SAMPLED_CHARS)
    return language_signs(texts)


def status_of(file: IndexFile, *, has_given_embedder: bool) -> IndexStatus:
    """Generation, sources, counts, embedder and sizes, all of one moment."""
    with file.reading() as connection:
        head = read_head(connection)
        space = None if head.space_id is None else space_of(connection, head.space_id)[0]
        name = get_setting(connection, EMBEDDER_SETTING) or None
        chunks = stored_chunks(connection)
        other = 0 if chunks is None else count_cut_otherwise(connection, chunks.fingerprint)
        sources = tuple(_source_status(connection, row) for row in list_sources(connection))
        builds = unfinished_builds(connection)
        unfinished = tuple(_unfinished(build) for build in builds if not build.is_gated)
        gated = gated_build(connection) if len(unfinished) < len(builds) else None
        kept, was_left = len(kept_generations(connection)), is_collecting(connection)
    return IndexStatus(
        path=str(file.path),
        schema_version=SCHEMA_VERSION,
        sqlite_version=sqlite_version,
        driver=driver_name,
        generation=head.generation,
        published_at=head.published_at,
        documents=head.documents,
        chunks=head.chunks,
        embedder=None if name is None else _title(name),
        space=space,
        default_mode="hybrid" if space is not None and (has_given_embedder or name) else "lexical",
        sources=sources,
        file_bytes=_size(file.path),
        log_bytes=_size(Path(f"{file.path}-wal")),
        kept_generations=kept,
        chunk_chars=None if chunks is None else chunks.target_chars,
        unfinished=unfinished,
        is_collecting=was_left,
        gated=None if gated is None else _gated(gated),
        documents_cut_otherwise=other,
    )


def _title(setting: str) -> str:
    """The chosen model's name, or what the chosen service is called."""
    from sqlindex.embedding.service_config import is_stored_service

    if not is_stored_service(setting):
        return setting
    try:
        return f"service {service_of(setting).title}"
    except CorruptIndexError as exc:  # the status is what people look at first
        return f"unreadable: {exc}"


def _unfinished(build: UnfinishedBuild) -> UnfinishedRefresh:
    embedder = build.plan.get("embedder", NO_EMBEDDER)
    return UnfinishedRefresh(
        build.started_at, build.documents, None if embedder == NO_EMBEDDER else embedder
    )


def _gated(build: GatedBuild) -> GatedGeneration:
    record = build.record
    return GatedGeneration(
        result=record.result,
        missed=record.missed,
        base_generation=build.base_generation,
        started_at=build.started_at,
        gated_at=record.at,
        documents=build.documents,
        changes=asdict(record.counts),
    )


def condition_of(file: IndexFile) -> FileCondition:
    """What the file is like inside."""
    with file.reading() as connection:
        mode, free, tags = journal_mode(connection), free_bytes(connection), tag_names(connection)
    return FileCondition(mode, free, log_holders(file.path), tags, foreign_sidecars(file.path))


def refused_of(file: IndexFile, *, with_left_out: bool) -> Sequence[RefusedDocument]:
    """Documents that the last refresh saw and did not index, by source and id."""
    with file.reading() as connection:
        return packed(
            RefusedDocument(row.name, refusal, is_kept)
            for row in list_sources(connection)
            for refusal, is_kept in refusals(connection, row.source_id)
            if with_left_out or not refusal.reason.is_left_out
        )


def file_status_of(file: IndexFile, path: str | os.PathLike[str]) -> list[FileStatus]:
    """Whether a file or folder is in, for each folder source that it lies in."""
    with file.reading() as connection:
        rows = {row.name: row for row in list_sources(connection) if row.kind == "folder"}
        places = located(path, {name: root_of(row) for name, row in rows.items()})
        return [_file_status(connection, rows[name], document_id) for name, document_id in places]


def _file_status(connection: Connection, row: SourceRow, document_id: str) -> FileStatus:
    documents, chunks = count_in_scope(connection, row.source_id, (document_id,))
    # The nearest entry that tells: the file itself, the folder itself, or one above it.
    parts = document_id.split("/")
    folders = ["/".join(parts[:depth]) + "/" for depth in range(len(parts), 0, -1)]
    told = (
        refusal_of(connection, row.source_id, id_) for id_ in (document_id, *folders) if document_id
    )
    refusal = next((found[0] for found in told if found is not None), None)
    return FileStatus(row.name, document_id, documents > 0, documents, chunks, refusal)


def _source_status(connection: Connection, row: SourceRow) -> SourceStatus:
    counts = count_refusals(connection, row.source_id)
    return SourceStatus(
        name=row.name,
        kind=row.kind,
        root=None if row.root is None else os.fsdecode(path_of(row.root)),
        documents=count_in_scope(connection, row.source_id, EVERYTHING)[0],
        refused={r.value: count for r, (count, _) in counts.items() if not r.is_left_out},
        left_out={r.value: count for r, (count, _) in counts.items() if r.is_left_out},
        kept=sum(kept for _, kept in counts.values()),
        selection=_selection(row) if row.kind == "table" else None,
    )


def _selection(row: SourceRow) -> str:
    table = row.options.get("table")
    return f"({row.options.get('query')})" if table is None else str(table)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
