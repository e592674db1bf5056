"""BERT's forward pass in plain numpy, in float64: what the encoder's vectors are held against.

`python tests/unit/embedding/bert_reference.py FOLDER` computes the vectors of
`minilm_reference.json` from the pinned checkpoint and tokenizer in FOLDER.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

REFERENCE_PATH = Path(__file__).with_name("minilm_reference.json")
REFERENCE_TEXTS = (
    "",
    "A man is eating a piece of bread.",
    "Größe: 5 μm – naïve façade, 日本語 and 😀",
    "def open(path):\n    return Path(path).read_text()",
    "index " * 700,
)

_erf = np.vectorize(math.erf, otypes=[np.float64])


def sentence_vector(
    tensors: Mapping[str, npt.NDArray[np.float32]], token_ids: Sequence[int], heads: int
) -> Array:
    """The unit vector of one text, mean-pooled over all its tokens."""

    def get(name: str) -> Array:
        return tensors[name].astype(np.float64)

    def dense(value: Array, prefix: str) -> Array:
        return value @ get(f"{prefix}.weight").T + get(f"{prefix}.bias")

    def layer_norm(value: Array, prefix: str) -> Array:
        centred = value - value.mean(-1, keepdims=True)
        scaled: Array = centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-12)
        return scaled * get(f"{prefix}.weight") + get(f"{prefix}.bias")

    def split(value: Array) -> Array:
        return value.reshape(len(token_ids), heads, -1).transpose(1, 0, 2)

    hidden = get("embeddings.word_embeddings.weight")[list(token_ids)]
    hidden = hidden + get("embeddings.position_embeddings.weight")[: len(token_ids)]
    hidden = hidden + get("embeddings.token_type_embeddings.weight")[0]
    hidden = layer_norm(hidden, "embeddings.LayerNorm")
    layers = {int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layer.")}
    for layer in sorted(layers):
        prefix = f"encoder.layer.{layer}"
        query, key, value = (
            split(dense(hidden, f"{prefix}.attention.self.{part}"))
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = (weights @ value).transpose(1, 0, 2).reshape(len(token_ids), -1)
        attended = dense(mixed, f"{prefix}.attention.output.dense")
        hidden = layer_norm(attended + hidden, f"{prefix}.attention.output.LayerNorm")
        inner = dense(hidden, f"{prefix}.intermediate.dense")
        inner = inner * (1 + _erf(inner / math.sqrt(2))) / 2
        outer = dense(inner, f"{prefix}.output.dense")
        hidden = layer_norm(outer + hidden, f"{prefix}.output.LayerNorm")
    mean: Array = hidden.mean(0)
    unit: Array = mean / np.linalg.norm(mean)
    return unit


def _write_reference(folder: Path) -> None:
    from tokenizers import Tokenizer

    from sqlindex.embedding.models import CHECKPOINT, MINILM, TOKENIZER
    from sqlindex.embedding.safetensors import read_float32_tensors

    tensors = read_float32_tensors(folder / CHECKPOINT)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MINILM.token_limit)
    vectors = [
        sentence_vector(tensors, tokenizer.encode(text).ids, MINILM.attention_heads)
        for text in REFERENCE_TEXTS
    ]
    lines = [json.dumps([round(float(x), 7) for x in vector]) for vector in vectors]
    REFERENCE_PATH.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    _write_reference(Path(sys.argv[1]))
