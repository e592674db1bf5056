"""The saved values of each query, a file for each set: a change of ranking is a readable diff.

`bench/golden/quality/SET.tsv` has a line for each answerable query: its id, then for each mode nDCG@10
and the rank of the first relevant document (`-` if it is not among the first 100).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.machine import ROOT
from sqlindex.model.requests import MODES

FOLDER = ROOT / "bench" / "golden" / "quality"
_MISSING = "-"


class Value(NamedTuple):
    """One query in one mode: nDCG@10 with four decimals, and the first relevant rank."""

    ndcg: str
    rank: str


Golden = dict[str, dict[str, Value]]
"""By query id, then by mode."""


class Change(NamedTuple):
    """A query whose value differs from the saved one."""

    query_id: str
    mode: str
    before: Value
    after: Value

    @property
    def difference(self) -> float:
        """Of nDCG@10; negative for a loss."""
        return float(self.after.ndcg) - float(self.before.ndcg)


def path_of(name: str) -> Path:
    """The file of a set."""
    return FOLDER / f"{name}.tsv"


def value_of(ndcg: float | None, rank: int | None) -> Value:
    """A query's value as it is saved."""
    return Value(f"{ndcg or 0.0:.4f}", _MISSING if rank is None else str(rank))


def golden_of(runs: Mapping[str, Any], modes: Sequence[str] = MODES) -> Golden:
    """The values of runs that are named as their modes."""
    found: Golden = {}
    for mode in modes:
        for query_id, (ndcg, rank) in runs[mode]["queries"].items():
            found.setdefault(query_id, {})[mode] = value_of(ndcg, rank)
    return found


def read(name: str) -> Golden | None:
    """The saved values of a set, or None."""
    path = path_of(name)
    if not path.is_file():
        return None
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    modes = head.split("\t")[1::2]
    golden: Golden = {}
    for line in lines:
        query_id, *cells = line.split("\t")
        values = map(Value._make, zip(cells[::2], cells[1::2], strict=True))
        golden[query_id] = dict(zip(modes, values, strict=True))
    return golden


def write(name: str, golden: Golden) -> None:
    """Save the values of a set, ascending by query id."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    modes = list(next(iter(golden.values()), {}))
    lines = ["\t".join(["query", *(cell for mode in modes for cell in (mode, "rank"))])]
    for query_id in sorted(golden):
        cells = (cell for mode in modes for cell in golden[query_id][mode])
        lines.append("\t".join([query_id, *cells]))
    path_of(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def changes(before: Golden, after: Golden) -> Iterator[Change]:
    """Queries of both whose nDCG@10 differs, greatest loss first, equal ones by id and mode."""
    differing = (
        Change(query_id, mode, before[query_id][mode], value)
        for query_id in before.keys() & after.keys()
        for mode, value in after[query_id].items()
        if mode in before[query_id] and before[query_id][mode].ndcg != value.ndcg
    )
    yield from sorted(differing, key=lambda one: (one.difference, one.query_id, one.mode))
