"""A real `TextEmbedding` of fastembed, on files made here: the adapter fits its present release."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import pytest

from tests.unit.embedding.tiny_model import VOCABULARY, tiny_model

REPOSITORY = Path(__file__).resolve().parents[2]
PINS = ("fastembed==0.9.1", "onnx>=1.17")

pytestmark = pytest.mark.packaging

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
import onnx
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from sqlindex import Document, FastEmbedEmbedder, Index
from sqlindex.errors import UsageError
from sqlindex.ports import Embedder, QueryEncoding, TokenLimited

folder, words = Path(sys.argv[1]), int(sys.argv[2])
table = np.random.default_rng(5).normal(size=(words, 8)).astype(np.float32)
graph = onnx.helper.make_graph(
    [onnx.helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
    "words",
    [onnx.helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, ["b", "t"])],
    [onnx.helper.make_tensor_value_info("last_hidden_state", onnx.TensorProto.FLOAT, ["b", "t", 8])],
    [onnx.numpy_helper.from_array(table, "table")],
)
opset = [onnx.helper.make_opsetid("", 17)]
onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), folder / "model.onnx")
(folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
(folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 12, "pad_token": "[PAD]"}))
(folder / "special_tokens_map.json").write_text("{}")
TextEmbedding.add_custom_model(
    model="nobody/words", pooling=PoolingType.MEAN, normalization=False,
    sources=ModelSource(hf="nobody/words"), dim=8, model_file="model.onnx",
)
model = TextEmbedding("nobody/words", specific_model_path=str(folder))
try:
    FastEmbedEmbedder(model)
except UsageError as error:
    assert "revision=" in error.hint
else:
    raise AssertionError("a model without a revision was taken")

embedder = FastEmbedEmbedder(model, revision="7", query_prompt="word1 ")
assert all(isinstance(embedder, port) for port in (Embedder, QueryEncoding, TokenLimited))
assert embedder.identity.startswith("nobody/words@7|fastembed 0.9|model.onnx|8 wide|"), embedder.identity
assert (embedder.dimensions, embedder.token_limit) == (8, 12)
texts = ["", "word2 word3", "word4 " * 30, "\\ud800 word5"]
assert embedder.count_tokens(texts)[1:3] == [4, 32]
vectors = embedder.embed_documents(texts)
assert vectors.shape == (4, 8) and vectors.dtype == np.float32
assert embedder.embed_documents(texts[::-1])[::-1].tobytes() == vectors.tobytes()
plain = FastEmbedEmbedder(model, revision="7")
assert plain.identity == embedder.identity != embedder.query_identity
(as_document,) = plain.embed_documents(["word1 word2"])
assert embedder.embed_query("word2").tobytes() == as_document.tobytes()
with Index.open(sys.argv[3], create=True, embedder=plain) as index:
    notes = [Document("1", "word2 word3"), Document("2", "word8 word9 " * 20)]
    assert index.upsert("notes", notes).embedded >= 2
    assert index.search("word2 word3", mode="semantic").hits[0].document_id == "1"
"""


@pytest.mark.req("A-26")
def test_a_real_object_of_fastembed_embeds_an_index(tmp_path: Path) -> None:
    environment = tmp_path / "env"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-q", *PINS, str(REPOSITORY)]
    subprocess.run(install, check=True)
    tiny_model(tmp_path / "model")
    arguments = [str(tmp_path / "model"), str(len(VOCABULARY)), str(tmp_path / "i.db")]
    done = subprocess.run(
        [str(python), "-c", PROGRAM, *arguments],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
