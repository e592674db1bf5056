"""Collection: what no kept or held generation shows any more is deleted, in small steps.

A generation is dropped first, in one short transaction that also sets a marker: from then on nobody
reads it. Its versions, and the parses, texts and vectors that nobody uses any more, follow in
bounded transactions. Rows that lose their last user are listed in the file by the transaction that
takes it, so a collection that is cancelled or killed goes on where it stopped.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlindex.cancellation import CancelToken
from sqlindex.config import Retention
from sqlindex.errors import CorruptIndexError
from sqlindex.store.contents import drop_content
from sqlindex.store.driver import Connection, Row, Value, translated_errors
from sqlindex.store.held import excluded
from sqlindex.store.settings import get_setting, put_setting
from sqlindex.store.writer import Writer

_STEP_ROWS = 200
"""Versions, parses or vectors deleted in one transaction."""

_STEP_CHUNKS = 5_000
"""A step ends earlier when its rows have that many chunks."""

_SETTINGS = ("generations", "days", "vector_days")
_NEVER = "9999"

_KEPT = "SELECT generation FROM generation WHERE is_kept = 1 ORDER BY generation"
# When a generation stopped being the head; the head itself, the latest ones and tagged ones stay.
_DROPPABLE = """
    SELECT generation FROM (
      SELECT generation, row_number() OVER (ORDER BY generation DESC) AS turn,
        lag(published_at) OVER (ORDER BY generation DESC) AS ended_at
      FROM generation WHERE is_kept = 1)
    WHERE turn > :generations AND ended_at < :ended_before
      AND generation NOT IN (SELECT generation FROM tag)
      AND generation <> (SELECT generation FROM head)
    ORDER BY generation
"""
_DROP_GENERATION = "UPDATE generation SET is_kept = 0 WHERE generation = ?"
_MARK = "INSERT OR IGNORE INTO collection VALUES(1, :now)"
_IS_MARKED = "SELECT EXISTS (SELECT 1 FROM collection)"
_UNMARK = "DELETE FROM collection"
# Seen by no kept generation: born after one and dead by the next.
_DEAD_BETWEEN = """
    SELECT version_id, chunks FROM document_version
    WHERE died IS NOT NULL AND died > :earlier AND died <= :later AND born > :earlier
"""
_DROP_VERSION = "DELETE FROM document_version WHERE version_id = ?"
_UNUSED_PARSES = """
    SELECT u.parse_id, p.content_id, coalesce(p.chunks, 0),
      EXISTS (SELECT 1 FROM document_version d WHERE d.parse_id = u.parse_id)
    FROM unused_parse u LEFT JOIN parse p USING(parse_id) ORDER BY u.parse_id LIMIT :step
"""
_LISTED = "DELETE FROM unused_parse WHERE parse_id = ?"
_TEXTS_OF = "SELECT DISTINCT text_id FROM chunk WHERE parse_id = ? AND text_id IS NOT NULL"
_DROP_PARSE = tuple(
    f"DELETE FROM {table} WHERE parse_id = ?" for table in ("chunk", "section", "link", "parse")
)
_OTHER_PARSE = "SELECT 1 FROM parse WHERE content_id = ? LIMIT 1"
# The latest use counts: a text that came back in between starts anew.
_NOTE_TEXT = """
    INSERT OR REPLACE INTO unused_text
    SELECT :text_id, :now WHERE NOT EXISTS (SELECT 1 FROM chunk WHERE text_id = :text_id)
"""
_OLD_TEXTS = """
    SELECT u.text_id, EXISTS (SELECT 1 FROM chunk c WHERE c.text_id = u.text_id)
    FROM unused_text u WHERE u.since <= :before ORDER BY u.since, u.text_id LIMIT :step
"""
_SPACES = "SELECT space_id FROM vector_space"
_DROP_TEXT_VECTOR = "DELETE FROM vector WHERE vector_id = ?"
_DROP_TEXT_REFUSALS = "DELETE FROM vector_refusal WHERE space_id = ? AND text_id = ?"
_DROP_TEXT = "DELETE FROM embedding_text WHERE text_id = ?"
_FORGET_TEXT = "DELETE FROM unused_text WHERE text_id = ?"
_USED_SPACES = """
    SELECT space_id FROM generation WHERE is_kept = 1 AND space_id IS NOT NULL
    UNION SELECT space_id FROM vector_space JOIN build
      ON identity IN (json_extract(plan, '$.embedder'), json_extract(plan, '$.embedder') || ' (build ' || build_id || ')')
"""
_REUSE_SPACES = f"DELETE FROM unused_space WHERE space_id IN ({_USED_SPACES})"
_NOTE_SPACES = f"""
    INSERT OR IGNORE INTO unused_space
    SELECT space_id, :now FROM vector_space WHERE space_id NOT IN ({_USED_SPACES})
"""
# Nothing can use a space again that has another in its place, or whose build is gone.
_OLD_SPACES = """
    SELECT space_id FROM unused_space LEFT JOIN vector_space USING(space_id)
    WHERE since <= :before OR identity GLOB '* (build [0-9]*)' OR identity GLOB '* (until generation [0-9]*)'
    ORDER BY space_id
"""
_SPACE_VECTORS = """
    SELECT vector_id FROM vector
    WHERE vector_id BETWEEN (:space_id << 40) AND (:space_id << 40) + 1099511627775 LIMIT :step
"""
_DROP_SPACE = (
    "DELETE FROM vector_refusal WHERE space_id = ?",
    "DELETE FROM unused_space WHERE space_id = ?",
    "DELETE FROM vector_space WHERE space_id = ?",
)


@dataclass(slots=True)
class Collected:
    """What a collection deleted.

    Attributes:
        generations: numbers of the generations that were dropped.
        held: numbers of those that would have been, and are held by a reader.
        versions: document versions.
        parses: chunked texts that no version used any more.
        vectors: of texts and spaces that were out of use for long enough.
    """

    generations: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    versions: int = 0
    parses: int = 0
    vectors: int = 0


def get_retention(connection: Connection) -> Retention:
    """What this index keeps.

    Raises:
        CorruptIndexError: the stored numbers are none.
    """
    stored = {name: get_setting(connection, f"retention_{name}") for name in _SETTINGS}
    try:
        return Retention(
            **{name: int(value) for name, value in stored.items() if value is not None}
        )
    except ValueError as exc:
        raise CorruptIndexError(
            f"the stored retention is damaged: {exc}",
            hint="set it anew: sqlindex gc --keep 5 --keep-days 0 --vector-days 30",
        ) from exc


def put_retention(connection: Connection, retention: Retention) -> None:
    """Remember what this index keeps."""
    for name in _SETTINGS:
        put_setting(connection, f"retention_{name}", str(getattr(retention, name)))


def kept_generations(connection: Connection) -> list[int]:
    """Numbers of the generations that can be read, ascending; the head is the last."""
    return [row[0] for row in connection.execute(_KEPT)]


def is_collecting(connection: Connection) -> bool:
    """Whether a collection was begun and has not ended."""
    return bool(connection.execute(_IS_MARKED).fetchone()[0])


def collect(writer: Writer, cancel: CancelToken, *, now_s: float | None = None) -> Collected:
    """Drop the generations that retention lets go, and delete what only they used.

    Cost: O(what is deleted), and O(versions that died between two kept generations, one of
    which is dropped).

    Args:
        now_s: seconds since 1970, the clock if None.

    Raises:
        CancelledError: between two steps; the next collection goes on.
    """
    with translated_errors(writer.path):
        return _collect(writer, cancel, time.time() if now_s is None else now_s)


def _collect(writer: Writer, cancel: CancelToken, now_s: float) -> Collected:
    now = _utc(now_s)
    connection = writer.connection
    retention = get_retention(connection)
    goes_on = is_collecting(connection)
    droppable = _droppable(connection, retention, now_s)
    done = Collected()
    with excluded(writer.path, droppable) as free:
        done.generations = tuple(free)
        done.held = tuple(sorted(set(droppable) - set(free)))
        if free:
            with writer.transaction() as writing:
                writing.executemany(_DROP_GENERATION, [(generation,) for generation in free])
                writing.execute(_MARK, {"now": now})
    if free or goes_on:
        dead = _dead_versions(connection, None if goes_on else free)
        for step in _steps(dead):
            cancel.check()
            with writer.transaction() as writing:
                writing.executemany(_DROP_VERSION, [(version_id,) for version_id, _ in step])
            done.versions += len(step)
            done.parses += drop_unused_parses(writer, now, cancel)
    done.parses += drop_unused_parses(writer, now, cancel)
    done.vectors = _drop_unused_vectors(writer, retention, now_s, cancel)
    if free or goes_on:
        with writer.transaction() as writing:
            writing.execute(_UNMARK)
    writer.bound_log()
    return done


def _droppable(connection: Connection, retention: Retention, now_s: float) -> list[int]:
    # A generation stays for so many days after another one took its place.
    ended_before = _utc(now_s - 86_400 * retention.days) if retention.days else _NEVER
    parameters: dict[str, Value] = {
        "generations": retention.generations,
        "ended_before": ended_before,
    }
    return [row[0] for row in connection.execute(_DROPPABLE, parameters)]


def _dead_versions(connection: Connection, dropped: Sequence[int] | None) -> array[int]:
    """(version id, chunks), flat, of the versions that no kept generation shows.

    Args:
        dropped: generations that were just dropped; None looks between all.
    """
    kept = [-1, *kept_generations(connection)]
    dead = array("q")
    for earlier, later in pairwise(kept):
        if dropped is None or any(earlier < generation < later for generation in dropped):
            gap = {"earlier": earlier, "later": later}
            for row in connection.execute(_DEAD_BETWEEN, gap):
                dead.extend(row)
    return dead


def _steps(dead: array[int]) -> Iterator[list[tuple[int, int]]]:
    step: list[tuple[int, int]] = []
    chunks = 0
    for at in range(0, len(dead), 2):
        step.append((dead[at], dead[at + 1]))
        chunks += dead[at + 1]
        if len(step) == _STEP_ROWS or chunks >= _STEP_CHUNKS:
            yield step
            step, chunks = [], 0
    if step:
        yield step


def drop_unused_parses(writer: Writer, now: str, cancel: CancelToken) -> int:
    """Delete the listed parses that no version has any more, and texts that no parse has; how many
    parses. Their embedding texts are noted as unused since `now`."""
    dropped = 0
    while listed := _listed_parses(writer.connection):
        cancel.check()
        with writer.transaction() as connection:
            for parse_id, content_id, _, is_used in listed:
                if not is_used and content_id is not None:
                    drop_parse(connection, parse_id, content_id, now)
                    dropped += 1
            connection.executemany(_LISTED, [(row[0],) for row in listed])
        writer.bound_log()
    return dropped


def _listed_parses(connection: Connection) -> list[Row]:
    listed: list[Row] = []
    chunks = 0
    for row in connection.execute(_UNUSED_PARSES, {"step": _STEP_ROWS}).fetchall():
        listed.append(row)
        chunks += row[2]
        if chunks >= _STEP_CHUNKS:
            break
    return listed


def drop_parse(connection: Connection, parse_id: int, content_id: int, now: str) -> None:
    """Delete a parse that no version has, its text if no other parse has it, and note its
    embedding texts as unused. A damaged text stays, since it may name pieces of another one."""
    texts = connection.execute(_TEXTS_OF, (parse_id,)).fetchall()
    for statement in _DROP_PARSE:
        connection.execute(statement, (parse_id,))
    if connection.execute(_OTHER_PARSE, (content_id,)).fetchone() is None:
        drop_content(connection, content_id)
    connection.executemany(_NOTE_TEXT, [{"text_id": row[0], "now": now} for row in texts])


def _drop_unused_vectors(
    writer: Writer, retention: Retention, now_s: float, cancel: CancelToken
) -> int:
    """Delete the vectors of texts and of spaces that have been out of use for long enough."""
    now, before = _utc(now_s), _utc(now_s - 86_400 * retention.vector_days)
    connection = writer.connection
    dropped = drop_unused_texts(writer, before, cancel)
    with writer.transaction() as writing:
        writing.execute(_REUSE_SPACES)
        writing.execute(_NOTE_SPACES, {"now": now})
    for (space_id,) in connection.execute(_OLD_SPACES, {"before": before}).fetchall():
        part = {"space_id": space_id, "step": _STEP_ROWS}
        while vectors := connection.execute(_SPACE_VECTORS, part).fetchall():
            cancel.check()
            with writer.transaction() as writing:
                writing.executemany(_DROP_TEXT_VECTOR, vectors)
            dropped += len(vectors)
            writer.bound_log()
        with writer.transaction() as writing:
            for statement in _DROP_SPACE:
                writing.execute(statement, (space_id,))
    return dropped


def drop_unused_texts(writer: Writer, before: str, cancel: CancelToken) -> int:
    """Delete the embedding texts noted as unused until `before`, with their vectors in all spaces.

    Returns:
        How many vectors.
    """
    connection = writer.connection
    spaces = [row[0] for row in connection.execute(_SPACES)]
    dropped = 0
    old: dict[str, Value] = {"before": before, "step": _STEP_ROWS}
    while texts := connection.execute(_OLD_TEXTS, old).fetchall():
        cancel.check()
        with writer.transaction() as writing:
            for text_id, is_used in texts:
                if not is_used:
                    dropped += drop_text(writing, text_id, spaces)
                writing.execute(_FORGET_TEXT, (text_id,))
        writer.bound_log()
    return dropped


def drop_text(connection: Connection, text_id: int, spaces: Iterable[int]) -> int:
    """Delete an embedding text that no chunk has, with its vectors in all spaces; how many."""
    dropped = 0
    for space_id in spaces:
        dropped += connection.execute(_DROP_TEXT_VECTOR, (space_id << 40 | text_id,)).rowcount
        connection.execute(_DROP_TEXT_REFUSALS, (space_id, text_id))
    connection.execute(_DROP_TEXT, (text_id,))
    return dropped


def _utc(seconds: float) -> str:
    # Nothing is older than 1970, whatever is subtracted; years are compared as text of four digits.
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(max(0.0, seconds)))
