"""A search from the command line against bare Python: what a process costs before it answers."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.child import run_child
from bench.data import Texts
from bench.figures import Figure, at_most
from bench.machine import ROOT
from sqlindex.errors import UsageError

DEFAULT_CHUNKS = 20_000
ROUNDS = 15
RATIO_LIMIT = 8.0
HEAVY = ("numpy", "sqlite_utils", "rich", "onnxruntime")
"""Packages that a lexical search must not import."""

_BARE = ("-c", "pass")
_MODULES = """
import json, sys
from sqlindex.cli.main import run
code = run(json.loads(sys.argv[1]))
sys.stderr.write("\\n" + json.dumps([code, sorted({m.partition(".")[0] for m in sys.modules})]))
"""


def run(n: int | None) -> Iterator[Figure]:
    """Measure on an index of `n` chunks (20,000 by default), processes in turn."""
    chunks = n or DEFAULT_CHUNKS
    with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as folder:
        index_path = Path(folder) / "index.db"
        run_child("build", index_path, str(chunks))
        search = ("search", Texts().query(), "--db", str(index_path), "--mode", "lexical")
        compiled = _environment(Path(folder) / "bytecode")
        bare_ms: list[float] = []
        search_ms: list[float] = []
        uncompiled_ms: list[float] = []
        for turn in range(ROUNDS + 1):
            command = (*_entry(), *search)
            samples = (
                _run_ms(_BARE, compiled),
                _run_ms(command, compiled),
                _run_ms(command, _environment(None)),
            )
            if turn > 0:  # the first round compiles the modules and warms the disk's cache
                bare_ms.append(samples[0])
                search_ms.append(samples[1])
                uncompiled_ms.append(samples[2])
        imported = _imported(search)
    bare = statistics.median(bare_ms)
    yield Figure(
        figure="startup.search",
        value=statistics.median(search_ms),
        unit="ms",
        n=chunks,
        baseline=bare,
        repeats=tuple(search_ms),
    )
    yield Figure(
        figure="startup.search_to_bare_python",
        value=statistics.median(search_ms) / bare,
        unit="ratio",
        n=chunks,
        limit=RATIO_LIMIT,
        sense="<=",
        baseline=bare,
        repeats=tuple(ours / theirs for ours, theirs in zip(search_ms, bare_ms, strict=True)),
    )
    yield Figure(
        figure="startup.search_uncompiled_to_bare_python",
        value=statistics.median(uncompiled_ms) / bare,
        unit="ratio",
        n=chunks,
        baseline=bare,
    )
    heavy = sum(name in imported for name in HEAVY)
    yield at_most("startup.heavy_imports", heavy, "packages", chunks, 0)


def _entry() -> tuple[str, ...]:
    """The installed command, as people run it; without an installation, the module."""
    script = Path(sys.executable).parent / "sqlindex"
    return (str(script),) if script.is_file() else ("-m", "sqlindex")


def _environment(bytecode: Path | None) -> dict[str, str]:
    """With compiled modules, as every installation has them, in a folder of the benchmark's own; or
    without, as where `PYTHONDONTWRITEBYTECODE` is set and a checkout is run."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    }
    if bytecode is None:
        return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(bytecode)}


def _run_ms(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run Python to its end; a search that found nothing or failed is no measurement."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, env=environment
    )
    elapsed_ms = (time.perf_counter() - started) * 1000
    if done.returncode or (arguments is not _BARE and not done.stdout.strip()):
        raise UsageError(f"the search failed: {done.stderr.strip()[-500:]}")
    return elapsed_ms


def _imported(search: Sequence[str]) -> set[str]:
    """Top-level names of the modules that a search has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", _MODULES, json.dumps(search)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    try:
        code, modules = json.loads(done.stderr.rsplit("\n", 1)[-1])
    except ValueError as exc:
        raise UsageError(f"the search failed: {done.stderr.strip()[-500:]}") from exc
    if code:
        raise UsageError(f"the search ended with {code}")
    return set(modules)
