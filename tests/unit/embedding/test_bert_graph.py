"""The graph computes what BERT computes, and refuses checkpoints that do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sqlindex.embedding.bert_graph import write_bert_graph
from sqlindex.embedding.graph_writer import external_locations
from sqlindex.embedding.onnx_session import OnnxEncoder
from sqlindex.errors import ModelFilesError
from tests.unit.embedding.bert_reference import sentence_vector
from tests.unit.embedding.tiny_model import HEADS, POSITIONS, VOCABULARY, WIDTH, tiny_tensors


@pytest.mark.req("A-28")
@pytest.mark.parametrize("token_count", [1, 2, 7, POSITIONS])
def test_vectors_equal_those_of_a_plain_float64_forward_pass(
    tmp_path: Path, token_count: int
) -> None:
    tensors = tiny_tensors()
    write_bert_graph(tensors, attention_heads=HEADS, encoder_path=tmp_path / "encoder.onnx")
    token_ids = np.random.default_rng(token_count).integers(0, len(VOCABULARY), token_count)
    vector = OnnxEncoder(tmp_path / "encoder.onnx").encode(token_ids.tolist())
    assert vector.shape == (WIDTH,)
    assert vector.dtype == np.float32
    expected = sentence_vector(tensors, token_ids.tolist(), HEADS)
    assert np.abs(vector - expected).max() <= 1e-5


def test_the_same_checkpoint_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_bert_graph(
            tiny_tensors(), attention_heads=HEADS, encoder_path=tmp_path / name / "encoder.onnx"
        )
    for file in ("encoder.onnx", "encoder.onnx.data"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_matrices_are_in_the_file_beside_the_graph(tmp_path: Path) -> None:
    data_path = write_bert_graph(
        tiny_tensors(), attention_heads=HEADS, encoder_path=tmp_path / "encoder.onnx"
    )
    assert data_path == tmp_path / "encoder.onnx.data"
    assert data_path.stat().st_size == len(VOCABULARY) * WIDTH * 4
    assert external_locations(tmp_path / "encoder.onnx") == {"encoder.onnx.data"}


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    tensors = tiny_tensors()
    del tensors["encoder.layer.1.output.dense.bias"]
    with pytest.raises(ModelFilesError, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        write_bert_graph(tensors, attention_heads=HEADS, encoder_path=tmp_path / "encoder.onnx")


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    tensors = tiny_tensors()
    tensors["encoder.layer.0.attention.self.key.weight"] = np.zeros((2, 2), np.float32)
    with pytest.raises(ModelFilesError, match=r"key\.weight"):
        write_bert_graph(tensors, attention_heads=HEADS, encoder_path=tmp_path / "encoder.onnx")


def test_heads_that_do_not_divide_the_width_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFilesError, match="3 attention heads"):
        write_bert_graph(tiny_tensors(), attention_heads=3, encoder_path=tmp_path / "encoder.onnx")
