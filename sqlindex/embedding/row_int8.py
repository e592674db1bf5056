"""Linear layers and word tables in 8-bit integers ("rq8"): a quarter of the memory of float32.

Each row of a layer's input, one token, is scaled by its own largest absolute value, so a token's
product depends on that token only: vectors stay the same bits in any batch, which a scale over
the whole input would lose. Weights have a scale for each output channel, word tables for each
row.

Weights use 7 of the 8 bits. Processors without dot products of 8-bit integers (VNNI) add pairs
of products in 16 bits that saturate: 2 x 255 x 64 fits into them, 2 x 255 x 127 does not, and
vectors would differ from machine to machine without any error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlindex.embedding.graph_writer import RUNTIME_DOMAIN, GraphWriter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WEIGHT_LIMIT = 64
"""Largest absolute value of a quantised weight."""
_INPUT_LIMIT = 127
_INPUT_ZERO = 128
"""Inputs are unsigned: this one stands for 0."""
_TINY_SCALE = 1e-30


class RowInt8:
    """The linear layers of one graph. A value that feeds several layers is quantised once."""

    def __init__(self) -> None:
        self._quantised: dict[str, tuple[str, str]] = {}

    def __call__(
        self,
        graph: GraphWriter,
        value: str,
        name: str,
        matrix: npt.NDArray[np.float32],
        bias: npt.NDArray[np.float32],
    ) -> str:
        """Add `value @ matrix + bias`; the matrix is (in, out), the value (tokens, in)."""
        import numpy as np

        integers, scales = quantised(matrix, axis=0, limit=WEIGHT_LIMIT)
        if value not in self._quantised:
            self._quantised[value] = _quantised_rows(graph, value)
        rows, row_scales = self._quantised[value]
        product = graph.apply(
            "MatMulIntegerToFloat",
            rows,
            graph.weight(f"{name}.weight.int8", integers),
            graph.constant("one", np.array(1, np.float32)),
            graph.weight(f"{name}.weight.scale", scales),
            graph.constant("input_zero", np.array(_INPUT_ZERO, np.uint8)),
            domain=RUNTIME_DOMAIN,
        )
        product = graph.apply("Mul", product, row_scales)
        return graph.apply("Add", product, graph.weight(f"{name}.bias", bias))


def int8_word_rows(
    graph: GraphWriter, token_ids: str, name: str, table: npt.NDArray[np.float32]
) -> str:
    """Rows of a word table that is kept as int8 with a scale for each row."""
    integers, scales = quantised(table, axis=1, limit=_INPUT_LIMIT)
    rows = graph.apply("Gather", graph.weight(f"{name}.int8", integers), token_ids)
    row_scales = graph.apply("Gather", graph.weight(f"{name}.scale", scales[:, None]), token_ids)
    return graph.apply("Mul", graph.as_float(rows), row_scales)


def quantised(
    array: npt.NDArray[np.float32], *, axis: int, limit: int
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """The array in integers of at most `limit`, and one scale for each index of the other axis.

    Args:
        axis: over which the largest absolute value is taken.

    Returns:
        int8 of the array's shape, and float32 of its length along the other axis; their product
        is the array but for half a scale.
    """
    import numpy as np

    scales = np.abs(array).max(axis, keepdims=True).astype(np.float32) / np.float32(limit)
    scales[scales == 0] = 1
    integers = np.rint(array / scales).astype(np.int8)
    return integers, scales.reshape(-1)


def _quantised_rows(graph: GraphWriter, value: str) -> tuple[str, str]:
    """A value as unsigned integers, and the float32 scale of each of its rows."""
    import numpy as np

    largest = graph.apply("ReduceMax", graph.apply("Abs", value), graph.integers(-1), keepdims=1)
    scales = graph.apply("Div", largest, graph.number(_INPUT_LIMIT))
    scales = graph.apply("Max", scales, graph.number(_TINY_SCALE))
    integers = graph.apply(
        "QuantizeLinear",
        graph.apply("Div", value, scales),
        graph.constant("one", np.array(1, np.float32)),
        graph.constant("input_zero", np.array(_INPUT_ZERO, np.uint8)),
    )
    return integers, scales
