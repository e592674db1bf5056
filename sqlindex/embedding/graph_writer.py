"""Writes an ONNX graph: nodes and small tensors in one file, the matrices beside it.

The matrices are external data: onnxruntime maps that file instead of reading it, and a process
that embeds one query touches only the rows of the word table that it needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlindex.errors import OptionalDependencyError

if TYPE_CHECKING:
    import numpy.typing as npt

INPUT_NAME = "input_ids"
OUTPUT_NAME = "sentence_embedding"

RUNTIME_DOMAIN = "com.microsoft"
"""Of the operators that onnxruntime adds to the standard."""

_OPSET = 20
"""The first with Gelu; every onnxruntime that the extra allows knows it."""
_IR_VERSION = 9
_TINY_NORM = 1e-12

_ALIGNMENT_BYTES = 1 << 16
"""Covers the page sizes in use and Windows' mapping granularity."""
_EXTERNAL_FROM_BYTES = 1 << 14
"""Smaller tensors stay in the graph's own file."""


def write_graph(
    encoder_path: Path, build: Callable[[GraphWriter], int], *, graph_version: int
) -> Path:
    """Write a graph and, beside it, the file with its matrices.

    Args:
        encoder_path: the graph's file; the matrices go to the same name plus `.data`.
        build: adds all nodes from `INPUT_NAME` (int64, the tokens of one text) to `OUTPUT_NAME`
            and returns the width of the vector.
        graph_version: of the builder, kept in the file.

    Returns:
        Path of the file with the matrices.

    Raises:
        OptionalDependencyError: the `onnx` package is missing.
    """
    try:
        import onnx
    except ImportError as exc:
        raise OptionalDependencyError(
            "building the model needs the package onnx", hint="pip install 'sqlindex[minilm]'"
        ) from exc

    data_path = encoder_path.with_name(encoder_path.name + ".data")
    with data_path.open("xb") as data_file:
        graph = GraphWriter(onnx, data_file, data_path.name)
        output_width = build(graph)
        data_file.flush()
        os.fsync(data_file.fileno())
    with encoder_path.open("xb") as encoder_file:
        encoder_file.write(graph.serialized(output_width, graph_version))
        encoder_file.flush()
        os.fsync(encoder_file.fileno())
    onnx.checker.check_model(str(encoder_path), full_check=True)
    return data_path


def external_locations(encoder_path: Path) -> set[str]:
    """Names of the files that a graph's tensors point to, as the graph spells them."""
    import onnx

    model = onnx.load(str(encoder_path), load_external_data=False)
    return {
        str(entry.value)
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }


class GraphWriter:
    """Nodes and initializers in the making; values are passed around by name."""

    def __init__(self, onnx: Any, data_file: Any, data_name: str) -> None:
        self._onnx = onnx
        self._data_file = data_file
        self._data_name = data_name
        self._nodes: list[Any] = []
        self._initializer_by_name: dict[str, Any] = {}

    def weight(self, name: str, array: npt.NDArray[Any]) -> str:
        """Add an initializer: inside the graph if small, else in the data file.

        Args:
            array: float32, float16, int8 or uint8; written little-endian.
        """
        import numpy as np

        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        if array.nbytes < _EXTERNAL_FROM_BYTES:
            return self.constant(name, array)
        offset = -(-self._data_file.tell() // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        self._data_file.seek(offset)
        self._data_file.write(array.data)
        proto = self._onnx.TensorProto(
            name=name,
            dims=array.shape,
            data_type=self._onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
            data_location=self._onnx.TensorProto.EXTERNAL,
        )
        place = {"location": self._data_name, "offset": offset, "length": array.nbytes}
        for key, value in place.items():
            proto.external_data.add(key=key, value=str(value))
        self._initializer_by_name[name] = proto
        return name

    def constant(self, name: str, array: npt.NDArray[Any]) -> str:
        """Add an initializer inside the graph."""
        self._initializer_by_name[name] = self._onnx.numpy_helper.from_array(array, name)
        return name

    def integers(self, *numbers: int) -> str:
        """A constant list of integers: axes, shapes, starts."""
        import numpy as np

        name = "_".join(("integers", *map(str, numbers)))
        return self.constant(name, np.array(numbers, np.int64))

    def number(self, value: float) -> str:
        """A constant float32."""
        import numpy as np

        return self.constant(f"number_{value!r}", np.array(value, np.float32))

    def as_float(self, value: str) -> str:
        """The value as float32."""
        return self.apply("Cast", value, to=int(self._onnx.TensorProto.FLOAT))

    def apply(
        self, operator: str, *inputs: str, output: str = "", domain: str = "", **attributes: Any
    ) -> str:
        """Add a node and return the name of its only output."""
        output = output or f"{operator}_{len(self._nodes)}"
        node = self._onnx.helper.make_node(
            operator, inputs, [output], name=output, domain=domain, **attributes
        )
        self._nodes.append(node)
        return output

    def unit_vector(self, value: str) -> None:
        """Make a vector of norm 1 the graph's output."""
        import numpy as np

        norm = self.apply("ReduceL2", value, keepdims=1)
        tiny = self.constant("tiny_norm", np.array([_TINY_NORM], np.float32))
        self.apply("Div", value, self.apply("Max", norm, tiny), output=OUTPUT_NAME)

    def serialized(self, output_width: int, graph_version: int) -> bytes:
        """The whole model as bytes."""
        helper, proto = self._onnx.helper, self._onnx.TensorProto
        graph = helper.make_graph(
            self._nodes,
            "sentence_encoder",
            [helper.make_tensor_value_info(INPUT_NAME, proto.INT64, ["tokens"])],
            [helper.make_tensor_value_info(OUTPUT_NAME, proto.FLOAT, [output_width])],
            initializer=list(self._initializer_by_name.values()),
        )
        domains = {"": _OPSET} | ({RUNTIME_DOMAIN: 1} if self._uses_runtime_domain() else {})
        model = helper.make_model(
            graph,
            producer_name="sqlindex",
            producer_version=str(graph_version),
            ir_version=_IR_VERSION,
            opset_imports=[helper.make_opsetid(name, number) for name, number in domains.items()],
        )
        serialized: bytes = model.SerializeToString(deterministic=True)
        return serialized

    def _uses_runtime_domain(self) -> bool:
        return any(node.domain == RUNTIME_DOMAIN for node in self._nodes)
