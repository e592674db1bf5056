"""The lexical tables: contentless FTS5, fed with analysed text, equal to the head at any moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from sqlindex.rendering import rendered_text
from sqlindex.store.contents import read_content
from sqlindex.store.driver import Connection, Row, Value
from sqlindex.store.stored_json import read_rendered, read_texts

LexicalTable = Literal["a", "b"]
"""Which of the two fixed tables; identifiers never come from input."""

Analyse = Callable[[str], str]

HEADING_SEPARATOR = " › "


class FieldWeights(NamedTuple):
    """BM25 weights of the columns."""

    title: float
    headings: float
    body: float
    tags: float
    path: float


_VERSIONS = """
    SELECT d.first_slot, p.parse_id, p.content_id, d.title, d.tags, d.path
    FROM document_version d JOIN parse p USING(parse_id)
    WHERE d.version_id = :version_id
"""
_CHUNKS = """
    SELECT c.ord, c.start_char, c.end_char, c.context, c.rendered, x.heading_path
    FROM chunk c JOIN section x ON x.parse_id = c.parse_id AND x.ord = c.section_ord
    WHERE c.parse_id = :parse_id ORDER BY c.ord
"""
_INSERT = {
    "a": "INSERT INTO chunk_fts_a(rowid, title, headings, body, tags, path) VALUES(?, ?, ?, ?, ?, ?)",
    "b": "INSERT INTO chunk_fts_b(rowid, title, headings, body, tags, path) VALUES(?, ?, ?, ?, ?, ?)",
}
_DELETE = {
    "a": "INSERT INTO chunk_fts_a(chunk_fts_a, rowid, title, headings, body, tags, path) "
    "VALUES('delete', ?, ?, ?, ?, ?, ?)",
    "b": "INSERT INTO chunk_fts_b(chunk_fts_b, rowid, title, headings, body, tags, path) "
    "VALUES('delete', ?, ?, ?, ?, ?, ?)",
}
_CLEAR = {
    "a": "INSERT INTO chunk_fts_a(chunk_fts_a) VALUES('delete-all')",
    "b": "INSERT INTO chunk_fts_b(chunk_fts_b) VALUES('delete-all')",
}
_MERGE_STEP_PAGES = 500
"""FTS5's pages that one step of a merge writes: about 2 MB."""
_MERGE = {
    "a": "INSERT INTO chunk_fts_a(chunk_fts_a, rank) VALUES('merge', ?)",
    "b": "INSERT INTO chunk_fts_b(chunk_fts_b, rank) VALUES('merge', ?)",
}
_TOTAL_CHANGES = "SELECT total_changes()"
_MATCH = {
    "a": "SELECT rowid, -bm25(chunk_fts_a, :title, :headings, :body, :tags, :path) AS score "
    "FROM chunk_fts_a WHERE chunk_fts_a MATCH :match ORDER BY score DESC, rowid",
    "b": "SELECT rowid, -bm25(chunk_fts_b, :title, :headings, :body, :tags, :path) AS score "
    "FROM chunk_fts_b WHERE chunk_fts_b MATCH :match ORDER BY score DESC, rowid",
}


def lexical_rows(connection: Connection, version_id: int, analyse: Analyse) -> list[Row]:
    """The lexical rows of one version: slot, then analysed title, headings, body, tags and path.

    The body is the chunk as it reads; what stands above and explains it counts as a heading.
    A function of stored rows and the analyser only: deleting needs exactly the text that was
    inserted, and a differing one would corrupt the table silently.
    """
    first_slot, parse_id, content_id, title, tags, path = connection.execute(
        _VERSIONS, {"version_id": version_id}
    ).fetchone()
    chunks = connection.execute(_CHUNKS, {"parse_id": parse_id}).fetchall()
    if not chunks:
        return []
    text = read_content(connection, content_id)
    analysed_title, analysed_path = analyse(title), analyse(path)
    analysed_tags = analyse(" ".join(read_texts(tags, f"document_version {version_id}")))
    rows = []
    for ord_, start_char, end_char, context, rendered, heading_path in chunks:
        above = read_texts(heading_path, f"a section of parse {parse_id}")
        headings = analyse(HEADING_SEPARATOR.join((*above, context) if context else above))
        parts = read_rendered(rendered, f"chunk {ord_} of parse {parse_id}")
        body = analyse(rendered_text(text[start_char:end_char], parts))
        rows.append(
            (first_slot + ord_, analysed_title, headings, body, analysed_tags, analysed_path)
        )
    return rows


def insert_rows(connection: Connection, table: LexicalTable, rows: Sequence[Row]) -> None:
    """Add lexical rows."""
    connection.executemany(_INSERT[table], rows)


def delete_rows(connection: Connection, table: LexicalTable, rows: Sequence[Row]) -> None:
    """Take lexical rows out again, given as they were inserted."""
    connection.executemany(_DELETE[table], rows)


def clear_table(connection: Connection, table: LexicalTable) -> None:
    """Empty a lexical table."""
    connection.execute(_CLEAR[table])


def merge_step(connection: Connection, table: LexicalTable, *, is_first: bool) -> bool:
    """Do one bounded step of merging a table's segments into one; whether there is more to do.

    Deleted rows keep their terms in the file until the segments that say so have met; in one segment
    there are none left.

    Args:
        is_first: begin a merge of all segments there are, instead of going on with one.
    """
    before = connection.execute(_TOTAL_CHANGES).fetchone()[0]
    pages = -_MERGE_STEP_PAGES if is_first else _MERGE_STEP_PAGES
    connection.execute(_MERGE[table], (pages,))
    # FTS5's own sign that nothing was merged: the statement changed no row but its own.
    return bool(connection.execute(_TOTAL_CHANGES).fetchone()[0] - before >= 2)


def matches(
    connection: Connection, table: LexicalTable, match_expression: str, weights: FieldWeights
) -> Iterator[tuple[int, float]]:
    """(slot, score) of every matching chunk, highest BM25 score first, equal scores by slot.

    Args:
        match_expression: made by `search.lexical.match_expression`, never from raw input.
    """
    parameters: dict[str, Value] = {
        "match": match_expression,
        "title": weights.title,
        "headings": weights.headings,
        "body": weights.body,
        "tags": weights.tags,
        "path": weights.path,
    }
    return iter(connection.execute(_MATCH[table], parameters))
