r"""Relative paths and document ids: one text for any byte name, and back.

A file name on Linux is bytes; a document id is text that must survive UTF-8, JSON and a terminal.
A path that is UTF-8 and holds no backslash is its own id. Elsewhere each backslash is doubled and
each byte that is no UTF-8 becomes `\xHH`, so no two paths share an id and each id opens its file.
Nothing is normalised: `Übung.md` composed and decomposed are two files.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote, quote_from_bytes

from sqlindex.model.ids import DocumentId

_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_ESCAPE = re.compile(r"\\(?:\\|x([0-9a-f]{2}))")


def text_of(name: bytes) -> str:
    """A name as Python's `os` functions write it; bytes that are no UTF-8 as lone surrogates."""
    return name.decode("utf-8", "surrogateescape")


def document_id_of(path: bytes) -> DocumentId:
    """The document id of a relative path; always encodable to UTF-8, different for each path."""
    text = path.decode("utf-8", "surrogateescape")
    if text.isascii():
        return DocumentId(text.replace("\\", "\\\\"))
    return DocumentId(
        _ESCAPED_BYTE.sub(
            lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", text.replace("\\", "\\\\")
        )
    )


def path_of(document_id: str) -> bytes:
    """The relative path that `document_id_of` turned into this id.

    Raises:
        ValueError: no path has this id, for example because of a single backslash or of an
            escape that spells valid UTF-8.
    """
    path = _ESCAPE.sub(
        lambda match: "\\" if match[1] is None else chr(0xDC00 + int(match[1], 16)),
        document_id,
    ).encode("utf-8", "surrogateescape")
    if document_id_of(path) != document_id:
        raise ValueError(f"{document_id!r} is not the id of a path")
    return path


def database_uri(root: str, table: str | None, document_id: str) -> str:
    """A `file:` URL of a database, with the table in its query and the row's id as its fragment.

    Args:
        root: the database, escaped like a document id.
        table: its name, or None for a query.
        document_id: as listed by that source.
    """
    database = quote_from_bytes(path_of(root))
    chosen = "" if table is None else f"?table={quote(table, safe='')}"
    return f"file://{database}{chosen}#{quote(document_id, safe='')}"


def file_uri(root: str, document_id: str) -> str:
    """A `file:` URL that opens exactly this document: percent-encoded from the path's bytes.

    Args:
        root: absolute path of the source's folder.
        document_id: as listed by that source.

    Raises:
        ValueError: no path has this id, or the root is not absolute.
    """
    root_bytes = os.fsencode(root)
    if not root_bytes.startswith(b"/"):
        raise ValueError(f"root {root!r} is not absolute")
    return "file://" + quote_from_bytes(root_bytes.rstrip(b"/") + b"/" + path_of(document_id))
