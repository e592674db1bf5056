"""The peers side by side, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.figures import Figure
from bench.peers.protocol import MODES

Row = Mapping[str, Any]
"""A figure as a saved result has it."""

OURS = "sqlindex"
_LABELS = {"sqlite_vec": "sqlite-vec + FTS5", "chroma": "Chroma", "lancedb": "LanceDB"} | {
    "duckdb": "DuckDB"
}
_NONE = "–"


def terminal(figures: Sequence[Figure]) -> str:
    """The tables of a run that has just ended."""
    return peer_tables(
        [{**figure.to_json(), "details": dict(figure.details)} for figure in figures]
    )


def peer_tables(figures: Sequence[Row]) -> str:
    """Tables of times, of quality and of the checks, then how each peer is set up.

    A cell holds the median and, in brackets, its ratio to sqlindex: below 1, the peer takes less.

    Args:
        figures: of `bench/results/peers.json`; names are `peers.PEER.FIGURE`.
    """
    by_peer: dict[str, dict[str, Row]] = {}
    for figure in figures:
        _, peer, name = figure["figure"].split(".", 2)
        by_peer.setdefault(peer, {})[name] = figure
    parts = [_times(by_peer), _quality(by_peer), _checks(by_peer), _set_up(by_peer)]
    return "\n\n".join(parts)


def _times(by_peer: Mapping[str, Mapping[str, Row]]) -> str:
    costs = [
        ("build s", ("build",)),
        ("size MB", ("size",)),
        *((f"{mode} p50 ms", (f"{mode}.p50",)) for mode in MODES),
        *((f"{mode} p95 ms", (f"{mode}.p95",)) for mode in MODES),
        ("new process → answer s", ("lexical.first", "vector.first")),
        ("text changed → found ms", ("replace",)),
        ("peak MiB building", ("build.peak",)),
        ("peak MiB searching", ("search.peak",)),
    ]
    head = ["", *(_label(peer) for peer in by_peer)]
    rows = [
        [label, *(_first_of(by_peer[peer], names) for peer in by_peer)] for label, names in costs
    ]
    return _table(head, rows)


def _quality(by_peer: Mapping[str, Mapping[str, Row]]) -> str:
    collections = sorted(
        {
            name.split(".ndcg.")[1]
            for figures in by_peer.values()
            for name in figures
            if ".ndcg." in name
        }
    )
    columns = ["ndcg", *(f"ndcg.{collection}" for collection in collections)]
    rows = []
    for peer, figures in by_peer.items():
        for mode in MODES:
            if f"{mode}.ndcg" not in figures:
                continue
            values = [_number(figures[f"{mode}.{column}"]["value"], 3) for column in columns]
            recall = figures.get(f"{mode}.recall", {"value": None})["value"]
            rows.append([_label(peer), mode, *values, _number(recall, 3)])
    head = ["", "mode", "nDCG@10", *collections, "recall@10 of the exact ten"]
    return _table(head, rows)


def _checks(by_peer: Mapping[str, Mapping[str, Row]]) -> str:
    rows = []
    for peer, figures in by_peer.items():
        row = [_label(peer)]
        for name, text in (
            ("killed.complete", "{:g} of {}"),
            ("renamed.embedded", "{:g} of {}"),
            ("probes.found", "{:g} of {}"),
        ):
            figure = figures.get(name)
            if figure is None:
                row.append(_NONE)
            elif figure["value"] is None:
                row.append(f"not applicable: {figure['details']['reason']}")
            else:
                row.append(text.format(figure["value"], figure["n"]))
        rows.append(row)
    return _table(["", "complete after a kill", "embedded after renaming", "German probes"], rows)


def _set_up(by_peer: Mapping[str, Mapping[str, Row]]) -> str:
    rows = []
    for peer, figures in by_peer.items():
        details = figures["packages"]["details"]
        reason = details.get("reason")
        note = f"**{reason}**" if reason else ""
        rows.append([_label(peer), _version(peer, details), note or details["note"]])
    return _table(["", "version", "set up as"], rows)


def _first_of(figures: Mapping[str, Row], names: Sequence[str]) -> str:
    for name in names:
        figure = figures.get(name)
        if figure is not None and figure["value"] is not None:
            value, base = figure["value"], figure["baseline"]
            ratio = f" ({value / base:.2g}×)" if base else ""
            return _number(value, None) + ratio
    return _NONE


def _version(peer: str, details: Mapping[str, Any]) -> str:
    package = {"sqlite_vec": "sqlite-vec", "chroma": "chromadb"}.get(peer, peer)
    version = details.get("versions", {}).get(package, _NONE)
    return str(version)


def _label(peer: str) -> str:
    return _LABELS.get(peer, peer)


def _number(value: float | None, decimals: int | None) -> str:
    if value is None:
        return _NONE
    return f"{value:,.3g}" if decimals is None else f"{value:.{decimals}f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
