"""Objects with the surface of other libraries' models, as small as it gets: hashed words, three prompts.

They check what they are given, as the real ones would: a wrong keyword is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from sqlindex.testing import HashingEmbedder

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LIMIT = 16
WIDTH = 8


def vector_of(text: str) -> Any:
    """Of float16 and any norm, cut to the limit."""
    cut = " ".join(text.split()[: LIMIT - 2])
    return (3 * HashingEmbedder(WIDTH).embed_query(cut)).astype(np.float16)


class Transformer:
    """The first module of a sentence transformer."""

    def __init__(self, name: str, commit: str | None) -> None:
        self.auto_model = SimpleNamespace(
            config=SimpleNamespace(_name_or_path=name, _commit_hash=commit)
        )


class Pooling:
    """The second one."""

    pooling_mode = ("mean", "max")


class TorchLike:
    """As a `SentenceTransformer` of release 5 or 6."""

    def __init__(self, name: str = "nobody/words", commit: str | None = COMMIT) -> None:
        self._modules = [Transformer(name, commit), Pooling()]
        self.device = "cuda:1"
        self.max_seq_length: Any = LIMIT
        self.prompts = {"query": "ask: ", "passage": "tell: ", "other": "other: "}
        self.default_prompt_name: str | None = None
        self.batches: list[int] = []

    def __iter__(self) -> Iterator[object]:
        return iter(self._modules)

    def get_backend(self) -> str:
        return "torch"

    def get_embedding_dimension(self) -> int | None:
        return WIDTH

    def parameters(self) -> Iterator[object]:
        yield SimpleNamespace(dtype="torch.float16")

    def tokenizer(
        self, texts: list[str], *, truncation: bool, verbose: bool
    ) -> dict[str, list[list[int]]]:
        assert not truncation
        assert not verbose
        return {"input_ids": [[0, *range(len(text.split())), 0] for text in texts]}

    def encode_query(self, texts: list[str], **options: Any) -> Any:
        return self.encode([f"asked {text}" for text in texts], **options)

    def encode_document(self, texts: list[str], **options: Any) -> Any:
        return self.encode(texts, **options)

    def encode(
        self,
        texts: list[str],
        *,
        prompt: str,
        batch_size: int,
        show_progress_bar: bool,
        convert_to_numpy: bool,
    ) -> Any:
        assert convert_to_numpy
        assert not show_progress_bar
        self.batches.append(batch_size)
        return np.array([vector_of(prompt + text) for text in texts])


class WordTokenizer:
    """As a `tokenizers.Tokenizer` that cuts."""

    def __init__(self, limit: int | None = LIMIT) -> None:
        self.truncation = {"max_length": limit} if limit else None

    @classmethod
    def from_str(cls, text: str) -> WordTokenizer:
        return cls(int(text))

    def to_str(self) -> str:
        return str(self.truncation["max_length"] if self.truncation else 0)

    def no_truncation(self) -> None:
        self.truncation = None

    def no_padding(self) -> None:
        pass

    def encode(self, text: str) -> Any:
        ids = [0, *range(len(text.split())), 0]
        return SimpleNamespace(ids=ids[: self.truncation["max_length"]] if self.truncation else ids)


class FastLike:
    """As a `TextEmbedding` of fastembed."""

    model_name = "nobody/words"
    embedding_size = WIDTH

    def __init__(self, folder: str = f"/c/models--o--n/snapshots/{COMMIT}") -> None:
        self.model = SimpleNamespace(
            _model_dir=folder,
            tokenizer=WordTokenizer(),
            model_description=SimpleNamespace(model_file="words.onnx"),
        )
        self.batches: list[int] = []

    def query_embed(self, query: Sequence[str]) -> Iterator[Any]:
        assert not isinstance(query, str)
        yield from map(vector_of, query)

    def passage_embed(self, texts: Sequence[str], *, batch_size: int) -> Iterator[Any]:
        self.batches.append(batch_size)
        yield from map(vector_of, texts)
