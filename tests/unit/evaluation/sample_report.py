"""A report of made-up runs, with whatever a report can hold and queries that nobody vouches for."""

from __future__ import annotations

from random import Random

from sqlindex.evaluation.report import (
    ClassResult,
    Comparison,
    Difference,
    Distribution,
    EvalReport,
    IndexFacts,
    NoAnswerResult,
    QueryDelta,
    QueryEmbedding,
    QueryFacts,
    RunResult,
)
from sqlindex.evaluation.runs import Latency
from sqlindex.evaluation.significance import bootstrap_mean, paired_bootstrap, randomisation_test

HOSTILE = (
    "<script>document.title = 'ran'</script>",
    '"><img src="https://example.org/x.png" onerror="document.title = \'ran\'">',
    "</table></style><style>@import 'https://example.org/x.css';</style>",
    "العقد شريعة المتعاقدين \u202eabc\u202d",
    "NUL \0 bell \7 escape \x1b[31m lone \ud800 end",
    "x" * 2_000,
    "Donaudampfschifffahrtsgesellschaftskapitän " * 100,
    "契約の解除について知りたい",
    "line\nbreak\ttab & &amp; 'quoted'",
    "]]> --> <!-- {{ }} ${x} `y`",
)
MEASURES = ("nDCG@10", "R@10", "MRR", "sufficient-hit@5")
_SEED, _ROUNDS = 1, 200


def sample_report(queries: int = 40) -> EvalReport:
    """Three modes over `queries` answerable queries of three classes, six no-answer ones, a baseline."""
    answerable = tuple(
        QueryFacts(
            f"q{at}",
            HOSTILE[at] if at < len(HOSTILE) else f"how long is notice period {at}",
            (("conceptual", "code <config>", "multi-relevant")[at % 3],),
            True,
        )
        for at in range(queries)
    )
    unanswerable = tuple(
        QueryFacts(f"n{at}", "weather on Mars", ("negative" if at % 2 else "near miss",), False)
        for at in range(6)
    )
    names = ("lexical", "semantic", "hybrid")
    runs = tuple(
        _run(name, at, answerable, unanswerable, Random(at)) for at, name in enumerate(names)
    )
    baseline = _run("release 0.1", 3, answerable, unanswerable, Random(9))
    pairs = [(runs[0], runs[1], False), (runs[1], runs[2], False), (baseline, runs[2], True)]
    return EvalReport(
        collection="made-up <collection>",
        level="document",
        depth=1000,
        measures=MEASURES,
        corpus_sha256="a" * 64,
        queries_sha256="b" * 64,
        qrels_sha256="c" * 64,
        queries=answerable + unanswerable,
        answerable=queries,
        no_answer=6,
        unjudged=2,
        unknown_judged=1,
        indexes=(
            IndexFacts(
                configuration="default",
                settings={"max_chunk_chars": "1200"},
                path="/data/made-up.db",
                generation=3,
                documents=64,
                refused=1,
                chunks=72,
                embedder="minilm, 384 dimensions",
                embedded=70,
                reused=2,
                truncated=4,
                index_s=3.25,
            ),
        ),
        runs=runs,
        comparisons=tuple(_comparison(*pair) for pair in pairs),
        query_embedding=QueryEmbedding(queries + 6, queries + 6, 7.5, 12.25, 0.4),
        versions={"sqlindex": "0.1.0", "python": "3.11.7"},
        seed=_SEED,
        rounds=_ROUNDS,
    )


def _run(
    name: str,
    at: int,
    answerable: tuple[QueryFacts, ...],
    unanswerable: tuple[QueryFacts, ...],
    random: Random,
) -> RunResult:
    rank = {query.id: random.choice([1, 1, 2, 3, 5, 8, None]) for query in answerable}
    by_query: dict[str, dict[str, float | None]] = {
        query_id: {
            "nDCG@10": min(1.0, 0.2 * at + 1 / found) if found else 0.0,
            "R@10": float(found is not None),
            "MRR": 1 / found if found else 0.0,
            "sufficient-hit@5": None,
        }
        for query_id, found in rank.items()
    }
    values = {
        measure: {query_id: of_query[measure] for query_id, of_query in by_query.items()}
        for measure in MEASURES[:3]
    }
    bounds = {
        measure: bootstrap_mean(found, seed=_SEED, rounds=_ROUNDS)
        for measure, found in values.items()
    }
    mean: dict[str, float | None] = {measure: bounds[measure].mean for measure in bounds}
    mean["sufficient-hit@5"] = None
    sizes: dict[str, int] = {}
    for query in answerable:
        sizes[query.classes[0]] = sizes.get(query.classes[0], 0) + 1
    top_cosine = {
        query.id: random.uniform(0.2, 0.9) if query.is_answerable else random.uniform(0.1, 0.4)
        for query in answerable + unanswerable
        if name != "lexical"
    }
    cosines = {}
    if top_cosine:
        by_kind: dict[str, list[float]] = {}
        for query in answerable + unanswerable:
            kind = "answerable" if query.is_answerable else query.classes[0]
            by_kind.setdefault(kind, []).append(top_cosine[query.id])
        cosines = {kind: Distribution(tuple(sorted(found))) for kind, found in by_kind.items()}
    return RunResult(
        name=name,
        configuration="default",
        mode=None,
        mean=mean,
        bounds=bounds,
        by_query=by_query,
        first_relevant=rank,
        classes=tuple(ClassResult(kind, count, mean) for kind, count in sizes.items()),
        no_answer=(
            NoAnswerResult("near miss", 3, 1.0, None if at else 1 / 3),
            NoAnswerResult("negative", 3, 0.5, None if at else 0.0),
        ),
        top_cosine=top_cosine,
        cosines=cosines,
        repeated=(0.0, 0.1, 0.25),
        latency=Latency(40.0 + at, 2.0 + at, 9.5 + at),
    )


def _comparison(before: RunResult, after: RunResult, is_baseline: bool) -> Comparison:
    differences = []
    for measure in MEASURES[:3]:
        a = {query_id: values[measure] for query_id, values in before.by_query.items()}
        b = {query_id: values[measure] for query_id, values in after.by_query.items()}
        interval = paired_bootstrap(a, b, seed=_SEED, rounds=_ROUNDS)
        p = randomisation_test(a, b, seed=_SEED, rounds=_ROUNDS)
        means = [bootstrap_mean(side, seed=_SEED, rounds=1).mean for side in (a, b)]
        differences.append(Difference(measure, len(a), means[0], means[1], interval, p))
    deltas = [
        QueryDelta(query_id, values["nDCG@10"] or 0.0, after.by_query[query_id]["nDCG@10"] or 0.0)
        for query_id, values in before.by_query.items()
    ]
    deltas.sort(key=lambda delta: (delta.difference, delta.query_id))
    return Comparison(before.name, after.name, is_baseline, tuple(differences), tuple(deltas))
