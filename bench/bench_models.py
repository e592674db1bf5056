"""What each installed model finds: semantic nDCG@10 on the judged sets of several languages."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.figures import Figure
from bench.models_page import models_table
from bench.quality.kept import KeptQueryVectors, cache_folder, code_digest, kept_runs
from bench.quality.sets import JudgedSet, judged_sets
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.models import known_model
from sqlindex.embedding.staged import StagedModel, list_models, require_staged
from sqlindex.errors import ModelNotInstalledError, UsageError
from sqlindex.evaluation.evaluate import evaluate
from sqlindex.evaluation.options import EvalOptions
from sqlindex.evaluation.report import EvalReport

MEASURE = "nDCG@10"
FAMILIES = ("xquad-", "fastapi-")
"""Sets of parallel texts: the same questions and documents in English, German and Chinese."""


def run(n: int | None, *, models: Sequence[str] = (), sets: Sequence[str] = ()) -> Iterator[Figure]:
    """Evaluate each model on the first `n` queries of each set.

    Indexes, vectors of queries and results are kept in the user's cache, each model's apart.

    Args:
        models: only these; all that are installed if empty.
        sets: only these; all of the families if empty.

    Raises:
        UsageError: a set is unknown.
        UnknownModelError, ModelNotInstalledError: a model is.
    """
    chosen = _sets(sets)
    for staged in _installed(models):
        embedder = LocalEmbedder(staged)
        try:
            for one in chosen:
                yield _figure(one, staged, embedder, n)
        finally:
            embedder.close()


def _figure(one: JudgedSet, staged: StagedModel, embedder: LocalEmbedder, n: int | None) -> Figure:
    name = staged.model.name
    print(f"{name}, {one.name} …", file=sys.stderr, flush=True)
    vectors = KeptQueryVectors(embedder, one.name)

    def measured() -> EvalReport:
        return evaluate(
            one.folder,
            ("semantic",),
            embedder=vectors,
            index_path=cache_folder() / f"{one.name}-{name}.db",
            options=EvalOptions((MEASURE,), limit_queries=n),
        )

    inputs = (n, embedder.query_identity, MEASURE, code_digest())
    (found,) = kept_runs(replace(one, name=f"{one.name}-{name}"), inputs, measured).values()
    vectors.save()
    return Figure(
        figure=f"models.{one.name}.{name}.{MEASURE}",
        value=found["means"][MEASURE],
        unit="mean",
        n=len(found["queries"]),
        bounds=(found["low"], found["high"]),
    )


def _sets(names: Sequence[str]) -> list[JudgedSet]:
    known = {
        one.name: one
        for one in judged_sets()
        if one.name.startswith(FAMILIES) and one.queries is None
    }
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"no set is called {unknown[0]!r}", hint=f"sets: {', '.join(known)}")
    return [known[name] for name in names] or list(known.values())


def _installed(names: Sequence[str]) -> list[StagedModel]:
    if names:
        return [require_staged(known_model(name).name) for name in names]
    found = [state.staged for state in list_models() if state.staged is not None]
    if not found:
        raise ModelNotInstalledError("no model is installed", hint="sqlindex model install minilm")
    return found


def render(figures: Sequence[Figure]) -> str:
    """A line for each set, a column for each model."""
    return "\n".join(models_table([figure.to_json() for figure in figures]))
