"""Names of documents and chunks."""

from __future__ import annotations

from typing import NewType

DocumentId = NewType("DocumentId", str)
"""Names a document within its source. For folders: the relative path, see `sources.paths`."""

ChunkId = NewType("ChunkId", str)
"""Names a chunk by source, document, content and occurrence; 32 hexadecimal digits."""
