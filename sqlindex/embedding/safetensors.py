"""Reads a safetensors checkpoint without a package for it.

The format is a little-endian 64-bit length, that many bytes of JSON naming each tensor with
dtype, shape and byte range, and the tensors' bytes. The header comes from outside, so every
number in it is checked before an array is made over the bytes.

Source:
    The safetensors format as its project documents it.
"""

from __future__ import annotations

import json
import math
import mmap
from pathlib import Path
from typing import TYPE_CHECKING

from sqlindex.errors import ModelFilesError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 16 << 20
_BYTES_BY_DTYPE = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1,
    "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4,
    "F64": 8, "I64": 8, "U64": 8,
}  # fmt: skip


def read_float32_tensors(path: Path) -> dict[str, npt.NDArray[np.float32]]:
    """Map a checkpoint and return its float32 tensors by name.

    Nothing is copied: the arrays are read-only views of the mapped file, which stays mapped as
    long as one of them lives. Tensors of other types (position ids) are checked and left out.

    Raises:
        ModelFilesError: the file is cut off or its header contradicts itself.
    """
    import numpy as np

    with path.open("rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as exc:  # an empty file cannot be mapped
            raise _damaged(path, "the file is empty") from exc
    header, data_start = _header(path, mapped)
    data_bytes = len(mapped) - data_start
    tensors: dict[str, npt.NDArray[np.float32]] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, shape, start = _checked_entry(path, name, entry, data_bytes)
        if dtype != "F32":
            continue
        flat = np.frombuffer(mapped, "<f4", count=math.prod(shape), offset=data_start + start)
        tensors[name] = flat.reshape(shape)
    return tensors


def _header(path: Path, mapped: mmap.mmap) -> tuple[dict[str, object], int]:
    """The parsed header and where the tensors' bytes start."""
    if len(mapped) < _LENGTH_BYTES:
        raise _damaged(path, "it is shorter than its header length")
    header_bytes = int.from_bytes(mapped[:_LENGTH_BYTES], "little")
    data_start = _LENGTH_BYTES + header_bytes
    if header_bytes > _MAX_HEADER_BYTES or data_start > len(mapped):
        raise _damaged(path, f"its header of {header_bytes} bytes does not fit")
    try:
        header = json.loads(mapped[_LENGTH_BYTES:data_start])
    except (ValueError, RecursionError) as exc:
        raise _damaged(path, "its header is not JSON") from exc
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not an object")
    return header, data_start


def _checked_entry(
    path: Path, name: str, entry: object, data_bytes: int
) -> tuple[str, tuple[int, ...], int]:
    """Dtype, shape and first byte of one tensor, if the header's numbers agree."""
    try:
        assert isinstance(entry, dict)
        dtype, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, start, end]
        item_bytes = _BYTES_BY_DTYPE[dtype]
    except (AssertionError, KeyError, TypeError, ValueError) as exc:
        raise _damaged(path, f"the entry of tensor {name!r} is malformed") from exc
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise _damaged(path, f"tensor {name!r} has a negative or broken size")
    if not start <= end <= data_bytes or end - start != math.prod(shape) * item_bytes:
        raise _damaged(path, f"tensor {name!r} does not fit its shape or the file")
    return dtype, tuple(shape), start


def _damaged(path: Path, why: str) -> ModelFilesError:
    return ModelFilesError(f"checkpoint {path} cannot be read: {why}")
