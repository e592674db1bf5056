"""Every invariant of the file as a query: what is wrong, by row."""

from __future__ import annotations

import hashlib
import math
import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlindex.errors import CorruptIndexError
from sqlindex.store.checksum import check8
from sqlindex.store.contents import read_content
from sqlindex.store.documents import damaged_versions
from sqlindex.store.driver import Connection
from sqlindex.store.head import Head, read_head
from sqlindex.store.lexical import Analyse, lexical_rows
from sqlindex.store.links import wrong_names
from sqlindex.store.parses import ChunkPlace, chunk_place, damaged_parses
from sqlindex.store.sources import list_sources, refusals


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken invariant: its name, and where."""

    invariant: str
    detail: str


# Each query gives one row for each violation.
_INVARIANTS = {
    "the head names a published generation": """
        SELECT 'head names ' || h.generation FROM head h
        WHERE h.generation IS NOT (SELECT max(generation) FROM generation)""",
    "there is one head": "SELECT 'rows: ' || count(*) FROM head HAVING count(*) <> 1",
    "a generation's build bore its versions": """
        SELECT 'version ' || d.version_id FROM document_version d
        LEFT JOIN generation g ON g.generation = d.born
        WHERE d.born IS NOT NULL AND g.build_id IS NOT d.build_id""",
    "versions end in published generations": """
        SELECT 'version ' || version_id FROM document_version
        WHERE died IS NOT NULL AND died NOT IN (SELECT generation FROM generation)""",
    "the head's counts are those of its rows": """
        SELECT 'generation ' || g.generation || ' says ' || g.documents || '/' || g.chunks || '/'
          || g.embedded_chunks || ', has ' || n || '/' || c || '/' || e
        FROM head h JOIN generation g USING(generation),
          (SELECT count(*) AS n, coalesce(sum(chunks), 0) AS c FROM document_version
           WHERE born IS NOT NULL AND died IS NULL),
          (SELECT count(c.text_id) AS e FROM document_version d JOIN chunk c ON c.parse_id = d.parse_id
           WHERE d.born IS NOT NULL AND d.died IS NULL)
        WHERE g.documents <> n OR g.chunks <> c OR g.embedded_chunks <> e""",
    "every version has its parse": """
        SELECT 'version ' || version_id FROM document_version d
        WHERE NOT EXISTS (SELECT 1 FROM parse p WHERE p.parse_id = d.parse_id AND p.chunks = d.chunks)""",
    "every version has its source": """
        SELECT 'version ' || version_id FROM document_version d
        WHERE NOT EXISTS (SELECT 1 FROM source s WHERE s.source_id = d.source_id)""",
    "every parse has its content": """
        SELECT 'parse ' || parse_id FROM parse p
        WHERE NOT EXISTS (SELECT 1 FROM content c WHERE c.content_id = p.content_id)""",
    "every parse has its chunks": """
        SELECT 'parse ' || parse_id FROM parse p
        WHERE chunks <> (SELECT count(*) FROM chunk c WHERE c.parse_id = p.parse_id)""",
    "every chunk has its section": """
        SELECT 'chunk ' || c.parse_id || '/' || c.ord FROM chunk c
        WHERE NOT EXISTS (SELECT 1 FROM section x WHERE x.parse_id = c.parse_id AND x.ord = c.section_ord)""",
    "chunks and sections have a parse": """
        SELECT 'parse ' || parse_id FROM (SELECT parse_id FROM chunk UNION SELECT parse_id FROM section)
        WHERE parse_id NOT IN (SELECT parse_id FROM parse)""",
    "slots do not overlap": """
        SELECT 'version ' || version_id FROM (
          SELECT version_id, first_slot, lag(first_slot + max(chunks, 1)) OVER (ORDER BY first_slot) AS free
          FROM document_version WHERE born IS NOT NULL) WHERE first_slot < free""",
    "slots lie below the next slot": """
        SELECT 'version ' || version_id FROM document_version
        WHERE born IS NOT NULL AND first_slot + max(chunks, 1) > (SELECT next_slot FROM head)""",
    "embedded chunks have a text": """
        SELECT 'chunk ' || parse_id || '/' || ord FROM chunk
        WHERE text_id IS NOT NULL AND text_id NOT IN (SELECT text_id FROM embedding_text)""",
    "every chunk of a generation with a space has a vector": """
        SELECT 'text ' || c.text_id || ' of ' || d.document_id
        FROM head h JOIN generation g USING(generation) JOIN document_version d ON d.born IS NOT NULL AND d.died IS NULL
          JOIN chunk c ON c.parse_id = d.parse_id
        WHERE g.space_id IS NOT NULL AND c.text_id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.vector_id = (g.space_id << 40) | c.text_id)
          AND NOT EXISTS (SELECT 1 FROM vector_refusal f WHERE f.space_id = g.space_id AND f.text_id = c.text_id)""",
    "vectors belong to a space": """
        SELECT 'vector ' || vector_id FROM vector WHERE vector_id >> 40 NOT IN (SELECT space_id FROM vector_space)""",
}
_LIVE_SLOTS = """
    SELECT d.first_slot + c.ord FROM document_version d JOIN chunk c ON c.parse_id = d.parse_id
    WHERE d.born IS NOT NULL AND d.died IS NULL
"""
_LEXICAL_SLOTS = {
    "a": "SELECT id FROM chunk_fts_a_docsize",
    "b": "SELECT id FROM chunk_fts_b_docsize",
}
_LIVE_VERSIONS = "SELECT version_id FROM document_version WHERE born IS NOT NULL AND died IS NULL ORDER BY version_id"
_VOCABULARY = {
    "a": "CREATE VIRTUAL TABLE temp.stored_terms USING fts5vocab(main, chunk_fts_a, instance)",
    "b": "CREATE VIRTUAL TABLE temp.stored_terms USING fts5vocab(main, chunk_fts_b, instance)",
}
_EXPECTED_TABLE = """
    CREATE VIRTUAL TABLE temp.expected USING fts5(title, headings, body, tags, path, content='',
      tokenize='unicode61 remove_diacritics 2')
"""
_EXPECTED_TERMS = (
    "CREATE VIRTUAL TABLE temp.expected_terms USING fts5vocab(temp, expected, instance)"
)
_INSERT_EXPECTED = (
    "INSERT INTO temp.expected(rowid, title, headings, body, tags, path) VALUES(?, ?, ?, ?, ?, ?)"
)
_STATISTICS = {
    table: {
        "lengths": f"""SELECT id FROM (SELECT id, sz FROM chunk_fts_{table}_docsize
            EXCEPT SELECT id, sz FROM temp.expected_docsize)""",
        "totals": f"""SELECT id FROM (SELECT id, block FROM chunk_fts_{table}_data WHERE id = 1
            EXCEPT SELECT id, block FROM temp.expected_data WHERE id = 1)""",
    }
    for table in ("a", "b")
}
_TERMS = "SELECT term, doc, col, offset FROM temp.{} "
_CHUNK_MARKS = """
    SELECT c.ord, c.fingerprint, t.key FROM chunk c LEFT JOIN embedding_text t USING(text_id)
    WHERE c.parse_id = ? ORDER BY c.ord
"""


def find_faults(
    connection: Connection,
    *,
    quick: bool,
    analyse: Analyse,
    analyzer: str,
    fingerprint: Callable[[str], bytes],
    embedding_key: Callable[[str, ChunkPlace], bytes],
    step: Callable[[str], None],
) -> Iterator[Finding]:
    """Every broken invariant, in a fixed order.

    Args:
        quick: only what reads no text, no vector and no posting.
        analyse: makes lexical rows, to compare the lexical table with.
        analyzer: fingerprint of `analyse`; a table made by another one is not compared.
        fingerprint: of a chunk's text.
        embedding_key: of what a chunk of a document's text is embedded as.
        step: called with the name of each part before it runs; may raise to cancel.
    """
    step("structure")
    yield from _structure(connection)
    for name, query in _INVARIANTS.items():
        step(name)
        for (detail,) in connection.execute(query).fetchall():
            yield Finding(name, detail)
    try:
        head = read_head(connection)
    except CorruptIndexError as exc:
        yield Finding("the head names a published generation", str(exc))
        return
    step("sources")
    yield from _sources(connection)
    step("lexical rows")
    yield from _lexical_slots(connection, head)
    if quick:
        return
    step("rows")
    for detail in damaged_versions(connection):
        yield Finding("versions give their checksum", detail)
    for parse_id in damaged_parses(connection):
        yield Finding("parses give their checksum", f"parse {parse_id} is damaged")
    for version_id in wrong_names(connection):
        yield Finding("versions are found by their names", f"version {version_id}")
    step("vectors")
    yield from _vectors(connection)
    step("texts")
    damaged = False
    for finding in _texts(connection, fingerprint, embedding_key):
        damaged = True
        yield finding
    if head.analyzer == analyzer and not damaged:
        step("lexical terms")
        try:
            yield from _lexical_terms(connection, head, analyse)
        except CorruptIndexError as exc:  # a row that the terms come from
            yield Finding("the lexical table holds the terms of the texts", str(exc))


def _structure(connection: Connection) -> Iterator[Finding]:
    for (message,) in connection.execute("PRAGMA quick_check(20)").fetchall():
        if message != "ok":
            yield Finding("the database file is well-formed", message)


def _sources(connection: Connection) -> Iterator[Finding]:
    try:
        for source in list_sources(connection):
            for _ in refusals(connection, source.source_id):
                pass
    except CorruptIndexError as exc:
        yield Finding("sources and refusals can be read", str(exc))


def _lexical_slots(connection: Connection, head: Head) -> Iterator[Finding]:
    stored = _LEXICAL_SLOTS[head.lexical]
    for sign, query in (
        ("missing", f"{_LIVE_SLOTS} EXCEPT {stored}"),
        ("left over", f"{stored} EXCEPT {_LIVE_SLOTS}"),
    ):
        slots = [row[0] for row in connection.execute(query)]
        if slots:
            yield Finding(
                "the lexical table holds the head's chunks",
                f"{len(slots)} {sign}, first slot {slots[0]}",
            )


def _vectors(connection: Connection) -> Iterator[Finding]:
    query = """
        SELECT v.vector_id, v.norm, v.f32, v.check8, s.dimensions
        FROM vector v JOIN vector_space s ON s.space_id = v.vector_id >> 40
    """
    for vector_id, norm, blob, check, dimensions in connection.execute(query):
        if len(blob) != 4 * dimensions or check8(blob) != check:
            yield Finding("vectors give their checksum", f"vector {vector_id} is damaged")
        elif not math.isclose(norm, _length(blob)):
            yield Finding("vectors have their norm", f"vector {vector_id} says {norm}")


def _length(blob: bytes) -> float:
    numbers = array("f", blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    return math.hypot(*numbers)


def _texts(
    connection: Connection,
    fingerprint: Callable[[str], bytes],
    embedding_key: Callable[[str, ChunkPlace], bytes],
) -> Iterator[Finding]:
    contents = connection.execute(
        "SELECT content_id, digest FROM content ORDER BY content_id"
    ).fetchall()
    for content_id, digest in contents:
        try:
            text = read_content(connection, content_id)
        except CorruptIndexError as exc:
            yield Finding("texts give their checksum", f"content {content_id}: {exc}")
            continue
        if hashlib.sha256(text.encode("utf-8")).digest() != digest:
            yield Finding("texts give their digest", f"content {content_id}")
        parses = connection.execute(
            "SELECT parse_id FROM parse WHERE content_id = ?", (content_id,)
        )
        for (parse_id,) in parses.fetchall():
            for ord_, mark, key in connection.execute(_CHUNK_MARKS, (parse_id,)).fetchall():
                try:
                    place = chunk_place(connection, parse_id, ord_)
                except CorruptIndexError as exc:
                    yield Finding("chunks have their section", str(exc))
                    continue
                if fingerprint(text[place.start_char : place.end_char]) != mark:
                    yield Finding("chunks give their fingerprint", f"chunk {parse_id}/{ord_}")
                elif key is not None and embedding_key(text, place) != key:
                    yield Finding("chunks have the key of their text", f"chunk {parse_id}/{ord_}")


def _lexical_terms(connection: Connection, head: Head, analyse: Analyse) -> Iterator[Finding]:
    """Compare every posting with a fresh analysis: FTS5's own pages have no checksum."""
    connection.execute(_EXPECTED_TABLE)
    connection.execute(_EXPECTED_TERMS)
    connection.execute(_VOCABULARY[head.lexical])
    for (version_id,) in connection.execute(_LIVE_VERSIONS).fetchall():
        connection.executemany(_INSERT_EXPECTED, lexical_rows(connection, version_id, analyse))
    stored = iter(connection.execute(_TERMS.format("stored_terms")))
    expected = iter(connection.execute(_TERMS.format("expected_terms")))
    for want in expected:
        got = next(stored, None)
        if got != want:
            yield Finding(
                "the lexical table holds the terms of the texts", f"expected {want}, found {got}"
            )
            return
    extra = next(stored, None)
    if extra is not None:
        yield Finding("the lexical table holds the terms of the texts", f"unexpected {extra}")
        return
    if head.chunks == 0:
        return  # emptied and never filled tables write their totals differently
    # BM25 divides by these: a wrong one ranks wrongly and is seen nowhere else.
    for name, query in _STATISTICS[head.lexical].items():
        for (where,) in connection.execute(query).fetchall():
            yield Finding(f"the lexical table holds its {name}", f"row {where} differs")
