"""The lexical tables: contentless FTS5, fed with analysed text, equal to the head at any moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from sqlindex.rendering import rendered_text
from sqlindex.store.contents import read_content
from sqlindex.store.driver import Connection, DatabaseError, Row, Value, is_damage
from sqlindex.store.header import SCHEMA_VERSION
from sqlindex.store.stored_json import read_rendered, read_texts

LexicalTable = Literal["a", "b"]
"""Which of the two fixed tables; identifiers never come from input."""

LEXICAL_TABLES: tuple[LexicalTable, ...] = ("a", "b")

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
_OPEN = {
    "a": "SELECT rowid FROM chunk_fts_a WHERE rowid = 0",
    "b": "SELECT rowid FROM chunk_fts_b WHERE rowid = 0",
}
_CLEAR = {
    "a": "INSERT INTO chunk_fts_a(chunk_fts_a) VALUES('delete-all')",
    "b": "INSERT INTO chunk_fts_b(chunk_fts_b) VALUES('delete-all')",
}
_TOTALS = {
    "a": "SELECT (SELECT block FROM chunk_fts_a_data WHERE id = 1), EXISTS (SELECT 1 FROM chunk_fts_a_idx)",
    "b": "SELECT (SELECT block FROM chunk_fts_b_data WHERE id = 1), EXISTS (SELECT 1 FROM chunk_fts_b_idx)",
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


def open_table(connection: Connection, table: LexicalTable) -> None:
    """Let FTS5 read the table's configuration now, which it does once for a connection."""
    connection.execute(_OPEN[table]).fetchone()


def insert_rows(connection: Connection, table: LexicalTable, rows: Sequence[Row]) -> None:
    """Add lexical rows."""
    connection.executemany(_INSERT[table], rows)


def delete_rows(connection: Connection, table: LexicalTable, rows: Sequence[Row]) -> None:
    """Take lexical rows out again, given as they were inserted."""
    connection.executemany(_DELETE[table], rows)


def clear_table(connection: Connection, table: LexicalTable) -> None:
    """Empty a lexical table; one that is damaged is made anew, if it can be opened at all."""
    try:
        connection.execute(_CLEAR[table])
    except DatabaseError as exc:
        if not is_damage(exc):
            raise
        connection.execute(f"DROP TABLE chunk_fts_{table}")
        _make_table(connection, table)


def recreate_table(connection: Connection, table: LexicalTable) -> None:
    """Make a lexical table anew, empty, whatever is left of it.

    Args:
        connection: of a repair, in a transaction.
    """
    name = f"chunk_fts_{table}"
    # Dropping it would first open it, which fails when a part is missing: forget it, then drop the parts.
    connection.execute("PRAGMA writable_schema=ON")
    try:
        connection.execute("DELETE FROM sqlite_schema WHERE name = ?", (name,))
    finally:
        connection.execute("PRAGMA writable_schema=RESET")
    for part in ("data", "idx", "docsize", "config"):
        connection.execute(f"DROP TABLE IF EXISTS {name}_{part}")
    _make_table(connection, table)


def _make_table(connection: Connection, table: LexicalTable) -> None:
    from sqlindex.store.expected_schema import expected_objects

    connection.execute(expected_objects(SCHEMA_VERSION)["table", f"chunk_fts_{table}"][3])


def lexical_agrees(connection: Connection, table: LexicalTable, chunks: int) -> bool:
    """Whether a lexical table can hold the rows of that many chunks: O(1), from its own count.

    A table that lost its rows, its count or its index would find less without a word. What it
    holds in each row only `check` compares.

    Raises:
        sqlite3.DatabaseError: a part of the table is missing.
    """
    totals, has_index = connection.execute(_TOTALS[table]).fetchone()
    return _first_number(totals or b"") == chunks and (bool(has_index) or chunks == 0)


def _first_number(block: bytes) -> int:
    """The number of rows, with which FTS5's record of totals begins, in its 7-bit big-endian form."""
    number = 0
    for byte in block[:8]:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number


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
