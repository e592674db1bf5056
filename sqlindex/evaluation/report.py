"""What an evaluation found: frozen values, and their JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sqlindex.evaluation.runs import Latency
from sqlindex.model.requests import Mode


@dataclass(frozen=True, slots=True)
class ModeResult:
    """How one mode did.

    Attributes:
        mode: of the searches.
        mean: by measure, over the queries.
        by_query: by query id, then by measure.
        latency: of the searches.
    """

    mode: Mode
    mean: Mapping[str, float]
    by_query: Mapping[str, Mapping[str, float]]
    latency: Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """An evaluation of one collection.

    Attributes:
        collection: name of its folder.
        corpus_sha256, queries_sha256, qrels_sha256: what was judged, byte for byte.
        documents: of the corpus.
        refused: documents of the corpus that the index refused.
        chunks: they were cut into.
        unknown_judged: relevant documents that the corpus lacks; they count as not found.
        queries: that were run: those with a relevant document, at most the limit.
        answerable: all queries with a relevant document.
        embedder: identity of the vectors, or None without a mode that needs them.
        embedded: texts embedded now; 0 when the index had them all.
        reused: chunks whose vector was there.
        truncated: embedded texts that were cut at the embedder's limit.
        index_s: seconds for bringing the index up to date.
        modes: one result for each mode, in the order asked for.
    """

    collection: str
    corpus_sha256: str
    queries_sha256: str
    qrels_sha256: str
    documents: int
    refused: int
    chunks: int
    unknown_judged: int
    queries: int
    answerable: int
    embedder: str | None
    embedded: int
    reused: int
    truncated: int
    index_s: float
    modes: tuple[ModeResult, ...]

    def to_json(self) -> dict[str, object]:
        """The report as JSON values, under the names of the attributes."""
        fields = asdict(self)
        fields["modes"] = [asdict(result) for result in self.modes]
        return fields
