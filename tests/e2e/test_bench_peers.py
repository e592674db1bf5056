"""The benchmark of peers: its inputs, its judging, and a small run with one peer."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SQLINDEX_DATA") or ROOT.parent / "shared" / "data")

pytestmark = pytest.mark.skipif(
    not (ROOT / "bench" / "peers").is_dir(), reason="the benchmarks are not in this tree"
)


@pytest.fixture(autouse=True)
def _bench_is_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def run_peers(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", "peers", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def values_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows, done.stderr
    return {row["figure"]: row["value"] for row in rows}


@pytest.mark.packaging
def test_a_quick_run_measures_two_peers_and_passes_our_own_checks() -> None:
    done = run_peers("--quick", "--json")
    assert done.returncode == 0, done.stderr
    values = values_of(done)
    for peer in ("sqlindex", "sqlite_vec"):
        assert values[f"peers.{peer}.vector.recall"] == 1
        assert values[f"peers.{peer}.hybrid.ndcg"] is None
        assert 0 < values[f"peers.{peer}.lexical.p50"] <= values[f"peers.{peer}.lexical.p95"]
        assert values[f"peers.{peer}.replace"] > 0
    assert values["peers.sqlindex.renamed.embedded"] == 0
    assert values["peers.sqlite_vec.renamed.embedded"] is None


@pytest.mark.packaging
def test_a_peer_that_cannot_be_installed_is_a_row_with_the_reason(tmp_path: Path) -> None:
    done = run_peers(
        *("--n", "40", "--quick", "--peer", "tantivy", "--json"),
        XDG_CACHE_HOME=str(tmp_path),
        PIP_NO_INDEX="1",
        PIP_CONFIG_FILE=os.devnull,
        PIP_FIND_LINKS=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    values = values_of(done)
    assert values["peers.tantivy.packages"] is None
    assert values["peers.sqlindex.vector.recall"] == 1
    assert not [name for name in values if name.startswith("peers.tantivy.lexical")]


def test_an_unknown_peer_is_refused() -> None:
    done = run_peers("--peer", "nobody")
    assert done.returncode == 2
    assert "nobody" in done.stderr


@pytest.mark.data
def test_the_judged_texts_hold_every_document_that_a_question_needs() -> None:
    if not (DATA / "german-law").is_dir():
        pytest.skip("SQLINDEX_DATA has no german-law")
    from bench.peers.corpus import COLLECTIONS, judged_texts

    texts, questions = judged_texts(1_000)
    assert len(texts) == 1_000
    assert {question.collection for question in questions[:3]} == set(COLLECTIONS)
    assert len(questions) == 3 * 50
    assert all(max(question.grades.values()) > 0 for question in questions)
    assert all(text == text.strip() for text in texts)


def test_a_mapped_file_gives_the_rows_that_numpy_wrote(tmp_path: Path) -> None:
    import numpy as np

    from bench.peers.processes import write_corpus
    from bench.peers.protocol import Vectors

    matrix = np.arange(21, dtype=np.float32).reshape(7, 3)
    vectors = Vectors(write_corpus(tmp_path / "given", ["text"] * 7, matrix) / "vectors.npy")
    assert (len(vectors), vectors.dimensions) == (7, 3)
    assert [struct.unpack("<3f", row) for row in vectors] == [tuple(row) for row in matrix]
    assert vectors.all() == matrix.tobytes()


def test_cached_vectors_are_embedded_once_and_survive_a_torn_append(tmp_path: Path) -> None:
    import numpy as np

    from bench.peers.vector_cache import cached_vectors
    from sqlindex.testing import HashingEmbedder

    embedder = HashingEmbedder(8)
    first = cached_vectors(["one", "two", "one"], embedder, tmp_path)
    assert embedder.document_inputs == ["one", "two"]
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    again = cached_vectors(["two", "three", "one"], embedder, tmp_path)
    assert embedder.document_inputs == ["one", "two", "two", "three"]
    assert np.array_equal(again[[2, 0]], first[:2])


def test_quality_is_that_of_small_cases_worked_out_by_hand() -> None:
    import numpy as np

    from bench.peers.corpus import Corpus, Question
    from bench.peers.quality import mean_ndcg, vector_recall

    questions = [Question("a", "x", {0: 1, 1: 0}), Question("b", "y", {2: 2})]
    vectors = np.eye(12, dtype=np.float32)
    corpus = Corpus(["text"] * 12, questions, vectors, vectors[:2], "given")
    ndcg = mean_ndcg(corpus, [[1, 0], [2]])
    assert ndcg == {"x": pytest.approx(1 / math.log2(3)), "y": 1}
    # The nearest ten hold one text of cosine 1 and nine of the eleven of cosine 0.
    assert vector_recall(corpus, [[*range(10)], [*range(2, 11)]]) == pytest.approx(19 / 20)


def test_the_table_shows_ratios_reasons_and_what_is_missing() -> None:
    from bench.peers.table import peer_tables

    def row(name: str, value: float | None, **others: Any) -> dict[str, Any]:
        return {"figure": name, "value": value, "n": 7, "baseline": None, "details": {}, **others}

    facts = {"versions": {"sqlindex": "1.0"}, "note": "as it is"}
    table = peer_tables(
        [
            row("peers.sqlindex.packages", 3, details=facts),
            row("peers.sqlindex.lexical.p50", 2.0),
            row("peers.sqlindex.lexical.ndcg", None),
            row("peers.sqlindex.probes.found", 1),
            row("peers.chroma.packages", None, details={"reason": "cannot be installed: x"}),
            row("peers.chroma.lexical.p50", 1.0, baseline=2.0),
        ]
    )
    assert "| lexical p50 ms | 2 | 1 (0.5×) |" in table
    assert "| vector p50 ms | – | – |" in table
    assert "| sqlindex | lexical | – | – |" in table
    assert "| sqlindex | – | – | 1 of 7 |" in table
    assert "| Chroma | – | **cannot be installed: x** |" in table
