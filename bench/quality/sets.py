"""The judged sets: those of the evaluation data, and the project's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.data import data_root
from bench.machine import ROOT

OWN = ROOT / "fixtures" / "corpora"


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """A corpus with judged queries.

    Attributes:
        folder: see `sqlindex.evaluation.beir.read_collection`.
        queries: instead of the folder's own.
    """

    name: str
    folder: Path
    queries: Path | None = None

    @property
    def files(self) -> list[Path]:
        """What decides the result, besides the code."""
        own = [path for path in sorted(self.folder.iterdir()) if path.name != "README.md"]
        return own if self.queries is None else [*own, self.queries]


def judged_sets() -> Iterator[JudgedSet]:
    """Every set, and beside it the same set with misspelt queries where there are such.

    Raises:
        UsageError: the evaluation data is not on this machine.
    """
    for folder in (*sorted(data_root().iterdir()), *sorted(OWN.iterdir())):
        if (folder / "qrels.tsv").is_file():
            yield JudgedSet(folder.name, folder)
            typos = folder / "queries-typo.jsonl"
            if typos.is_file():
                yield JudgedSet(f"{folder.name}-typo", folder, typos)
