"""The saved result of `quality` as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def quality_table(result: Mapping[str, Any]) -> Iterator[str]:
    """A line for each set and mode, in Markdown."""
    rows: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for figure in result["figures"]:
        _, name, mode, column = figure["figure"].split(".")
        rows.setdefault((name, mode), {})[column] = figure
    yield "| set | mode | queries | nDCG@10 | 95 % | R@100 | MRR |"
    yield "|---|---|---|---|---|---|---|"
    shown = ""
    for (name, mode), found in rows.items():
        low, high = found["nDCG@10"]["bounds"]
        cells = (
            "" if name == shown else name,
            mode,
            f"{found['nDCG@10']['n']:,}",
            f"{found['nDCG@10']['value']:.4f}",
            f"{low:.3f} … {high:.3f}",
            f"{found['R@100']['value']:.4f}",
            f"{found['MRR']['value']:.4f}",
        )
        yield f"| {' | '.join(cells)} |"
        shown = name
