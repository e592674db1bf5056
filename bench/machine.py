"""Where and with what a result was measured."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from bench.figures import Figure, rounded

SEED = 20_240
"""Of everything random in the benchmarks."""

ROOT = Path(__file__).resolve().parent.parent
"""The repository; child processes run here, so that `-m sqlindex` and `-m bench` are found."""

RESULTS = ROOT / "bench" / "results"

_DISTRIBUTIONS = (
    "numpy",
    "onnxruntime",
    "tokenizers",
    "markdown-it-py",
    "PyStemmer",
    "RapidFuzz",
    "ir-measures",
)


def save(name: str, n: int | None, figures: Sequence[Figure], load: float) -> Path:
    """Write a result with everything needed to compare it later; its path in the repository.

    Args:
        load: of the machine before the run, see `load_average`.
    """
    result = {
        "benchmark": name,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": {**machine(), "load_before": rounded(load)},
        "versions": versions(),
        "seed": SEED,
        "size": n,
        "figures": [
            {
                **figure.to_json(),
                "repeats": [rounded(value) for value in figure.repeats],
                **(
                    {} if figure.bounds is None else {"bounds": [rounded(b) for b in figure.bounds]}
                ),
                **({"details": figure.details} if figure.details else {}),
            }
            for figure in figures
        ],
    }
    path = RESULTS / (f"{name}.json" if n is None else f"{name}-n{n}.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path.relative_to(ROOT)


def commit() -> str | None:
    """The commit that is checked out, or None outside a repository."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def load_average() -> float:
    """Processes that wanted to run over the last minute: above the cores, times are inflated."""
    return os.getloadavg()[0]


def machine() -> dict[str, object]:
    """Processor and system, without names of machine or user."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "architecture": platform.machine(),
    }


def versions() -> dict[str, str]:
    """Of Python, SQLite and the packages that shape a result."""
    from sqlindex import __version__
    from sqlindex.store.driver import driver_name, sqlite_version

    found = {
        "sqlindex": __version__,
        "python": platform.python_version(),
        "sqlite": f"{sqlite_version} ({driver_name})",
    }
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()
