"""What a repair does about embedding: the keys of chunks, vector spaces, vectors and refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlindex.store.driver import Connection
from sqlindex.store.invariants import MISSING_VECTORS, STRAY_VECTORS
from sqlindex.store.vectors import damaged_vectors, set_width, width_of_whole

_TEXT_OF_KEY = "SELECT text_id FROM embedding_text WHERE key = ?"
_PUT_KEY = "INSERT OR REPLACE INTO embedding_text(text_id, key) VALUES(?, ?)"
_ADD_KEY = "INSERT INTO embedding_text(key) VALUES(?)"
_SET_TEXT = "UPDATE chunk SET text_id = ? WHERE parse_id = ? AND ord = ?"


def mend_keys(
    connection: Connection, wrong: Sequence[tuple[int, int, int | None, bytes | None]]
) -> None:
    """Give chunks the embedding text that they have: (parse id, ord, present text id, right key) each.

    None for the id of a chunk that has no text, and for the key of one that is not embedded. A text of
    that key is taken; without one the chunk's own text had its key damaged.
    """
    corrected: set[int] = set()
    for parse_id, ord_, text_id, key in wrong:
        if key is None:
            connection.execute(_SET_TEXT, (None, parse_id, ord_))
            continue
        found = connection.execute(_TEXT_OF_KEY, (key,)).fetchone()
        if found is not None:
            right = found[0]
        elif text_id is not None and text_id not in corrected:
            connection.execute(_PUT_KEY, (text_id, key))
            right = text_id
        else:
            right = connection.execute(_ADD_KEY, (key,)).lastrowid
        corrected.add(right)
        connection.execute(_SET_TEXT, (right, parse_id, ord_))


_SPACES = """
    SELECT s.space_id, s.dimensions, min(length(v.f32)), max(length(v.f32)) FROM vector_space s
      JOIN vector v ON v.vector_id BETWEEN s.space_id << 40 AND (s.space_id << 40) + 1099511627775
    GROUP BY s.space_id
"""
_REFUSED_WITH_VECTOR = """
    DELETE FROM vector_refusal
    WHERE EXISTS (SELECT 1 FROM vector v WHERE v.vector_id = (space_id << 40) | text_id)
"""
_LOSE_VECTOR = """
    INSERT OR REPLACE INTO vector_refusal(space_id, text_id, detail, is_lost) VALUES(?, ?, ?, 1)
"""
_PLACES_OF_TEXT = """
    SELECT DISTINCT coalesce(s.name, '?') || ': ' || d.document_id, d.died IS NULL
    FROM chunk c JOIN document_version d USING(parse_id) LEFT JOIN source s USING(source_id)
    WHERE c.text_id = ? AND d.born IS NOT NULL ORDER BY 2 DESC, 1
"""


def mend_vectors(connection: Connection) -> Iterator[tuple[str, str]]:
    """Give up damaged and missing vectors: (what, outcome) each.

    Texts of kept generations are recorded as refused and lost: semantic search goes on without
    them, and the next refresh makes those of the head again.
    """
    for space_id, dimensions, shortest, longest in connection.execute(_SPACES).fetchall():
        # What is damaged alike has one width too, but not its checksum.
        width = width_of_whole(connection, space_id) if shortest == longest else None
        if width not in (None, dimensions):
            set_width(connection, space_id, width)
            yield f"dimensions of vector space {space_id}", "rebuilt"
    details = dict(damaged_vectors(connection))
    stray = {row[0]: "it belongs to no text" for row in connection.execute(STRAY_VECTORS)}
    given_up = details | stray
    connection.executemany(
        "DELETE FROM vector WHERE vector_id = ?", [(vector_id,) for vector_id in given_up]
    )
    if connection.execute(_REFUSED_WITH_VECTOR).rowcount:
        yield "refusals of texts that have a vector", "dropped"
    missing = connection.execute(MISSING_VECTORS).fetchall()
    for space_id, text_id in missing:
        detail = details.get(space_id << 40 | text_id, "it was missing")
        connection.execute(_LOSE_VECTOR, (space_id, text_id, detail))
        places = connection.execute(_PLACES_OF_TEXT, (text_id,)).fetchall()
        what = f"vector of a text of {', '.join(dict.fromkeys(place for place, _ in places))}"
        yield what, "reembed" if places[0][1] else "lost"
    needed = {space_id << 40 | text_id for space_id, text_id in missing}
    for vector_id in sorted(given_up.keys() - needed):
        yield f"vector {vector_id}, which no generation needs", "dropped"
