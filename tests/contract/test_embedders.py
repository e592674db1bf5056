"""What every embedder must do, whatever makes its vectors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sqlindex.embedding.loaded_models import FastEmbedEmbedder, SentenceTransformersEmbedder
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.models import KNOWN_MODELS
from sqlindex.embedding.service import ServiceEmbedder
from sqlindex.embedding.service_config import ServiceConfig
from sqlindex.embedding.staged import find_staged
from sqlindex.ports import Embedder
from sqlindex.testing import HashingEmbedder
from tests.unit.embedding.fault_server import MODEL, running_service
from tests.unit.embedding.loaded_objects import FastLike, TorchLike

TEXTS = [
    "",
    " \n ",
    "One short text.",
    "Ein längerer Text mit Umlauten, 日本語 and an emoji 😀.",
    "word " * 900,
    "def f(x):\n\treturn x\x00",
]


@pytest.fixture(
    scope="module",
    params=[
        "hashing",
        "sentence-transformers",
        "fastembed",
        pytest.param("service", marks=pytest.mark.req("C-13")),
        *(pytest.param(name, marks=pytest.mark.model) for name in KNOWN_MODELS),
    ],
)
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    if request.param == "hashing":
        yield HashingEmbedder()
        return
    if request.param == "service":
        with running_service(revision="") as service:  # plain replies are enough
            yield ServiceEmbedder(ServiceConfig(service.url, MODEL))
        return
    if request.param == "sentence-transformers":
        yield SentenceTransformersEmbedder(TorchLike())
        return
    if request.param == "fastembed":
        yield FastEmbedEmbedder(FastLike())
        return
    staged = find_staged(request.param)
    if staged is None:
        pytest.skip(f"it is not installed: sqlindex model install {request.param}")
    yield LocalEmbedder(staged)


@pytest.mark.req("A-26")
def test_it_has_what_the_protocol_asks_for(embedder: Embedder) -> None:
    assert isinstance(embedder, Embedder)
    assert embedder.identity
    assert embedder.identity == embedder.identity
    assert embedder.dimensions > 0


@pytest.mark.req("A-26")
def test_documents_give_one_finite_float32_row_each(embedder: Embedder) -> None:
    vectors = embedder.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dimensions)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    assert np.isfinite(vectors).all()
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() <= 1e-3


@pytest.mark.req("A-26")
def test_a_query_gives_one_finite_float32_vector(embedder: Embedder) -> None:
    for text in TEXTS:
        vector = embedder.embed_query(text)
        assert vector.shape == (embedder.dimensions,)
        assert vector.dtype == np.float32
        assert np.isfinite(vector).all()
        assert vector.any()


@pytest.mark.req("A-26")
def test_a_row_does_not_depend_on_the_other_texts_or_their_order(embedder: Embedder) -> None:
    vectors = embedder.embed_documents(TEXTS)
    assert embedder.embed_documents(TEXTS[::-1])[::-1].tobytes() == vectors.tobytes()
    for row, text in enumerate(TEXTS):
        assert embedder.embed_documents([text]).tobytes() == vectors[row].tobytes()


@pytest.mark.req("A-26")
def test_results_are_the_callers_to_change(embedder: Embedder) -> None:
    before = embedder.embed_documents(TEXTS[:3])
    kept = before.copy()
    before[:] = 7
    embedder.embed_query(TEXTS[2])[:] = 7
    assert embedder.embed_documents(TEXTS[:3]).tobytes() == kept.tobytes()


def test_no_texts_give_an_array_without_rows(embedder: Embedder) -> None:
    assert embedder.embed_documents([]).shape == (0, embedder.dimensions)


def test_a_text_is_closest_to_itself_and_closer_to_a_like_one_than_to_another(
    embedder: Embedder,
) -> None:
    same, alike, other = embedder.embed_documents(
        [
            "the cache keeps recent search results",
            "recent search results are kept in the cache",
            "goats climb steep mountains",
        ]
    )
    query = embedder.embed_query("the cache keeps recent search results")
    assert query @ same > query @ alike > query @ other


class TestHashingEmbedder:
    def test_it_counts_calls_and_keeps_inputs(self) -> None:
        embedder = HashingEmbedder()
        embedder.embed_documents(["a", "b"])
        embedder.embed_documents(["c"])
        embedder.embed_query("d")
        assert embedder.document_calls == 2
        assert embedder.document_inputs == ["a", "b", "c"]
        assert embedder.query_inputs == ["d"]

    def test_the_identity_changes_with_width_and_revision(self) -> None:
        identities = {
            HashingEmbedder(dimensions, revision).identity
            for dimensions in (8, 64)
            for revision in ("1", "2")
        }
        assert len(identities) == 4

    def test_vectors_stay_the_same_over_releases(self) -> None:
        (vector,) = HashingEmbedder(8).embed_documents(["one two two"])
        assert vector.nonzero()[0].tolist() == [4, 5]

    def test_a_width_below_one_is_refused(self) -> None:
        with pytest.raises(ValueError, match="dimensions"):
            HashingEmbedder(0)
