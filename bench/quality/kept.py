"""What a run keeps in the user's cache for the next one: results of sets, vectors of queries."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench.machine import ROOT, versions
from bench.quality.sets import JudgedSet
from sqlindex.embedding.once import EmbedsOnce
from sqlindex.evaluation.report import EvalReport
from sqlindex.ports import Embedder, query_identity_of

Runs = dict[str, dict[str, Any]]
"""By name of the run: `mean`, `low` and `high` of nDCG@10, the other means, and each query's value and
first relevant rank."""


def cache_folder() -> Path:
    """Where it is kept; the folder is made."""
    import platformdirs

    folder = Path(platformdirs.user_cache_dir("sqlindex", appauthor=False)) / "quality"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def code_digest() -> str:
    """Of everything that may change a ranking: the package's code, its migrations, its libraries."""
    digest = sha256(json.dumps(versions(), sort_keys=True).encode())
    for folder, pattern in (("sqlindex", "*.py"), ("migrations", "*.sql")):
        for path in sorted((ROOT / folder).rglob(pattern)):
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def kept_runs(one: JudgedSet, inputs: Sequence[object], evaluate: Callable[[], EvalReport]) -> Runs:
    """The runs of a set: kept ones if the set and the inputs are the same, else made now.

    Args:
        inputs: what else decides the result; each is named by its `repr`.
    """
    digest = sha256(repr(inputs).encode())
    for path in one.files:
        digest.update(path.name.encode() + sha256(path.read_bytes()).digest())
    key, path = digest.hexdigest(), cache_folder() / f"{one.name}.json"
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return dict(kept["runs"])
    runs = {run.name: _values(run) for run in evaluate().runs}
    path.write_text(json.dumps({"key": key, "runs": runs}), encoding="utf-8")
    return runs


def _values(run: Any) -> dict[str, Any]:
    bounds = run.bounds["nDCG@10"]
    return {
        "means": dict(run.mean),
        "low": bounds.low,
        "high": bounds.high,
        "queries": {
            query_id: [values["nDCG@10"], run.first_relevant[query_id]]
            for query_id, values in run.by_query.items()
        },
    }


class KeptQueryVectors(EmbedsOnce):
    """An embedder whose queries are embedded once and for all: `save` keeps them for the next run."""

    def __init__(self, embedder: Embedder, name: str) -> None:
        """Args:
        name: of the set; each has a file of its own.
        """
        import numpy as np

        super().__init__(embedder)
        mark = sha256(query_identity_of(embedder).encode()).hexdigest()[:16]
        self._path = cache_folder() / f"{name}-queries-{mark}.npz"
        if self._path.is_file():
            with np.load(self._path) as stored:
                texts = json.loads(str(stored["texts"]))
                self._vector_by_text = dict(zip(texts, stored["vectors"], strict=True))
        self._kept = len(self._vector_by_text)

    def save(self) -> None:
        """Keep what was embedded."""
        import numpy as np

        if len(self._vector_by_text) > self._kept:
            np.savez(
                self._path,
                texts=np.array(json.dumps(list(self._vector_by_text))),
                vectors=np.stack(list(self._vector_by_text.values())),
            )
