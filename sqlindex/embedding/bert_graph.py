"""Builds the ONNX graph of a BERT sentence encoder from its checkpoint.

The graph takes the token ids of one text and gives that text's unit vector. There is no batch
and no padding, so there is no mask either: the mean over tokens is a plain mean, and a vector
cannot depend on the texts beside it. Pooling and norm are in the graph, so that one runtime,
the one named in the embedder's identity, does all the arithmetic.

Only plain operators are used; the fused ones of onnxruntime are slower on CPUs. The matrices
are external data: onnxruntime maps that file instead of reading it, and a process that embeds
one query touches only the rows of the word table that it needs.

Source:
    Devlin et al., NAACL 2019; Wang et al. (MiniLM), NeurIPS 2020; Reimers & Gurevych
    (sentence encoders), EMNLP 2019.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlindex.errors import ModelFilesError, OptionalDependencyError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Tensors = Mapping[str, npt.NDArray[np.float32]]

GRAPH_VERSION = 1
"""1: first. float32, one text a run, mean pooling and L2 norm inside."""

INPUT_NAME = "input_ids"
OUTPUT_NAME = "sentence_embedding"

_OPSET = 20
"""The first with Gelu; every onnxruntime that the extra allows knows it."""
_IR_VERSION = 9
_LAYER_NORM_EPSILON = 1e-12
_TINY_NORM = 1e-12

_ALIGNMENT_BYTES = 1 << 16
"""Covers the page sizes in use and Windows' mapping granularity."""
_EXTERNAL_FROM_BYTES = 1 << 14
"""Smaller tensors stay in the graph's own file."""


def write_graph(tensors: Tensors, *, attention_heads: int, encoder_path: Path) -> Path:
    """Write the encoder's graph and, beside it, the file with its matrices.

    Args:
        tensors: the checkpoint's float32 tensors by their name in the checkpoint.
        attention_heads: heads of each layer; the checkpoint does not say.
        encoder_path: the graph's file; the matrices go to the same name plus `.data`.

    Returns:
        Path of the file with the matrices.

    Raises:
        ModelFilesError: the checkpoint lacks a tensor or has one of another shape.
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
        graph = _Graph(onnx, tensors, data_file, data_path.name)
        output = _encoder(graph, attention_heads)
        data_file.flush()
        os.fsync(data_file.fileno())
    with encoder_path.open("xb") as encoder_file:
        encoder_file.write(graph.serialized(output))
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


class _Graph:
    """Nodes and initializers in the making; values are passed around by name."""

    def __init__(self, onnx: Any, tensors: Tensors, data_file: Any, data_name: str) -> None:
        self._onnx = onnx
        self._tensors = tensors
        self._data_file = data_file
        self._data_name = data_name
        self._nodes: list[Any] = []
        self._initializer_by_name: dict[str, Any] = {}

    @property
    def layer_count(self) -> int:
        """Number of encoder layers in the checkpoint."""
        layers = {name.split(".")[2] for name in self._tensors if name.startswith("encoder.layer.")}
        return len(layers)

    def tensor(self, name: str, shape: Sequence[int] | None = None) -> npt.NDArray[np.float32]:
        """A tensor of the checkpoint, of the given shape if one is given."""
        found = self._tensors.get(name)
        if found is None:
            raise ModelFilesError(f"the checkpoint has no tensor {name!r}")
        if shape is not None and found.shape != tuple(shape):
            raise ModelFilesError(
                f"tensor {name!r} of the checkpoint has shape {found.shape}, not {tuple(shape)}"
            )
        return found

    def weight(self, name: str, array: npt.NDArray[np.float32]) -> str:
        """Add an initializer: inside the graph if small, else in the data file."""
        import numpy as np

        array = np.ascontiguousarray(array, "<f4")
        if array.nbytes < _EXTERNAL_FROM_BYTES:
            return self.constant(name, array)
        offset = -(-self._data_file.tell() // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        self._data_file.seek(offset)
        self._data_file.write(array.data)
        proto = self._onnx.TensorProto(
            name=name,
            dims=array.shape,
            data_type=self._onnx.TensorProto.FLOAT,
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

    def apply(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its only output."""
        output = output or f"{operator}_{len(self._nodes)}"
        node = self._onnx.helper.make_node(operator, inputs, [output], name=output, **attributes)
        self._nodes.append(node)
        return output

    def dense(self, value: str, prefix: str, width_in: int, width_out: int) -> str:
        """A linear layer; checkpoints store its matrix as (out, in), MatMul wants (in, out)."""
        matrix = self.tensor(f"{prefix}.weight", (width_out, width_in))
        bias = self.tensor(f"{prefix}.bias", (width_out,))
        product = self.apply("MatMul", value, self.weight(f"{prefix}.weight", matrix.T))
        return self.apply("Add", product, self.weight(f"{prefix}.bias", bias))

    def layer_norm(self, value: str, prefix: str, width: int) -> str:
        """Layer normalisation over the last axis."""
        scale, bias = (
            self.weight(f"{prefix}.{part}", self.tensor(f"{prefix}.{part}", (width,)))
            for part in ("weight", "bias")
        )
        return self.apply(
            "LayerNormalization", value, scale, bias, axis=-1, epsilon=_LAYER_NORM_EPSILON
        )

    def serialized(self, output_width: int) -> bytes:
        """The whole model as bytes."""
        helper, proto = self._onnx.helper, self._onnx.TensorProto
        graph = helper.make_graph(
            self._nodes,
            "sentence_encoder",
            [helper.make_tensor_value_info(INPUT_NAME, proto.INT64, ["tokens"])],
            [helper.make_tensor_value_info(OUTPUT_NAME, proto.FLOAT, [output_width])],
            initializer=list(self._initializer_by_name.values()),
        )
        model = helper.make_model(
            graph,
            producer_name="sqlindex",
            producer_version=str(GRAPH_VERSION),
            ir_version=_IR_VERSION,
            opset_imports=[helper.make_opsetid("", _OPSET)],
        )
        serialized: bytes = model.SerializeToString(deterministic=True)
        return serialized


def _encoder(graph: _Graph, attention_heads: int) -> int:
    """Add all nodes and return the width of the vector."""
    width = int(graph.tensor("embeddings.word_embeddings.weight").shape[1])
    if width % attention_heads or not graph.layer_count:
        raise ModelFilesError(
            f"a checkpoint of width {width} and {graph.layer_count} layers "
            f"cannot have {attention_heads} attention heads"
        )
    _shared_constants(graph, width, attention_heads)
    hidden = _embeddings(graph, width)
    for layer in range(graph.layer_count):
        hidden = _layer(graph, hidden, f"encoder.layer.{layer}", width)
    mean = graph.apply("ReduceMean", hidden, "first_axis", keepdims=0)
    norm = graph.apply("ReduceL2", mean, keepdims=1)
    graph.apply("Div", mean, graph.apply("Max", norm, "tiny_norm"), output=OUTPUT_NAME)
    return width


def _shared_constants(graph: _Graph, width: int, attention_heads: int) -> None:
    import numpy as np

    head_width = width // attention_heads
    graph.constant("first_axis", np.array([0], np.int64))
    graph.constant("first_position", np.array([0], np.int64))
    graph.constant("split_heads", np.array([0, attention_heads, head_width], np.int64))
    graph.constant("join_heads", np.array([0, width], np.int64))
    graph.constant("attention_scale", np.array(head_width**-0.5, np.float32))
    graph.constant("tiny_norm", np.array([_TINY_NORM], np.float32))


def _embeddings(graph: _Graph, width: int) -> str:
    """Word row plus position row, normalised.

    A single text has token type 0 everywhere, so that row is added to the position table here.
    """
    words = graph.tensor("embeddings.word_embeddings.weight")
    positions = graph.tensor("embeddings.position_embeddings.weight")
    token_types = graph.tensor("embeddings.token_type_embeddings.weight")
    if positions.shape[1:] != (width,) or token_types.shape[1:] != (width,):
        raise ModelFilesError("the checkpoint's embedding tables differ in width")
    word = graph.apply(
        "Gather", graph.weight("embeddings.word_embeddings.weight", words), INPUT_NAME
    )
    table = graph.weight("embeddings.position_and_type_0", positions + token_types[0])
    token_count = graph.apply("Shape", INPUT_NAME)
    position = graph.apply("Slice", table, "first_position", token_count, "first_axis")
    return graph.layer_norm(graph.apply("Add", word, position), "embeddings.LayerNorm", width)


def _layer(graph: _Graph, hidden: str, prefix: str, width: int) -> str:
    """Self-attention and feed-forward, each with residual and norm after it."""
    attended = _attention(graph, hidden, f"{prefix}.attention.self", width)
    attended = graph.dense(attended, f"{prefix}.attention.output.dense", width, width)
    hidden = graph.layer_norm(
        graph.apply("Add", attended, hidden), f"{prefix}.attention.output.LayerNorm", width
    )
    inner_width = graph.tensor(f"{prefix}.intermediate.dense.weight").shape[0]
    inner = graph.dense(hidden, f"{prefix}.intermediate.dense", width, inner_width)
    inner = graph.apply("Gelu", inner, approximate="none")
    outer = graph.dense(inner, f"{prefix}.output.dense", inner_width, width)
    return graph.layer_norm(graph.apply("Add", outer, hidden), f"{prefix}.output.LayerNorm", width)


def _attention(graph: _Graph, hidden: str, prefix: str, width: int) -> str:
    """softmax(q k / sqrt(head width)) v over all heads, joined again to (tokens, width)."""

    def heads(part: str, axes: list[int]) -> str:
        projected = graph.dense(hidden, f"{prefix}.{part}", width, width)
        return graph.apply("Transpose", graph.apply("Reshape", projected, "split_heads"), perm=axes)

    query, key = heads("query", [1, 0, 2]), heads("key", [1, 2, 0])
    scores = graph.apply("Mul", graph.apply("MatMul", query, key), "attention_scale")
    weights = graph.apply("Softmax", scores, axis=-1)
    mixed = graph.apply("MatMul", weights, heads("value", [1, 0, 2]))
    return graph.apply("Reshape", graph.apply("Transpose", mixed, perm=[1, 0, 2]), "join_heads")
