"""What of a chunk is embedded, and the key under which its vector is found again."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from hashlib import sha256

EMBEDDING_INPUT_VERSION = 2
"""1: body; a continuation has its heading and a blank line in front; LF; Unicode NFC. 2: as it reads
and not as it is marked up; the header of a cut table in front; the heading too where a section
does not begin with its own."""


def embedding_text(body: str, *, heading: str = "", context: str = "") -> str:
    """Text that an embedder gets for a chunk.

    The body alone says what a chunk is about if it begins with its heading; one that has lost it
    gets it back in front, and the header of its table if that has been cut off. No path, file name
    or id enters: a rename must embed nothing. Line endings and Unicode are normalised here and
    nowhere in stored text, so files that differ in these alone share vectors.

    Args:
        body: the chunk as it reads.
        heading: what `lost_heading` returned.
        context: what stands above the chunk and explains its lines, or an empty string.
    """
    text = f"{context}\n{body}" if context else body
    if heading and not _begins_with_heading(body, heading):
        text = f"{heading}\n\n{text}"
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def lost_heading(heading_path: Sequence[str], heading_line: int, is_continuation: bool) -> str:
    """The innermost heading above a chunk that does not begin with it, or an empty string.

    Args:
        heading_path, heading_line: of the chunk's section.
        is_continuation: whether an earlier chunk of the section comes before it.
    """
    is_lost = is_continuation or heading_line == 0
    return heading_path[-1] if is_lost and heading_path else ""


def embedding_key(text: str) -> bytes:
    """Key of a vector within its space: 32 bytes, SHA-256 over the input version and the text.

    Args:
        text: what `embedding_text` returned.
    """
    prefix = f"sqlindex embedding input {EMBEDDING_INPUT_VERSION}\n"
    return sha256((prefix + text).encode("utf-8", "surrogatepass")).digest()


def _begins_with_heading(body: str, heading: str) -> bool:
    # The overlap of a continuation can reach back to the heading's own line.
    first_line = body.partition("\n")[0]
    return first_line.strip(" \t\r#>") == heading
