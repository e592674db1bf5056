"""Reading checkpoints: what is written comes back, what is broken is refused."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.embedding.safetensors import read_float32_tensors
from sqlindex.errors import ModelFilesError
from tests.unit.embedding.tiny_model import safetensors_bytes


def _with_header(header: object, content: bytes = b"\0" * 8) -> bytes:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + content


@pytest.mark.req("A-28")
def test_tensors_come_back_with_their_names_shapes_and_values(tmp_path: Path) -> None:
    tensors = {
        "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
        "vector": np.array([0.5], np.float32),
        "empty": np.empty((0, 3), np.float32),
    }
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors_bytes(tensors))
    read = read_float32_tensors(path)
    assert read.keys() == tensors.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(read[name], array)
        assert not read[name].flags.writeable


def test_tensors_of_other_types_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(_with_header({"ids": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}))
    assert read_float32_tensors(path) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\1\0",
        (1 << 62).to_bytes(8, "little"),
        (100).to_bytes(8, "little") + b"{}",
        _with_header(b"not json"),
        _with_header([]),
        _with_header({"x": 1}),
        _with_header({"x": {"dtype": "F32", "shape": [2]}}),
        _with_header({"x": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}),
        _with_header({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}),
        _with_header({"x": {"dtype": "F32", "shape": ["2"], "data_offsets": [0, 8]}}),
        _with_header({"x": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}),
        _with_header({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}),
        _with_header({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}),
        _with_header({"x": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}),
        _with_header({"x": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}),
        _with_header({"x": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}}),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelFilesError):
        read_float32_tensors(path)


@given(flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=8))
def test_any_damage_gives_arrays_or_the_one_error(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    content = bytearray(safetensors_bytes({"x": np.ones((4, 2), np.float32)}))
    for position, bits in flips:
        content[position % len(content)] ^= bits
    path = tmp_path_factory.mktemp("damaged") / "model.safetensors"
    path.write_bytes(content)
    with contextlib.suppress(ModelFilesError):
        read_float32_tensors(path)
