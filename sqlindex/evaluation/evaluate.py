"""Evaluate: read → index → run → measure → compare."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sqlindex.cancellation import NEVER, CancelToken
from sqlindex.errors import EmbedderRequiredError, UsageError
from sqlindex.evaluation.baseline import compare_with_baseline
from sqlindex.evaluation.beir import read_collection
from sqlindex.evaluation.collection_index import bring_up_to_date, default_index_path
from sqlindex.evaluation.compare import compare_all
from sqlindex.evaluation.configurations import (
    DEFAULT_CONFIGURATION,
    Configuration,
    require_different,
)
from sqlindex.evaluation.judgements import Judgements
from sqlindex.evaluation.measures import MEASURES, SUFFICIENT_MEASURES, measure_run
from sqlindex.evaluation.query_vectors import QueryVectors
from sqlindex.evaluation.report import (
    LEVELS,
    EvalReport,
    IndexFacts,
    Level,
    QueryEmbedding,
    RunResult,
)
from sqlindex.evaluation.results import ROUNDS, SEED, Judged, queries_to_run, result_of
from sqlindex.evaluation.runs import DEFAULT_DEPTH, Answer
from sqlindex.evaluation.search_stage import Found, SearchStage
from sqlindex.evaluation.trec import read_run
from sqlindex.indexing.report import ProgressSink, no_progress
from sqlindex.model.requests import MODES, Mode
from sqlindex.ports import Embedder
from sqlindex.store.driver import driver_name, sqlite_version


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """What is measured, and with what it is compared.

    Attributes:
        measures: canonical names, see `measures.parse_measure`; the usual ones if None.
        level: rank documents (chunks are reduced to them before every cutoff), or chunks, of which
            each one of a relevant document is relevant.
        depth: of the rankings; None for to their ends.
        limit_queries: only the first queries of the file; at least 1.
        baseline: a TREC run, or the JSON of an earlier report, to compare with.
        save_runs: a folder for a TREC run file of each run, and the qrels beside them.
    """

    measures: tuple[str, ...] | None = None
    level: Level = "document"
    depth: int | None = DEFAULT_DEPTH
    limit_queries: int | None = None
    baseline: Path | None = None
    save_runs: Path | None = None

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"level must be one of {', '.join(LEVELS)}, not {self.level!r}")
        for name in ("depth", "limit_queries"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.measures is not None and not self.measures:
            raise ValueError("measures must name at least one")


def evaluate(
    folder: Path,
    modes: Sequence[Mode] = MODES,
    *,
    embedder: Embedder | None = None,
    index_path: Path | None = None,
    queries: Path | None = None,
    qrels: Path | None = None,
    configurations: Sequence[Configuration] = (DEFAULT_CONFIGURATION,),
    options: EvalOptions | None = None,
    progress: ProgressSink | None = None,
    cancel: CancelToken | None = None,
) -> EvalReport:
    """Index a collection, search its queries in each mode, and measure the rankings.

    Run are the queries that have a relevant document, which are measured, and those that are said to
    have no answer, which are reported apart. The index is kept and refreshed, so a second run embeds
    only what changed.

    Args:
        folder: see `beir.read_collection`.
        modes: in the order of the report.
        embedder: for semantic and hybrid; it stays the caller's.
        index_path: where the collection's index is kept; the user's cache folder if None. Other cuts
            than the default one are kept beside it.
        queries, qrels: these files instead of the folder's.
        configurations: each is evaluated in every mode.
        progress: called with the phases of the refresh, then with the phase `search`.
        cancel: checked between documents, batches and queries.

    Raises:
        UsageError: a file is malformed, or the index holds something else.
        EmbedderRequiredError: a mode needs an embedder and none is given.
        OptionalDependencyError: ir-measures is missing.
        ValueError: `modes` are not different ones of those there are.
    """
    _check(modes, embedder, configurations)
    collection = read_collection(folder, queries=queries, qrels=qrels)
    used = None if all(mode == "lexical" for mode in modes) else embedder
    base = index_path or default_index_path(collection)
    facts = [
        bring_up_to_date(
            configuration.index_path(base),
            collection,
            configuration,
            embedder=used,
            cancel=cancel or NEVER,
            progress=progress or no_progress,
        )
        for configuration in configurations
    ]
    stage = _stage(collection.judgements, modes, used, options, configurations, progress, cancel)
    found = [
        stage.search(Path(fact.path), configuration)
        for fact, configuration in zip(facts, configurations, strict=True)
    ]
    return _report(stage, options, found, facts, corpus_sha256=collection.corpus_sha256)


def evaluate_index(
    path: Path,
    judgements: Judgements,
    modes: Sequence[Mode] = MODES,
    *,
    embedder: Embedder | None = None,
    at: int | str | None = None,
    configurations: Sequence[Configuration] = (DEFAULT_CONFIGURATION,),
    options: EvalOptions | None = None,
    progress: ProgressSink | None = None,
    cancel: CancelToken | None = None,
) -> EvalReport:
    """Search judged queries in an index that is there, and measure the rankings; nothing is written.

    One generation answers, pinned meanwhile.

    Args:
        judgements: see `judgements.read_judgements`; documents are named by id, or `SOURCE:ID` where
            several sources have the id.
        embedder: the one that the index's vectors were made with; it stays the caller's.
        at: a kept generation, as `Index.search` takes it; the head if None. Words are indexed for
            the head only, so an earlier one takes mode semantic.
        configurations: they may differ in how is searched, not in how documents are cut.

    Raises:
        UsageError: an id is ambiguous, or a configuration would need another index.
        HeadMovedError: a generation was published meanwhile, and a mode needs the head.
        EmbedderMismatchError: the embedder is another one.
    """
    _check(modes, embedder, configurations)
    for configuration in configurations:
        if configuration.chunks != DEFAULT_CONFIGURATION.chunks:
            raise UsageError(
                f"configuration {configuration.name!r} cuts documents anew, and an existing index is "
                "not changed",
                hint="set only how is searched, or evaluate a folder with a corpus",
            )
    used = None if all(mode == "lexical" for mode in modes) else embedder
    stage = _stage(judgements, modes, used, options, configurations, progress, cancel)
    found = [stage.search(path, configuration, at) for configuration in configurations]
    facts = [
        IndexFacts(
            configuration=one.configuration.name,
            settings=one.configuration.settings,
            path=str(path),
            generation=one.generation.number,
            documents=one.generation.documents,
            refused=0,
            chunks=one.generation.chunks,
            embedder=None if used is None else one.generation.embedder,
            embedded=0,
            reused=0,
            truncated=0,
            index_s=None,
        )
        for one in found
    ]
    return _report(stage, options, found, facts, corpus_sha256=None)


def evaluate_runs(
    files: Sequence[Path], judgements: Judgements, *, options: EvalOptions | None = None
) -> EvalReport:
    """Measure saved TREC runs, without an index; depth and latency stay unknown.

    Args:
        files: see `trec.read_run`; each is named as its file without the suffix.
        options: level `document`, and no `save_runs`.

    Raises:
        UsageError: a file is missing or malformed, two have one name, or an option does not apply.
    """
    wanted = options or EvalOptions()
    names = [path.stem for path in files]
    if len(set(names)) < len(names):
        raise UsageError(
            f"two runs have one name: {', '.join(names)}", hint="name the files differently"
        )
    if wanted.level != "document" or wanted.save_runs is not None:
        raise UsageError(
            "saved runs are measured as rankings of documents, and not saved again",
            hint="leave level and save_runs as they are",
        )
    measure_run({}, {}, ())
    judged = Judged(
        queries=queries_to_run(judgements, wanted.limit_queries),
        qrels=judgements.qrels,
        measures=_measures(wanted, judgements),
    )
    runs = []
    for path, name in zip(files, names, strict=True):
        answers = {query_id: Answer.saved(scores) for query_id, scores in read_run(path).items()}
        runs.append(result_of(name, answers, judged))
    return _assembled(
        judgements, judged, wanted, runs, depth=None, facts=(), unknown=None, corpus_sha256=None
    )


def _check(
    modes: Sequence[Mode], embedder: Embedder | None, configurations: Sequence[Configuration]
) -> None:
    if not modes or len(set(modes)) != len(modes) or not set(modes) <= set(MODES):
        raise ValueError(f"modes must be different ones of {', '.join(MODES)}, not {list(modes)}")
    require_different(configurations)
    if embedder is None and any(mode != "lexical" for mode in modes):
        raise EmbedderRequiredError(
            "evaluating semantic or hybrid search needs an embedder",
            hint="name one, or evaluate with mode lexical only",
        )
    measure_run({}, {}, ())  # a missing package shows now, not after an hour of embedding


def _stage(
    judgements: Judgements,
    modes: Sequence[Mode],
    embedder: Embedder | None,
    options: EvalOptions | None,
    configurations: Sequence[Configuration],
    progress: ProgressSink | None,
    cancel: CancelToken | None,
) -> SearchStage:
    wanted = options or EvalOptions()
    return SearchStage(
        judgements=judgements,
        modes=tuple(modes),
        measures=_measures(wanted, judgements),
        level=wanted.level,
        depth=wanted.depth,
        limit_queries=wanted.limit_queries,
        save_runs=wanted.save_runs,
        vectors=None if embedder is None else QueryVectors(embedder),
        configurations=tuple(configuration.name for configuration in configurations),
        cancel=cancel or NEVER,
        progress=progress or no_progress,
    )


def _measures(options: EvalOptions, judgements: Judgements) -> tuple[str, ...]:
    if options.measures is not None:
        return options.measures
    has_sets = any(query.sufficient for query in judgements.queries.values())
    return MEASURES + SUFFICIENT_MEASURES if has_sets else MEASURES


def _report(
    stage: SearchStage,
    options: EvalOptions | None,
    found: Sequence[Found],
    facts: Sequence[IndexFacts],
    *,
    corpus_sha256: str | None,
) -> EvalReport:
    return _assembled(
        stage.judgements,
        found[0].judged,
        options or EvalOptions(),
        [run for one in found for run in one.runs],
        depth=stage.depth,
        facts=facts,
        unknown=found[0].unknown_judged,
        corpus_sha256=corpus_sha256,
        query_embedding=None if stage.vectors is None else stage.vectors.report(),
    )


def _assembled(
    judgements: Judgements,
    judged: Judged,
    options: EvalOptions,
    runs: Sequence[RunResult],
    *,
    depth: int | None,
    facts: Sequence[IndexFacts],
    unknown: int | None,
    corpus_sha256: str | None,
    query_embedding: QueryEmbedding | None = None,
) -> EvalReport:
    comparisons = compare_all(runs, judged.measures)
    if options.baseline is not None:
        comparisons += compare_with_baseline(
            options.baseline,
            runs,
            judged,
            level=options.level,
            qrels_sha256=judgements.qrels_sha256,
        )
    answerable, no_answer = len(judgements.answerable), len(judgements.no_answer)
    return EvalReport(
        collection=judgements.name,
        level=options.level,
        depth=depth,
        measures=judged.measures,
        corpus_sha256=corpus_sha256,
        queries_sha256=judgements.queries_sha256,
        qrels_sha256=judgements.qrels_sha256,
        queries=judged.facts,
        answerable=answerable,
        no_answer=no_answer,
        unjudged=len(judgements.queries) - answerable - no_answer,
        unknown_judged=unknown,
        indexes=tuple(facts),
        runs=tuple(runs),
        comparisons=comparisons,
        query_embedding=query_embedding,
        versions=_versions(has_index=bool(facts)),
        seed=SEED,
        rounds=ROUNDS,
    )


def _versions(*, has_index: bool) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("sqlindex", "numpy", "ir-measures"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    if has_index:
        found |= {"sqlite": sqlite_version, "driver": driver_name}
    return found
