"""Run one benchmark, print its figures, save its results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from bench.figures import Figure, render
from bench.machine import SEED, load_average, save
from bench.page import write_page
from sqlindex.errors import SqlindexError

Run = Callable[..., Iterable[Figure]]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: its module has `run(n)`, which yields figures.

    It may have a `render` of its own, and `on_save(n)` for what is saved besides the figures.

    With `has_peers`, `run` takes `quick` and `only` (names of peers), too; with `has_models`, `models` and
    `sets` (names).
    """

    module: str
    n_means: str
    summary: str
    has_peers: bool = False
    has_models: bool = False


BENCHMARKS = {
    "index": Benchmark(
        "bench.bench_index", "files", "first, unchanged and one-file refresh; chunk fidelity"
    ),
    "folder": Benchmark(
        "bench.bench_folder", "files", "many small files: memory, unchanged refresh, one path"
    ),
    "startup": Benchmark(
        "bench.bench_startup", "chunks", "command-line search against bare Python"
    ),
    "publish": Benchmark(
        "bench.bench_publish", "documents", "publish, first publish, collection, rollback"
    ),
    "reindex": Benchmark(
        "bench.bench_reindex", "chunks", "bulk reindex: a kill, memory, workers, searches beside it"
    ),
    "concurrency": Benchmark(
        "bench.bench_concurrency", "chunks", "eight readers and a writer, against one reader"
    ),
    "search": Benchmark(
        "bench.bench_search", "chunks", "latency of the three modes and their floors"
    ),
    "spans": Benchmark(
        "bench.bench_spans", "questions", "answer spans in hits, against windows and an oracle"
    ),
    "scifact": Benchmark(
        "bench.bench_scifact", "queries", "retrieval quality, checked by an independent computation"
    ),
    "quality": Benchmark(
        "bench.bench_quality", "queries", "every judged set in every mode, beside saved values"
    ),
    "models": Benchmark(
        "bench.bench_models",
        "queries",
        "each installed model on sets in several languages",
        has_models=True,
    ),
    "embed": Benchmark(
        "bench.bench_embed",
        "texts",
        "MiniLM beside sentence-transformers and the processor's limit",
    ),
    "earlier": Benchmark(
        "bench.bench_earlier", "chunks", "what earlier systems published, measured here"
    ),
    "peers": Benchmark(
        "bench.bench_peers", "texts", "sqlindex beside seven other engines", has_peers=True
    ),
}


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark named by the arguments.

    Returns:
        0, 1 if a figure does not hold, 2 if it cannot run as asked.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    benchmark = BENCHMARKS[options.name]
    module = import_module(benchmark.module)
    run: Run = module.run
    if benchmark.has_peers:
        run = partial(run, quick=options.quick, only=options.peer)
    elif options.quick or options.peer:
        parser.error("--quick and --peer are options of the benchmark peers")
    if benchmark.has_models:
        run = partial(run, models=options.model, sets=options.set)
    elif options.model or options.set:
        parser.error("--model and --set are options of the benchmark models")
    figures = []
    load = load_average()
    try:
        for figure in run(options.n):
            figures.append(figure)
            if options.json:
                print(json.dumps(figure.to_json()), flush=True)
    except SqlindexError as exc:
        print(f"error: {exc}", file=sys.stderr)
        if exc.hint:
            print(f"hint: {exc.hint}", file=sys.stderr)
        return 2
    if not options.json:
        print(getattr(module, "render", render)(figures))
    if options.save:
        if on_save := getattr(module, "on_save", None):
            on_save(options.n)
        print(f"saved {save(options.name, options.n, figures, load)}", file=sys.stderr)
        write_page()
    return 1 if any(figure.holds is False for figure in figures) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure sqlindex. Exit 1 if a figure does not hold.",
        epilog="\n".join(
            f"{name:<9}{benchmark.summary}; --n: {benchmark.n_means}"
            for name, benchmark in BENCHMARKS.items()
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--n", type=_positive, help="size; what it counts is said below")
    parser.add_argument("--quick", action="store_true", help="peers: small, and two of them")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="PEER", help="peers: only these (repeatable)"
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="MODEL",
        help="models: only these (repeatable)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SET",
        help="models: only these sets (repeatable)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument(
        "--save",
        action="store_true",
        help=f"write bench/results/NAME[-nN].json and the page of figures (seed {SEED})",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
