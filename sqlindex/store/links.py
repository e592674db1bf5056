"""Links and the names that they can use, as a generation holds them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlindex.errors import CorruptIndexError
from sqlindex.model.links import document_keys
from sqlindex.store.driver import Connection, Row, Value
from sqlindex.store.stored_json import read_texts, require_texts
from sqlindex.store.visible import LIVE


class DocumentPlace(NamedTuple):
    """A document of a generation as links see it."""

    source_id: int
    source: str
    source_kind: str
    root: str | None
    document_id: str
    path: str
    title: str
    uri: str | None
    parse_id: int
    aliases: tuple[str, ...]


class LinkRow(NamedTuple):
    """A stored link."""

    target: str
    label: str
    start_char: int
    line: int
    is_wiki: bool


_COLUMNS = """
    d.source_id, s.name, s.kind, s.root, d.document_id, d.path, d.title, d.uri, d.parse_id, p.aliases
"""
_JOINS = "JOIN source s USING(source_id) JOIN parse p USING(parse_id)"
_LIVE = f"d.born IS NOT NULL AND {LIVE}"
_BY_ID = f"""
    SELECT {_COLUMNS} FROM document_version d {_JOINS}
    WHERE d.source_id = :source_id AND d.document_id IN (SELECT value FROM json_each(:paths)) AND {_LIVE}
"""
# The sign before source_id keeps SQLite from walking through all documents of the source.
_BY_PATH = f"""
    SELECT {_COLUMNS} FROM document_version d {_JOINS}
    WHERE d.path IN (SELECT value FROM json_each(:paths)) AND d.path <> d.document_id
      AND +d.source_id = :source_id AND {_LIVE}
    ORDER BY d.document_id
"""
_OF_DOCUMENT = f"""
    SELECT {_COLUMNS} FROM document_version d {_JOINS}
    WHERE s.name = :source AND d.document_id = :document_id AND {_LIVE}
"""
_NAMED = f"""
    SELECT {_COLUMNS} FROM document_name n JOIN document_version d USING(version_id) {_JOINS}
    WHERE n.key = :key AND {_LIVE} ORDER BY s.name, d.document_id
"""
_ROOTS = "SELECT source_id, root FROM source WHERE root IS NOT NULL AND is_removed = 0"
_LINKS = """
    SELECT target, label, start_char, line, is_wiki FROM link WHERE parse_id = :parse_id ORDER BY ord
"""
# A relative link leads to its own source; only one with a scheme may come from another.
_TOWARDS = f"""
    SELECT {_COLUMNS}, l.target, l.label, l.start_char, l.line, l.is_wiki
    FROM link l JOIN document_version d USING(parse_id) {_JOINS}
    WHERE l.key IN (SELECT value FROM json_each(:keys)) AND {_LIVE}
      AND (d.source_id = :source_id OR l.target LIKE '%:%')
    ORDER BY s.name, d.document_id, l.start_char
"""
_HEADINGS = """
    SELECT heading_line, heading_path FROM section
    WHERE parse_id = :parse_id AND heading_line > 0 ORDER BY ord
"""
_STAGED = """
    SELECT d.version_id, d.path, d.title, d.uri, p.aliases
    FROM document_version d JOIN parse p USING(parse_id)
    WHERE d.build_id = ? AND d.source_id = ? AND d.document_id = ?
"""
_PUT_NAME = "INSERT INTO document_name(version_id, key) VALUES(?, ?)"
_DROP_NAMES = "DELETE FROM document_name WHERE version_id = ?"
_NAMED_BY = """
    SELECT d.path, d.title, d.uri, p.aliases FROM document_version d JOIN parse p USING(parse_id)
    WHERE d.version_id = ?
"""
_LACKS_NAMES = """
    SELECT NOT EXISTS (SELECT 1 FROM document_name)
      AND EXISTS (SELECT 1 FROM document_version WHERE born IS NOT NULL AND died IS NULL)
"""
_ALL_NAMED = """
    SELECT d.version_id, d.path, d.title, d.uri, p.aliases,
      (SELECT json_group_array(key) FROM document_name n WHERE n.version_id = d.version_id)
    FROM document_version d JOIN parse p USING(parse_id)
"""


def put_names(
    connection: Connection, build_id: int, source_id: int, document_ids: Sequence[str]
) -> None:
    """Store the keys of the names of staged versions, so that links find them."""
    rows: list[tuple[int, str]] = []
    for document_id in document_ids:
        staged = connection.execute(_STAGED, (build_id, source_id, document_id)).fetchone()
        version_id, path, title, uri, aliases = staged
        names = read_texts(aliases, f"the parse of {document_id!r}")
        rows += [(version_id, key) for key in sorted(document_keys(path, title, names, uri))]
    connection.executemany(_PUT_NAME, rows)


def wrong_names(connection: Connection) -> list[int]:
    """Ids of versions whose stored keys are not those of their names."""
    wrong = []
    for version_id, path, title, uri, aliases, keys in connection.execute(_ALL_NAMED):
        names = read_texts(aliases, f"the parse of version {version_id}")
        if set(json.loads(keys)) != document_keys(path, title, names, uri):
            wrong.append(version_id)
    return wrong


def remake_names(connection: Connection, version_ids: Sequence[int]) -> None:
    """Store the keys of the names of versions anew."""
    for version_id in version_ids:
        path, title, uri, aliases = connection.execute(_NAMED_BY, (version_id,)).fetchone()
        names = read_texts(aliases, f"the parse of version {version_id}")
        connection.execute(_DROP_NAMES, (version_id,))
        keys = sorted(document_keys(path, title, names, uri))
        connection.executemany(_PUT_NAME, [(version_id, key) for key in keys])


def require_names(connection: Connection) -> None:
    """Refuse to follow links when no document is found by any name: O(1).

    Raises:
        CorruptIndexError: the table of names is empty, and there are documents.
    """
    if connection.execute(_LACKS_NAMES).fetchone()[0]:
        raise CorruptIndexError(
            "the names by which links find documents are missing", hint="run 'sqlindex repair'"
        )


def place_of(
    connection: Connection, generation: int, source: str, document_id: str
) -> DocumentPlace:
    """The generation's document of that identity; there must be one."""
    parameters: dict[str, Value] = {
        "generation": generation,
        "source": source,
        "document_id": document_id,
    }
    return _place(connection.execute(_OF_DOCUMENT, parameters).fetchone())


def places(
    connection: Connection, generation: int, source_id: int, paths: Collection[str]
) -> list[DocumentPlace]:
    """Documents of a source whose id is one of `paths`, then those whose path is one."""
    parameters: dict[str, Value] = {
        "generation": generation,
        "source_id": source_id,
        "paths": _json(paths),
    }
    rows = connection.execute(_BY_ID, parameters).fetchall()
    rows += connection.execute(_BY_PATH, parameters).fetchall()
    return [_place(row) for row in rows]


def named_places(connection: Connection, generation: int, key: str) -> list[DocumentPlace]:
    """Documents of the generation with a name of that key, by source and id."""
    parameters: dict[str, Value] = {"generation": generation, "key": key}
    return [_place(row) for row in connection.execute(_NAMED, parameters)]


def roots(connection: Connection) -> list[tuple[int, str]]:
    """(source id, root) of the folders."""
    return connection.execute(_ROOTS).fetchall()


def links_of(connection: Connection, parse_id: int) -> list[LinkRow]:
    """The links of a parse in order."""
    rows = connection.execute(_LINKS, {"parse_id": parse_id})
    return [_link(row) for row in rows]


def links_towards(
    connection: Connection, generation: int, source_id: int, keys: Collection[str]
) -> list[tuple[DocumentPlace, LinkRow]]:
    """Links with one of those keys that may lead into a source, by source, id and position."""
    parameters: dict[str, Value] = {
        "generation": generation,
        "source_id": source_id,
        "keys": _json(keys),
    }
    return [(_place(row[:10]), _link(row[10:])) for row in connection.execute(_TOWARDS, parameters)]


def headings_of(connection: Connection, parse_id: int) -> list[tuple[int, tuple[str, ...]]]:
    """(1-based line, heading path) of the headings of a parse in order."""
    return [
        (line, read_texts(path, f"a section of parse {parse_id}"))
        for line, path in connection.execute(_HEADINGS, {"parse_id": parse_id})
    ]


def _place(row: Row) -> DocumentPlace:
    source_id, source, kind, root, document_id, path, title, uri, parse_id, aliases = row
    require_texts(f"the version of document {document_id!r}", document_id, path, title)
    names = read_texts(aliases, f"the parse of {document_id!r}")
    return DocumentPlace(
        source_id, source, kind, root, document_id, path, title, uri, parse_id, names
    )


def _link(row: Row) -> LinkRow:
    target, label, start_char, line, is_wiki = row
    require_texts("a link", target, label)
    return LinkRow(target, label, start_char, line, bool(is_wiki))


def _json(texts: Collection[str]) -> str:
    return json.dumps(list(texts), ensure_ascii=False)
