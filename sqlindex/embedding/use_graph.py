"""Builds the ONNX graph of the Universal Sentence Encoder, multilingual, from its 6-bit weights.

Tokens are looked up in a table of small integers with one scale and one offset for each of 17
parts of the vocabulary. Three branches see windows of two, three and five tokens; each has two
layers that add to their input. Table rows and branches are normalised together, summed over the
tokens, divided by the square root of their number, and put through a small network.

Source:
    Yang et al., Multilingual Universal Sentence Encoder for Semantic Retrieval, ACL 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlindex.embedding.graph_writer import INPUT_NAME, GraphWriter, write_graph
from sqlindex.errors import ModelFilesError

if TYPE_CHECKING:
    import numpy.typing as npt

    Tensors = Mapping[str, npt.NDArray[Any]]

WEIGHTS = "weights.npz"
VOCABULARY = "sp.model"
UNKNOWN_ID, OPENING_ID, CLOSING_ID = 0, 1, 2

GRAPH_VERSION = 1
"""1: first."""

_PARTS = 17
_TOKENS_BEFORE_BY_WINDOW = {2: 0, 3: 1, 5: 2}
"""How many tokens of a window of that width stand before the one it belongs to."""


def write_use_graph(tensors: Tensors, *, encoder_path: Path) -> Path:
    """Write the encoder's graph and, beside it, the file with its matrices.

    Args:
        tensors: by their name in the file of weights.

    Returns:
        Path of the file with the matrices.

    Raises:
        ModelFilesError: a tensor is missing.
        OptionalDependencyError: the `onnx` package is missing.
    """

    def build(graph: GraphWriter) -> int:
        return _Encoder(graph, tensors).add()

    return write_graph(encoder_path, build, graph_version=GRAPH_VERSION)


class _Encoder:
    """Adds the nodes of the encoder to a graph."""

    def __init__(self, graph: GraphWriter, tensors: Tensors) -> None:
        self._graph = graph
        self._tensors = tensors
        self._epsilon = float(self._tensor("eps"))

    def add(self) -> int:
        """Add all nodes and return the width of the vector."""
        graph = self._graph
        words = self._words()
        joined = graph.apply("Concat", words, *self._branches(words), axis=1)
        joined = self._layer_norm(joined, "ln_g", "ln_b", [""])
        total = graph.apply("ReduceSum", joined, graph.integers(0), keepdims=1)
        root = graph.apply("Sqrt", graph.as_float(graph.apply("Shape", INPUT_NAME)))
        # Each token's projection has the bias, so their sum has it once for each token.
        projected = graph.apply("Div", self._times(total, "cnn_W"), root)
        bias = graph.apply("Mul", self._weight("cnn_b"), root)
        self._network(graph.apply("Add", projected, bias))
        return int(self._tensor("d3").shape[1])

    def _words(self) -> str:
        """Rows of the table: (tokens, width) float32."""
        import numpy as np

        graph = self._graph
        parts = [self._tensor(f"q{part + 1}") for part in range(_PARTS)]
        # Token t is row t // 17 of part t % 17.
        table = np.stack(parts, axis=1).reshape(-1, parts[0].shape[1])
        rows = graph.as_float(graph.apply("Gather", graph.weight("words", table), INPUT_NAME))
        count = graph.constant("parts", np.array(_PARTS, np.int64))
        part = graph.apply("Mod", INPUT_NAME, count)
        scale, offset = (
            graph.apply("Gather", graph.weight(name, self._tensor(name)[:, None]), part)
            for name in ("scale", "lo")
        )
        return graph.apply("Add", graph.apply("Mul", rows, scale), offset)

    def _branches(self, words: str) -> list[str]:
        """A value of shape (tokens, branch width) for each width of window."""
        graph = self._graph
        projected = graph.apply(
            "Concat",
            *(
                graph.apply("Add", self._times(words, f"proj{n}"), self._weight(f"proj_b{n}"))
                for n in _TOKENS_BEFORE_BY_WINDOW
            ),
            axis=1,
        )
        suffixes = [str(n) for n in _TOKENS_BEFORE_BY_WINDOW]
        together = self._layer_norm(projected, "ln_g", "ln_b", suffixes)
        branches, start = [], 0
        for n in _TOKENS_BEFORE_BY_WINDOW:
            width = self._tensor(f"proj{n}").shape[1]
            own = graph.apply(
                "Slice",
                together,
                graph.integers(start),
                graph.integers(start + width),
                graph.integers(1),
            )
            for layer in ("1", "2"):
                own = self._window_layer(own, n, layer)
            branches.append(own)
            start += width
        return branches

    def _window_layer(self, value: str, window: int, layer: str) -> str:
        """The value plus what a layer makes of each window; outside the text there are zeros."""
        graph, before = self._graph, _TOKENS_BEFORE_BY_WINDOW[window]
        padded = graph.apply("Pad", value, graph.integers(before, 0, window - 1 - before, 0))
        token_count = graph.apply("Shape", INPUT_NAME)
        shifted = [
            graph.apply(
                "Slice",
                padded,
                graph.integers(shift),
                graph.apply("Add", token_count, graph.integers(shift)),
                graph.integers(0),
            )
            for shift in range(window)
        ]
        seen = self._times(graph.apply("Concat", *shifted, axis=1), f"w{layer}_{window}")
        seen = graph.apply("Add", seen, self._weight(f"b{layer}_{window}"))
        return graph.apply("Add", graph.apply("Relu", seen), value)

    def _network(self, text: str) -> None:
        """From the (1, width) value of the text to its unit vector."""
        graph = self._graph
        first = graph.apply("Relu", self._times(text, "d0"))
        both = graph.apply("Add", self._times(text, "p1"), self._times(first, "d1"))
        second = graph.apply("Relu", both)
        third = graph.apply("Relu", self._times(second, "d2"))
        last = graph.apply("Add", self._times(second, "p3"), self._times(third, "d3"))
        flat = graph.apply("Reshape", graph.apply("Tanh", last), graph.integers(-1))
        graph.unit_vector(flat)

    def _layer_norm(self, value: str, scale: str, bias: str, suffixes: list[str]) -> str:
        """Layer normalisation with the parts of scale and bias joined."""
        import numpy as np

        names = [
            self._graph.weight(
                f"{name}{'_'.join(suffixes)}.joined",
                np.concatenate([self._tensor(f"{name}{suffix}") for suffix in suffixes]),
            )
            for name in (scale, bias)
        ]
        return self._graph.apply(
            "LayerNormalization", value, *names, axis=-1, epsilon=self._epsilon
        )

    def _times(self, value: str, name: str) -> str:
        return self._graph.apply("MatMul", value, self._weight(name))

    def _weight(self, name: str) -> str:
        return self._graph.weight(name, self._tensor(name))

    def _tensor(self, name: str) -> npt.NDArray[Any]:
        try:
            found: npt.NDArray[Any] = self._tensors[name]
        except KeyError:
            raise ModelFilesError(f"the file of weights has no tensor {name!r}") from None
        return found
