"""What a refresh will do, and what it did: the same counts, so that they can be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from sqlindex.model.documents import Refusal

ChangeKind = Literal["added", "changed", "reparsed", "renamed", "removed"]


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """One document that differs from the head; `old_id` is set for a rename."""

    kind: ChangeKind
    source: str
    document_id: str
    old_id: str | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference between the sources and the head, in documents and embedding inputs.

    Attributes:
        documents: every added, changed, reparsed, renamed and removed document, by source and id.
        unchanged: documents that stay as they are.
        left_out: files and folders that ignore rules keep out of the listing (hidden, ignored,
            secret-like); they are no refusals.
        refused: (source, refusal, is_kept) of documents that are not indexed; `is_kept` if the
            version indexed earlier is still served.
        embedding_inputs: distinct texts that have no vector yet and get one.
        rebuilt: layers that are rebuilt because what made them changed, in words.
    """

    documents: tuple[DocumentChange, ...] = ()
    unchanged: int = 0
    left_out: int = 0
    refused: tuple[tuple[str, Refusal, bool], ...] = ()
    embedding_inputs: int = 0
    rebuilt: tuple[str, ...] = ()

    def count(self, kind: ChangeKind) -> int:
        """How many documents changed in that way."""
        return sum(1 for change in self.documents if change.kind == kind)

    @property
    def kept(self) -> int:
        """Refusals whose earlier version is still served: the refresh is done only in part."""
        return sum(1 for _, _, is_kept in self.refused if is_kept)


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What a refresh did.

    Attributes:
        generation: the head afterwards.
        is_published: whether a new generation was published; False when nothing had changed.
        changes: equal to what `plan` says beforehand, if nothing changed in between.
        embedded: distinct texts inferred.
        reused: all other assignments of a vector to a chunk of the generation.
        truncated: embedded texts that were longer than the embedder's limit and were cut.
        without_vector: places and reasons of texts published lexical-only on request.
        duration_s: wall time.
    """

    generation: int
    is_published: bool
    changes: Changes
    embedded: int = 0
    reused: int = 0
    truncated: int = 0
    without_vector: tuple[str, ...] = ()
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase is; `total` is None while it is unknown."""

    phase: Literal["read", "embed", "publish", "search"]
    done: int
    total: int | None = None


ProgressSink = Callable[[Progress], None]


def no_progress(_: Progress) -> None:
    """A sink for callers who do not look."""


@dataclass(slots=True)
class ChangeLog:
    """Collects changes while the sources are walked; `listed` counts the entries of all of them."""

    documents: list[DocumentChange] = field(default_factory=list)
    unchanged: int = 0
    left_out: int = 0
    refused: list[tuple[str, Refusal, bool]] = field(default_factory=list)
    reparsed: int = 0
    listed: int = 0

    def finished(self, *, embedding_inputs: int, rebuilt: tuple[str, ...]) -> Changes:
        """The collected changes in their final order."""
        notes = rebuilt
        if self.reparsed:
            notes = (
                f"chunks of {self.reparsed} documents: parser, chunker or their options changed",
                *rebuilt,
            )
        return Changes(
            documents=tuple(
                sorted(self.documents, key=lambda c: (c.source, c.document_id, c.kind))
            ),
            unchanged=self.unchanged,
            left_out=self.left_out,
            refused=tuple(sorted(self.refused, key=lambda r: (r[0], r[1].document_id))),
            embedding_inputs=embedding_inputs,
            rebuilt=notes,
        )
