"""Evaluations from the folder to the measures, held against numpy and against a second run."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqlindex.errors import EmbedderRequiredError, UsageError
from sqlindex.evaluation.beir import read_collection
from sqlindex.evaluation.evaluate import default_index_path, evaluate
from sqlindex.evaluation.measures import MEASURES
from sqlindex.evaluation.render import render_table
from sqlindex.index import Index
from sqlindex.indexing.report import Progress
from sqlindex.model.requests import MODES
from sqlindex.ports import Embedder
from sqlindex.sources.memory import Document
from sqlindex.store.connection import IndexFile
from sqlindex.store.head import read_head
from sqlindex.store.snapshot import chunk_columns, read_chunk
from sqlindex.store.vectors import read_vectors
from sqlindex.store.verified import VerifiedRows
from sqlindex.testing.embedders import HashingEmbedder

pytestmark = pytest.mark.req("A-32")

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "fixtures" / "eval" / "tiny"
DATA = Path(os.environ.get("SQLINDEX_DATA") or ROOT.parent / "shared" / "data")


def numpy_ndcg(
    index_path: Path, embedder: Embedder, queries: dict[str, str], qrels: Any
) -> dict[str, float]:
    """nDCG@10 by query: stored vectors, one float64 product, own ranking, own measure."""
    file = IndexFile.open(index_path, make=False, busy_timeout_ms=1_000)
    with file.reading() as connection:
        head = read_head(connection)
        assert head.space_id is not None
        row_by_text: dict[int, Any] = {}
        for ids, _, vectors in read_vectors(connection, head.space_id, embedder.dimensions):
            row_by_text.update(zip(ids, vectors, strict=True))
        columns = chunk_columns(connection, head.generation)
        verified = VerifiedRows()
        names = []
        for slot, _ in columns:
            chunk = read_chunk(connection, head.generation, slot, verified)
            assert chunk is not None
            names.append(chunk.document_id)
    file.close()
    matrix = np.array([row_by_text[text_id] for _, text_id in columns], np.float64)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    values = {}
    for query_id, text in queries.items():
        cosines = matrix @ embedder.embed_query(text).astype(np.float64)
        best = dict.fromkeys(names, -math.inf)
        for name, cosine in zip(names, cosines, strict=True):
            best[name] = max(best[name], round(float(cosine), 9))
        ranked = sorted(best, key=lambda name: (-best[name], name))[:10]
        grades = qrels[query_id]
        gained = sum(grades.get(name, 0) / math.log2(at + 2) for at, name in enumerate(ranked))
        ideal = sorted(grades.values(), reverse=True)[:10]
        values[query_id] = gained / sum(g / math.log2(at + 2) for at, g in enumerate(ideal))
    return values


def assert_agrees_with_numpy(folder: Path, index_path: Path, embedder: Embedder) -> None:
    report = evaluate(folder, ["semantic"], embedder=embedder, index_path=index_path)
    collection = read_collection(folder)
    queries = {query_id: collection.queries[query_id] for query_id in collection.answerable}
    again = numpy_ndcg(index_path, embedder, queries, collection.qrels)
    (semantic,) = report.modes
    assert semantic.mean["nDCG@10"] == pytest.approx(sum(again.values()) / len(again), abs=0.001)
    ours = {query_id: values["nDCG@10"] for query_id, values in semantic.by_query.items()}
    assert ours == pytest.approx(again, abs=0.001)


def test_semantic_ndcg_equals_an_independent_computation(tmp_path: Path) -> None:
    assert_agrees_with_numpy(TINY, tmp_path / "i.db", HashingEmbedder(256))


@pytest.mark.data
def test_semantic_ndcg_equals_an_independent_computation_on_real_questions(tmp_path: Path) -> None:
    if not (DATA / "xquad-en").is_dir():
        pytest.skip("SQLINDEX_DATA has no xquad-en")
    assert_agrees_with_numpy(DATA / "xquad-en", tmp_path / "i.db", HashingEmbedder(256))


@pytest.mark.model
def test_semantic_ndcg_of_minilm_equals_an_independent_computation(tmp_path: Path) -> None:
    from sqlindex.embedding.minilm import MiniLMEmbedder
    from sqlindex.embedding.staged import find_staged

    staged = find_staged("minilm")
    if staged is None:
        pytest.skip("the model minilm is not installed")
    embedder = MiniLMEmbedder(staged)
    try:
        assert_agrees_with_numpy(TINY, tmp_path / "i.db", embedder)
    finally:
        embedder.close()


def test_a_second_evaluation_embeds_nothing_and_says_the_same(tmp_path: Path) -> None:
    first = evaluate(TINY, embedder=HashingEmbedder(), index_path=tmp_path / "i.db")
    embedder = HashingEmbedder()
    second = evaluate(TINY, embedder=embedder, index_path=tmp_path / "i.db")
    assert embedder.document_inputs == []
    assert (first.embedded, second.embedded) == (first.chunks, 0)
    assert second.reused == second.chunks
    for before, after in zip(first.modes, second.modes, strict=True):
        assert before.by_query == after.by_query


def test_a_lexical_evaluation_in_between_loses_no_vector(tmp_path: Path) -> None:
    evaluate(TINY, embedder=HashingEmbedder(), index_path=tmp_path / "i.db")
    lexical = evaluate(TINY, ["lexical"], index_path=tmp_path / "i.db")
    assert lexical.embedder is None
    embedder = HashingEmbedder()
    assert evaluate(TINY, embedder=embedder, index_path=tmp_path / "i.db").embedded == 0
    assert embedder.document_inputs == []


def test_a_changed_corpus_embeds_only_what_changed(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    evaluate(folder, embedder=HashingEmbedder(), index_path=tmp_path / "i.db")
    corpus = (folder / "corpus.jsonl").read_text()
    (folder / "corpus.jsonl").write_text(corpus.replace("opens by hand", "opens easily"))
    embedder = HashingEmbedder()
    report = evaluate(folder, embedder=embedder, index_path=tmp_path / "i.db")
    assert report.embedded == 1
    (text,) = embedder.document_inputs
    assert text.startswith("Bowline\n\n")
    assert text.endswith("opens easily.")


def test_only_answerable_queries_are_run_in_the_order_of_the_file(tmp_path: Path) -> None:
    report = evaluate(TINY, ["lexical"], index_path=tmp_path / "i.db", limit_queries=3)
    assert list(report.modes[0].by_query) == ["q1", "q2", "q3"]
    assert (report.queries, report.answerable) == (3, 7)
    assert report.modes[0].mean["MRR"] == 1.0


def test_a_report_is_json_and_a_table(tmp_path: Path) -> None:
    report = evaluate(TINY, embedder=HashingEmbedder(), index_path=tmp_path / "i.db")
    decoded = json.loads(json.dumps(report.to_json()))
    assert [result["mode"] for result in decoded["modes"]] == list(MODES)
    assert all(list(result["mean"]) == list(MEASURES) for result in decoded["modes"])
    assert decoded["collection"] == "tiny"
    assert decoded["corpus_sha256"] == read_collection(TINY).corpus_sha256
    lines = render_table(report).split("\n")
    assert lines[0] == f"tiny: 12 documents, {report.chunks} chunks, 7 queries"
    assert [line.split()[0] for line in lines[-3:]] == list(MODES)
    assert len({len(line) for line in lines[-4:]}) == 1


def test_progress_names_the_phases_in_turn(tmp_path: Path) -> None:
    seen: list[Progress] = []
    evaluate(TINY, embedder=HashingEmbedder(), index_path=tmp_path / "i.db", progress=seen.append)
    phases = dict.fromkeys(progress.phase for progress in seen)
    assert list(phases) == ["read", "embed", "publish", "search"]
    assert (seen[-1].done, seen[-1].total) == (21, 21)


def test_a_vector_mode_without_an_embedder_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(EmbedderRequiredError):
        evaluate(TINY, ["lexical", "hybrid"], index_path=tmp_path / "i.db")
    assert list(tmp_path.iterdir()) == []


def test_an_index_of_something_else_is_left_alone(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True) as index:
        index.upsert("notes", [Document("a", "a note")])
    with pytest.raises(UsageError, match="has the sources notes"):
        evaluate(TINY, ["lexical"], index_path=tmp_path / "i.db")
    with Index.open(tmp_path / "i.db") as index:
        assert [source.name for source in index.status().sources] == ["notes"]


@pytest.mark.parametrize("modes", [[], ["lexical", "lexical"], ["dense"]])
def test_modes_are_different_known_ones(tmp_path: Path, modes: Any) -> None:
    with pytest.raises(ValueError, match="modes must be"):
        evaluate(TINY, modes, index_path=tmp_path / "i.db")


def test_indexes_are_kept_in_the_users_cache_by_name_and_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    path = default_index_path(read_collection(TINY))
    assert tmp_path in path.parents
    assert path.name == f"tiny-{read_collection(TINY).corpus_sha256[:8]}.db"
    assert path.parent.is_dir()


def test_the_command_prints_measures(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sqlindex", "eval", str(TINY), "--mode", "lexical"]
    command += ["--db", str(tmp_path / "i.db")]
    table = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert table.splitlines()[0].startswith("tiny: 12 documents")
    printed = subprocess.run(
        [*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (lexical,) = json.loads(printed.stdout)["modes"]
    assert set(lexical["mean"]) == set(MEASURES)
