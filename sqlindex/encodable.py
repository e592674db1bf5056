"""Whether a text can be stored: SQLite keeps UTF-8, and a Python text may hold lone surrogates."""

from __future__ import annotations


def is_encodable(text: str) -> bool:
    """Whether UTF-8 can say the text, which it cannot of a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
