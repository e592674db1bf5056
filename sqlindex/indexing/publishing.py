"""Publish what a build has staged, by the way that suits its size."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from sqlindex.analysis.analyser import analyse, analyzer_fingerprint
from sqlindex.cancellation import CancelToken
from sqlindex.errors import CorruptIndexError, SqlindexError
from sqlindex.indexing.report import Progress, ProgressSink
from sqlindex.store.builds import end_build
from sqlindex.store.driver import Connection
from sqlindex.store.generations import (
    ChangeCounts,
    LexicalChange,
    changed_chunks,
    clear_superseded,
    has_changes,
    lexical_change,
    number_slots,
    publish,
    stage_lexical,
)
from sqlindex.store.head import Head
from sqlindex.store.lexical import LexicalTable
from sqlindex.store.writer import Writer

_READ_BEFORE_CHUNKS = 1_000
"""Up to so many changed chunks are analysed before the publishing transaction begins."""


def publish_build(
    writer: Writer,
    build_id: int,
    head: Head,
    *,
    cause: str,
    space_id: int | None,
    counts: ChangeCounts,
    staged_fts_chunks: int,
    cancel: CancelToken,
    progress: ProgressSink,
    also: Callable[[Connection], None],
    restored: int | None = None,
) -> int | None:
    """Publish a build as the next generation, unless nothing would differ from the head.

    Args:
        head: the one that the build was made on.
        space_id: whose vectors the generation is searched with.
        staged_fts_chunks: from so many changed chunks on, the spare lexical table is filled and
            swapped.
        also: what else becomes true, in the publishing transaction; done too without a publish.
        restored: the generation whose documents come back, of a rollback.

    Returns:
        The new generation, or None.

    Raises:
        HeadMovedError: the head is another one now; nothing is changed.
        CancelledError: before the publish.
    """
    analyzer = analyzer_fingerprint()
    is_other_analyzer = head.documents > 0 and head.analyzer != analyzer
    with writer.transaction() as connection:
        is_other_space = head.documents > 0 and head.space_id != space_id
        if not has_changes(connection, build_id) and not is_other_space and not is_other_analyzer:
            end_build(connection, build_id)
            also(connection)
            return None
        changed = changed_chunks(connection, build_id)
        number_slots(connection, build_id)
    progress(Progress("publish", 0, 1))

    def publish_with(lexical: LexicalTable | LexicalChange) -> int:
        return publish(
            writer,
            build_id,
            head,
            cause=cause,
            space_id=space_id,
            analyzer=analyzer,
            counts=counts,
            lexical=lexical,
            restored=restored,
            also=also,
        )

    generation = None
    if changed < staged_fts_chunks and not is_other_analyzer:
        # A damaged text that ends cannot be taken out of the live table; the spare one never had it.
        with suppress(CorruptIndexError):
            is_small = changed <= _READ_BEFORE_CHUNKS
            change = lexical_change(writer.connection, build_id, analyse, is_read_now=is_small)
            generation = publish_with(change)
    if generation is None:
        spare: LexicalTable = "a" if head.lexical == "b" else "b"
        stage_lexical(writer, build_id, spare, analyse, cancel)
        generation = publish_with(spare)
        # Only gives pages back; the table is cleared anyway before it is filled again.
        with suppress(SqlindexError):
            clear_superseded(writer, head.lexical)
    progress(Progress("publish", 1, 1))
    return generation
