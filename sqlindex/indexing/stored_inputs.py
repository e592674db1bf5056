"""What an embedder gets for a chunk that is stored."""

from __future__ import annotations

from sqlindex.indexing.build import text_at
from sqlindex.store.contents import read_content
from sqlindex.store.driver import Connection
from sqlindex.store.parses import chunk_place


class InputReader:
    """Rebuilds embedding texts from the store; keeps the last content, as places come in order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._content_id = 0
        self._content = ""

    def text(self, parse_id: int, ord_: int) -> str:
        """What is embedded for a chunk of a parse."""
        place = chunk_place(self._connection, parse_id, ord_)
        if place.content_id != self._content_id:
            self._content = read_content(self._connection, place.content_id)
            self._content_id = place.content_id
        return text_at(self._content, place)
