"""Embedders over objects of other libraries: what is asked of the object, and what it has to say."""

from __future__ import annotations

import pickle
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqlindex import Document, FastEmbedEmbedder, Index, SentenceTransformersEmbedder
from sqlindex.errors import BadVectorError, EmbedderError, UsageError
from sqlindex.ports import Embedder, QueryEncoding, TokenLimited, query_identity_of
from tests.unit.embedding.loaded_objects import (
    COMMIT,
    LIMIT,
    WIDTH,
    FastLike,
    TorchLike,
    vector_of,
)

pytestmark = pytest.mark.req("A-26")


def unit(vector: Any) -> Any:
    wide = vector.astype(np.float32)
    return wide / np.linalg.norm(wide)


def release_of(package: str) -> str:
    """The package with its release, if it is installed here."""
    try:
        return f"{package} {'.'.join(metadata.version(package).split('.')[:2])}"
    except metadata.PackageNotFoundError:
        return package


def test_the_identity_says_all_that_the_object_does() -> None:
    torch = SentenceTransformersEmbedder(TorchLike())
    assert torch.identity == (
        f"nobody/words@{COMMIT}|{release_of('sentence-transformers')}|torch|cuda|float16|Transformer|Pooling mean max"
        f"|8 wide|l2|truncate 16|prompt 'tell: '|adapter 1"
    )
    fast = FastEmbedEmbedder(FastLike())
    assert fast.identity == (
        f"nobody/words@{COMMIT}|{release_of('fastembed')}|words.onnx|8 wide|l2|truncate 16|no prompt|adapter 1"
    )


def test_the_prompt_of_queries_is_part_of_their_identity_alone() -> None:
    for made, model in (
        (SentenceTransformersEmbedder, TorchLike()),
        (FastEmbedEmbedder, FastLike()),
    ):
        one = made(model, document_prompt="d: ", query_prompt="d: ")
        other = made(model, document_prompt="d: ", query_prompt="q: ")
        assert one.query_identity == one.identity == other.identity
        assert query_identity_of(other) == f"{other.identity}|query prompt 'q: '"
        assert made(model, document_prompt="e: ").identity != one.identity


@pytest.mark.parametrize(
    ("default", "prompts", "document", "query"),
    [
        (None, {"query": "q: ", "document": "d: ", "passage": "p: "}, "d: ", "q: "),
        ("all", {"query": "q: ", "all": "a: "}, "a: ", "q: "),
        ("all", {"query": "", "document": "", "all": "a: "}, "", ""),
        (None, {"other": "o: "}, "", ""),
    ],
)
def test_prompts_are_the_models_own_as_the_package_would_choose_them(
    default: str | None, prompts: dict[str, str], document: str, query: str
) -> None:
    model = TorchLike()
    model.prompts, model.default_prompt_name = prompts, default
    embedder = SentenceTransformersEmbedder(model)
    (vector,) = embedder.embed_documents(["one two"])
    assert vector == pytest.approx(unit(vector_of(f"{document}one two")))
    # This model treats queries otherwise by its method, too.
    asked = unit(vector_of(f"{query}asked one two"))
    assert embedder.embed_query("one two") == pytest.approx(asked)


def test_a_model_of_before_the_two_methods_is_asked_by_its_one() -> None:
    class Older(TorchLike):
        encode_query: Any = None
        encode_document: Any = None

    embedder = SentenceTransformersEmbedder(Older())
    assert embedder.embed_query("one") == pytest.approx(unit(vector_of("ask: one")))


def test_fastembed_gets_prompts_in_the_text() -> None:
    embedder = FastEmbedEmbedder(FastLike(), document_prompt="d: ", query_prompt="q: ")
    (vector,) = embedder.embed_documents(["one"])
    assert vector == pytest.approx(unit(vector_of("d: one")))
    assert embedder.embed_query("one") == pytest.approx(unit(vector_of("q: one")))


def test_texts_run_one_by_one_unless_asked_otherwise() -> None:
    for made, model in (
        (SentenceTransformersEmbedder, TorchLike()),
        (FastEmbedEmbedder, FastLike()),
    ):
        made(model).embed_documents(["a", "b", "c"])
        assert set(model.batches) == {1}
        made(model, batch_size=16).embed_documents(["a", "b", "c"])
        assert model.batches[-1] == 16
        with pytest.raises(ValueError, match="batch_size"):
            made(model, batch_size=0)


@pytest.mark.parametrize(
    ("name", "commit", "told"),
    [
        ("", None, "which model"),
        ("/models/mine", None, "which model"),
        (".", None, "which model"),
        ("nobody/words", None, "which revision"),
        (f"/c/models--nobody--words/snapshots/{COMMIT}/0_Transformer", None, ""),
    ],
)
def test_a_sentence_transformer_that_says_too_little_is_refused(
    name: str, commit: str | None, told: str
) -> None:
    model = TorchLike(name, commit)
    if not told:
        found = SentenceTransformersEmbedder(model).identity
        assert found.startswith(f"nobody/words@{COMMIT}|")
        return
    with pytest.raises(UsageError, match=told) as caught:
        SentenceTransformersEmbedder(model)
    assert "identity='…'" in caught.value.hint
    assert SentenceTransformersEmbedder(model, identity="mine 3").identity.startswith("mine 3|")


def test_a_revision_is_enough_for_a_name_on_the_hub_and_a_folder_is_not_named() -> None:
    known = SentenceTransformersEmbedder(TorchLike(commit=None), revision="r1")
    assert known.identity.startswith("nobody/words@r1|")
    with pytest.raises(UsageError, match="which revision"):
        FastEmbedEmbedder(FastLike("/models/mine"))
    found = FastEmbedEmbedder(FastLike("/models/mine"), revision="r1").identity
    assert found.startswith("nobody/words@r1|")
    assert "mine" not in found


def test_limits_are_told_where_the_object_tells_them() -> None:
    texts = ["one", "word " * 20]
    for embedder, prompt in (
        (SentenceTransformersEmbedder(TorchLike()), 1),
        (FastEmbedEmbedder(FastLike()), 0),
    ):
        assert isinstance(embedder, Embedder)
        assert isinstance(embedder, QueryEncoding)
        assert isinstance(embedder, TokenLimited)
        assert (embedder.token_limit, embedder.over_long_policy) == (LIMIT, "truncate")
        assert embedder.count_tokens(texts) == [3 + prompt, 22 + prompt]
        assert embedder.count_tokens([]) == []
        with pytest.raises(ValueError, match="not one text"):
            embedder.count_tokens("one")


@pytest.mark.parametrize("limit", [None, float("inf")])
def test_without_a_limit_it_is_no_token_limited(limit: float | None) -> None:
    torch, fast = TorchLike(), FastLike()
    torch.max_seq_length = limit
    fast.model.tokenizer = None
    for embedder in (SentenceTransformersEmbedder(torch), FastEmbedEmbedder(fast)):
        found: object = embedder
        assert not isinstance(found, TokenLimited)
        assert "no limit told" in embedder.identity
        assert embedder.embed_documents(["one"]).shape == (1, WIDTH)


def test_a_width_that_is_not_told_is_that_of_a_text() -> None:
    class Silent(TorchLike):
        def get_embedding_dimension(self) -> int | None:
            return None

    assert SentenceTransformersEmbedder(Silent()).dimensions == WIDTH


@pytest.mark.parametrize(
    ("made", "error", "told"),
    [
        ([np.zeros(WIDTH)], BadVectorError, "norm 0"),
        ([np.full(WIDTH, np.nan)], BadVectorError, "norm nan"),
        ([np.full(WIDTH, np.inf)], BadVectorError, "norm inf"),
        ([np.ones(WIDTH + 1)], BadVectorError, "width of 8"),
        ([np.ones(WIDTH)] * 2, BadVectorError, "2 vectors"),
        ([], BadVectorError, "0 vectors"),
        (OSError("broken"), EmbedderError, "nobody/words failed: broken"),
    ],
)
def test_what_is_no_vector_is_told(made: Any, error: type[Exception], told: str) -> None:
    class Broken(FastLike):
        def passage_embed(self, texts: Any, *, batch_size: int) -> Any:
            if isinstance(made, Exception):
                raise made
            return iter(made)

    embedder = FastEmbedEmbedder(Broken())
    with pytest.raises(error, match=told):
        embedder.embed_documents(["one"])


def test_one_call_at_a_time_reaches_the_model() -> None:
    inside: list[int] = []

    class Slow(FastLike):
        running = 0

        def query_embed(self, query: Any) -> Any:
            self.running += 1
            inside.append(self.running)
            time.sleep(0.01)
            self.running -= 1
            return super().query_embed(query)

    embedder = FastEmbedEmbedder(Slow())
    threads = [threading.Thread(target=embedder.embed_query, args=("one",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == [1] * 8


def test_pickled_it_is_its_model_and_options() -> None:
    embedder = SentenceTransformersEmbedder(
        TorchLike(commit=None), revision="r", query_prompt="q: "
    )
    copy = pickle.loads(pickle.dumps(embedder))
    assert (copy.identity, copy.query_identity) == (embedder.identity, embedder.query_identity)
    assert copy.embed_query("one").tobytes() == embedder.embed_query("one").tobytes()


def test_an_index_is_searched_with_it_and_counts_what_is_cut(tmp_path: Path) -> None:
    embedder = SentenceTransformersEmbedder(TorchLike())
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        notes = [Document("1", "the pump runs hot"), Document("2", "goats climb mountains")]
        assert index.upsert("notes", notes).embedded == 2
        hits = index.search("goats mountains", mode="semantic").hits
        assert hits[0].document_id == "2"
        assert index.check() == []
