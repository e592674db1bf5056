"""Bring back the documents of an earlier generation, as a new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlindex.cancellation import CancelToken
from sqlindex.indexing.publishing import publish_build
from sqlindex.indexing.report import no_progress
from sqlindex.store.builds import begin_build
from sqlindex.store.driver import Connection
from sqlindex.store.generations import ChangeCounts, end_staging
from sqlindex.store.head import require_kept
from sqlindex.store.restore import (
    bring_back_sources,
    require_free_names,
    space_of_generation,
    stage_restored,
)
from sqlindex.store.vectors import is_same_encoding
from sqlindex.store.writer import Writer


@dataclass(frozen=True, slots=True)
class RollbackReport:
    """What a rollback did.

    Attributes:
        generation: the head afterwards.
        restored: the generation whose documents it holds now.
        previous: the head before; rolling back to it undoes this.
        is_published: False if the head held just that already.
        added: documents that are back.
        changed: documents that are again as they were then.
        removed: documents that came later and are gone. All others stayed the same.
        is_other_space: whether the head is searched with other vectors than before: those that the
            restored generation was made with, or none.
        has_vectors: whether it is searched with vectors at all.
    """

    generation: int
    restored: int
    previous: int
    is_published: bool
    added: int
    changed: int
    removed: int
    is_other_space: bool
    has_vectors: bool


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
    # Nothing is collected behind a rollback: it can be undone as long as nothing else is published.
    return RollbackReport(
        generation=head.generation if generation is None else generation,
        restored=restored,
        previous=head.generation,
        is_published=generation is not None,
        added=counts.added,
        changed=counts.changed,
        removed=counts.removed,
        is_other_space=not is_same_encoding(writer.connection, head.space_id, space_id),
        has_vectors=space_id is not None,
    )
