"""Every invariant of the file as a query: what is wrong, by row."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlindex.store.damage import UNREADABLE, schema_faults, text_faults
from sqlindex.store.documents import damaged_versions
from sqlindex.store.driver import Connection, DatabaseError, is_damage
from sqlindex.store.head import read_head
from sqlindex.store.invariants import INVARIANTS, Invariant
from sqlindex.store.lexical import Analyse, lexical_agrees, lexical_rows
from sqlindex.store.links import wrong_names
from sqlindex.store.parses import ChunkPlace, damaged_parses
from sqlindex.store.sources import list_sources, refusals
from sqlindex.store.vectors import damaged_vectors


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken invariant: its name, and where."""

    invariant: str
    detail: str


_LIVE_SLOTS = """
    SELECT first_slot, chunks FROM document_version
    WHERE born IS NOT NULL AND died IS NULL ORDER BY first_slot
"""
_LEXICAL_SLOTS = {
    "a": "SELECT id FROM chunk_fts_a_docsize ORDER BY id",
    "b": "SELECT id FROM chunk_fts_b_docsize ORDER BY id",
}
_LIVE_VERSIONS = "SELECT version_id FROM document_version WHERE born IS NOT NULL AND died IS NULL ORDER BY version_id"
_VOCABULARY = {
    table: (
        f"CREATE VIRTUAL TABLE temp.stored_terms USING fts5vocab(main, chunk_fts_{table}, instance)",
        f"CREATE VIRTUAL TABLE temp.stored_rows USING fts5vocab(main, chunk_fts_{table}, row)",
    )
    for table in ("a", "b")
}
_EXPECTED_TABLE = """
    CREATE VIRTUAL TABLE temp.expected USING fts5(title, headings, body, tags, path, content='',
      tokenize='unicode61 remove_diacritics 2')
"""
_EXPECTED_TERMS = (
    "CREATE VIRTUAL TABLE temp.expected_terms USING fts5vocab(temp, expected, instance)"
)
_EXPECTED_ROWS = "CREATE VIRTUAL TABLE temp.expected_rows USING fts5vocab(temp, expected, row)"
_EXPECTED_COUNTS = "SELECT term, doc FROM temp.expected_rows"
_STORED_COUNT = "SELECT doc FROM temp.stored_rows WHERE term = ?"
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
# Small tables, whose pages a quick check looks at one by one; the full check looks at all pages.
_SMALL_TABLES = (
    "head",
    "generation",
    "tag",
    "setting",
    "source",
    "build",
    "build_removes",
    "collection",
    "unused_parse",
    "unused_text",
    "unused_space",
    "vector_space",
    "vector_refusal",
    "refused_document",
)
WELL_FORMED = "the database file is well-formed"
LEXICAL_ROWS = "the lexical table holds the head's chunks"
LEXICAL_TERMS = "the lexical table holds the terms of the texts"


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
        quick: only what reads small tables and indexes: no text, vector or posting, and no chunk.
        analyse: makes lexical rows, to compare the lexical table with.
        analyzer: fingerprint of `analyse`; a table made by another one is not compared.
        fingerprint: of a chunk's text.
        embedding_key: of what a chunk of a document's text is embedded as.
        step: called with the name of each part before it runs; may raise to cancel.
    """
    parts: list[tuple[str, Iterator[Finding]]] = [
        (WELL_FORMED, _structure(connection, quick=quick)),
        ("the schema is as it was made", _schema(connection)),
        *(
            (invariant.name, _violations(connection, invariant))
            for invariant in INVARIANTS
            if invariant.is_quick or not quick
        ),
        ("sources and refusals can be read", _sources(connection)),
        (LEXICAL_ROWS, _lexical_slots(connection)),
    ]
    if not quick:
        damaged: set[int] = set()
        parts += [
            ("versions give their checksum", _versions(connection)),
            ("parses give their checksum", _parses(connection, damaged)),
            ("versions are found by their names", _names(connection)),
            ("vectors give their checksum", _vectors(connection)),
            ("texts give their checksum", _texts(connection, fingerprint, embedding_key, damaged)),
            (LEXICAL_TERMS, _lexical_terms(connection, analyzer, analyse)),
        ]
    for name, found in parts:
        step(name)
        try:
            yield from found
        except UNREADABLE as exc:
            if isinstance(exc, DatabaseError) and not is_damage(exc):
                raise
            yield Finding(name, f"cannot be read: {exc}")


def _structure(connection: Connection, *, quick: bool) -> Iterator[Finding]:
    """SQLite's own checks: of pages and types, and in a full check of indexes against their tables."""
    messages = (
        (f"PRAGMA quick_check({table})" for table in _SMALL_TABLES)
        if quick
        else ("PRAGMA integrity_check(20)",)
    )
    for pragma in messages:
        for (message,) in connection.execute(pragma).fetchall():
            if message != "ok":
                yield Finding(WELL_FORMED, message)


def _schema(connection: Connection) -> Iterator[Finding]:
    for detail in schema_faults(connection).values():
        yield Finding("the schema is as it was made", detail)


def _violations(connection: Connection, invariant: Invariant) -> Iterator[Finding]:
    for (detail,) in connection.execute(invariant.violations).fetchall():
        yield Finding(invariant.name, str(detail))


def _sources(connection: Connection) -> Iterator[Finding]:
    for source in list_sources(connection):
        try:
            for _ in refusals(connection, source.source_id):
                pass
        except UNREADABLE as exc:
            yield Finding("sources and refusals can be read", f"source {source.name!r}: {exc}")


def _lexical_slots(connection: Connection) -> Iterator[Finding]:
    head = read_head(connection)
    stored = array("q", (row[0] for row in connection.execute(_LEXICAL_SLOTS[head.lexical])))
    versions = connection.execute(_LIVE_SLOTS).fetchall()
    chunks = sum(row[1] for row in versions)
    if chunks != len(stored):
        yield Finding(LEXICAL_ROWS, f"{len(stored)} rows for {chunks} chunks")
        return
    expected = array("q")
    for first_slot, count in versions:
        expected.extend(range(first_slot, first_slot + count))
    if stored != expected:
        slot = next(have for have, want in zip(stored, expected, strict=True) if have != want)
        yield Finding(LEXICAL_ROWS, f"slot {slot} is none of a live document")
    if not lexical_agrees(connection, head.lexical, head.chunks):
        yield Finding(LEXICAL_ROWS, f"it counts other rows than {head.chunks}, or has no index")


def _versions(connection: Connection) -> Iterator[Finding]:
    for _, detail in damaged_versions(connection):
        yield Finding("versions give their checksum", detail)


def _parses(connection: Connection, damaged: set[int]) -> Iterator[Finding]:
    for parse_id in damaged_parses(connection):
        damaged.add(parse_id)
        yield Finding("parses give their checksum", f"parse {parse_id} is damaged")


def _names(connection: Connection) -> Iterator[Finding]:
    for version_id in wrong_names(connection):
        yield Finding("versions are found by their names", f"version {version_id}")


def _vectors(connection: Connection) -> Iterator[Finding]:
    for vector_id, detail in damaged_vectors(connection):
        yield Finding("vectors give their checksum", f"vector {vector_id}: {detail}")


def _texts(
    connection: Connection,
    fingerprint: Callable[[str], bytes],
    embedding_key: Callable[[str, ChunkPlace], bytes],
    damaged: set[int],
) -> Iterator[Finding]:
    faults = text_faults(
        connection,
        fingerprint=fingerprint,
        embedding_key=embedding_key,
        damaged_parses=damaged,
    )
    for fault in faults:
        yield Finding(fault.rule, fault.detail)


def _lexical_terms(connection: Connection, analyzer: str, analyse: Analyse) -> Iterator[Finding]:
    """Compare every posting with a fresh analysis: FTS5's own pages have no checksum."""
    head = read_head(connection)
    if head.analyzer != analyzer:
        return
    for statement in (_EXPECTED_TABLE, _EXPECTED_TERMS, _EXPECTED_ROWS, *_VOCABULARY[head.lexical]):
        connection.execute(statement)
    for (version_id,) in connection.execute(_LIVE_VERSIONS).fetchall():
        connection.executemany(_INSERT_EXPECTED, lexical_rows(connection, version_id, analyse))
    stored = iter(connection.execute(_TERMS.format("stored_terms")))
    expected = iter(connection.execute(_TERMS.format("expected_terms")))
    for want in expected:
        got = next(stored, None)
        if got != want:
            yield Finding(LEXICAL_TERMS, f"expected {want}, found {got}")
            return
    extra = next(stored, None)
    if extra is not None:
        yield Finding(LEXICAL_TERMS, f"unexpected {extra}")
        return
    # The index over the pages: a scan does not use it, and a search uses nothing else.
    for term, documents in connection.execute(_EXPECTED_COUNTS).fetchall():
        if connection.execute(_STORED_COUNT, (term,)).fetchone() != (documents,):
            yield Finding(
                "the lexical table finds its terms",
                f"{term!r} is not found as often as it stands there",
            )
            return
    if head.chunks == 0:
        return  # emptied and never filled tables write their totals differently
    # BM25 divides by these: a wrong one ranks wrongly and is seen nowhere else.
    for name, query in _STATISTICS[head.lexical].items():
        for (where,) in connection.execute(query).fetchall():
            yield Finding(f"the lexical table holds its {name}", f"row {where} differs")
