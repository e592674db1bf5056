"""Parses: the sections, chunks and links of one text under one recipe, shared by its versions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlindex.errors import CorruptIndexError
from sqlindex.model.chunks import ChunkSpan
from sqlindex.model.documents import Link, ParsedDocument
from sqlindex.model.links import link_key
from sqlindex.model.rendered import Rendered
from sqlindex.store.checksum import check8_of_values
from sqlindex.store.driver import Connection, Row
from sqlindex.store.stored_json import read_rendered, read_texts, write_rendered

_AGAIN = ";again-"
"""In a stored recipe, before a number: the same parser and cuts gave something else than before."""

_FIND = f"""
    SELECT parse_id, chunks FROM parse
    WHERE content_id = :content_id
      AND (recipe = :recipe OR substr(recipe, 1, length(:recipe) + {len(_AGAIN)}) = :recipe || '{_AGAIN}')
    ORDER BY parse_id DESC LIMIT 1
"""
_NEXT_ID = "SELECT 1 + coalesce(max(parse_id), 0) FROM parse"
_KEYS = """
    SELECT t.key FROM chunk c LEFT JOIN embedding_text t USING(text_id) WHERE c.parse_id = ? ORDER BY c.ord
"""
_CATALOG = "SELECT title, date, tags FROM parse WHERE parse_id = ?"
_INSERT = """
    INSERT INTO parse(content_id, recipe, language, title, date, tags, aliases, front_matter, chunks, check8)
    VALUES(:content_id, :recipe, :language, :title, :date, :tags, :aliases, :front_matter, :chunks, :check8)
"""
_HEAD = ("recipe", "language", "title", "date", "tags", "aliases", "front_matter", "chunks")
_INSERT_SECTION = "INSERT INTO section VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_CHUNK = "INSERT INTO chunk VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_LINK = "INSERT INTO link VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_TEXT = "INSERT OR IGNORE INTO embedding_text(key) VALUES(?)"
_TEXT_OF_KEY = "SELECT text_id FROM embedding_text WHERE key = ?"

_PARSE = """
    SELECT recipe, language, title, date, tags, aliases, front_matter, chunks FROM parse WHERE parse_id = ?
"""
_STORED_RECIPE = "SELECT recipe FROM parse WHERE parse_id = ?"
_STORED_CHECK = "SELECT check8 FROM parse WHERE parse_id = ?"
_SECTIONS = """
    SELECT ord, start_char, end_char, level, heading_line, heading_path, kind
    FROM section WHERE parse_id = ? ORDER BY ord
"""
_CHUNKS = """
    SELECT ord, start_char, end_char, start_line, end_line, section_ord, is_continuation, occurrence,
      hex(fingerprint), cut, context, rendered
    FROM chunk WHERE parse_id = ? ORDER BY ord
"""
_LINKS = """
    SELECT ord, target, label, start_char, line, is_wiki, key FROM link WHERE parse_id = ? ORDER BY ord
"""


_PLACE = """
    SELECT p.content_id, c.start_char, c.end_char, c.start_line, c.end_line, c.is_continuation, c.context,
      c.rendered, x.heading_path, x.heading_line, x.kind = 'body'
    FROM chunk c JOIN parse p USING(parse_id)
      JOIN section x ON x.parse_id = c.parse_id AND x.ord = c.section_ord
    WHERE c.parse_id = :parse_id AND c.ord = :ord
"""
# A recipe names the sizes between a colon and the token limit, or the end of that part.
_COUNT_CUT_OTHERWISE = """
    SELECT count(*) FROM document_version d JOIN parse p USING(parse_id)
    WHERE d.born IS NOT NULL AND d.died IS NULL
      AND instr(p.recipe, ':' || :sizes || ';') = 0 AND instr(p.recipe, ':' || :sizes || '/') = 0
"""
_DOCUMENT_OF_PARSE = """
    SELECT s.name, d.document_id FROM document_version d JOIN source s USING(source_id)
    WHERE d.parse_id = :parse_id ORDER BY d.died IS NOT NULL, d.version_id DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where a stored chunk lies, and the headings above it."""

    content_id: int
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    is_continuation: bool
    context: str
    rendered: tuple[Rendered, ...]
    heading_path: tuple[str, ...]
    heading_line: int
    is_body: bool


@dataclass(frozen=True, slots=True)
class PreparedChunk:
    """A chunk ready to store.

    Attributes:
        span: where it lies.
        fingerprint: of its text, 16 bytes.
        occurrence: 0 for the first chunk of that text in the document, then 1, …
        embedding_key: names its embedding text, or None when it gets no vector.
    """

    span: ChunkSpan
    fingerprint: bytes
    occurrence: int
    embedding_key: bytes | None


def count_cut_otherwise(connection: Connection, sizes: str) -> int:
    """Documents of the head whose chunks were cut to other sizes; reads the recipe of each.

    Args:
        sizes: see `ChunkConfig.fingerprint`.
    """
    return int(connection.execute(_COUNT_CUT_OTHERWISE, {"sizes": sizes}).fetchone()[0])


def find_parse(connection: Connection, content_id: int, recipe: str) -> tuple[int, int] | None:
    """(parse id, number of chunks) of a content under a recipe, the one made last; or None."""
    found = connection.execute(_FIND, {"content_id": content_id, "recipe": recipe}).fetchone()
    return None if found is None else (found[0], found[1])


def parse_catalog(
    connection: Connection, parse_id: int
) -> tuple[str | None, str | None, tuple[str, ...]]:
    """(title, date, tags) that the parser found in the text."""
    title, date, tags = connection.execute(_CATALOG, (parse_id,)).fetchone()
    return title, date, read_texts(tags, f"parse {parse_id}")


def plain_recipe(stored: str) -> str:
    """A stored recipe without what tells it from an earlier parse under the same one."""
    return stored.partition(_AGAIN)[0]


def put_parse_again(
    connection: Connection,
    content_id: int,
    recipe: str,
    text: str,
    parsed: ParsedDocument,
    chunks: Sequence[PreparedChunk],
) -> int:
    """Store what a parser has made anew, beside what it had made before; the parse id.

    The stored parse is shared if it is whole and says the same: generations that have it stay as
    they are.
    """
    known = find_parse(connection, content_id, recipe)
    if known is None:
        return put_parse(connection, content_id, recipe, text, parsed, chunks)
    parse_id = known[0]
    (stored,), (check8,) = (
        connection.execute(query, (parse_id,)).fetchone()
        for query in (_STORED_RECIPE, _STORED_CHECK)
    )
    rows = _rows(stored, text, parsed, chunks)
    keys = [key for (key,) in connection.execute(_KEYS, (parse_id,))]
    if (
        rows.check8() == check8
        and keys == [chunk.embedding_key for chunk in chunks]
        and is_whole_parse(connection, parse_id)
    ):
        return parse_id
    number = connection.execute(_NEXT_ID).fetchone()[0]
    return put_parse(connection, content_id, f"{recipe}{_AGAIN}{number}", text, parsed, chunks)


def put_parse(
    connection: Connection,
    content_id: int,
    recipe: str,
    text: str,
    parsed: ParsedDocument,
    chunks: Sequence[PreparedChunk],
) -> int:
    """Store a parse with its sections, chunks and links; its id."""
    rows = _rows(recipe, text, parsed, chunks)
    values = dict(zip(_HEAD, rows.head, strict=True))
    cursor = connection.execute(
        _INSERT, {"content_id": content_id, "check8": rows.check8(), **values}
    )
    parse_id = cursor.lastrowid
    assert parse_id is not None
    connection.executemany(_INSERT_SECTION, [(parse_id, *section) for section in rows.sections])
    keys = {chunk.embedding_key for chunk in chunks if chunk.embedding_key is not None}
    connection.executemany(_PUT_TEXT, [(key,) for key in sorted(keys)])
    text_by_key = {key: connection.execute(_TEXT_OF_KEY, (key,)).fetchone()[0] for key in keys}
    connection.executemany(
        _INSERT_CHUNK,
        [
            (
                parse_id,
                *span,
                chunk.fingerprint,
                *ending,
                None if chunk.embedding_key is None else text_by_key[chunk.embedding_key],
            )
            for span, chunk, ending in zip(rows.spans, chunks, rows.endings, strict=True)
        ],
    )
    connection.executemany(_INSERT_LINK, [(parse_id, *link) for link in rows.links])
    return parse_id


class _ParseRows(NamedTuple):
    """A parse as it is stored: values of its own row, sections, chunks (in three parts), links."""

    head: Row
    sections: list[Row]
    spans: list[Row]
    fingerprints: list[str]
    endings: list[Row]
    links: list[Row]

    def check8(self) -> bytes:
        """The checksum over all of it."""
        chunks: list[Row] = [
            (*span, fingerprint, *ending)
            for span, fingerprint, ending in zip(
                self.spans, self.fingerprints, self.endings, strict=True
            )
        ]
        return _check8(self.head, self.sections, chunks, self.links)


def _rows(
    recipe: str, text: str, parsed: ParsedDocument, chunks: Sequence[PreparedChunk]
) -> _ParseRows:
    tags = json.dumps(parsed.tags, ensure_ascii=False)
    aliases = json.dumps(parsed.aliases, ensure_ascii=False)
    sections: list[Row] = [
        (
            ord_,
            section.start_char,
            section.end_char,
            section.level,
            section.heading_line,
            json.dumps(section.heading_path, ensure_ascii=False),
            section.kind.value,
        )
        for ord_, section in enumerate(parsed.sections)
    ]
    spans: list[Row] = [
        (
            ord_,
            chunk.span.start_char,
            chunk.span.end_char,
            chunk.span.start_line,
            chunk.span.end_line,
            chunk.span.section,
            int(chunk.span.is_continuation),
            chunk.occurrence,
        )
        for ord_, chunk in enumerate(chunks)
    ]
    links = _link_rows(text, parsed.links)
    head: Row = (
        recipe,
        parsed.language,
        parsed.title,
        parsed.date,
        tags,
        aliases,
        parsed.front_matter,
        len(chunks),
    )
    endings: list[Row] = [
        (chunk.span.cut.value, chunk.span.context, write_rendered(chunk.span.rendered))
        for chunk in chunks
    ]
    fingerprints = [chunk.fingerprint.hex().upper() for chunk in chunks]
    return _ParseRows(head, sections, spans, fingerprints, endings, links)


def chunk_place(connection: Connection, parse_id: int, ord_: int) -> ChunkPlace:
    """Where a chunk of a parse lies.

    Raises:
        CorruptIndexError: the chunk, or the section it belongs to, is missing.
    """
    row: Any = connection.execute(_PLACE, {"parse_id": parse_id, "ord": ord_}).fetchone()
    if row is None:
        raise CorruptIndexError(
            f"chunk {ord_} of parse {parse_id} or its section is missing",
            hint="run 'sqlindex repair', or restore a backup",
        )
    return ChunkPlace(
        row[0],
        row[1],
        row[2],
        row[3],
        row[4],
        is_continuation=bool(row[5]),
        context=row[6],
        rendered=read_rendered(row[7], f"chunk {ord_} of parse {parse_id}"),
        heading_path=read_texts(row[8], f"a section of parse {parse_id}"),
        heading_line=row[9],
        is_body=bool(row[10]),
    )


def document_of_parse(connection: Connection, parse_id: int) -> tuple[str, str]:
    """(source, document id) of a version with that parse: the newest staged or live one, if any."""
    found = connection.execute(_DOCUMENT_OF_PARSE, {"parse_id": parse_id}).fetchone()
    return found[0], found[1]


def damaged_parses(connection: Connection) -> Iterator[int]:
    """Ids of parses whose rows no longer give their checksum."""
    for (parse_id,) in connection.execute("SELECT parse_id FROM parse").fetchall():
        if not is_whole_parse(connection, parse_id):
            yield parse_id


def is_whole_parse(connection: Connection, parse_id: int) -> bool:
    """Whether the rows of a stored parse give its checksum: O(its sections, chunks and links)."""
    (check8,) = connection.execute(_STORED_CHECK, (parse_id,)).fetchone()
    head, sections, chunks, links = (
        connection.execute(query, (parse_id,)).fetchall()
        for query in (_PARSE, _SECTIONS, _CHUNKS, _LINKS)
    )
    return bool(_check8(head[0], sections, chunks, links) == check8)


def _link_rows(text: str, links: Sequence[Link]) -> list[Row]:
    rows: list[Row] = []
    line, position = 1, 0
    for ord_, link in enumerate(links):
        line += text.count("\n", position, link.start_char)
        position = link.start_char
        key = link_key(link.target, link.is_wiki)
        rows.append((ord_, link.target, link.label, link.start_char, line, int(link.is_wiki), key))
    return rows


def _check8(
    head: Row, sections: Sequence[Row], chunks: Sequence[Row], links: Sequence[Row]
) -> bytes:
    return check8_of_values((head, sections, chunks, links))
