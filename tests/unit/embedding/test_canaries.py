"""Known vectors: each of weights, tokenizer, pooling and prefix, swapped under a forged manifest."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from sqlindex.embedding.canaries import (
    CANARY_TEXTS,
    Canaries,
    canaries_of,
    check_canaries,
    packed_canaries,
)
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.models import KNOWN_MODELS, Dtype, KnownModel
from sqlindex.embedding.staged import MANIFEST, StagedModel, verify_files, write_manifest
from sqlindex.embedding.staging import stage_model
from sqlindex.embedding.verification import verify_model
from sqlindex.errors import ModelFilesError
from tests.unit.embedding.tiny_model import WIDTH, tiny_model

DTYPES: tuple[Dtype, ...] = ("fp32", "rq8")


@pytest.fixture(params=DTYPES)
def staged(request: pytest.FixtureRequest, tmp_path: Path) -> StagedModel:
    model = replace(
        tiny_model(tmp_path / "upstream"),
        dtype=request.param,
        document_prefix="word1 ",
        query_prefix="word2 ",
    )
    return stage_model(model, source=tmp_path / "upstream", models_dir=tmp_path / "models")


@pytest.fixture
def canaries(staged: StagedModel) -> Canaries:
    return packed_canaries(LocalEmbedder(staged))


def test_an_intact_model_gives_its_known_vectors(staged: StagedModel, canaries: Canaries) -> None:
    verify_model(staged, canaries=canaries)


def _other_weights(staged: StagedModel) -> None:
    model = onnx.load(str(staged.encoder_path), load_external_data=False)
    for tensor in model.graph.initializer:
        if "layer.1.output.dense.weight" in tensor.name:
            swapped = onnx.numpy_helper.to_array(tensor)[::-1].copy()
            tensor.CopyFrom(onnx.numpy_helper.from_array(swapped, tensor.name))
    staged.encoder_path.write_bytes(model.SerializeToString())


def _other_tokenizer(staged: StagedModel) -> None:
    content = json.loads(staged.tokenizer_path.read_text(encoding="utf-8"))
    words = content["model"]["vocab"]
    words["e"], words["##e"] = words["##e"], words["e"]
    staged.tokenizer_path.write_text(json.dumps(content), encoding="utf-8")


def _other_pooling(staged: StagedModel) -> None:
    model = onnx.load(str(staged.encoder_path), load_external_data=False)
    (mean,) = (node for node in model.graph.node if node.op_type == "ReduceMean")
    mean.op_type = "ReduceMax"
    staged.encoder_path.write_bytes(model.SerializeToString())


@pytest.mark.req("A-28")
@pytest.mark.parametrize("swap", [_other_weights, _other_tokenizer, _other_pooling])
def test_a_swap_under_a_forged_manifest_is_noticed(
    staged: StagedModel, canaries: Canaries, swap: Callable[[StagedModel], None]
) -> None:
    swap(staged)
    (staged.folder / MANIFEST).unlink()
    write_manifest(staged.model, staged.folder, "forged")
    verify_files(staged)
    with pytest.raises(ModelFilesError, match="known vectors"):
        verify_model(staged, canaries=canaries)


@pytest.mark.req("A-28")
@pytest.mark.parametrize("kind", ["document", "query"])
def test_another_prefix_is_noticed_where_it_counts(
    staged: StagedModel, canaries: Canaries, kind: str
) -> None:
    prefix = {f"{kind}_prefix": "word3 "}
    changed = replace(staged, model=replace(staged.model, **prefix))  # type: ignore[arg-type]  # named by the parameter
    with pytest.raises(ModelFilesError, match="documents" if kind == "document" else "queries"):
        check_canaries(changed.model, LocalEmbedder(changed), canaries)


def test_known_vectors_of_another_shape_are_refused(staged: StagedModel) -> None:
    few = {"documents": "AAA=", "queries": "AAA="}
    with pytest.raises(ModelFilesError, match="shape"):
        verify_model(staged, canaries=few)


def test_a_model_outside_the_table_is_only_hashed(staged: StagedModel) -> None:
    assert canaries_of(staged.model) is None
    verify_model(staged)


@pytest.mark.parametrize("model", KNOWN_MODELS.values(), ids=lambda model: model.name)
def test_every_known_model_has_known_vectors_of_norm_1(model: KnownModel) -> None:
    canaries = canaries_of(model)
    assert canaries is not None
    for kind in ("documents", "queries"):
        vectors = np.frombuffer(base64.b64decode(canaries[kind]), "<i2").astype(float) / 32_767
        vectors = vectors.reshape(len(CANARY_TEXTS), model.dimensions)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)


def test_the_tiny_model_tells_texts_apart(staged: StagedModel) -> None:
    vectors = LocalEmbedder(staged).embed_documents(CANARY_TEXTS)
    assert vectors.shape == (len(CANARY_TEXTS), WIDTH)
    assert len({vector.tobytes() for vector in vectors}) == len(CANARY_TEXTS)
