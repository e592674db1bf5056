"""The page of figures, generated from the saved results: `python -m bench.page`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.machine import RESULTS, ROOT

PAGE = ROOT / "docs" / "reference" / "benchmarks.md"

_HEAD = """\
# Benchmarks

Generated from [`bench/results/`](../../bench/results/) by `python -m bench NAME --save`; how each
figure is measured, and what its name and its limit mean, is in [`bench/README.md`](../../bench/README.md).
The saved files hold every repeat. Times depend on the machine and on what else runs on it (`load`: processes
that wanted to run in the minute before; above the number of cores they slowed each other), so compare
ratios, and run the command yourself.
"""

_ABOUT = {
    "index": """\
German statutes as Markdown (The Unlicense), 40 MB. `baseline` is bare markdown-it-py reading and parsing
the same files.""",
    "folder": """\
Files of three lines, 100 to a folder. `baseline` of `unchanged` is bare `os.walk` with an `lstat` of each file; of `one_path`
a refresh of the whole folder after the same kind of edit. The limits of time are for 20,000 files, that of memory for any number.""",
    "startup": "`baseline` is `python -c pass`. Limits: the ratio, and no heavy package imported.",
    "publish": """\
One changed document of one chunk, with its vector (384 dimensions, hashed words). `large` has ten times the documents of `small`.
`one_changed` is a whole `Index.upsert`, `transaction` its commit point alone, sync included; `log` is what the whole upsert
writes to the log. The baseline of `to_copied_membership` is a table of every generation's documents, copied by each publish;
`unsynced`: neither waits for the disk there, whose sync takes as long whatever is published (a real publish always waits).
`first` is the first publish of documents of four chunks, as many chunks as `large` has documents, swapped in.""",
    "concurrency": """\
Lexical index of documents of four chunks. A reader is a process that alternates a lexical search and reading its first document; the writer
publishes one changed document, waits 20 ms, and so on. `baseline` is one reader alone.""",
    "search": """\
Ten hits, hashed vectors of 384 dimensions, so no inference of the query. `baseline` is the floor: FTS5's
`MATCH` with `bm25()` for ten rowids; `numpy.vecdot` over the matrix in memory. `first` is the first search
of its mode: semantic reads all vectors.""",
    "spans": """\
220 questions on two long Markdown files, with the exact spans that answer each (Chroma technical report 2024, MIT). A question
counts if every one of its spans lies in the first hit, or in the first five. `baseline` is an oracle that knows the spans
and takes the best of the same chunks; `windows` are the same files cut every so many characters, the mean length of the chunks.
`differing` counts questions whose semantic ranking is not that of all cosines, computed a second time.""",
    "scifact": """\
SciFact in the form of BEIR, train split (annotations CC BY 4.0, abstracts ODC-By 1.0), MiniLM
(`sentence-transformers/all-MiniLM-L6-v2`), documents judged at their best chunk, 100 deep: see
[how to evaluate](../how-to/evaluate.md). Development data: no parameter was tuned on it, and none is
claimed to hold elsewhere. `difference` is to a second computation of the mean, and `queries_differing`
counts queries whose nDCG@10 differs by more than 0.001. It shares the collection's reader, the embedder
and the stored vectors; these it reads through the `sqlite3` shell, and matrix product (float64), ranking
and nDCG are its own. Times are those of a search for 100 hits, inference included.""",
}


def write_page() -> None:
    """Write the page anew."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page for the results that are saved."""
    results = [
        (path, json.loads(path.read_text(encoding="utf-8"))) for path in RESULTS.glob("*.json")
    ]
    order = list(_ABOUT)
    results.sort(key=lambda pair: (order.index(pair[1]["benchmark"]), pair[0].name))
    return "\n".join([_HEAD, *(_section(path, result) for path, result in results)])


def _section(path: Path, result: Mapping[str, Any]) -> str:
    name, size, machine = result["benchmark"], result["size"], result["machine"]
    command = f"python -m bench {name}" + ("" if size is None else f" --n {size}")
    versions = ", ".join(f"{package} {version}" for package, version in result["versions"].items())
    lines = [
        f"## {path.stem}",
        "",
        _ABOUT[name],
        "",
        f"`{command}` on {result['date']}, commit {str(result['commit'])[:12]}; {machine['cores']} cores,",
        f"{machine['cpu']}, load {machine['load_before']:.1f}; {versions}.",
        f"All repeats: [{path.name}](../../bench/results/{path.name}).",
        "",
        "| figure | value | range | limit | holds | baseline | n |",
        "|---|---|---|---|---|---|---|",
        *(_row(figure) for figure in result["figures"]),
    ]
    return "\n".join(lines) + "\n"


def _row(figure: Mapping[str, Any]) -> str:
    repeats = figure["repeats"]
    span = f"{min(repeats):.4g} … {max(repeats):.4g}" if len(repeats) > 1 else ""
    limit = "" if figure["limit"] is None else f"{figure['sense']} {figure['limit']:g}"
    holds = {None: "", True: "yes", False: "**no**"}[figure["holds"]]
    baseline = "" if figure["baseline"] is None else f"{figure['baseline']:.4g}"
    value = f"{figure['value']:.4g} {figure['unit']}"
    return f"| {figure['figure']} | {value} | {span} | {limit} | {holds} | {baseline} | {figure['n']:,} |"


if __name__ == "__main__":
    write_page()
