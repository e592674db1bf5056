"""What an evaluation is asked to measure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlindex.evaluation.measures import parse_measure
from sqlindex.evaluation.report import LEVELS, Level
from sqlindex.evaluation.runs import DEFAULT_DEPTH


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """What is measured, and with what it is compared.

    Attributes:
        measures: names as `measures.parse_measure` takes them; the usual ones if None.
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
        if self.measures is not None:
            if not self.measures:
                raise ValueError("measures must name at least one")
            names = tuple(dict.fromkeys(map(parse_measure, self.measures)))
            object.__setattr__(self, "measures", names)
