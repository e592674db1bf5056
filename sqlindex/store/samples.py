"""The beginnings of some documents of the head, spread over all of them."""

from __future__ import annotations

from sqlindex.store.driver import Connection

_SAMPLE = """
    SELECT substr(p.body, 1, :chars)
    FROM (SELECT parse_id, row_number() OVER (ORDER BY version_id) AS place, count(*) OVER () AS total
          FROM document_version WHERE born IS NOT NULL AND died IS NULL) d
    JOIN parse USING(parse_id) JOIN content t USING(content_id)
    JOIN content_piece p ON p.piece_id = t.first_piece
    WHERE t.chars > 0 AND (d.place - 1) % max(1, d.total / :documents) = 0
    ORDER BY d.place
    LIMIT :documents
"""


def sample_beginnings(connection: Connection, *, documents: int, chars: int) -> list[str]:
    """The first characters of at most so many documents: O(documents of the head)."""
    rows = connection.execute(_SAMPLE, {"documents": documents, "chars": chars})
    return [row[0] for row in rows]
