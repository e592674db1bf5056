"""The embedder's life around a model of a few kilobytes: load, cut, count, share, close."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sqlindex import Index
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.onnx_session import OnnxEncoder
from sqlindex.embedding.staged import StagedModel
from sqlindex.embedding.staging import stage_model
from sqlindex.errors import (
    BadVectorError,
    EmbedderError,
    ModelFilesError,
    OptionalDependencyError,
)
from sqlindex.ports import (
    CountingEmbedder,
    Embedder,
    PortionedEmbedder,
    QueryEncoding,
    TokenLimited,
    query_identity_of,
)
from tests.unit.embedding.bert_reference import sentence_vector
from tests.unit.embedding.tiny_model import (
    HEADS,
    POSITIONS,
    VOCABULARY,
    WIDTH,
    tiny_model,
    tiny_tensors,
)

TEXTS = ["", " \n\t ", "word1 word2", "abc word7 " * 30, "word299", "\ud800 word1", "日本"]


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> StagedModel:
    folder = tmp_path_factory.mktemp("tiny")
    model = tiny_model(folder / "upstream")
    return stage_model(model, source=folder / "upstream", models_dir=folder / "models")


@pytest.mark.req("A-28")
def test_making_an_embedder_and_asking_its_identity_import_no_runtime(
    staged: StagedModel,
) -> None:
    program = f"""
import sys
from pathlib import Path
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.models import MINILM
from sqlindex.embedding.staged import StagedModel
embedder = LocalEmbedder(StagedModel(MINILM, Path({str(staged.folder)!r}), "", 1))
print(embedder.identity, embedder.dimensions, embedder.token_limit)
print(sorted({{"numpy", "onnxruntime", "tokenizers", "onnx", "urllib3"}} & set(sys.modules)))
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    identity, modules = result.stdout.splitlines()
    assert identity.endswith("384 512")
    assert modules == "[]"


@pytest.mark.req("A-26")
def test_the_identity_names_all_that_shapes_a_vector_and_nothing_else(
    staged: StagedModel,
) -> None:
    embedder = LocalEmbedder(staged, threads=1)
    parts = embedder.identity.split("|")
    assert parts[0] == "nobody/tiny@0123456789abcdef"
    assert parts[1].startswith("onnxruntime 1.")
    assert parts[2:] == [
        "cpu", "fp32", "mean", "l2", f"truncate {POSITIONS}", "no prefix", "graph 1", "adapter 1",
    ]  # fmt: skip
    assert LocalEmbedder(staged, threads=4).identity == embedder.identity


@pytest.mark.req("A-26")
def test_a_document_prefix_is_part_of_the_identity_and_a_query_prefix_of_the_queries_only(
    staged: StagedModel,
) -> None:
    def embedder(document: str, query: str) -> LocalEmbedder:
        model = replace(staged.model, document_prefix=document, query_prefix=query)
        return LocalEmbedder(replace(staged, model=model))

    plain, passages = embedder("", ""), embedder("word1 ", "")
    both = embedder("word1 ", "word2 ")
    assert plain.identity != passages.identity == both.identity
    assert "prefix 'word1 '" in both.identity
    identities = [query_identity_of(one) for one in (plain, passages, both)]
    assert len(set(identities)) == 3
    assert identities[0] == plain.identity
    expected = plain.embed_documents(["word1 word7", "word2 word7"])
    assert both.embed_documents(["word7"])[0].tobytes() == expected[0].tobytes()
    assert both.embed_query("word7").tobytes() == expected[1].tobytes()
    assert both.count_tokens(["word7"]) == plain.count_tokens(["word1 word7"])


@pytest.mark.req("A-26")
def test_another_query_prefix_embeds_no_document_again(staged: StagedModel, tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "one.txt").write_text("word1 word2 word3", encoding="utf-8")

    def refreshed(query_prefix: str) -> int:
        model = replace(staged.model, document_prefix="word1 ", query_prefix=query_prefix)
        embedder = LocalEmbedder(replace(staged, model=model))
        with Index.open(tmp_path / "index.db", create=True, embedder=embedder) as index:
            if not index.status().sources:
                index.add_source(tmp_path / "documents")
            embedded = index.refresh().embedded
            assert index.check() == []
        return embedded

    assert [refreshed("word2 "), refreshed("word3 ")] == [1, 0]


def test_it_is_an_embedder_that_tells_its_limit(staged: StagedModel) -> None:
    embedder = LocalEmbedder(staged)
    assert isinstance(embedder, Embedder)
    assert isinstance(embedder, QueryEncoding)
    assert isinstance(embedder, TokenLimited)
    assert embedder.over_long_policy == "truncate"
    assert embedder.token_limit == POSITIONS


@pytest.mark.req("A-28")
@pytest.mark.parametrize("threads", [1, 3])
def test_vectors_are_the_same_bits_for_any_partition_and_number_of_threads(
    staged: StagedModel, threads: int
) -> None:
    alone = LocalEmbedder(staged, threads=1)
    expected = np.stack([alone.embed_query(text) for text in TEXTS])
    embedder = LocalEmbedder(staged, threads=threads)
    for size in (1, 2, len(TEXTS)):
        batches = [TEXTS[start : start + size] for start in range(0, len(TEXTS), size)]
        vectors = np.concatenate([embedder.embed_documents(batch) for batch in batches])
        assert vectors.tobytes() == expected.tobytes()


@pytest.mark.req("A-27", "A-28")
def test_a_long_text_is_counted_in_full_and_cut_at_the_limit_with_its_closing_token(
    staged: StagedModel,
) -> None:
    embedder = LocalEmbedder(staged)
    words = [f"word{number}" for number in range(POSITIONS)]
    assert embedder.count_tokens([" ".join(words), "word1", ""]) == [POSITIONS + 2, 3, 2]
    ids = [2, *(VOCABULARY.index(word) for word in words[: POSITIONS - 2]), 3]
    expected = sentence_vector(tiny_tensors(), ids, HEADS)
    assert np.abs(embedder.embed_query(" ".join(words)) - expected).max() <= 1e-5


@pytest.mark.req("A-27", "A-28")
def test_counts_come_with_the_vectors_of_one_tokenisation(staged: StagedModel) -> None:
    embedder = LocalEmbedder(staged)
    assert isinstance(embedder, CountingEmbedder)
    texts = [*TEXTS, " ".join(f"word{number}" for number in range(POSITIONS))]
    vectors, tokens = embedder.embed_counted(texts)
    assert vectors.tobytes() == embedder.embed_documents(texts).tobytes()
    assert tokens == embedder.count_tokens(texts)
    assert tokens[-1] > embedder.token_limit


@pytest.mark.req("A-28")
def test_for_one_of_several_processes_it_is_the_same_model_in_one_thread(
    staged: StagedModel,
) -> None:
    embedder = LocalEmbedder(staged, threads=3)
    assert isinstance(embedder, PortionedEmbedder)
    portion = pickle.loads(pickle.dumps(embedder.for_worker()))
    assert portion.identity == embedder.identity
    assert portion._threads == 1
    assert portion.embed_documents(TEXTS).tobytes() == embedder.embed_documents(TEXTS).tobytes()


def test_results_belong_to_the_caller(staged: StagedModel) -> None:
    embedder = LocalEmbedder(staged)
    query, documents = embedder.embed_query("word1"), embedder.embed_documents(["word1"])
    before = query.copy()
    query[:] = 0
    documents[:] = 0
    assert embedder.embed_query("word1").tobytes() == before.tobytes()
    assert documents.flags.c_contiguous
    assert documents.flags.owndata


def test_one_text_in_the_place_of_many_is_refused(staged: StagedModel) -> None:
    embedder = LocalEmbedder(staged)
    with pytest.raises(ValueError, match="sequence"):
        embedder.embed_documents("word1")
    with pytest.raises(ValueError, match="sequence"):
        embedder.count_tokens("word1")
    with pytest.raises(ValueError, match="at least 1"):
        LocalEmbedder(staged, threads=0)


def test_no_texts_give_no_rows(staged: StagedModel) -> None:
    assert LocalEmbedder(staged).embed_documents([]).shape == (0, WIDTH)


def test_many_callers_share_one_embedder(staged: StagedModel) -> None:
    embedder = LocalEmbedder(staged, threads=2)
    expected = LocalEmbedder(staged, threads=1).embed_documents(TEXTS).tobytes()
    with ThreadPoolExecutor(8) as callers:
        results = list(callers.map(lambda _: embedder.embed_documents(TEXTS), range(24)))
    assert {result.tobytes() for result in results} == {expected}


def test_no_more_texts_run_at_once_than_threads_are_allowed(
    staged: StagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = threading.Lock()
    running, most = 0, 0

    def counted(
        encode: Callable[[OnnxEncoder, list[int]], npt.NDArray[np.float32]],
    ) -> Callable[[OnnxEncoder, list[int]], npt.NDArray[np.float32]]:
        def run(encoder: OnnxEncoder, token_ids: list[int]) -> npt.NDArray[np.float32]:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            try:
                return encode(encoder, token_ids)
            finally:
                with lock:
                    running -= 1

        return run

    monkeypatch.setattr(OnnxEncoder, "encode", counted(OnnxEncoder.encode))
    embedder = LocalEmbedder(staged, threads=2)
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda _: embedder.embed_documents(TEXTS * 4), range(8)))
        list(callers.map(embedder.embed_query, TEXTS * 16))
    assert most <= 2


@pytest.mark.req("A-28")
def test_a_failed_load_is_tried_again_by_the_next_text(staged: StagedModel, tmp_path: Path) -> None:
    hidden = staged.encoder_path.rename(tmp_path / "hidden")
    embedder = LocalEmbedder(staged)
    try:
        with pytest.raises(EmbedderError, match="cannot load"):
            embedder.embed_query("word1")
    finally:
        hidden.rename(staged.encoder_path)
    assert embedder.embed_query("word1").shape == (WIDTH,)


def test_a_tokenizer_that_is_none_is_a_damaged_model(staged: StagedModel, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelFilesError, match="tokenizer"):
        LocalEmbedder(replace(staged, folder=tmp_path)).embed_query("word1")


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    staged: StagedModel, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(OptionalDependencyError, match=package) as caught:
        LocalEmbedder(staged).embed_query("word1")
    assert caught.value.hint == "pip install 'sqlindex[minilm]'"


@pytest.mark.req("A-28", "C-17")
@pytest.mark.parametrize("factor", [np.nan, np.inf, 0.0, 1.01])
def test_a_vector_that_is_not_finite_or_not_of_norm_1_is_refused(
    staged: StagedModel, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = OnnxEncoder.encode

    def spoiled(encoder: OnnxEncoder, token_ids: list[int]) -> npt.NDArray[np.float32]:
        vector = encode(encoder, token_ids).copy()
        vector[0] = factor if not np.isfinite(factor) else vector[0]
        return vector if not np.isfinite(factor) else vector * np.float32(factor)

    monkeypatch.setattr(OnnxEncoder, "encode", spoiled)
    embedder = LocalEmbedder(staged)
    with pytest.raises(BadVectorError, match="norm"):
        embedder.embed_query("word1")
    with pytest.raises(BadVectorError, match="norm"):
        embedder.embed_documents(TEXTS)


def test_a_failing_text_fails_the_call_and_leaves_the_embedder_usable(
    staged: StagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = OnnxEncoder.encode

    def failing(encoder: OnnxEncoder, token_ids: list[int]) -> npt.NDArray[np.float32]:
        if len(token_ids) == 3:
            raise EmbedderError("made to fail")
        return encode(encoder, token_ids)

    embedder = LocalEmbedder(staged, threads=2)
    with monkeypatch.context() as patch:
        patch.setattr(OnnxEncoder, "encode", failing)
        with pytest.raises(EmbedderError, match="made to fail"):
            embedder.embed_documents([*TEXTS, "word1", *TEXTS * 5])
    assert embedder.embed_documents(["word1"]).shape == (1, WIDTH)


@pytest.mark.req("A-28")
def test_closing_waits_for_running_calls_and_is_final(
    staged: StagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, release = threading.Event(), threading.Event()
    encode = OnnxEncoder.encode

    def slow(encoder: OnnxEncoder, token_ids: list[int]) -> npt.NDArray[np.float32]:
        entered.set()
        assert release.wait(10)
        return encode(encoder, token_ids)

    monkeypatch.setattr(OnnxEncoder, "encode", slow)
    embedder = LocalEmbedder(staged, threads=1)
    with ThreadPoolExecutor(2) as callers:
        call = callers.submit(embedder.embed_documents, ["word1", "word2"])
        assert entered.wait(10)
        closing = callers.submit(embedder.close)
        with pytest.raises(TimeoutError):
            closing.result(timeout=0.1)
        with pytest.raises(EmbedderError, match="closed"):
            embedder.embed_query("word1")
        release.set()
        assert call.result().shape == (2, WIDTH)
        closing.result(timeout=10)
    for use in (embedder.embed_query, lambda text: embedder.embed_documents([text])):
        with pytest.raises(EmbedderError, match="closed"):
            use("word1")
    embedder.close()


def test_an_embedder_is_refused_in_a_forked_child(
    staged: StagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = LocalEmbedder(staged)
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(EmbedderError, match="another process"):
        embedder.embed_query("word1")
