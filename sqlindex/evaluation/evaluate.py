"""Evaluate: read → index → run → measure → compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlindex.cancellation import NEVER, CancelToken
from sqlindex.errors import EmbedderRequiredError, UsageError
from sqlindex.evaluation.assemble import assembled_report
from sqlindex.evaluation.baseline import Baseline, read_baseline
from sqlindex.evaluation.beir import files_left_unread, read_collection
from sqlindex.evaluation.collection_index import bring_up_to_date, default_index_path
from sqlindex.evaluation.configurations import (
    DEFAULT_CONFIGURATION,
    Configuration,
    require_different,
)
from sqlindex.evaluation.foreign_runs import foreignness, require_shared_query
from sqlindex.evaluation.judgements import Judgements
from sqlindex.evaluation.measures import MEASURES, SUFFICIENT_MEASURES, cutoff_of, measure_run
from sqlindex.evaluation.options import EvalOptions
from sqlindex.evaluation.query_vectors import QueryVectors
from sqlindex.evaluation.report import (
    EvalReport,
    IndexFacts,
)
from sqlindex.evaluation.results import Judged, queries_to_run, result_of
from sqlindex.evaluation.runs import Answer, Run
from sqlindex.evaluation.search_stage import Found, SearchStage
from sqlindex.evaluation.trec import read_run
from sqlindex.indexing.report import ProgressSink, no_progress
from sqlindex.model.requests import MODES, Mode
from sqlindex.ports import Embedder


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
        UsageError: a file is malformed, the index holds something else, or an option does not apply.
        EmbedderRequiredError: a mode needs an embedder and none is given.
        OptionalDependencyError: ir-measures is missing.
        ValueError: `modes` are not different ones of those there are.
    """
    _check(modes, embedder, configurations)
    collection = read_collection(folder, queries=queries, qrels=qrels)
    stage = _stage(
        collection.judgements, modes, embedder, options, configurations, progress, cancel
    )
    base = index_path or default_index_path(collection)
    facts = [
        bring_up_to_date(
            configuration.index_path(base),
            collection,
            configuration,
            embedder=None if stage.vectors is None else embedder,
            cancel=cancel or NEVER,
            progress=progress or no_progress,
        )
        for configuration in configurations
    ]
    found = [
        stage.search(Path(fact.path), configuration)
        for fact, configuration in zip(facts, configurations, strict=True)
    ]
    return _report(
        stage,
        found,
        facts,
        corpus_sha256=collection.corpus_sha256,
        warnings=files_left_unread(folder, queries=queries, qrels=qrels),
    )


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
        UsageError: an id is ambiguous, a configuration would need another index, or an option does
            not apply.
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
    stage = _stage(judgements, modes, embedder, options, configurations, progress, cancel)
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
            embedder=None if stage.vectors is None else one.generation.embedder,
            embedded=0,
            reused=0,
            truncated=0,
            index_s=None,
        )
        for one in found
    ]
    return _report(stage, found, facts, corpus_sha256=None)


def evaluate_runs(
    files: Sequence[Path], judgements: Judgements, *, options: EvalOptions | None = None
) -> EvalReport:
    """Measure saved TREC runs, without an index; depth and latency stay unknown.

    Args:
        files: see `trec.read_run`; each is named as its file without the suffix.
        options: level `document`, and no `save_runs`.

    Raises:
        UsageError: a file is missing or malformed, two have one name, one has no query of the
            judgements, or an option does not apply.
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
        measures=_measures(wanted, judgements, depth=None),
    )
    baseline = _baseline(wanted, judgements)
    read = {name: read_run(path) for path, name in zip(files, names, strict=True)}
    for name, run in read.items():
        require_shared_query(name, run, judgements.queries)
    runs = []
    for name, run in read.items():
        answers = {query_id: Answer.saved(scores) for query_id, scores in run.items()}
        runs.append(result_of(name, answers, judged))
    if baseline is not None and baseline.run is not None:
        read = {**read, baseline.name: baseline.run}
    return assembled_report(
        judgements,
        judged,
        runs,
        baseline=baseline,
        level=wanted.level,
        depth=None,
        facts=(),
        unknown=None,
        corpus_sha256=None,
        warnings=_warnings(read, judged),
    )


def _warnings(runs: Mapping[str, Run], judged: Judged) -> tuple[str, ...]:
    """Runs that seem to belong to other judgements; a bad one may look the same, so it is no error."""
    queries = {query.id for query in judged.queries}
    documents = {name for grades in judged.qrels.values() for name in grades}
    problems = {
        name: foreignness(run, queries, documents.__contains__, "the qrels")
        for name, run in runs.items()
    }
    return tuple(f"{name}: {problem}" for name, problem in problems.items() if problem)


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
    needs_vectors = any(mode != "lexical" for mode in modes)
    stage = SearchStage(
        judgements=judgements,
        baseline=_baseline(wanted, judgements),
        modes=tuple(modes),
        measures=_measures(wanted, judgements, wanted.depth),
        level=wanted.level,
        depth=wanted.depth,
        limit_queries=wanted.limit_queries,
        save_runs=wanted.save_runs,
        vectors=QueryVectors(embedder) if needs_vectors and embedder is not None else None,
        configurations=tuple(configurations),
        cancel=cancel or NEVER,
        progress=progress or no_progress,
    )
    stage.require_new_runs()
    return stage


def _baseline(options: EvalOptions, judgements: Judgements) -> Baseline | None:
    """The baseline, read before anything is indexed or searched."""
    if options.baseline is None:
        return None
    baseline = read_baseline(
        options.baseline, level=options.level, qrels_sha256=judgements.qrels_sha256
    )
    if baseline.run is not None:
        require_shared_query(baseline.name, baseline.run, judgements.queries)
    return baseline


def _measures(options: EvalOptions, judgements: Judgements, depth: int | None) -> tuple[str, ...]:
    """Those asked for; or the usual ones, as far as rankings of this depth reach."""
    if options.measures is None:
        has_sets = any(query.sufficient for query in judgements.queries.values())
        usual = MEASURES + SUFFICIENT_MEASURES if has_sets else MEASURES
        return tuple(name for name in usual if depth is None or cutoff_of(name) <= depth)
    for name in options.measures:
        if depth is not None and cutoff_of(name) > depth:
            raise UsageError(
                f"{name} looks at more than the {depth} results that are ranked",
                hint=f"rank to depth {cutoff_of(name)} or deeper, or lower the cutoff",
            )
    return options.measures


def _report(
    stage: SearchStage,
    found: Sequence[Found],
    facts: Sequence[IndexFacts],
    *,
    corpus_sha256: str | None,
    warnings: tuple[str, ...] = (),
) -> EvalReport:
    return assembled_report(
        stage.judgements,
        found[0].judged,
        [run for one in found for run in one.runs],
        baseline=stage.baseline,
        level=stage.level,
        depth=stage.depth,
        facts=facts,
        unknown=found[0].unknown_judged,
        corpus_sha256=corpus_sha256,
        query_embedding=None if stage.vectors is None else stage.vectors.report(),
        warnings=warnings,
    )
