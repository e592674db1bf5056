"""What an index says of itself: state, sources, refused documents."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from sqlindex.model.status import IndexStatus, RefusedDocument, SourceStatus
from sqlindex.sources.paths import path_of
from sqlindex.store.connection import IndexFile
from sqlindex.store.documents import count_live
from sqlindex.store.driver import Connection, driver_name, sqlite_version
from sqlindex.store.head import read_head
from sqlindex.store.header import SCHEMA_VERSION
from sqlindex.store.settings import get_setting
from sqlindex.store.sources import SourceRow, list_sources, refusals
from sqlindex.store.vectors import space_of
from sqlindex.wiring import EMBEDDER_SETTING


def status_of(file: IndexFile, *, has_given_embedder: bool) -> IndexStatus:
    """Generation, sources, counts, embedder and sizes, all of one moment."""
    with file.reading() as connection:
        head = read_head(connection)
        space = None if head.space_id is None else space_of(connection, head.space_id)[0]
        name = get_setting(connection, EMBEDDER_SETTING) or None
        sources = tuple(_source_status(connection, row) for row in list_sources(connection))
    return IndexStatus(
        path=str(file.path),
        schema_version=SCHEMA_VERSION,
        sqlite_version=sqlite_version,
        driver=driver_name,
        generation=head.generation,
        published_at=head.published_at,
        documents=head.documents,
        chunks=head.chunks,
        embedder=name,
        space=space,
        default_mode="hybrid" if space is not None and (has_given_embedder or name) else "lexical",
        sources=sources,
        file_bytes=_size(file.path),
        log_bytes=_size(Path(f"{file.path}-wal")),
    )


def refused_of(file: IndexFile) -> list[RefusedDocument]:
    """Documents that the last refresh saw and did not index, by source and id."""
    with file.reading() as connection:
        return [
            RefusedDocument(row.name, refusal, is_kept)
            for row in list_sources(connection)
            for refusal, is_kept in refusals(connection, row.source_id).items()
        ]


def _source_status(connection: Connection, row: SourceRow) -> SourceStatus:
    refused = refusals(connection, row.source_id)
    return SourceStatus(
        name=row.name,
        kind=row.kind,
        root=None if row.root is None else os.fsdecode(path_of(row.root)),
        documents=count_live(connection, row.source_id),
        refused=dict(Counter(refusal.reason.value for refusal in refused)),
        kept=sum(refused.values()),
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
