"""How much of a text an embedder takes, as far as cutting needs to know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlindex.errors import EmbedderError, SqlindexError

Excess = Callable[[int, int, bool], float]
"""How many times over the limit the text from a start to an end is, as a continuation or not; at most
1.0 if it fits."""

_SPECIAL_TOKENS = 8
"""More than any model puts around an input."""


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """An embedder's limit.

    Attributes:
        tokens: most tokens of one input, special tokens included.
        count_tokens: tokens of each text, special tokens included.
        fingerprint: names tokenizer and limit; part of the recipe of what is cut with it.
        cuts_lines: whether a line that is over the limit by itself is cut, too.
    """

    tokens: int
    count_tokens: Callable[[Sequence[str]], list[int]]
    fingerprint: str
    cuts_lines: bool = False

    def excess(self, text: str) -> float:
        """How many times over the limit a text is; at most 1.0 if it fits.

        Raises:
            EmbedderError: the embedder failed to count.
        """
        if surely_fits(text, self.tokens):
            return 0.0
        try:
            counted: object = self.count_tokens([text])
        except SqlindexError:
            raise
        except Exception as exc:  # a host's counter may raise anything
            raise EmbedderError(
                f"the embedder cannot count tokens: {type(exc).__name__}: {exc}"
            ) from exc
        if not isinstance(counted, list) or len(counted) != 1 or not _is_count(counted[0]):
            raise EmbedderError(
                f"the embedder counted the tokens of one text as {counted!r}",
                hint="count_tokens must give a list with a number for each text",
            )
        return int(counted[0]) / self.tokens


def surely_fits(text: str, tokens: int) -> bool:
    """Whether a text is so short that it need not be counted.

    No tokenizer makes more tokens than UTF-8 has bytes.
    """
    most_bytes = len(text) if text.isascii() else 4 * len(text)
    return most_bytes + _SPECIAL_TOKENS <= tokens


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
