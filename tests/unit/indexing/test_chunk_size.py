"""How an index cuts documents where its host does not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex import ChunkConfig, Document, Index, IndexConfig
from sqlindex.errors import CorruptIndexError
from sqlindex.store.settings import put_setting

TEXT = "\n\n".join(f"Paragraph {number} says a little of the pump." for number in range(6))


def _chunks(index: Index) -> int:
    index.upsert("notes", [Document("a", TEXT)])
    return len(index.chunks("a"))


def test_the_size_that_an_index_was_set_up_with_is_used_unless_a_host_says_otherwise(
    tmp_path: Path,
) -> None:
    db = tmp_path / "index.db"
    small = ChunkConfig(target_chars=60, min_chars=15)
    with Index.open(db, create=True) as index:
        assert index.status().chunk_chars is None
        assert _chunks(index) == 1
        index.set_chunks(small)
        assert index.status().chunk_chars == 60
        assert index.status().documents_cut_otherwise == 1
        assert _chunks(index) == 6
        assert index.status().documents_cut_otherwise == 0
    with Index.open(db) as index:
        assert index.upsert("notes", [Document("a", TEXT)]).is_published is False
    with Index.open(db, config=IndexConfig()) as index:
        assert _chunks(index) == 1
    with Index.open(db) as index:
        assert _chunks(index) == 6
        index.set_chunks(None)
        assert _chunks(index) == 1
        assert index.check() == []


def test_a_damaged_size_is_an_error_that_says_how_to_set_it(tmp_path: Path) -> None:
    with Index.open(tmp_path / "index.db", create=True) as index:
        with index._file.writing("test") as writer, writer.transaction() as connection:
            put_setting(connection, "chunks", "60/x")
        with pytest.raises(CorruptIndexError, match="size of chunks is damaged") as caught:
            index.status()
        assert "init --chunk-chars" in caught.value.hint
