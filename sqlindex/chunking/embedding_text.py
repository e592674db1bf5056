"""What of a chunk is embedded, and the key under which its vector is found again."""

from __future__ import annotations

import unicodedata
from hashlib import sha256

EMBEDDING_INPUT_VERSION = 1
"""1: body; a continuation has its heading and a blank line in front; LF; Unicode NFC."""


def embedding_text(chunk_text: str, heading: str, is_continuation: bool) -> str:
    """Text that an embedder gets for a chunk.

    The body alone says what a chunk is about if it begins with its heading; a continuation has
    lost that context, so its innermost heading goes in front. No path, file name or id enters:
    a rename must embed nothing. Line endings and Unicode are normalised here and nowhere in
    stored text, so files that differ in these alone share vectors.

    Args:
        chunk_text: the chunk as it stands in the document.
        heading: innermost heading of its section, or an empty string.
        is_continuation: whether an earlier chunk of the section comes before it.
    """
    text = chunk_text
    if is_continuation and heading and not _begins_with_heading(chunk_text, heading):
        text = f"{heading}\n\n{chunk_text}"
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def embedding_key(text: str) -> bytes:
    """Key of a vector within its space: 32 bytes, SHA-256 over the input version and the text.

    Args:
        text: what `embedding_text` returned.
    """
    prefix = f"sqlindex embedding input {EMBEDDING_INPUT_VERSION}\n"
    return sha256((prefix + text).encode("utf-8", "surrogatepass")).digest()


def _begins_with_heading(chunk_text: str, heading: str) -> bool:
    # The overlap of a continuation can reach back to the heading's own line.
    first_line = chunk_text.partition("\n")[0]
    return first_line.strip(" \t\r#>") == heading
