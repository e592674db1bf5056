"""Every invariant of the file as a query: what is wrong, by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest

from sqlindex.store.builds import unreadable_builds
from sqlindex.store.damage import UNREADABLE, require_damage, text_faults
from sqlindex.store.documents import damaged_versions
from sqlindex.store.driver import Connection, connect_scratch
from sqlindex.store.gated import unreadable_records
from sqlindex.store.head import Head, read_head
from sqlindex.store.invariants import INVARIANTS, Invariant
from sqlindex.store.lexical import LEXICAL_TABLES, Analyse, lexical_agrees, lexical_rows
from sqlindex.store.links import wrong_names
from sqlindex.store.parses import ChunkPlace, damaged_parses
from sqlindex.store.questions import damaged_questions
from sqlindex.store.sources import list_sources, refusals
from sqlindex.store.vectors import damaged_vectors


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken invariant: its name, and where."""

    invariant: str
    detail: str


# Numbers and sums of the slots as versions say them and as the table holds them.
_LIVE_SLOTS = """
    SELECT coalesce(sum(chunks), 0), coalesce(sum(chunks * first_slot + chunks * (chunks - 1) / 2), 0)
    FROM document_version WHERE born IS NOT NULL AND died IS NULL
"""
_LEXICAL_SLOTS = {
    table: f"SELECT count(*), coalesce(sum(id), 0) FROM chunk_fts_{table}_docsize"
    for table in LEXICAL_TABLES
}
_LIVE_VERSIONS = "SELECT version_id FROM document_version WHERE born IS NOT NULL AND died IS NULL ORDER BY version_id"
# The table as it must be, made anew in a scratch database, and both in words.
_EXPECTED = (
    """CREATE VIRTUAL TABLE expected USING fts5(title, headings, body, tags, path, content='',
         tokenize='unicode61 remove_diacritics 2')""",
    "CREATE VIRTUAL TABLE terms USING fts5vocab(expected, instance)",
    "CREATE VIRTUAL TABLE term_rows USING fts5vocab(expected, row)",
)
_STORED = {
    table: (
        f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.terms_{table} USING fts5vocab(main, chunk_fts_{table}, instance)",
        f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.term_rows_{table} USING fts5vocab(main, chunk_fts_{table}, row)",
    )
    for table in LEXICAL_TABLES
}
_INSERT_EXPECTED = (
    "INSERT INTO expected(rowid, title, headings, body, tags, path) VALUES(?, ?, ?, ?, ?, ?)"
)
_TERMS = "SELECT term, doc, col, offset FROM {}"
_EXPECTED_COUNTS = "SELECT term, doc FROM term_rows"
_STORED_COUNT = "SELECT doc FROM temp.term_rows_{} WHERE term = ?"
_STATISTICS = {
    "lengths": "SELECT id, sz FROM {}_docsize ORDER BY id",
    "totals": "SELECT id, block FROM {}_data WHERE id = 1",
}
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
    "gated_refusal",
    "question",
    "expectation",
)
# Columns that no checksum covers.
_UNCHECKED_TEXTS = {
    "setting": "SELECT name, value FROM setting",
    "source": "SELECT name, kind, coalesce(root, ''), options, mount_points FROM source",
    "generation": "SELECT cause, analyzer FROM generation",
    "tag": "SELECT name FROM tag",
    "vector_space": "SELECT identity FROM vector_space",
    "vector_refusal": "SELECT detail FROM vector_refusal",
    "refused_document": "SELECT document_id, reason, detail, hint FROM refused_document",
    "file_stat": "SELECT document_id FROM file_stat",
    "build": "SELECT scope, plan, coalesce(gated, '') FROM build",
    "gated_refusal": "SELECT document_id, coalesce(reason, ''), detail, hint FROM gated_refusal",
}
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
    embedding_key: Callable[[str, ChunkPlace], bytes | None],
    input_mark: str,
    step: Callable[[str], None],
) -> Iterator[Finding]:
    """Every broken invariant, in a fixed order.

    Args:
        quick: only what reads small tables and indexes: no text, vector or posting, and no chunk.
        analyse: makes lexical rows, to compare the lexical table with.
        analyzer: fingerprint of `analyse`; a table made by another one is not compared.
        fingerprint: of a chunk's text.
        embedding_key: of what a chunk of a document's text is embedded as; None if it is not.
        input_mark: see `damage.text_faults`.
        step: called with the name of each part before it runs; may raise to cancel.
    """
    parts: list[tuple[str, Iterator[Finding]]] = [
        (WELL_FORMED, _structure(connection, quick=quick)),
        *(
            (invariant.name, _violations(connection, invariant))
            for invariant in INVARIANTS
            if invariant.is_quick or not quick
        ),
        ("sources and refusals can be read", _sources(connection)),
        ("unfinished builds can be read", _builds(connection)),
        ("questions give their checksum", _questions(connection)),
        (LEXICAL_ROWS, slot_faults(connection)),
    ]
    if not quick:
        damaged: set[int] = set()
        parts += [
            ("texts without a checksum are UTF-8", _encodable(connection)),
            ("versions give their checksum", _versions(connection)),
            ("parses give their checksum", _parses(connection, damaged)),
            ("versions are found by their names", _names(connection)),
            ("vectors give their checksum", _vectors(connection)),
            (
                "texts give their checksum",
                _texts(connection, fingerprint, embedding_key, damaged, input_mark),
            ),
            (LEXICAL_TERMS, lexical_faults(connection, analyzer, analyse)),
        ]
    for name, found in parts:
        step(name)
        try:
            yield from found
        except UNREADABLE as exc:
            require_damage(exc)
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


def _violations(connection: Connection, invariant: Invariant) -> Iterator[Finding]:
    for (detail,) in connection.execute(invariant.violations).fetchall():
        yield Finding(invariant.name, str(detail))


def _sources(connection: Connection) -> Iterator[Finding]:
    for source in list_sources(connection):
        try:
            for _ in refusals(connection, source.source_id):
                pass
        except UNREADABLE as exc:
            require_damage(exc)
            yield Finding("sources and refusals can be read", f"source {source.name!r}: {exc}")


def _builds(connection: Connection) -> Iterator[Finding]:
    for build_id in unreadable_builds(connection):
        yield Finding("unfinished builds can be read", f"build {build_id}")
    for build_id in unreadable_records(connection):
        yield Finding("unfinished builds can be read", f"what a gate measured of build {build_id}")


def _questions(connection: Connection) -> Iterator[Finding]:
    for question in damaged_questions(connection):
        yield Finding("questions give their checksum", f"question {question.id!r} is damaged")


def _encodable(connection: Connection) -> Iterator[Finding]:
    for table, query in _UNCHECKED_TEXTS.items():
        for texts in connection.execute(query):
            try:
                "".join(texts).encode()
            except UNREADABLE as exc:
                yield Finding("texts without a checksum are UTF-8", f"a row of {table}: {exc}")


def slot_faults(connection: Connection) -> Iterator[Finding]:
    """Compare what the lexical table counts with the head and its slots, by their number and sum."""
    head = read_head(connection)
    if not lexical_agrees(connection, head.lexical, head.chunks):
        yield Finding(LEXICAL_ROWS, f"it counts other rows than {head.chunks}, or has no index")
    stored = connection.execute(_LEXICAL_SLOTS[head.lexical]).fetchone()
    live = connection.execute(_LIVE_SLOTS).fetchone()
    if stored != live:
        yield Finding(LEXICAL_ROWS, f"{stored[0]} rows for {live[0]} chunks, or in other slots")


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
    embedding_key: Callable[[str, ChunkPlace], bytes | None],
    damaged: set[int],
    input_mark: str,
) -> Iterator[Finding]:
    faults = text_faults(
        connection,
        fingerprint=fingerprint,
        embedding_key=embedding_key,
        damaged_parses=damaged,
        input_mark=input_mark,
    )
    for fault in faults:
        yield Finding(fault.rule, fault.detail)


def lexical_faults(connection: Connection, analyzer: str, analyse: Analyse) -> Iterator[Finding]:
    """Compare every posting with a fresh analysis: FTS5's own pages have no checksum."""
    head = read_head(connection)
    if head.analyzer != analyzer:
        return
    with closing(connect_scratch()) as scratch:
        for statement in _EXPECTED:
            scratch.execute(statement)
        for (version_id,) in connection.execute(_LIVE_VERSIONS).fetchall():
            scratch.executemany(_INSERT_EXPECTED, lexical_rows(connection, version_id, analyse))
        yield from _differing_terms(connection, scratch, head)


def _differing_terms(connection: Connection, scratch: Connection, head: Head) -> Iterator[Finding]:
    for statement in _STORED[head.lexical]:
        connection.execute(statement)
    stored = connection.execute(_TERMS.format(f"temp.terms_{head.lexical}"))
    expected = scratch.execute(_TERMS.format("terms"))
    for got, want in zip_longest(stored, expected):
        if got != want:
            yield Finding(LEXICAL_TERMS, f"expected {want}, found {got}")
            return
    # The index over the pages: a scan does not use it, and a search uses nothing else.
    count = _STORED_COUNT.format(head.lexical)
    for term, documents in scratch.execute(_EXPECTED_COUNTS):
        if connection.execute(count, (term,)).fetchone() != (documents,):
            yield Finding("the lexical table finds its terms", f"{term!r}")
            return
    if head.chunks == 0:
        return  # emptied and never filled tables write their totals differently
    # BM25 divides by these: a wrong one ranks wrongly and is seen nowhere else.
    for name, query in _STATISTICS.items():
        rows = connection.execute(query.format(f"chunk_fts_{head.lexical}"))
        for got, want in zip_longest(rows, scratch.execute(query.format("expected"))):
            if got != want:
                yield Finding(
                    f"the lexical table holds its {name}", f"expected {want}, found {got}"
                )
                return
