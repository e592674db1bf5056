"""The page of figures and its plots, generated from the saved results: `python -m bench.page`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.about import ABOUT, HEAD
from bench.earlier_page import earlier_page
from bench.machine import RESULTS, ROOT
from bench.models_page import models_page
from bench.peers.table import peer_tables
from bench.plots import plots
from bench.quality.table import quality_table

REFERENCE = ROOT / "docs" / "reference"
PAGE = "benchmarks.md"
EARLIER = "earlier-systems.md"
MODELS = "models.md"
_OWN_PAGES = ("earlier", "models")
"""Benchmarks whose results are on a page of their own."""
PLOTS = "plots"


def write_page(folder: Path = REFERENCE) -> None:
    """Write the page and its plots anew; a plot that no result gives any longer is removed."""
    files = page_files()
    (folder / PLOTS).mkdir(parents=True, exist_ok=True)
    for old in (folder / PLOTS).glob("*.svg"):
        if f"{PLOTS}/{old.name}" not in files:
            old.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def page_files() -> dict[str, str]:
    """Text of the pages and of each plot for the results that are saved, by path from their folder."""
    results = [
        (path, json.loads(path.read_text(encoding="utf-8"))) for path in RESULTS.glob("*.json")
    ]
    files: dict[str, str] = {}
    of_own_page = {
        result["benchmark"]: result for _, result in results if result["benchmark"] in _OWN_PAGES
    }
    results = [pair for pair in results if pair[1]["benchmark"] not in _OWN_PAGES]
    if "earlier" in of_own_page:
        files[EARLIER] = earlier_page(of_own_page["earlier"])
    files[MODELS] = models_page(of_own_page.get("models"))
    order = list(ABOUT)
    results.sort(key=lambda pair: (order.index(pair[1]["benchmark"]), pair[0].name))
    sections = [HEAD]
    for path, result in results:
        drawn = {f"{PLOTS}/{path.stem}-{plot.name}.svg": plot for plot in plots(result)}
        images = [f"![{plot.alt}]({name})" for name, plot in drawn.items()]
        sections.append("\n".join(_section(path, result, images)) + "\n")
        files |= {name: plot.svg for name, plot in drawn.items()}
    return {PAGE: "\n".join(sections), **files}


def _section(path: Path, result: Mapping[str, Any], images: list[str]) -> Iterator[str]:
    name, size, machine = result["benchmark"], result["size"], result["machine"]
    command = f"python -m bench {name}" + ("" if size is None else f" --n {size}")
    versions = ", ".join(f"{package} {version}" for package, version in result["versions"].items())
    yield from (f"## {path.stem}", "", ABOUT[name], "")
    yield f"`{command}` on {result['date']}, commit {str(result['commit'])[:12]}; {machine['cores']} cores,"
    yield f"{machine['cpu']}, load {machine['load_before']:.1f}; {versions}."
    yield f"All repeats: [{path.name}](../../bench/results/{path.name})."
    for image in images:
        yield from ("", image)
    yield ""
    yield from _TABLES.get(name, _table)(result)


def _table(result: Mapping[str, Any]) -> Iterator[str]:
    yield "| figure | value | range | limit | holds | baseline | n |"
    yield "|---|---|---|---|---|---|---|"
    yield from map(_row, result["figures"])


def _row(figure: Mapping[str, Any]) -> str:
    repeats = figure["repeats"]
    span = f"{_number(min(repeats))} … {_number(max(repeats))}" if len(repeats) > 1 else ""
    limit = "" if figure["limit"] is None else f"{figure['sense']} {figure['limit']:g}"
    holds = {None: "", True: "yes", False: "**no**"}[figure["holds"]]
    baseline = "" if figure["baseline"] is None else _number(figure["baseline"])
    value = "–" if figure["value"] is None else f"{_number(figure['value'])} {figure['unit']}"
    return f"| {figure['figure']} | {value} | {span} | {limit} | {holds} | {baseline} | {figure['n']:,} |"


def _number(value: float) -> str:
    """Four digits, more where they stand before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _peers(result: Mapping[str, Any]) -> Iterator[str]:
    yield peer_tables(result["figures"])


_TABLES: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "quality": quality_table,
    "peers": _peers,
}


if __name__ == "__main__":
    write_page()
