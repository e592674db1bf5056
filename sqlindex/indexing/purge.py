"""Purge: take documents out of every generation, and their bytes out of the file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from sqlindex.cancellation import CancelToken
from sqlindex.errors import LockedError, UnknownDocumentError
from sqlindex.indexing.publishing import publish_build
from sqlindex.indexing.report import no_progress
from sqlindex.store.backup import copies_beside
from sqlindex.store.builds import begin_build
from sqlindex.store.documents import stage_removals
from sqlindex.store.driver import Connection
from sqlindex.store.gated import gated_builds
from sqlindex.store.generations import ChangeCounts
from sqlindex.store.head import read_head
from sqlindex.store.held import excluded
from sqlindex.store.purge import (
    Place,
    drop_builds_naming,
    find_everywhere,
    forget,
    generations_showing,
    is_purging,
    live_versions,
    others_with_the_text,
    purge_file,
)
from sqlindex.store.writer import Writer


@dataclass(frozen=True, slots=True)
class Purge:
    """What a purge did.

    Attributes:
        documents: (source, document id) of what is gone; empty if only an earlier purge was finished.
        generation: the head afterwards.
        versions: deleted, of all generations.
        vectors: deleted; those of other unused texts are among them.
        same_text: (source, document id) of other documents that have, or in a kept generation had,
            exactly the text of one that was purged: a copy, or the same document under an earlier name.
        returning: (source, document id) of those whose file is still in its folder: the next refresh
            brings it back unless the source excludes it.
        is_gate_lifted: whether a generation that a gate kept back held a document. It is what is left
            of an unfinished refresh now: `publish` cannot publish it, the next refresh goes on with it.
        copies: files beside the index that may hold the documents: made before a migration, or
            left of a copy that was killed.
    """

    documents: tuple[tuple[str, str], ...]
    generation: int
    versions: int
    vectors: int
    same_text: tuple[tuple[str, str], ...] = ()
    returning: tuple[tuple[str, str], ...] = ()
    copies: tuple[str, ...] = ()
    is_gate_lifted: bool = False


def purge(
    writer: Writer,
    wanted: Sequence[str],
    source: str | None,
    *,
    is_there: Callable[[Place], bool],
    staged_fts_chunks: int,
    cancel: CancelToken,
    wait_s: float,
) -> Purge:
    """Remove documents from all generations, and every byte of them from file and log.

    First one transaction publishes a generation without them and deletes them from the history; then
    follows what no document uses any more, the lexical tables, the file and the log. What is cancelled
    or killed in between is finished by the next purge, whatever that is asked to remove.

    Args:
        wanted: ids or paths; none to finish what an earlier purge has left.
        source: whose documents; None for whichever one has them.
        is_there: whether the source would give a document again.
        staged_fts_chunks: from so many changed chunks on, the spare lexical table is filled.
        wait_s: how long to wait for readers.

    Raises:
        UnknownDocumentError: no trace of one, or several sources have it; nothing is changed.
        LockedError: a reader holds a generation that shows one, and nothing is changed; or a reader
            needs the log, and the purge is not finished.
        CorruptIndexError: a damaged text cannot be told from that of a document; not finished.
    """
    is_unfinished = is_purging(writer.connection)
    places = _places(writer.connection, wanted, source, may_be_gone=is_unfinished)
    if not places and not is_unfinished:
        raise UnknownDocumentError("there is nothing to purge", hint="name a document")
    same_text = others_with_the_text(writer.connection, places)
    was_gated = bool(gated_builds(writer.connection))
    generation, versions = read_head(writer.connection).generation, 0
    if places:
        drop_builds_naming(writer, places)
        with _nobody_holding(writer, places, cancel, wait_s):
            pass  # refused before any work, if it must be
        generation, versions = _publish_without(writer, places, staged_fts_chunks, cancel, wait_s)
    vectors = purge_file(writer, cancel, wait_s=wait_s)
    named = [(place, (place.source, place.document_id)) for place in places]
    return Purge(
        documents=tuple(dict.fromkeys(name for _, name in named)),
        generation=generation,
        versions=versions,
        vectors=vectors,
        same_text=same_text,
        returning=tuple(dict.fromkeys(name for place, name in named if is_there(place))),
        copies=tuple(str(path) for path in copies_beside(writer.path)),
        is_gate_lifted=was_gated and not gated_builds(writer.connection),
    )


def _places(
    connection: Connection, wanted: Sequence[str], source: str | None, *, may_be_gone: bool
) -> list[Place]:
    places: dict[Place, None] = {}
    for name in wanted:
        found = find_everywhere(connection, name, source)
        if not found and not may_be_gone:
            raise UnknownDocumentError(
                f"no generation holds, and nothing else names, a document {name!r}",
                hint="ids are paths relative to the source's folder; 'sqlindex status' lists the sources",
            )
        if len({(place.source, place.document_id) for place in found}) > 1:
            several = ", ".join(f"{place.document_id} of {place.source}" for place in found[:9])
            raise UnknownDocumentError(
                f"{name!r} is more than one document: {several}",
                hint="name one by its id and --source (source=)",
            )
        places.update(dict.fromkeys(found))
    return list(places)


@contextmanager
def _nobody_holding(
    writer: Writer, places: Sequence[Place], cancel: CancelToken, wait_s: float
) -> Iterator[None]:
    """Keep the generations that show the documents from being held until the block ends."""
    deadline = time.monotonic() + wait_s
    shown = generations_showing(writer.connection, places)
    while True:
        with excluded(writer.path, shown) as free:
            if len(free) == len(shown):
                yield
                return
            held = sorted(set(shown) - set(free))
        if time.monotonic() >= deadline:
            raise LockedError(
                f"generation {held[0]} holds the document and is held by a reader; nothing is purged",
                hint="close cursors and snapshots of the index, or use --wait SECONDS",
            )
        cancel.check()
        time.sleep(0.1)


def _publish_without(
    writer: Writer,
    places: Sequence[Place],
    staged_fts_chunks: int,
    cancel: CancelToken,
    wait_s: float,
) -> tuple[int, int]:
    """(head afterwards, versions deleted)."""
    versions = 0

    def also(connection: Connection) -> None:
        nonlocal versions
        # From here to the commit, no longer: whoever wants to hold a generation waits meanwhile.
        excluding.enter_context(_nobody_holding(writer, places, cancel, wait_s))
        versions = forget(connection, places)

    with writer.transaction() as connection:
        build_id, head = begin_build(connection, "", {})
        live = live_versions(connection, places)
        stage_removals(connection, build_id, live)
    with ExitStack() as excluding:
        generation = publish_build(
            writer,
            build_id,
            head,
            cause="purge",
            space_id=head.space_id,
            counts=ChangeCounts(removed=len(live)),
            staged_fts_chunks=staged_fts_chunks,
            cancel=cancel,
            progress=no_progress,
            also=also,
        )
    return head.generation if generation is None else generation, versions
