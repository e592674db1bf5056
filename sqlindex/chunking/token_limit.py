"""How much of a text an embedder takes, as far as cutting needs to know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_SPECIAL_TOKENS = 8
"""More than any model puts around an input."""


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """An embedder's limit.

    Attributes:
        tokens: most tokens of one input, special tokens included.
        count_tokens: tokens of each text, special tokens included.
        fingerprint: names tokenizer and limit; part of the recipe of what is cut with it.
    """

    tokens: int
    count_tokens: Callable[[Sequence[str]], list[int]]
    fingerprint: str

    def excess(self, text: str) -> float:
        """How many times over the limit a text is; at most 1.0 if it fits."""
        # No tokenizer makes more tokens than UTF-8 has bytes, so short texts need no counting.
        most_bytes = len(text) if text.isascii() else 4 * len(text)
        if most_bytes + _SPECIAL_TOKENS <= self.tokens:
            return 0.0
        return self.count_tokens([text])[0] / self.tokens
