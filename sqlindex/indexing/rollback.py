"""Bring back the documents of an earlier generation, as a new one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sqlindex.cancellation import CancelToken
from sqlindex.errors import SqlindexError
from sqlindex.indexing.publishing import publish_build
from sqlindex.indexing.report import no_progress
from sqlindex.store.builds import begin_build
from sqlindex.store.collect import collect
from sqlindex.store.driver import Connection
from sqlindex.store.generations import ChangeCounts, end_staging
from sqlindex.store.head import require_kept
from sqlindex.store.restore import (
    bring_back_sources,
    require_free_names,
    space_of_generation,
    stage_restored,
)
from sqlindex.store.writer import Writer


@dataclass(frozen=True, slots=True)
class RollbackReport:
    """What a rollback did.

    Attributes:
        generation: the head afterwards.
        restored: the generation whose documents it holds now.
        is_published: False if the head held just that already.
        added: documents that are back.
        changed: documents that are as they were.
        removed: documents that came later and are gone.
        is_other_space: whether the head is searched with other vectors than before: those that the
            restored generation was made with.
    """

    generation: int
    restored: int
    is_published: bool
    added: int
    changed: int
    removed: int
    is_other_space: bool


def rollback(
    writer: Writer,
    resolve: Callable[[Connection], int],
    *,
    staged_fts_chunks: int,
    cancel: CancelToken,
) -> RollbackReport:
    """Publish the documents of a kept generation as a new generation.

    No text and no vector is copied or made. Cost: O(documents that differ).

    Args:
        resolve: gives the generation to go back to, asked under the writer's lock.

    Raises:
        GenerationGoneError: it has been collected.
        DuplicateError: a source that comes back has a name that another one has taken since.
    """
    with writer.transaction() as connection:
        restored = resolve(connection)
        require_kept(connection, restored)
        require_free_names(connection, restored)
        build_id, head = begin_build(connection, "", {})
        counts = stage_restored(connection, build_id, restored)
        end_staging(connection, build_id)
        space_id = space_of_generation(connection, restored)
    generation = publish_build(
        writer,
        build_id,
        head,
        cause="rollback",
        space_id=space_id,
        counts=ChangeCounts(added=counts.added, changed=counts.changed, removed=counts.removed),
        staged_fts_chunks=staged_fts_chunks,
        cancel=cancel,
        progress=no_progress,
        also=lambda connection: bring_back_sources(connection, restored),
        restored=restored,
    )
    with suppress(SqlindexError):  # what was published stays published
        if generation is not None:
            collect(writer, cancel)
    return RollbackReport(
        generation=head.generation if generation is None else generation,
        restored=restored,
        is_published=generation is not None,
        added=counts.added,
        changed=counts.changed,
        removed=counts.removed,
        is_other_space=head.space_id != space_id,
    )
