"""What a repair does about generations: the head, what is told of each, their counts and tags."""

from __future__ import annotations

from collections.abc import Iterator

from sqlindex.errors import CorruptIndexError
from sqlindex.store.driver import Connection
from sqlindex.store.invariants import GENERATION_COUNTS, NO_MOMENT

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
_BAD_RESTORED = """
    SELECT generation FROM generation g WHERE restored IS NOT NULL
    AND (restored >= generation OR restored NOT IN (SELECT generation FROM generation))
"""
_STRAY_TAGS = """
    SELECT name, generation FROM tag
    WHERE generation NOT IN (SELECT generation FROM generation WHERE is_kept)
"""


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


_SPACELESS = """
    SELECT generation FROM generation
    WHERE is_kept AND space_id IS NOT NULL AND space_id NOT IN (SELECT space_id FROM vector_space)
"""


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
_SET_COUNTS = """
    UPDATE generation SET documents = :documents, chunks = :chunks, embedded_chunks = :embedded_chunks
    WHERE generation = :generation
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
