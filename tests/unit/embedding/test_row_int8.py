"""8-bit models: near the float32 ones, the same bits however texts are grouped, exact on any CPU."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sqlindex.embedding.graph_writer import INPUT_NAME, GraphWriter, write_graph
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.models import KNOWN_MODELS, known_model
from sqlindex.embedding.onnx_session import OnnxEncoder
from sqlindex.embedding.row_int8 import WEIGHT_LIMIT, RowInt8, int8_word_rows, quantised
from sqlindex.embedding.staged import StagedModel
from sqlindex.embedding.staging import stage_model
from sqlindex.errors import UnknownModelError
from tests.unit.embedding.bert_reference import sentence_vector
from tests.unit.embedding.tiny_model import HEADS, VOCABULARY, tiny_model, tiny_tensors

TEXTS = ["", "word1 word2", "abc word7 " * 30, "word299", "日本", "word4 " * 9]

_IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import find_staged_model
from dataclasses import replace
from tests.unit.embedding.tiny_model import tiny_model
folder = Path(sys.argv[1])
model = replace(tiny_model(folder / "again"), dtype="rq8")
embedder = LocalEmbedder(find_staged_model(model, folder / "models"), threads=int(sys.argv[2]))
print(embedder.embed_documents(eval(sys.argv[3])).tobytes().hex())
"""


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> StagedModel:
    folder = tmp_path_factory.mktemp("tiny")
    model = replace(tiny_model(folder / "upstream"), dtype="rq8")
    return stage_model(model, source=folder / "upstream", models_dir=folder / "models")


def test_vectors_are_near_those_of_a_float64_forward_pass(staged: StagedModel) -> None:
    encoder = OnnxEncoder(staged.encoder_path)
    random = np.random.default_rng(1)
    for token_count in (1, 2, 7, 24):
        ids = random.integers(0, len(VOCABULARY), token_count).tolist()
        vector = encoder.encode(ids)
        assert vector @ sentence_vector(tiny_tensors(), ids, HEADS) >= 0.995


def test_the_identity_and_the_folder_say_rq8(staged: StagedModel) -> None:
    assert LocalEmbedder(staged).identity.split("|")[3] == "rq8"
    assert staged.folder.name == "tiny-01234567-rq8-g1"


@pytest.mark.req("A-28")
def test_vectors_are_the_same_bits_for_any_partition_threads_and_process(
    staged: StagedModel,
) -> None:
    expected = b"".join(LocalEmbedder(staged, threads=1).embed_query(t).tobytes() for t in TEXTS)
    for threads in (1, 3):
        embedder = LocalEmbedder(staged, threads=threads)
        for size in (1, 2, len(TEXTS)):
            batches = [TEXTS[start : start + size] for start in range(0, len(TEXTS), size)]
            vectors = np.concatenate([embedder.embed_documents(batch) for batch in batches])
            assert vectors.tobytes() == expected
    folder = staged.folder.parent.parent
    command = [sys.executable, "-c", _IN_ANOTHER_PROCESS, str(folder), "2", repr(TEXTS)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == expected.hex()


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_products_do_not_saturate(tmp_path: Path, sign: int) -> None:
    # Without VNNI, pairs of products are added in 16 bits: two of 8-bit weights are too many.
    matrix = np.full((512, 2), sign, np.float32)
    matrix[1::2, 0] = 0
    vector = _layer_output(tmp_path, np.ones((3, 512), np.float32), matrix)
    assert np.allclose(vector, sign * np.array([1, 2]) / np.sqrt(5), atol=1e-6)


def test_a_row_of_zeros_stays_a_row_of_zeros(tmp_path: Path) -> None:
    table = np.zeros((2, 64), np.float32)
    table[1] = 1
    vector = _layer_output(tmp_path, table, np.eye(64, dtype=np.float32))
    assert np.isfinite(vector).all()
    assert np.allclose(vector, vector[0])


def test_quantised_values_are_off_by_half_a_scale_at_most() -> None:
    array = np.random.default_rng(3).normal(0, 1, (50, 8)).astype(np.float32)
    array[:, 2] = 0
    integers, scales = quantised(array, axis=0, limit=WEIGHT_LIMIT)
    assert np.abs(integers.astype(int)).max() == WEIGHT_LIMIT
    assert (np.abs(integers * scales - array) <= scales * 0.5001).all()
    assert not integers[:, 2].any()


def test_a_precision_names_the_variant_of_a_model() -> None:
    assert known_model("minilm", "int8").name == "minilm-int8"
    assert known_model("minilm-int8", "fp32").name == "minilm"
    assert known_model("minilm-int8", "int8") == known_model("minilm-int8")
    assert known_model("minilm").precision == "fp32"
    for model in KNOWN_MODELS.values():
        assert not model.variant_of or KNOWN_MODELS[model.variant_of].files == model.files
    with pytest.raises(UnknownModelError, match="maxilm"):
        known_model("maxilm", "int8")


def _layer_output(
    folder: Path, table: npt.NDArray[np.float32], matrix: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Direction of the sum over the table's rows, each put through one linear layer."""
    folder.mkdir(exist_ok=True)

    def build(graph: GraphWriter) -> int:
        rows = int8_word_rows(graph, INPUT_NAME, "words", table)
        bias = np.zeros(matrix.shape[1], np.float32)
        product = RowInt8()(graph, rows, "layer", matrix, bias)
        graph.unit_vector(graph.apply("ReduceSum", product, graph.integers(0), keepdims=0))
        return int(matrix.shape[1])

    path = folder / f"layer{len(list(folder.iterdir()))}.onnx"
    write_graph(path, build, graph_version=1)
    return OnnxEncoder(path).encode(list(range(len(table))))
