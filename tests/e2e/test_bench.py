"""Benchmarks at a small size: they run, and their rows have the promised shape. No timing here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sqlindex.embedding.staged import default_models_dir

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SQLINDEX_DATA") or ROOT.parent / "shared" / "data")
FIELDS = ["figure", "value", "unit", "limit", "sense", "holds", "baseline", "n"]

pytestmark = [
    pytest.mark.req("A-32"),
    pytest.mark.skipif(
        not (ROOT / "bench" / "__main__.py").is_file(), reason="the benchmarks are not in this tree"
    ),
]


def run_bench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment}
    )


def figures_of(*arguments: str) -> dict[str, dict[str, Any]]:
    """The rows by name, checked for their shape; timings may or may not hold on a busy machine."""
    done = run_bench(*arguments, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows, done.stderr
    for row in rows:
        assert list(row) == FIELDS
        assert isinstance(row["value"], (int, float))
        assert (row["limit"] is None) == (row["sense"] is None) == (row["holds"] is None)
        if row["limit"] is not None:
            is_above = row["sense"] == ">="
            value, limit = row["value"], row["limit"]
            assert row["holds"] == (value >= limit if is_above else value <= limit)
    assert done.returncode == any(row["holds"] is False for row in rows), done.stderr
    assert len({row["figure"] for row in rows}) == len(rows)
    return {row["figure"]: row for row in rows}


def assert_no_violations(figures: dict[str, dict[str, Any]]) -> None:
    counted = {name: row["value"] for name, row in figures.items() if row["limit"] == 0}
    assert counted
    assert set(counted.values()) == {0}


@pytest.mark.data
@pytest.mark.req("A-12")
def test_the_index_benchmark_finds_no_violation_in_twenty_files() -> None:
    if not (DATA / "docs-large").is_dir():
        pytest.skip("SQLINDEX_DATA has no docs-large")
    if shutil.which("sqlite3") is None:
        pytest.skip("the sqlite3 shell is not installed")
    figures = figures_of("index", "--n", "20")
    assert_no_violations(figures)
    assert {row["n"] for row in figures.values()} == {20}
    assert figures["index.chunks"]["value"] > 20
    assert "index.fidelity.uncovered" in figures


def test_the_startup_benchmark_finds_no_heavy_import() -> None:
    figures = figures_of("startup", "--n", "50")
    assert_no_violations(figures)
    assert figures["startup.search_to_bare_python"]["baseline"] > 0


@pytest.mark.req("A-18")
def test_the_publish_benchmark_changes_one_document_each_time() -> None:
    figures = figures_of("publish", "--n", "50")
    assert_no_violations(figures)
    assert figures["publish.one_changed.small"]["n"] == 5


def test_the_search_benchmark_measures_modes_and_floors() -> None:
    figures = figures_of("search", "--n", "50")
    for mode in ("lexical", "semantic", "hybrid"):
        assert figures[f"search.{mode}.p50"]["value"] <= figures[f"search.{mode}.p95"]["value"]
    assert figures["search.lexical.p50"]["baseline"] == figures["search.floor.match"]["value"]


@pytest.mark.req("C-6")
def test_the_reindex_benchmark_kills_one_and_finds_nothing_lost() -> None:
    figures = figures_of("reindex", "--n", "100")
    assert_no_violations(figures)
    assert figures["reindex.embedded_twice"]["holds"]
    assert figures["reindex.peak_of_all"]["value"] > 0
    assert figures["reindex.parse.two_workers_to_one"]["baseline"] > 0


def test_without_data_a_benchmark_says_what_to_set(tmp_path: Path) -> None:
    done = run_bench("index", "--n", "1", SQLINDEX_DATA=str(tmp_path))
    assert done.returncode == 2
    assert "SQLINDEX_DATA" in done.stderr
    assert done.stdout == ""


def test_a_size_below_one_is_refused() -> None:
    assert run_bench("search", "--n", "0").returncode == 2


@pytest.mark.parametrize(
    ("chunks", "broken"),
    [
        ([(0, 5, 1, 1, "# One"), (7, 14, 3, 4, "two\r\nüü")], {}),
        ([(0, 5, 1, 1, "# One"), (7, 14, 3, 4, "two\nüü")], {"text": 1}),
        ([(0, 5, 1, 1, "# One"), (7, 14, 3, 5, "two\r\nüü")], {"lines": 1}),
        ([(0, 5, 1, 1, "# One"), (7, 14, 2, 4, "two\r\nüü")], {"lines": 1}),
        ([(0, 5, 1, 1, "# One"), (7, 13, 3, 4, "two\r\nü")], {"uncovered": 1}),
        ([(7, 14, 3, 4, "two\r\nüü")], {"uncovered": 1}),
        ([], {"uncovered": 3}),
    ],
)
@pytest.mark.req("A-12")
def test_the_fidelity_check_sees_each_kind_of_damage(
    chunks: list[tuple[int, int, int, int, str]],
    broken: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.fidelity import StoredChunk, Violations, check_chunks

    found = Violations()
    check_chunks("# One\n\ntwo\r\nüü\n \n", [StoredChunk(*chunk) for chunk in chunks], found)
    assert found == Violations(chunks=len(chunks), **broken)


def test_the_page_of_figures_and_its_plots_are_those_of_the_saved_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.page import PLOTS, REFERENCE, page_files

    files = page_files()
    for name, text in files.items():
        assert (REFERENCE / name).read_text(encoding="utf-8") == text, "run 'python -m bench.page'"
    stored = {f"{PLOTS}/{path.name}" for path in (REFERENCE / PLOTS).iterdir()}
    assert stored == {name for name in files if name.startswith(PLOTS)}


def test_models_are_a_table_with_a_column_for_each_and_the_best_of_a_line_in_bold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.models_page import models_page, models_table

    figures = [
        {"figure": "models.xquad-de.minilm.nDCG@10", "value": 0.25},
        {"figure": "models.xquad-de.use.nDCG@10", "value": 0.75},
        {"figure": "models.xquad-en.minilm.nDCG@10", "value": 0.5},
    ]
    table = ["| set | minilm | use |", "|---|---|---|", "| xquad-de | 0.250 | **0.750** |"]
    table.append("| xquad-en | **0.500** |  |")
    assert list(models_table(figures)) == table
    result = {
        "figures": figures, "date": "2026-12-01", "commit": "0123456789abcdef",
        "machine": {"cpu": "a processor"},
    }  # fmt: skip
    assert "\n".join(table) in models_page(result)
    assert "Not measured yet" in models_page(None)


@pytest.mark.model
@pytest.mark.req("A-28")
def test_the_embed_benchmark_says_why_a_side_is_missing(tmp_path: Path) -> None:
    environment = {
        "XDG_CACHE_HOME": str(tmp_path),
        "SQLINDEX_MODELS": str(default_models_dir()),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
    }
    done = run_bench("embed", "--n", "2", **environment)
    assert done.returncode in (0, 1), done.stderr
    values = {}
    for line in done.stdout.splitlines():
        name, *rest = line.split()
        values[name] = rest
    for name in ("cold_to_torch", "fp32_to_torch", "fp32_difference_to_torch"):
        assert "cannot be installed" in " ".join(values[f"embed.{name}:"])
    for name in ("fp32_to_floor", "pipeline_to_alone"):
        assert float(values[f"embed.{name}"][0]) > 0
    assert list((tmp_path / "sqlindex" / "bench" / "peers").iterdir()) == []


def test_the_embed_benchmark_needs_the_model(tmp_path: Path) -> None:
    done = run_bench("embed", "--n", "2", SQLINDEX_MODELS=str(tmp_path))
    assert done.returncode == 2
    assert "sqlindex model install minilm" in done.stderr


@pytest.mark.data
@pytest.mark.usefixtures("data")
def test_the_models_benchmark_refuses_what_it_does_not_know() -> None:
    for arguments, told in (
        (("models", "--model", "maxilm"), "maxilm"),
        (("models", "--set", "xquad-xx"), "xquad-zh-de"),
        (("index", "--model", "minilm"), "options of the benchmark models"),
    ):
        done = run_bench(*arguments)
        assert done.returncode == 2
        assert told in done.stderr


def test_plots_show_the_figures_of_a_result_and_leave_out_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.machine import RESULTS
    from bench.plots import plots

    result = json.loads((RESULTS / "search.json").read_text(encoding="utf-8"))
    (plot,) = plots(result)
    figures = {figure["figure"]: figure for figure in result["figures"]}
    figures["search.hybrid.p95"]["value"] = 1234.5
    (changed,) = plots(result)
    assert "1,234 ms" in changed.svg
    assert "1,234 ms" not in plot.svg
    result["figures"] = [figures["search.lexical.p50"]]
    (lexical,) = plots(result)
    assert "lexical" in lexical.svg
    assert "semantic" not in lexical.svg
    assert plots({**result, "figures": []}) == []


def test_a_peer_without_a_value_stands_in_the_plots_without_a_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.plots import plots

    figures: list[dict[str, object]] = [
        {"figure": f"peers.{peer}.hybrid.p50", "value": value, "baseline": None, "repeats": []}
        for peer, value in (("sqlindex", 2.5), ("sqlite_vec", None))
    ]
    (plot,) = plots({"benchmark": "peers", "figures": figures})
    assert plot.name == "latency"
    assert "<title>sqlindex: 2.5 ms</title>" in plot.svg
    assert "<title>sqlite-vec: –</title>" in plot.svg


def test_the_plots_of_quality_show_the_modes_of_each_set_with_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.plots import plots

    figures: list[dict[str, object]] = [
        {
            "figure": f"quality.set-{at}.{run}.nDCG@10",
            "value": 0.5,
            "baseline": None,
            "repeats": [],
            "bounds": [0.25, 0.75],
        }
        for at in range(7)
        for run in ("lexical", "flat/lexical")
    ]
    first, second = plots({"benchmark": "quality", "figures": figures})
    assert first.svg.count("<title>lexical: 0.500, bounds 0.250 to 0.750</title>") == 6
    assert (first.name, second.name) == ("sets-1", "sets-2")
    assert "set-6" in second.svg
    assert "flat" not in first.svg + second.svg
