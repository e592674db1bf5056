"""Publish what a build has staged, by the way that suits its size."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from sqlindex.analysis.analyser import analyse, analyzer_fingerprint
from sqlindex.cancellation import CancelToken
from sqlindex.errors import CancelledError, CorruptIndexError, GateError, SqlindexError
from sqlindex.indexing.report import Progress, ProgressSink
from sqlindex.model.gate import GateResult
from sqlindex.store.builds import end_build
from sqlindex.store.driver import Connection, translated_errors
from sqlindex.store.generations import (
    ChangeCounts,
    LexicalChange,
    clear_superseded,
    has_changes,
    lexical_change,
    number_slots,
    publish,
    stage_lexical,
)
from sqlindex.store.head import Head, is_lexical_whole
from sqlindex.store.lexical import LexicalTable
from sqlindex.store.writer import Writer

_logger = logging.getLogger(__name__)

_READ_BEFORE_CHUNKS = 1_000
"""Up to so many changed chunks are analysed before the publishing transaction begins."""


class Gatekeeper(Protocol):
    """Decides whether a generation that is ready may become the head."""

    @property
    def result(self) -> GateResult | None:
        """What was measured last."""

    def prepare(self) -> None:
        """Do what takes long, before the publishing transaction begins."""

    def judge(self, connection: Connection) -> None:
        """Measure the head that this connection sees.

        Raises:
            GateError: it is not good enough.
        """

    def compared(self, connection: Connection, counts: ChangeCounts) -> GateError:
        """The error of what was judged last, with what fell against the head that this connection sees."""

    def judge_head(self, connection: Connection, counts: ChangeCounts) -> None:
        """Measure the head where there is nothing to publish.

        Raises:
            GateError: it is not good enough; nothing is held.
        """


@contextmanager
def only_told(what: str) -> Iterator[None]:
    """Let work behind a publish fail without undoing the report of it: a warning says why.

    A cancel is no failure: it came after the publish.
    """
    try:
        yield
    except CancelledError:
        pass
    except SqlindexError as exc:
        _logger.warning(
            "%s failed: %s", what, exc, extra={"event": "tidy.failed", "code": exc.code}
        )


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
    gatekeeper: Gatekeeper | None = None,
    makes_lexical_anew: bool = False,
) -> int | None:
    """Publish a build as the next generation, unless nothing would differ from the head.

    Args:
        head: the one that the build was made on.
        space_id: whose vectors the generation is searched with.
        staged_fts_chunks: from so many changed chunks on, the spare lexical table is filled and
            swapped.
        also: what else becomes true, in the publishing transaction; done too without a publish.
        restored: the generation whose documents come back, of a rollback.
        gatekeeper: asked within the publishing transaction, not when nothing differs.
        makes_lexical_anew: fill the spare lexical table and swap, whatever has changed.

    Returns:
        The new generation, or None.

    Raises:
        GateError: the gatekeeper refused; the head and the staged build are as they were.
        HeadMovedError: the head is another one now; nothing is changed.
        CancelledError: before the publish.
    """
    analyzer = analyzer_fingerprint()
    with writer.transaction() as connection:
        is_rebuilt = head.documents > 0 and (
            makes_lexical_anew or bool(lexical_rebuild(connection, head))
        )
        is_other_space = head.documents > 0 and head.space_id != space_id
        # Vectors that were lost and are back change what is found, as a document would.
        is_same = not (has_changes(connection, build_id) or is_other_space or counts.embedded)
        if is_same and not is_rebuilt:
            end_build(connection, build_id)
            also(connection)
            return None
        size = number_slots(connection, build_id)
    if gatekeeper is not None:
        gatekeeper.prepare()
    progress(Progress("publish", 0, 1))

    def publish_with(lexical: LexicalTable | LexicalChange) -> int:
        try:
            return publish(
                writer,
                build_id,
                head,
                size,
                cause=cause,
                space_id=space_id,
                analyzer=analyzer,
                counts=counts,
                lexical=lexical,
                restored=restored,
                also=also,
                judge=None if gatekeeper is None else gatekeeper.judge,
            )
        except GateError:
            assert gatekeeper is not None
            writer.roll_back()  # else the next reading would take the new generation for the head
            raise gatekeeper.compared(writer.connection, counts) from None

    generation = None
    if size.changed_chunks < staged_fts_chunks and not is_rebuilt:
        # A damaged text that ends cannot be taken out of the live table; the spare one never had it.
        with suppress(CorruptIndexError), translated_errors(writer.path):
            is_small = size.changed_chunks <= _READ_BEFORE_CHUNKS
            change = lexical_change(
                writer.connection, head.lexical, build_id, analyse, is_read_now=is_small
            )
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


def lexical_rebuild(connection: Connection, head: Head) -> str:
    """Why the head's lexical table must be made anew, or ''."""
    if head.analyzer != analyzer_fingerprint():
        return "the analyser changed"
    # Deleting rows from a damaged table would corrupt it further without a word.
    if not is_lexical_whole(connection, head):
        return "the table is damaged"
    return ""
