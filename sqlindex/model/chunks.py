"""Chunks: the retrievable units of a document, as exact spans into its text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """Where a chunk lies in its document's text.

    Attributes:
        start_char: offset of the first character of the first line.
        end_char: offset after the last character of the last line, its line ending excluded.
        start_line: 1-based, counted at LF (so CRLF too), as `grep -n` does.
        end_line: 1-based, included.
        section: index into the document's sections.
        is_continuation: whether an earlier chunk of the same section comes before it.
        is_embedded: whether the chunk gets a vector (front matter does not).
    """

    start_char: int
    end_char: int
    start_line: int
    end_line: int
    section: int
    is_continuation: bool
    is_embedded: bool = True
