"""The Universal Sentence Encoder's graph against a plain forward pass, and its vocabulary's file."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sqlindex.embedding.onnx_session import OnnxEncoder
from sqlindex.embedding.sentencepiece_model import read_sentencepiece
from sqlindex.embedding.unigram_tokenizer import UnigramVocabulary, write_unigram_tokenizer
from sqlindex.embedding.use_graph import write_use_graph
from sqlindex.errors import ModelFilesError

Array = npt.NDArray[np.float64]

WIDTH, BRANCH, ROWS, HIDDEN, OUT = 12, 8, 3, 10, 6
WINDOWS = ((2, 0), (3, 1), (5, 2))


def _tensors() -> dict[str, npt.NDArray[np.generic]]:
    random = np.random.default_rng(5)
    found: dict[str, npt.NDArray[np.generic]] = {
        f"q{part + 1}": random.integers(0, 64, (ROWS, WIDTH)).astype(np.uint8) for part in range(17)
    }
    joined = WIDTH + 3 * BRANCH
    shapes: dict[str, tuple[int, ...]] = {
        "lo": (17,), "scale": (17,), "ln_g": (joined,), "ln_b": (joined,),
        "cnn_W": (joined, WIDTH), "cnn_b": (WIDTH,), "d0": (WIDTH, HIDDEN), "d1": (HIDDEN, HIDDEN),
        "p1": (WIDTH, HIDDEN), "d2": (HIDDEN, OUT), "p3": (HIDDEN, OUT), "d3": (OUT, OUT),
    }  # fmt: skip
    for n, _ in WINDOWS:
        shapes |= {f"proj{n}": (WIDTH, BRANCH)}
        shapes |= dict.fromkeys((f"proj_b{n}", f"ln_g{n}", f"ln_b{n}"), (BRANCH,))
        shapes |= dict.fromkeys((f"w1_{n}", f"w2_{n}"), (n * BRANCH, BRANCH))
        shapes |= dict.fromkeys((f"b1_{n}", f"b2_{n}"), (BRANCH,))
    for name, shape in shapes.items():
        found[name] = random.normal(0, 0.3, shape).astype(np.float32)
    return {**found, "eps": np.array(1e-12)}


def _reference(tensors: dict[str, npt.NDArray[np.generic]], ids: list[int]) -> Array:
    """The forward pass, token by token and window by window, in float64."""
    get = {name: array.astype(np.float64) for name, array in tensors.items()}

    def normed(row: Array, scale: Array, bias: Array) -> Array:
        result: Array = (row - row.mean()) / np.sqrt(row.var() + 1e-12) * scale + bias
        return result

    words = [get[f"q{i % 17 + 1}"][i // 17] * get["scale"][i % 17] + get["lo"][i % 17] for i in ids]
    branch_scale, branch_bias = (
        np.concatenate([get[f"{name}{n}"] for n, _ in WINDOWS]) for name in ("ln_g", "ln_b")
    )
    rows = []
    for word in words:
        parts = [word @ get[f"proj{n}"] + get[f"proj_b{n}"] for n, _ in WINDOWS]
        rows.append(normed(np.concatenate(parts), branch_scale, branch_bias))
    joined = [word.copy() for word in words]
    for number, (n, before) in enumerate(WINDOWS):
        values = [row[number * BRANCH : (number + 1) * BRANCH] for row in rows]
        for layer in (1, 2):
            nothing = np.zeros(BRANCH)
            seen = [
                np.concatenate(
                    [
                        values[at + shift - before]
                        if 0 <= at + shift - before < len(values)
                        else nothing
                        for shift in range(n)
                    ]
                )
                for at in range(len(values))
            ]
            weights, bias = get[f"w{layer}_{n}"], get[f"b{layer}_{n}"]
            values = [
                np.maximum(window @ weights + bias, 0) + value
                for window, value in zip(seen, values, strict=True)
            ]
        joined = [np.concatenate(pair) for pair in zip(joined, values, strict=True)]
    projected = [
        normed(row, get["ln_g"], get["ln_b"]) @ get["cnn_W"] + get["cnn_b"] for row in joined
    ]
    text = np.sum(projected, axis=0) / np.sqrt(len(ids))
    second = np.maximum(text @ get["p1"] + np.maximum(text @ get["d0"], 0) @ get["d1"], 0)
    last = np.tanh(second @ get["p3"] + np.maximum(second @ get["d2"], 0) @ get["d3"])
    unit: Array = last / np.linalg.norm(last)
    return unit


@pytest.mark.parametrize("token_count", [1, 2, 3, 4, 9, 40])
def test_vectors_equal_those_of_a_plain_float64_forward_pass(
    tmp_path: Path, token_count: int
) -> None:
    tensors = _tensors()
    write_use_graph(tensors, encoder_path=tmp_path / "encoder.onnx")
    ids = np.random.default_rng(token_count).integers(0, 17 * ROWS, token_count).tolist()
    vector = OnnxEncoder(tmp_path / "encoder.onnx").encode(ids)
    assert np.abs(vector - _reference(tensors, ids)).max() <= 1e-5


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    tensors = _tensors()
    del tensors["w2_5"]
    with pytest.raises(ModelFilesError, match="w2_5"):
        write_use_graph(tensors, encoder_path=tmp_path / "encoder.onnx")


def _sized(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2, len(content)]) + content


def _sentencepiece() -> bytes:
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("\u2581the", -1.5), ("\u2581", -3.0)]
    content = b""
    for text, score in pieces:
        kind = bytes([3 << 3, 1])  # a plain number among the fields
        content += _sized(1, _sized(1, text.encode()) + b"\x15" + struct.pack("<f", score) + kind)
    return content + _sized(2, b"\x08\x01") + _sized(3, _sized(1, b"name") + _sized(2, b"map"))


def test_pieces_and_the_map_of_characters_are_read(tmp_path: Path) -> None:
    (tmp_path / "sp.model").write_bytes(_sentencepiece())
    pieces, normalizer = read_sentencepiece(tmp_path / "sp.model")
    assert pieces[3:] == [("\u2581the", -1.5), ("\u2581", -3.0)]
    assert normalizer == {"type": "Precompiled", "precompiled_charsmap": "bWFw"}


@pytest.mark.parametrize(
    "content", [b"", b"\x0a", b"\x0a\x7fcut", b"\x0b\x00", b"\xff" * 9, b"\x12\x00"]
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sp.model").write_bytes(content)
    with pytest.raises(ModelFilesError, match=r"sp\.model"):
        read_sentencepiece(tmp_path / "sp.model")


def test_the_tokenizer_takes_the_likeliest_pieces_between_its_special_tokens(
    tmp_path: Path,
) -> None:
    from tokenizers import Tokenizer

    (tmp_path / "sp.model").write_bytes(_sentencepiece())
    pieces, _ = read_sentencepiece(tmp_path / "sp.model")
    vocabulary = UnigramVocabulary(pieces, unknown_id=0, opening_id=1, closing_id=2)
    write_unigram_tokenizer(tmp_path / "tokenizer.json", vocabulary, ())
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert tokenizer.encode("the  the").ids == [1, 3, 3, 2]
    assert tokenizer.encode("xyz").ids == [1, 4, 0, 2]
