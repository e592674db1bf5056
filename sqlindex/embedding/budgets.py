"""How much of a text, and how many texts, a service is sent at once; all is checked before sending.

The tokenizer is the service's, so tokens are estimated: UTF-8 bytes divided by a declared number.
UTF-16 units are exact; both limits become one number, `tokens`, which is over `max_tokens` if
either is broken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MAX_UNITS = 16_000
"""Most UTF-16 units of a text."""
MAX_BATCH_TOKENS = 16_384
"""Most tokens of a request, each text counted as long as the longest."""

_SPECIAL_TOKENS = 2


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one service.

    Attributes:
        max_inputs: texts of a request.
        max_tokens: of a text; at most 8,192.
        max_batch_tokens: of a request, padded.
        bytes_per_token: for the estimate; at least 1.
    """

    max_inputs: int
    max_tokens: int
    max_batch_tokens: int
    bytes_per_token: float

    def tokens(self, text: str) -> int:
        """Estimated tokens of a text; more than `max_tokens` too if its UTF-16 units are too many."""
        by_bytes = math.ceil(len(text.encode("utf-8", "replace")) / self.bytes_per_token)
        units = len(text) + sum(character > "\uffff" for character in text)
        by_units = math.ceil(units * self.max_tokens / MAX_UNITS)
        return max(by_bytes + _SPECIAL_TOKENS, by_units)

    def cut(self, text: str) -> str:
        """The longest beginning of a text that is within the limit."""
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self.tokens(text[:middle]) <= self.max_tokens:
                low = middle
            else:
                high = middle - 1
        return text[:low]

    def batches(self, texts: Sequence[str]) -> list[range]:
        """Neighbours that may share a request, in order; a text over the batch's limit is alone."""
        batches: list[range] = []
        start, longest = 0, 0
        for row, text in enumerate(texts):
            longest_with = max(longest, self.tokens(text))
            count = row - start + 1
            if count > 1 and (
                count > self.max_inputs or count * longest_with > self.max_batch_tokens
            ):
                batches.append(range(start, row))
                start, longest_with = row, self.tokens(text)
            longest = longest_with
        if start < len(texts):
            batches.append(range(start, len(texts)))
        return batches
