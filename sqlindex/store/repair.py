"""What makes a damaged index whole: derived rows made anew, damaged rows of truth out of the way.

Each function is one step of `indexing.repair`, runs in a transaction of its own or in the one it is
given, and finds again what a process that ended in between had left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlindex.cancellation import CancelToken
from sqlindex.errors import CorruptIndexError
from sqlindex.store.checksum import stored_bytes
from sqlindex.store.damage import UNREADABLE, index_disagreements, require_damage
from sqlindex.store.documents import damaged_versions
from sqlindex.store.driver import Connection, DatabaseError, is_damage
from sqlindex.store.expected_schema import expected_objects, mendable_faults
from sqlindex.store.generations import fill_table
from sqlindex.store.head import read_head
from sqlindex.store.header import SCHEMA_VERSION
from sqlindex.store.invariants import (
    GENERATION_COUNTS,
    MISSING_VECTORS,
    NO_MOMENT,
    STRAY_PIECES,
    STRAY_VECTORS,
    SUSPECTS_SETTING,
    VERSION_RULES,
)
from sqlindex.store.lexical import LEXICAL_TABLES, Analyse, LexicalTable, recreate_table
from sqlindex.store.questions import damaged_questions
from sqlindex.store.settings import get_setting, put_setting
from sqlindex.store.sources import refusal_of
from sqlindex.store.stored_json import read_texts
from sqlindex.store.vectors import damaged_vectors, set_width, width_of_whole
from sqlindex.store.writer import Writer

_NAMES_PER_STEP = 500

# What SQLite's check says of rows; all else it says of pages.
_OF_ROWS = re.compile(
    r"row \d+ missing from index|wrong # of entries in index|non-unique entry in index|NULL value in "
    r"|CHECK constraint failed in |non-\w+ value in |(?:NUMERIC|TEXT) value in |malformed inverted index"
    r"|unable to validate the inverted index|row \d+ values not stored"
)


class Version(NamedTuple):
    """A version that is given up; `died` is None while it is live, `born` while it is staged."""

    version_id: int
    source_id: int
    source: str
    document_id: str
    born: int | None
    died: int | None


_VERSION = """
    SELECT d.version_id, d.source_id, coalesce(s.name, '?'), d.document_id, d.born, d.died
    FROM document_version d LEFT JOIN source s USING(source_id) WHERE d.version_id = ?
"""
_VERSIONS_OF = "SELECT version_id FROM document_version WHERE parse_id = ?"
_PARSES_OF = "SELECT parse_id FROM parse WHERE content_id = ?"
_PARSES_WITHOUT_CONTENT = """
    SELECT parse_id FROM parse WHERE content_id NOT IN (SELECT content_id FROM content)
"""
_KEPT_WITHIN = """
    SELECT generation FROM generation
    WHERE is_kept AND generation >= :born AND (:died IS NULL OR generation < :died) ORDER BY generation
"""
_FORGET_STAT = "DELETE FROM file_stat WHERE source_id = ? AND document_id = ?"
_DELETE_VERSION = "DELETE FROM document_version WHERE version_id = ?"
_DELETE_REMOVAL = "DELETE FROM build_removes WHERE version_id = ?"

_HEADS = "SELECT generation, lexical FROM head"
# The head's row may be there while the row of its generation is lost.
_LAST_GENERATION = """
    SELECT max(generation) FROM (
      SELECT generation FROM generation
      UNION ALL SELECT h.generation FROM head h JOIN document_version d ON h.generation IN (d.born, d.died)
      UNION ALL SELECT max(born) FROM document_version WHERE NOT EXISTS (SELECT 1 FROM generation))
"""
_GAPS = """
    WITH RECURSIVE numbered(generation) AS (
      SELECT 0 UNION ALL SELECT generation + 1 FROM numbered WHERE generation < :last)
    SELECT generation FROM numbered WHERE generation NOT IN (SELECT generation FROM generation)
"""
_FILL_GAP = """
    INSERT INTO generation(generation, build_id, published_at, cause, analyzer, documents, chunks, embedded_chunks,
      added, changed, removed, renamed, embedded, is_kept)
    VALUES(:generation, coalesce((SELECT min(build_id) FROM document_version WHERE born = :generation), -:generation),
      coalesce((SELECT published_at FROM generation WHERE generation < :generation ORDER BY generation DESC LIMIT 1),
               '1970-01-01T00:00:00Z'),
      'repair', '', 0, 0, 0, 0, 0, 0, 0, 0, :generation = :last)
"""
_PUT_HEAD = "INSERT OR REPLACE INTO head VALUES(1, :generation, :next_slot, :lexical)"
_NEXT_SLOT = """
    SELECT max(coalesce((SELECT max(first_slot + max(chunks, 1)) FROM document_version WHERE born IS NOT NULL), 1),
               coalesce((SELECT next_slot FROM head), 1))
"""
# The build of a generation as its versions say it, where they agree and it is no other generation's.
_GENERATIONS_BUILD = """
    SELECT g.generation, d.build_id
    FROM (SELECT born, min(build_id) AS build_id FROM document_version WHERE born IS NOT NULL
          GROUP BY born HAVING min(build_id) = max(build_id)) d
      JOIN generation g ON g.generation = d.born
    WHERE g.build_id <> d.build_id
      AND NOT EXISTS (SELECT 1 FROM generation o WHERE o.build_id = d.build_id AND o.generation <> g.generation)
"""
_BAD_MOMENTS = (
    f"SELECT generation FROM generation WHERE published_at {NO_MOMENT} ORDER BY generation"
)
_SET_MOMENT = f"""
    UPDATE generation SET published_at = coalesce(
      (SELECT p.published_at FROM generation p WHERE p.generation < :generation AND NOT p.published_at {NO_MOMENT}
       ORDER BY p.generation DESC LIMIT 1), '1970-01-01T00:00:00Z')
    WHERE generation = :generation
"""
_SPACELESS = """
    SELECT generation FROM generation
    WHERE is_kept AND space_id IS NOT NULL AND space_id NOT IN (SELECT space_id FROM vector_space)
"""
_BAD_RESTORED = """
    SELECT generation FROM generation g WHERE restored IS NOT NULL
    AND (restored >= generation OR restored NOT IN (SELECT generation FROM generation))
"""
_SET_COUNTS = """
    UPDATE generation SET documents = :documents, chunks = :chunks, embedded_chunks = :embedded_chunks
    WHERE generation = :generation
"""
_SPACES = """
    SELECT s.space_id, s.dimensions, min(length(v.f32)), max(length(v.f32)) FROM vector_space s
      JOIN vector v ON v.vector_id BETWEEN s.space_id << 40 AND (s.space_id << 40) + 1099511627775
    GROUP BY s.space_id
"""
_INTEGRITY = {
    table: f"INSERT INTO chunk_fts_{table}(chunk_fts_{table}) VALUES('integrity-check')"
    for table in LEXICAL_TABLES
}
_PLACES_OF_TEXT = """
    SELECT DISTINCT coalesce(s.name, '?') || ': ' || d.document_id, d.died IS NULL
    FROM chunk c JOIN document_version d USING(parse_id) LEFT JOIN source s USING(source_id)
    WHERE c.text_id = ? AND d.born IS NOT NULL ORDER BY 2 DESC, 1
"""
_LOSE_VECTOR = """
    INSERT OR REPLACE INTO vector_refusal(space_id, text_id, detail, is_lost) VALUES(?, ?, ?, 1)
"""
_REFUSED_WITH_VECTOR = """
    DELETE FROM vector_refusal
    WHERE EXISTS (SELECT 1 FROM vector v WHERE v.vector_id = (space_id << 40) | text_id)
"""
_TEXT_OF_KEY = "SELECT text_id FROM embedding_text WHERE key = ?"
_PUT_KEY = "INSERT OR REPLACE INTO embedding_text(text_id, key) VALUES(?, ?)"
_ADD_KEY = "INSERT INTO embedding_text(key) VALUES(?)"
_SET_TEXT = "UPDATE chunk SET text_id = ? WHERE parse_id = ? AND ord = ?"

_LIVE_IDS = """
    SELECT version_id FROM document_version WHERE born IS NOT NULL AND died IS NULL ORDER BY version_id
"""
_SWAP = "UPDATE head SET lexical = :lexical WHERE singleton = 1 AND generation = :generation"
_SET_ANALYZER = "UPDATE generation SET analyzer = :analyzer WHERE generation = :generation"
_UNCLAIM = "UPDATE build SET lexical = NULL WHERE lexical = ?"

# Rows that nothing owns or that say nothing: (what they are, the statement that takes them out).
_LITTER = (
    ("rows of no parse", "DELETE FROM section WHERE parse_id NOT IN (SELECT parse_id FROM parse)"),
    ("rows of no parse", "DELETE FROM chunk WHERE parse_id NOT IN (SELECT parse_id FROM parse)"),
    ("rows of no parse", "DELETE FROM link WHERE parse_id NOT IN (SELECT parse_id FROM parse)"),
    (
        "texts of no parse",
        "DELETE FROM content WHERE content_id NOT IN (SELECT content_id FROM parse)",
    ),
    ("pieces of no text", f"DELETE FROM content_piece WHERE piece_id IN ({STRAY_PIECES})"),
    (
        "names of no version",
        "DELETE FROM document_name WHERE version_id NOT IN (SELECT version_id FROM document_version)",
    ),
    (
        "removals of no build",
        "DELETE FROM build_removes WHERE build_id NOT IN (SELECT build_id FROM build)",
    ),
    (
        "refusals of no build",
        "DELETE FROM gated_refusal WHERE build_id NOT IN (SELECT build_id FROM build)",
    ),
)
_LISTS = (
    (
        "the list of unused parses",
        """INSERT OR IGNORE INTO unused_parse SELECT parse_id FROM parse
           WHERE parse_id NOT IN (SELECT parse_id FROM document_version)""",
    ),
    (
        "the list of unused parses",
        "DELETE FROM unused_parse WHERE parse_id NOT IN (SELECT parse_id FROM parse)",
    ),
    (
        "the list of unused texts",
        f"""DELETE FROM unused_text WHERE text_id NOT IN (SELECT text_id FROM embedding_text) OR since {NO_MOMENT}""",
    ),
    (
        "the list of unused texts",
        """INSERT OR IGNORE INTO unused_text SELECT text_id, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
           FROM embedding_text t WHERE NOT EXISTS (SELECT 1 FROM chunk c WHERE c.text_id = t.text_id)""",
    ),
    (
        "the list of unused spaces",
        f"DELETE FROM unused_space WHERE space_id NOT IN (SELECT space_id FROM vector_space) OR since {NO_MOMENT}",
    ),
)
_STRAY_TAGS = """
    SELECT name, generation FROM tag
    WHERE generation NOT IN (SELECT generation FROM generation WHERE is_kept)
"""
_MOUNT_POINTS = "SELECT source_id, name, mount_points FROM source"
_FORGET_MOUNTS = "UPDATE source SET mount_points = '[]' WHERE source_id = ?"
# Texts that no checksum covers, and what is done with the rows of one that is no UTF-8.
_OF_TEXT = " WHERE CAST({column} AS BLOB) = ?"
_PLAIN_TEXTS = (
    (
        "refused_document",
        ("document_id", "reason", "detail", "hint"),
        "DELETE FROM refused_document" + _OF_TEXT,
    ),
    ("file_stat", ("document_id",), "DELETE FROM file_stat" + _OF_TEXT),
    (
        "gated_refusal",
        ("document_id", "reason", "detail", "hint"),
        "DELETE FROM gated_refusal" + _OF_TEXT,
    ),
    ("setting", ("name", "value"), "DELETE FROM setting" + _OF_TEXT),
    ("tag", ("name",), "DELETE FROM tag" + _OF_TEXT),
    ("generation", ("cause", "analyzer"), "UPDATE generation SET {column} = ''" + _OF_TEXT),
    ("vector_refusal", ("detail",), "UPDATE vector_refusal SET {column} = ''" + _OF_TEXT),
)
_FORGET_QUESTION = "DELETE FROM question WHERE CAST(question_id AS BLOB) = ?"
_STRAY_EXPECTATIONS = """
    SELECT question_id, source, document_id FROM expectation
    WHERE question_id NOT IN (SELECT question_id FROM question) ORDER BY 1, 2, 3
"""
_FORGET_EXPECTATIONS = """
    DELETE FROM expectation WHERE question_id NOT IN (SELECT question_id FROM question)
"""
# What was measured no longer is what would be published.
_FORGET_GATE = """
    UPDATE build SET gated = NULL
    WHERE build_id = (SELECT build_id FROM document_version WHERE version_id = ? AND born IS NULL)
"""
_REFUSED = "SELECT source_id, document_id, is_kept FROM refused_document"
_FORGET_REFUSED = "DELETE FROM refused_document WHERE source_id = ? AND document_id = ?"


def mend_structure(connection: Connection, path: Path) -> list[tuple[str, bool]]:
    """Make missing objects of the schema and indexes anew: (what, whether something of truth went).

    Where an index and its table disagree either may be damaged. Versions concerned are remembered
    as suspect in the same transaction, parses lose their checksum, tags go, generations are no
    longer kept: else the damage would pass for truth from now on.

    Args:
        path: for messages.

    Raises:
        CorruptIndexError: pages of a table are damaged; the transaction must be rolled back.
        ForeignSchemaError: the schema holds what this program did not make.
    """
    mended = []
    faults = mendable_faults(connection, path)
    for table in LEXICAL_TABLES:
        if any(name.startswith(f"chunk_fts_{table}") for _, name, _ in faults):
            recreate_table(connection, table)
    for kind, name, detail in faults:
        sql = expected_objects(SCHEMA_VERSION)[kind, name][3]
        if sql is not None and not name.startswith("chunk_fts_"):
            connection.execute(f"DROP {kind} IF EXISTS {name}")
            connection.execute(sql)
        mended.append((detail, False))
    messages = _messages(connection)
    if any(" index " in message for message in messages):
        mended += _remember_suspects(connection)
        try:
            connection.execute("REINDEX")
        except UNREADABLE as exc:
            require_damage(exc)
            raise _unreadable(str(exc)) from exc
        mended.append(("indexes of tables", False))
        messages = _messages(connection)
    of_pages = [message for message in messages if not _OF_ROWS.search(message)]
    if of_pages:
        raise _unreadable(of_pages[0])
    return mended


def _messages(connection: Connection) -> list[str]:
    try:
        rows = connection.execute("PRAGMA integrity_check(1000)").fetchall()
    except DatabaseError as exc:
        if not is_damage(exc):
            raise
        if "fts5" not in str(exc):
            raise _unreadable(str(exc)) from exc
        rows = connection.execute("PRAGMA quick_check(document_version)").fetchall()
    # SQLite 3.44 and later look into the lexical tables too, which are made anew in a step of their own.
    return [
        row[0]
        for row in rows
        if row[0] != "ok" and "fts5" not in row[0] and "chunk_fts" not in row[0]
    ]


def _unreadable(message: str) -> CorruptIndexError:
    return CorruptIndexError(
        f"pages of the file are damaged, which cannot be repaired in place: {message}",
        hint="copy what can be read into a new file (sqlindex repair --salvage NEW.db), or restore a backup",
    )


def _remember_suspects(connection: Connection) -> list[tuple[str, bool]]:
    mended: list[tuple[str, bool]] = []
    try:
        versions = index_disagreements(connection, "document_version")
        parses = index_disagreements(connection, "parse") | index_disagreements(connection, "chunk")
        tags = index_disagreements(connection, "tag")
        generations = index_disagreements(connection, "generation")
    except UNREADABLE as exc:
        require_damage(exc)
        # An index that cannot be read at all says nothing against its table.
        return mended
    suspects = {*suspect_versions(connection), *versions}
    if suspects:
        put_setting(connection, SUSPECTS_SETTING, json.dumps(sorted(suspects, key=str)))
    connection.execute("PRAGMA writable_schema=ON")  # else the missing index entries are an error
    try:
        for parse_id in parses:
            connection.execute("UPDATE parse SET check8 = x'' WHERE parse_id = ?", (parse_id,))  # type: ignore[arg-type]  # a stored value
        for name in tags:
            connection.execute("DELETE FROM tag WHERE name = ?", (name,))  # type: ignore[arg-type]
            mended.append((f"tag {name}: which generation it names is uncertain", True))
        for generation in generations:
            connection.execute(
                "UPDATE generation SET is_kept = 0 WHERE generation = ?",
                (generation,),  # type: ignore[arg-type]
            )
            mended.append((f"generation {generation}: whether it is kept is uncertain", True))
    finally:
        connection.execute("PRAGMA writable_schema=OFF")
    return mended


def suspect_versions(connection: Connection) -> list[int]:
    """Versions that an unfinished repair found in disagreement with an index."""
    stored = get_setting(connection, SUSPECTS_SETTING)
    return [] if stored is None else json.loads(stored)


def forget_suspects(connection: Connection) -> bool:
    """End a repair, as what was suspect is gone; whether anything was."""
    ended = connection.execute("DELETE FROM setting WHERE name = ?", (SUSPECTS_SETTING,))
    return ended.rowcount > 0


def mend_generations(connection: Connection) -> Iterator[tuple[str, bool]]:
    """Head and generation rows, as far as versions and spaces say how they must be."""
    last = connection.execute(_LAST_GENERATION).fetchone()[0]
    if last is None:
        raise CorruptIndexError(
            "there is no generation", hint="restore a backup, or index into a new file"
        )
    for (generation,) in connection.execute(_GAPS, {"last": last}).fetchall():
        connection.execute(_FILL_GAP, {"generation": generation, "last": last})
        yield f"what is told of generation {generation}", True
    heads = connection.execute(_HEADS).fetchall()
    if len(heads) != 1 or heads[0][0] != last or heads[0][1] not in ("a", "b"):
        lexical = heads[0][1] if heads and heads[0][1] in ("a", "b") else "a"
        next_slot = connection.execute(_NEXT_SLOT).fetchone()[0]
        connection.execute("DELETE FROM head")
        connection.execute(
            _PUT_HEAD, {"generation": last, "next_slot": next_slot, "lexical": lexical}
        )
        yield "the head", False
    fixed = connection.execute(
        """UPDATE generation SET is_kept = (generation = :last)
           WHERE is_kept NOT IN (0, 1) OR (generation = :last AND is_kept = 0)""",
        {"last": last},
    )
    if fixed.rowcount:
        yield "which generations are kept", False
    for generation, build_id in connection.execute(_GENERATIONS_BUILD).fetchall():
        connection.execute(
            "UPDATE generation SET build_id = ? WHERE generation = ?", (build_id, generation)
        )
        yield f"the build of generation {generation}", False
    for (generation,) in connection.execute(_BAD_MOMENTS).fetchall():
        connection.execute(_SET_MOMENT, {"generation": generation})
        yield f"when generation {generation} was published", True
    for (generation,) in connection.execute(_BAD_RESTORED).fetchall():
        connection.execute(
            "UPDATE generation SET restored = NULL WHERE generation = ?", (generation,)
        )
        yield f"which generation {generation} restored", True
    for name, generation in connection.execute(_STRAY_TAGS).fetchall():
        connection.execute("DELETE FROM tag WHERE name = ?", (name,))
        yield f"tag {name} of generation {generation}, which is not kept", True
    fixed = connection.execute(
        f"""UPDATE tag SET tagged_at = (SELECT published_at FROM generation g WHERE g.generation = tag.generation)
            WHERE tagged_at {NO_MOMENT}"""
    )
    if fixed.rowcount:
        yield "when tags were given", True


def spaceless_generations(connection: Connection) -> list[int]:
    """Generations whose vector space is gone; they are lexical from now on."""
    found = [row[0] for row in connection.execute(_SPACELESS)]
    connection.executemany(
        "UPDATE generation SET space_id = NULL WHERE generation = ?", [(g,) for g in found]
    )
    return found


_FOLLOWS = """
    SELECT p.documents + g.added - g.removed FROM generation g JOIN generation p ON p.generation = g.generation - 1
    WHERE g.generation = :generation
"""


def mend_counts(connection: Connection) -> list[tuple[str, bool]]:
    """Count documents and chunks of kept generations anew.

    Returns:
        What each one that was wrong said and has, and whether documents are missing or too many: so
        it is if the number it said follows from the generation before and from what changed since.
    """
    wrong = []
    for generation, *said, documents, chunks, embedded in connection.execute(
        GENERATION_COUNTS
    ).fetchall():
        if said != [documents, chunks, embedded]:
            follows = connection.execute(_FOLLOWS, {"generation": generation}).fetchone()
            is_lost = said[0] != documents and follows == (said[0],)
            counts = {"documents": documents, "chunks": chunks, "embedded_chunks": embedded}
            connection.execute(_SET_COUNTS, {"generation": generation, **counts})
            told = f"generation {generation} said {said[0]} documents and {said[1]} chunks"
            wrong.append((f"{told}, has {documents} and {chunks}", is_lost))
    return wrong


def mend_next_slot(connection: Connection) -> bool:
    """Let new slots begin behind all that are taken; whether they did not."""
    next_slot = connection.execute(_NEXT_SLOT).fetchone()[0]
    moved = connection.execute(
        "UPDATE head SET next_slot = :next WHERE next_slot <> :next", {"next": next_slot}
    )
    return moved.rowcount > 0


def unsound_versions(connection: Connection) -> dict[int, str]:
    """Versions that break a rule, and which."""
    found = dict.fromkeys(suspect_versions(connection), "its row and an index disagree")
    for rule, query in VERSION_RULES.items():
        for (version_id,) in connection.execute(query).fetchall():
            found.setdefault(version_id, f"not so: {rule}")
    for version_id, _ in damaged_versions(connection):
        found.setdefault(version_id, "its row is damaged")
    return found


def parses_without_content(connection: Connection) -> list[int]:
    """Parses whose text is not there."""
    return [row[0] for row in connection.execute(_PARSES_WITHOUT_CONTENT)]


def parses_of(connection: Connection, content_id: int) -> list[int]:
    """Parses of a content."""
    return [row[0] for row in connection.execute(_PARSES_OF, (content_id,))]


def versions_of(connection: Connection, parse_id: int) -> list[int]:
    """Versions of a parse."""
    return [row[0] for row in connection.execute(_VERSIONS_OF, (parse_id,))]


def version(connection: Connection, version_id: int) -> Version | None:
    """A version by its id, or None if it is gone."""
    row = connection.execute(_VERSION, (version_id,)).fetchone()
    return None if row is None else Version(*row)


def kept_generations(connection: Connection, lost: Version) -> list[int]:
    """The kept generations that a version belongs to."""
    if lost.born is None:
        return []
    rows = connection.execute(_KEPT_WITHIN, {"born": lost.born, "died": lost.died})
    return [row[0] for row in rows]


def forget_versions(connection: Connection, lost: Collection[Version]) -> None:
    """Delete versions that no generation may show any more: dead and staged ones."""
    for each in lost:
        connection.execute(_FORGET_STAT, (each.source_id, each.document_id))
        connection.execute(_FORGET_GATE, (each.version_id,))
        connection.execute(_DELETE_REMOVAL, (each.version_id,))
        connection.execute(_DELETE_VERSION, (each.version_id,))


def forget_parses(connection: Connection, parse_ids: Collection[int]) -> None:
    """Delete parses that no version has, with their rows."""
    for parse_id in sorted(parse_ids):
        for table in ("section", "chunk", "link", "parse", "unused_parse"):
            connection.execute(f"DELETE FROM {table} WHERE parse_id = ?", (parse_id,))


def forget_contents(connection: Connection, content_ids: Collection[int]) -> None:
    """Delete contents that no parse has; their pieces go with `mend_lists`."""
    connection.executemany(
        "DELETE FROM content WHERE content_id = ?", [(content_id,) for content_id in content_ids]
    )


def swap_lexical(writer: Writer, analyze: tuple[Analyse, str], cancel: CancelToken) -> None:
    """Make the head's lexical table anew in the spare one and swap them; no content changes.

    Args:
        analyze: the analyser and its fingerprint.
    """
    head = read_head(writer.connection)
    spare: LexicalTable = "a" if head.lexical == "b" else "b"
    with writer.transaction() as connection:
        connection.execute(_UNCLAIM, (spare,))
        recreate_table(connection, spare)
    ids = [row[0] for row in writer.connection.execute(_LIVE_IDS)]
    fill_table(writer, spare, ids, analyze[0], cancel)
    with writer.transaction(durable=True) as connection:
        connection.execute(_SWAP, {"lexical": spare, "generation": head.generation})
        connection.execute(_SET_ANALYZER, {"analyzer": analyze[1], "generation": head.generation})
    renew_spare(writer)


def renew_spare(writer: Writer) -> None:
    """Make the lexical table that is out of use anew, empty, whatever it held."""
    with writer.transaction() as connection:
        spare: LexicalTable = "a" if read_head(connection).lexical == "b" else "b"
        connection.execute(_UNCLAIM, (spare,))
        recreate_table(connection, spare)


def mend_spare(writer: Writer) -> bool:
    """Make the lexical table that is out of use anew if it is damaged; whether it was.

    A repair that was ended behind the swap leaves it as it was found.
    """
    spare: LexicalTable = "a" if read_head(writer.connection).lexical == "b" else "b"
    try:
        with writer.transaction() as connection:
            connection.execute(_INTEGRITY[spare])
    except UNREADABLE as exc:
        require_damage(exc)
        renew_spare(writer)
        return True
    return False


def mend_keys(
    connection: Connection, wrong: Sequence[tuple[int, int, int | None, bytes | None]]
) -> None:
    """Give chunks the embedding text that they have: (parse id, ord, present text id, right key) each.

    None for the id of a chunk that has no text, and for the key of one that is not embedded. A text of that key is taken; without one the chunk's own text had its key damaged.
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


_REMOVED_AND_LIVE = """
    SELECT source_id, name FROM source s WHERE is_removed
      AND EXISTS (SELECT 1 FROM document_version d
                  WHERE d.source_id = s.source_id AND d.born IS NOT NULL AND d.died IS NULL)
      AND NOT EXISTS (SELECT 1 FROM source t WHERE t.name = s.name AND NOT t.is_removed)
"""


def mend_sources(connection: Connection) -> Iterator[tuple[str, str]]:
    """Drop what cannot be read of sources, refused documents and other small tables: (what, outcome).

    What a source lists (its options) is not made up: a source of which that is damaged stays so.
    """
    for source_id, name in connection.execute(_REMOVED_AND_LIVE).fetchall():
        connection.execute("UPDATE source SET is_removed = 0 WHERE source_id = ?", (source_id,))
        yield f"source {name}, which has documents", "rebuilt"
    for source_id, name, mount_points in connection.execute(_MOUNT_POINTS).fetchall():
        try:
            read_texts(mount_points, "")
        except UNREADABLE as exc:
            require_damage(exc)
            connection.execute(_FORGET_MOUNTS, (source_id,))
            yield f"mount points of source {name}", "rebuilt"
    for table, columns, mend in _PLAIN_TEXTS:
        for column in columns:
            rows = connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
            for (text,) in rows:
                if text is not None and not _is_encodable(text):
                    connection.execute(mend.format(column=column), (stored_bytes(str(text)),))
                    yield f"{column} of {table} that is no text", "dropped"
    for source_id, document_id, is_kept in connection.execute(_REFUSED).fetchall():
        try:
            is_sound = is_kept in (0, 1) and refusal_of(connection, source_id, document_id)
        except UNREADABLE as exc:
            require_damage(exc)
            is_sound = None
        if not is_sound:
            connection.execute(_FORGET_REFUSED, (source_id, document_id))
            yield f"why {document_id} is not indexed", "dropped"


def mend_questions(connection: Connection) -> Iterator[str]:
    """Delete golden questions that do not say what was stored, and expectations of none.

    Nothing brings a question back, so what can be read of each is told.
    """
    strays = connection.execute(_STRAY_EXPECTATIONS).fetchall()
    connection.execute(_FORGET_EXPECTATIONS)
    for question_id, source, document_id in strays:
        yield f"that question {question_id}, which is gone, expects {document_id} of {source}"
    for question in damaged_questions(connection):
        connection.execute(_FORGET_QUESTION, (stored_bytes(question.id),))
        connection.execute(_FORGET_EXPECTATIONS)
        kind = f", class {question.class_name}" if question.class_name else ""
        expected = ", ".join(
            f"{e.document_id} of {e.source} (grade {e.grade})" for e in question.expected
        )
        yield f"question {question.id}: {question.text}{kind}; expected: {expected or 'nothing'}"


def _is_encodable(text: object) -> bool:
    try:
        str(text).encode()
    except UnicodeEncodeError:
        return False
    return True


def mend_lists(connection: Connection) -> Iterator[tuple[str, str]]:
    """Delete rows that nothing owns, and list anew what is unused: (what, outcome) each."""
    for outcome, statements in (("dropped", _LITTER), ("rebuilt", _LISTS)):
        changed: dict[str, int] = {}
        for what, statement in statements:
            changed[what] = changed.get(what, 0) + connection.execute(statement).rowcount
        for what, rows in changed.items():
            if rows:
                yield f"{what} ({rows} rows)", outcome


def name_batches(version_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Versions in the numbers whose names are made anew in one transaction."""
    for at in range(0, len(version_ids), _NAMES_PER_STEP):
        yield version_ids[at : at + _NAMES_PER_STEP]
