"""The refusal of what no file type is registered for."""

from __future__ import annotations

from sqlindex.model.documents import Refusal, RefusalReason

UNSUPPORTED_HINT = (
    "nothing to do, or exclude it; a Python program can register a file type for it: "
    "Index.open(..., file_types=...)"
)


def unsupported(document_id: str, extension: str) -> Refusal:
    """The refusal of a document whose extension the registry does not know."""
    detail = f"no file type for .{extension}" if extension else "a name without extension"
    return Refusal(document_id, RefusalReason.UNSUPPORTED, detail, UNSUPPORTED_HINT)
