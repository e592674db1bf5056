"""What a refresh will do, and what it did: the same counts, so that they can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, cast

from sqlindex.errors import SqlindexError, UsageError
from sqlindex.model.documents import Refusal
from sqlindex.model.gate import GateResult
from sqlindex.model.packed import packed
from sqlindex.store.ledger import Ledger

OTHERWISE_MADE = "parser, chunker, embedding input, their options or the token limit changed"
"""Why a document that is as it was has been parsed again."""

ChangeKind = Literal["added", "changed", "reparsed", "renamed", "removed"]


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """One document that differs from the head; `old_id` is set for a rename."""

    kind: ChangeKind
    source: str
    document_id: str
    old_id: str | None = None


class EmbeddingEstimate(NamedTuple):
    """What embedding the inputs of a plan will take, from a sample of them.

    Attributes:
        tokens: that reach the model, special tokens included; None where the embedder does not count.
        seconds: on this machine now, for the embedding alone; None for an embedder that does not run
            in this process, since a plan asks no service.
    """

    tokens: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference between the sources and the head, in documents and embedding inputs.

    Attributes:
        documents: every added, changed, reparsed, renamed and removed document, by source and id.
        counts: how many of them changed in which way.
        unchanged: documents that stay as they are.
        left_out: files and folders that rules of their source keep out (hidden, ignored,
            secret-like, …); they are no refusals. A folder counts once.
        refused: (source, refusal, is_kept) of documents that are not indexed, by source and id;
            `is_kept` if the version indexed earlier is still served.
        embedding_inputs: distinct texts that have no vector yet and get one.
        rebuilt: layers that are rebuilt because what made them changed, in words.
        estimate: what embedding will take; only of a plan with an embedder. Not compared.
    """

    documents: Sequence[DocumentChange] = ()
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unchanged: int = 0
    left_out: int = 0
    refused: Sequence[tuple[str, Refusal, bool]] = ()
    embedding_inputs: int = 0
    rebuilt: tuple[str, ...] = ()
    estimate: EmbeddingEstimate | None = field(default=None, compare=False)

    def count(self, kind: ChangeKind) -> int:
        """How many documents changed in that way."""
        return self.counts.get(kind, 0)

    @property
    def kept(self) -> int:
        """Refusals whose earlier version is still served: the refresh is done only in part."""
        return sum(1 for _, _, is_kept in self.refused if is_kept)


def described(counts: Mapping[str, int]) -> str:
    """`1 added, 3 unchanged`: how many documents changed in which way, and how many did not."""
    kinds = ("added", "changed", "renamed", "removed", "reparsed")
    told = [f"{counts[kind]:,} {kind}" for kind in kinds if counts.get(kind)]
    return ", ".join([*told, f"{counts.get('unchanged', 0):,} unchanged"])


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What a refresh did.

    Attributes:
        generation: the head afterwards.
        is_published: whether a new generation was published; False when nothing had changed.
        changes: equal to what `plan` says beforehand, if nothing changed in between.
        embedded: distinct texts inferred.
        reused: all other assignments of a vector to a chunk of the generation.
        resumed: documents that an interrupted refresh had staged before.
        truncated: embedded texts that were longer than the embedder's limit and were cut.
        without_vector: places and reasons of texts published lexical-only on request.
        gate: what the gate measured of the generation that is the head afterwards; None without a
            gate.
        duration_s: wall time.
    """

    generation: int
    is_published: bool
    changes: Changes
    embedded: int = 0
    reused: int = 0
    resumed: int = 0
    truncated: int = 0
    without_vector: tuple[str, ...] = ()
    gate: GateResult | None = None
    duration_s: float = 0.0


Phase = Literal["read", "embed", "publish", "search", "copy", "measure"]
_UNITS: Mapping[Phase, str] = {
    "read": "documents",
    "embed": "texts",
    "publish": "steps",
    "search": "queries",
    "copy": "pages",
    "measure": "queries",
}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase is; `total` is None while it is unknown."""

    phase: Phase
    done: int
    total: int | None = None

    @property
    def unit(self) -> str:
        """What `done` and `total` count, in the plural."""
        return _UNITS[self.phase]


ProgressSink = Callable[[Progress], None]


def no_progress(_: Progress) -> None:
    """A sink for callers who do not look."""


def guarded(progress: ProgressSink) -> ProgressSink:
    """The host's sink; what goes wrong in it must not pass for an error of the index.

    Raises:
        UsageError: in place of what the sink raised.
    """

    def call(told: Progress) -> None:
        try:
            progress(told)
        except SqlindexError:
            raise
        except Exception as exc:  # a host's callback may raise anything
            raise UsageError(
                f"the progress callback failed: {type(exc).__name__}: {exc}", hint="see the cause"
            ) from exc

    return call


@dataclass(slots=True)
class Tally:
    """Counts of a walk over all sources: entries listed, documents unchanged.

    Attributes:
        expected: how many entries there will be, roughly; 0 if nobody knows.
    """

    listed: int = 0
    unchanged: int = 0
    expected: int = 0

    @property
    def progress(self) -> Progress:
        """How far the walk is."""
        total = self.expected if self.listed <= self.expected else None
        return Progress("read", self.listed, total or None)


def changes_of(
    ledger: Ledger,
    names: Mapping[int, str],
    *,
    unchanged: int,
    embedding_inputs: int,
    rebuilt: tuple[str, ...],
    why_reparsed: str = OTHERWISE_MADE,
    estimate: EmbeddingEstimate | None = None,
) -> Changes:
    """What a ledger holds, once its renames have been matched.

    Args:
        names: of the sources, by source id.
        why_reparsed: for documents that are as they were.
    """
    counts = ledger.counts()
    notes = rebuilt
    if counts.get("reparsed"):
        notes = (
            f"chunks of {counts['reparsed']} documents: {why_reparsed}",
            *rebuilt,
        )
    sources = sorted(names, key=lambda source_id: names[source_id])
    return Changes(
        documents=packed(
            DocumentChange(cast(ChangeKind, kind), names[source_id], document_id, old_id)
            for source_id in sources
            for kind, document_id, old_id in ledger.changes(source_id)
        ),
        counts=counts,
        unchanged=unchanged,
        left_out=ledger.count_left_out(),
        refused=packed(
            (names[source_id], refusal, is_kept)
            for source_id in sources
            for refusal, is_kept in ledger.refused(source_id)
        ),
        embedding_inputs=embedding_inputs,
        rebuilt=notes,
        estimate=estimate,
    )
