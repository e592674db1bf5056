"""Chunks: the retrievable units of a document, as exact spans into its text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlindex.model.rendered import Rendered


class Cut(StrEnum):
    """Why a chunk ends where it does."""

    SECTION = "section"
    """Its section ends; the next heading, definition or key begins."""
    BLANK_LINE = "blank_line"
    """The target size is near, and a blank line follows."""
    CLOSING = "closing"
    """The target size is near, and a block has just been closed."""
    ITEM = "item"
    """The target size is near, and a list item, quote, row or definition begins."""
    LINE = "line"
    """The target size is reached, and no better place is near."""
    BLOCK = "block"
    """What follows reads as one and does not fit any more: a table, a fenced block."""
    TOKENS = "tokens"
    """More would be over the embedder's token limit."""


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
        is_embedded: whether the chunk gets a vector (front matter and raw sections do not).
        context: what stands above the chunk and explains its lines, as it reads: the head of its
            table, the first record of its CSV file. Empty if nothing does.
        rendered: parts that read as something else, with offsets from the chunk's start.
        cut: why it ends where it does.
    """

    start_char: int
    end_char: int
    start_line: int
    end_line: int
    section: int
    is_continuation: bool
    is_embedded: bool = True
    context: str = ""
    rendered: tuple[Rendered, ...] = ()
    cut: Cut = Cut.SECTION
