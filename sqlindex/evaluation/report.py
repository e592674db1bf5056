"""What an evaluation found: frozen values, and their JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from sqlindex.evaluation.runs import Latency
from sqlindex.evaluation.significance import Interval
from sqlindex.model.requests import Mode

SCHEMA = 2
"""Version of the JSON form. 1: one index, one list of means. 2: configurations, classes, no-answer
queries, bounds and comparisons; means may be null."""

Level = Literal["document", "chunk"]
LEVELS: tuple[Level, ...] = ("document", "chunk")

Values = Mapping[str, float | None]
"""Values by measure; None where a measure is not defined."""


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """A query that was run.

    Attributes:
        id, text: as in the file of queries.
        classes: as in the file; a no-answer query has at least one.
        is_answerable: False for a no-answer query, whose right answer is to find nothing.
    """

    id: str
    text: str
    classes: tuple[str, ...]
    is_answerable: bool


@dataclass(frozen=True, slots=True)
class Distribution:
    """How values are spread.

    Attributes:
        values: ascending; never empty.
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value, or the mean of the two middle ones."""
        half = len(self.values) // 2
        upper = self.values[half]
        return upper if len(self.values) % 2 else (self.values[half - 1] + upper) / 2

    @property
    def min(self) -> float:
        """The smallest value."""
        return self.values[0]

    @property
    def max(self) -> float:
        """The greatest value."""
        return self.values[-1]


@dataclass(frozen=True, slots=True)
class ClassResult:
    """The answerable queries of one class.

    Attributes:
        name: of the class; a query of several classes counts in each.
        queries: how many.
        mean: by measure, over these queries.
    """

    name: str
    queries: int
    mean: Values


@dataclass(frozen=True, slots=True)
class NoAnswerResult:
    """The no-answer queries of one class.

    Attributes:
        name: of the class.
        queries: how many.
        non_empty_rate: share of them for which something was found.
        false_alarm_rate: share of them whose first hit holds at least half of the query's words; None
            where that was not measured (without a lexical channel, or for a saved run).
    """

    name: str
    queries: int
    non_empty_rate: float
    false_alarm_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How one run did: one mode of one configuration, or a saved run.

    Attributes:
        name: unique in the report: the mode, `configuration/mode` if there are other
            configurations than the default one, or the name of the run's file.
        configuration: name of its entry in `EvalReport.indexes`; None for a saved run.
        mode: of the searches; None for a saved run.
        mean: by measure, over the answerable queries; a query that found nothing counts 0.
        bounds: by measure, 95 % bootstrap bounds of the mean; only where a mean is defined.
        by_query: by id of the answerable queries, then by measure.
        first_relevant: rank of the first relevant result by id of the answerable queries; None if
            there is none in the ranking.
        classes: the answerable queries by class, in the order of their first query.
        no_answer: the no-answer queries by class.
        top_cosine: the best cosine of each query's first page by query id, no-answer queries
            included; empty for lexical search and saved runs.
        cosines: `top_cosine` of the answerable queries (under `answerable`) and of each no-answer
            class.
        repeated: for ranks 1 to 10 of the chunks, the share of the answerable queries at which a
            document stands again that stood above; empty for a saved run.
        latency: of the searches; None for a saved run.
    """

    name: str
    configuration: str | None
    mode: Mode | None
    mean: Values
    bounds: Mapping[str, Interval]
    by_query: Mapping[str, Values]
    first_relevant: Mapping[str, int | None]
    classes: tuple[ClassResult, ...]
    no_answer: tuple[NoAnswerResult, ...]
    top_cosine: Mapping[str, float]
    cosines: Mapping[str, Distribution]
    repeated: tuple[float, ...]
    latency: Latency | None


@dataclass(frozen=True, slots=True)
class Difference:
    """What one measure says of two runs.

    Attributes:
        measure: its name.
        queries: both have a value for.
        before, after: means over these queries.
        difference: mean of `after - before` with 95 % bounds of the paired bootstrap.
        p: two-sided, of the randomisation test.
    """

    measure: str
    queries: int
    before: float
    after: float
    difference: Interval
    p: float


@dataclass(frozen=True, slots=True)
class QueryDelta:
    """One query's values of the report's first measure in two runs."""

    query_id: str
    before: float
    after: float

    @property
    def difference(self) -> float:
        """`after - before`; negative for a loss."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs of the same queries.

    Attributes:
        before, after: their names.
        is_baseline: whether `before` is the saved baseline, and not a run of this report.
        differences: one for each measure that both define for some query.
        deltas: every query that both have a value for, greatest loss first, equal ones by id.
    """

    before: str
    after: str
    is_baseline: bool
    differences: tuple[Difference, ...]
    deltas: tuple[QueryDelta, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFacts:
    """The index behind a configuration.

    Attributes:
        configuration: its name; `default` if there is only one.
        settings: what it changes, by name of the setting.
        path: of the index file.
        generation: that was searched.
        documents: that the corpus has; of an existing index, that the generation holds.
        refused: documents of the corpus that the index refused.
        chunks: of the generation.
        embedder: identity of the vectors, or None without a mode that needs them.
        embedded: texts embedded now; 0 when the index had them all.
        reused: chunks whose vector was there.
        truncated: embedded texts that were cut at the embedder's limit.
        index_s: seconds for bringing the index up to date; None for an existing one.
    """

    configuration: str
    settings: Mapping[str, str]
    path: str
    generation: int
    documents: int
    refused: int
    chunks: int
    embedder: str | None
    embedded: int
    reused: int
    truncated: int
    index_s: float | None


@dataclass(frozen=True, slots=True)
class QueryEmbedding:
    """How queries were embedded: each once, before its first search that needs the vector.

    Attributes:
        embedded: queries.
        reused: searches that used such a vector again.
        p50_ms, p95_ms: of one query, by nearest rank, the first one left out.
        total_s: of all queries.
    """

    embedded: int
    reused: int
    p50_ms: float
    p95_ms: float
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """An evaluation of one set of judged queries.

    Attributes:
        collection: name of its folder, or as `Judgements.name` says.
        level: what was ranked and judged.
        depth: how deep the rankings are; None for to their ends, or for saved runs.
        measures: in the order of the tables; queries are compared by the first one.
        corpus_sha256: of the corpus, byte for byte; None for an existing index or saved runs.
        queries_sha256, qrels_sha256: of those files, byte for byte.
        queries: that were run, in the order of the file.
        answerable: all queries of the file with a relevant document, beyond a limit too.
        no_answer: all queries of the file that are said to have no answer.
        unjudged: queries of the file that are neither; they are not run.
        unknown_judged: relevant documents that the corpus or index lacks; they count as not found.
            None for saved runs.
        unknown_ids: the first ones of these, at most 5, in the order of the qrels.
        indexes: one for each configuration; empty for saved runs.
        runs: one for each mode of each configuration, in the order asked for; or the saved runs.
        comparisons: runs with each other, then with the baseline.
        query_embedding: None without a mode that needs vectors.
        versions: of this package, Python, SQLite and the packages that shape the figures.
        seed, rounds: of the bootstrap and the randomisation test.
        warnings: saved runs that seem to belong to other queries or documents, and which of several
            files of a collection was read.
    """

    collection: str
    level: Level
    depth: int | None
    measures: tuple[str, ...]
    corpus_sha256: str | None
    queries_sha256: str
    qrels_sha256: str
    queries: tuple[QueryFacts, ...]
    answerable: int
    no_answer: int
    unjudged: int
    unknown_judged: int | None
    unknown_ids: tuple[str, ...]
    indexes: tuple[IndexFacts, ...]
    runs: tuple[RunResult, ...]
    comparisons: tuple[Comparison, ...]
    query_embedding: QueryEmbedding | None
    versions: Mapping[str, str]
    seed: int
    rounds: int
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """The report as JSON values, under the names of the attributes, `schema` first."""
        fields = asdict(self)
        for run, encoded in zip(self.runs, fields["runs"], strict=True):
            encoded["cosines"] = {
                name: {"min": found.min, "median": found.median, "max": found.max}
                for name, found in run.cosines.items()
            }
        return {"schema": SCHEMA, **fields}
