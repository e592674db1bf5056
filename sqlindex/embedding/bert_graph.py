"""Builds the ONNX graph of a BERT sentence encoder from its checkpoint.

The graph takes the token ids of one text and gives that text's unit vector. There is no batch
and no padding, so there is no mask either: the mean over tokens is a plain mean, and a vector
cannot depend on the texts beside it. Pooling and norm are in the graph, so that one runtime,
the one named in the embedder's identity, does all the arithmetic.

Only plain operators are used in float32; the fused ones of onnxruntime are slower on CPUs.

Source:
    Devlin et al., NAACL 2019; Wang et al. (MiniLM), NeurIPS 2020; Reimers & Gurevych
    (sentence encoders), EMNLP 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlindex.embedding.graph_writer import INPUT_NAME, GraphWriter, write_graph
from sqlindex.embedding.row_int8 import RowInt8, int8_word_rows
from sqlindex.errors import ModelFilesError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float32]

GRAPH_VERSION = 1
"""1: first. One text a run, mean pooling and L2 norm inside; float32 or rq8."""

WORDS = "embeddings.word_embeddings.weight"
_LAYER_NORM_EPSILON = 1e-12

WordRows = Callable[["GraphWriter", str], str]
"""Adds the lookup of the token ids' rows in the word table: (tokens, width) float32."""


def write_bert_graph(
    tensors: Mapping[str, Array],
    *,
    attention_heads: int,
    encoder_path: Path,
    is_int8: bool = False,
    word_rows: WordRows | None = None,
) -> Path:
    """Write the encoder's graph and, beside it, the file with its matrices.

    Args:
        tensors: the checkpoint's float32 tensors by their name in the checkpoint.
        attention_heads: heads of each layer; the checkpoint does not say.
        encoder_path: the graph's file; the matrices go to the same name plus `.data`.
        is_int8: whether linear layers and the word table become 8-bit integers.
        word_rows: for a word table that is none of the tensors.

    Returns:
        Path of the file with the matrices.

    Raises:
        ModelFilesError: the checkpoint lacks a tensor or has one of another shape.
        OptionalDependencyError: the `onnx` package is missing.
    """
    checkpoint = _Checkpoint(tensors)

    def build(graph: GraphWriter) -> int:
        encoder = _Encoder(graph, checkpoint, RowInt8() if is_int8 else float_dense)
        return encoder.add(attention_heads, word_rows or _own_words(checkpoint, is_int8))

    return write_graph(encoder_path, build, graph_version=GRAPH_VERSION)


def float_dense(graph: GraphWriter, value: str, name: str, matrix: Array, bias: Array) -> str:
    """Add `value @ matrix + bias` in float32; the matrix is (in, out)."""
    product = graph.apply("MatMul", value, graph.weight(f"{name}.weight", matrix))
    return graph.apply("Add", product, graph.weight(f"{name}.bias", bias))


class _Checkpoint:
    """The tensors, each asked for with the shape that it must have."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self._tensors = tensors

    @property
    def layer_count(self) -> int:
        """Number of encoder layers."""
        layers = {name.split(".")[2] for name in self._tensors if name.startswith("encoder.layer.")}
        return len(layers)

    def tensor(self, name: str, shape: Sequence[int] | None = None) -> Array:
        """A tensor, of the given shape if one is given."""
        found = self._tensors.get(name)
        if found is None:
            raise ModelFilesError(f"the checkpoint has no tensor {name!r}")
        if shape is not None and found.shape != tuple(shape):
            raise ModelFilesError(
                f"tensor {name!r} of the checkpoint has shape {found.shape}, not {tuple(shape)}"
            )
        return found


def _own_words(checkpoint: _Checkpoint, is_int8: bool) -> WordRows:
    def rows(graph: GraphWriter, token_ids: str) -> str:
        width = checkpoint.tensor("embeddings.LayerNorm.weight").shape[0]
        table = checkpoint.tensor(WORDS)
        if table.shape[1:] != (width,):
            raise ModelFilesError("the checkpoint's embedding tables differ in width")
        if is_int8:
            return int8_word_rows(graph, token_ids, WORDS, table)
        return graph.apply("Gather", graph.weight(WORDS, table), token_ids)

    return rows


class _Encoder:
    """Adds the nodes of one encoder to a graph."""

    def __init__(
        self,
        graph: GraphWriter,
        checkpoint: _Checkpoint,
        dense: Callable[[GraphWriter, str, str, Array, Array], str],
    ) -> None:
        self._graph = graph
        self._checkpoint = checkpoint
        self._linear = dense

    def add(self, attention_heads: int, word_rows: WordRows) -> int:
        """Add all nodes and return the width of the vector."""
        graph, layers = self._graph, self._checkpoint.layer_count
        width = int(self._checkpoint.tensor("embeddings.LayerNorm.weight").shape[0])
        if width % attention_heads or not layers:
            raise ModelFilesError(
                f"a checkpoint of width {width} and {layers} layers "
                f"cannot have {attention_heads} attention heads"
            )
        hidden = self._embeddings(width, word_rows)
        for layer in range(layers):
            hidden = self._layer(hidden, f"encoder.layer.{layer}", width, attention_heads)
        graph.unit_vector(graph.apply("ReduceMean", hidden, graph.integers(0), keepdims=0))
        return width

    def _embeddings(self, width: int, word_rows: WordRows) -> str:
        """Word row plus position row, normalised.

        A single text has token type 0 everywhere, so that row is added to the position table here.
        """
        graph = self._graph
        positions = self._checkpoint.tensor("embeddings.position_embeddings.weight")
        token_types = self._checkpoint.tensor("embeddings.token_type_embeddings.weight")
        if positions.shape[1:] != (width,) or token_types.shape[1:] != (width,):
            raise ModelFilesError("the checkpoint's embedding tables differ in width")
        word = word_rows(graph, INPUT_NAME)
        table = graph.weight("embeddings.position_and_type_0", positions + token_types[0])
        token_count = graph.apply("Shape", INPUT_NAME)
        position = graph.apply("Slice", table, graph.integers(0), token_count, graph.integers(0))
        return self._layer_norm(graph.apply("Add", word, position), "embeddings.LayerNorm", width)

    def _layer(self, hidden: str, prefix: str, width: int, attention_heads: int) -> str:
        """Self-attention and feed-forward, each with residual and norm after it."""
        graph = self._graph
        attended = self._attention(hidden, f"{prefix}.attention.self", width, attention_heads)
        attended = self._dense(attended, f"{prefix}.attention.output.dense", width, width)
        hidden = self._layer_norm(
            graph.apply("Add", attended, hidden), f"{prefix}.attention.output.LayerNorm", width
        )
        inner_width = self._checkpoint.tensor(f"{prefix}.intermediate.dense.weight").shape[0]
        inner = self._dense(hidden, f"{prefix}.intermediate.dense", width, inner_width)
        inner = graph.apply("Gelu", inner, approximate="none")
        outer = self._dense(inner, f"{prefix}.output.dense", inner_width, width)
        return self._layer_norm(
            graph.apply("Add", outer, hidden), f"{prefix}.output.LayerNorm", width
        )

    def _attention(self, hidden: str, prefix: str, width: int, attention_heads: int) -> str:
        """softmax(q k / sqrt(head width)) v over all heads, joined again to (tokens, width)."""
        graph, head_width = self._graph, width // attention_heads
        split_heads = graph.integers(0, attention_heads, head_width)

        def heads(part: str, axes: list[int]) -> str:
            projected = self._dense(hidden, f"{prefix}.{part}", width, width)
            split = graph.apply("Reshape", projected, split_heads)
            return graph.apply("Transpose", split, perm=axes)

        query, key = heads("query", [1, 0, 2]), heads("key", [1, 2, 0])
        scores = graph.apply(
            "Mul", graph.apply("MatMul", query, key), graph.number(head_width**-0.5)
        )
        weights = graph.apply("Softmax", scores, axis=-1)
        mixed = graph.apply("MatMul", weights, heads("value", [1, 0, 2]))
        joined = graph.apply("Transpose", mixed, perm=[1, 0, 2])
        return graph.apply("Reshape", joined, graph.integers(0, width))

    def _dense(self, value: str, prefix: str, width_in: int, width_out: int) -> str:
        """A linear layer; checkpoints store its matrix as (out, in)."""
        matrix = self._checkpoint.tensor(f"{prefix}.weight", (width_out, width_in))
        bias = self._checkpoint.tensor(f"{prefix}.bias", (width_out,))
        return self._linear(self._graph, value, prefix, matrix.T, bias)

    def _layer_norm(self, value: str, prefix: str, width: int) -> str:
        """Layer normalisation over the last axis."""
        scale, bias = (
            self._graph.weight(
                f"{prefix}.{part}", self._checkpoint.tensor(f"{prefix}.{part}", (width,))
            )
            for part in ("weight", "bias")
        )
        return self._graph.apply(
            "LayerNormalization", value, scale, bias, axis=-1, epsilon=_LAYER_NORM_EPSILON
        )
