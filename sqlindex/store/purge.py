"""What the index stores of a document, in every generation and beside them, and how to delete it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlindex.cancellation import CancelToken
from sqlindex.errors import CorruptIndexError, LockedError
from sqlindex.store.builds import drop_build, unfinished_builds, utc_now
from sqlindex.store.collect import drop_unused_parses, drop_unused_texts
from sqlindex.store.compact import merge_lexical, rewrite
from sqlindex.store.contents import drop_content
from sqlindex.store.driver import Connection, Value
from sqlindex.store.questions import forget_expected
from sqlindex.store.settings import drop_setting, get_setting, put_setting
from sqlindex.store.writer import Writer

_UNFINISHED = "unfinished_purge"
_EVER = "9999"


class Place(NamedTuple):
    """A document by source and id; `folder` is the root of a folder's source that is not removed."""

    source_id: int
    source: str
    folder: str | None
    document_id: str


_FOLDER = "CASE WHEN s.kind = 'folder' AND s.is_removed = 0 THEN s.root END"
_BY_ID = f"""
    SELECT s.source_id, s.name, {_FOLDER}, n.document_id FROM (
      SELECT source_id, document_id FROM document_version WHERE document_id = :wanted
      UNION SELECT source_id, document_id FROM refused_document WHERE document_id = :wanted
      UNION SELECT source_id, document_id FROM file_stat WHERE document_id = :wanted
      UNION SELECT source_id, document_id FROM gated_refusal WHERE document_id = :wanted
      UNION SELECT s.source_id, e.document_id FROM expectation e JOIN source s ON s.name = e.source
        WHERE e.document_id = :wanted) n
    JOIN source s USING(source_id) WHERE :source IS NULL OR s.name = :source
    ORDER BY s.name, s.source_id
"""
_BY_PATH = f"""
    SELECT DISTINCT s.source_id, s.name, {_FOLDER}, d.document_id
    FROM document_version d JOIN source s USING(source_id)
    WHERE d.path = :wanted AND d.path <> d.document_id AND (:source IS NULL OR s.name = :source)
    ORDER BY s.name, s.source_id, d.document_id
"""
_VISIBLE = """
    d.source_id = :source_id AND d.document_id = :document_id AND d.born IS NOT NULL
      AND d.born <= g.generation AND (d.died IS NULL OR d.died > g.generation)
"""
_SHOWN_BY = f"""
    SELECT generation FROM generation g
    WHERE is_kept = 1 AND EXISTS (SELECT 1 FROM document_version d WHERE {_VISIBLE})
"""
_LIVE = """
    SELECT version_id FROM document_version
    WHERE source_id = :source_id AND document_id = :document_id AND born IS NOT NULL AND died IS NULL
"""
_SAME_TEXT = """
    SELECT DISTINCT s.name, o.document_id, o.source_id
    FROM document_version d JOIN parse p USING(parse_id) JOIN parse q ON q.content_id = p.content_id
      JOIN document_version o ON o.parse_id = q.parse_id JOIN source s ON s.source_id = o.source_id
    WHERE d.document_id = :document_id AND d.source_id = :source_id
    ORDER BY 1, 2
"""
# What the generations that stay say of themselves is true without the document too.
_COUNT_WITHOUT = f"""
    UPDATE generation AS g SET
      documents = documents - (SELECT count(*) FROM document_version d WHERE {_VISIBLE}),
      chunks = chunks - (SELECT coalesce(sum(d.chunks), 0) FROM document_version d WHERE {_VISIBLE}),
      embedded_chunks = embedded_chunks - (
        SELECT count(c.text_id) FROM document_version d JOIN chunk c USING(parse_id) WHERE {_VISIBLE})
    WHERE is_kept = 1
"""
_FORGET = tuple(
    f"DELETE FROM {table} WHERE source_id = :source_id AND document_id = :document_id"
    for table in ("document_version", "file_stat", "refused_document", "gated_refusal")
)
# What a gate measured was with the document.
_FORGET_GATE = """
    UPDATE build SET gated = NULL WHERE build_id IN (
      SELECT build_id FROM document_version
      WHERE source_id = :source_id AND document_id = :document_id AND born IS NULL)
"""
_LIST_PARSES = """
    INSERT OR IGNORE INTO unused_parse SELECT parse_id FROM parse p
    WHERE NOT EXISTS (SELECT 1 FROM document_version d WHERE d.parse_id = p.parse_id)
"""
_LIST_TEXTS = """
    INSERT OR IGNORE INTO unused_text SELECT text_id, :now FROM embedding_text t
    WHERE NOT EXISTS (SELECT 1 FROM chunk c WHERE c.text_id = t.text_id)
"""
_UNUSED_CONTENTS = """
    SELECT content_id FROM content t
    WHERE NOT EXISTS (SELECT 1 FROM parse p WHERE p.content_id = t.content_id)
"""


def find_everywhere(connection: Connection, wanted: str, source: str | None) -> list[Place]:
    """Documents of that id, else of that path, in any generation, build, refusal, file stat or question.

    Removed sources are looked through too. Cost: O(versions).
    """
    parameters: dict[str, Value] = {"wanted": wanted, "source": source}
    for query in (_BY_ID, _BY_PATH):
        if found := connection.execute(query, parameters).fetchall():
            return [Place(*row) for row in found]
    return []


def generations_showing(connection: Connection, places: Iterable[Place]) -> list[int]:
    """The kept generations that hold one of the documents."""
    found: set[int] = set()
    for place in places:
        found.update(row[0] for row in connection.execute(_SHOWN_BY, _which(place)))
    return sorted(found)


def live_versions(connection: Connection, places: Iterable[Place]) -> list[int]:
    """Their version ids in the head."""
    return [row[0] for place in places for row in connection.execute(_LIVE, _which(place))]


def others_with_the_text(
    connection: Connection, places: Sequence[Place]
) -> tuple[tuple[str, str], ...]:
    """(source, document id) of other documents that have, or had, exactly the text of one of these."""
    own = {(place.source_id, place.document_id) for place in places}
    return tuple(
        dict.fromkeys(
            (source, document_id)
            for place in places
            for source, document_id, source_id in connection.execute(_SAME_TEXT, _which(place))
            if (source_id, document_id) not in own
        )
    )


def drop_builds_naming(writer: Writer, places: Iterable[Place]) -> None:
    """Drop unfinished builds whose scope names a document; whole-source ones stay, without it."""
    for build in unfinished_builds(writer.connection):
        if any(json.dumps(place.document_id)[1:-1] in build.scope for place in places):
            drop_build(writer, build.build_id)


def forget(connection: Connection, places: Iterable[Place]) -> int:
    """Delete all versions, refusals, file stats and expectations of questions, and mark the purge as
    begun; how many versions.

    In the transaction that ends the live versions, or when there are none.
    """
    versions = 0
    for place in places:
        connection.execute(_COUNT_WITHOUT, _which(place))
        connection.execute(_FORGET_GATE, _which(place))
        for statement in _FORGET:
            dropped = connection.execute(statement, _which(place)).rowcount
            versions += dropped if statement is _FORGET[0] else 0
        forget_expected(connection, place.source, place.document_id)
    put_setting(connection, _UNFINISHED, utc_now())
    return versions


def is_purging(connection: Connection) -> bool:
    """Whether a purge was begun and has not ended."""
    return get_setting(connection, _UNFINISHED) is not None


def purge_file(writer: Writer, cancel: CancelToken, *, wait_s: float) -> int:
    """Finish a purge: delete what no document uses, and leave no byte of it in file and log.

    Everything here can be run again: what a cancel or a kill left is done by the next.

    Returns:
        How many vectors were deleted.

    Raises:
        CorruptIndexError: a text is damaged, so what belongs to it cannot be told.
        LockedError: a reader still needs the log after `wait_s` seconds.
    """
    with writer.transaction() as connection:
        connection.execute(_LIST_PARSES)
    drop_unused_parses(writer, utc_now(), cancel)
    with writer.transaction() as connection:
        connection.execute(_LIST_TEXTS, {"now": utc_now()})
    vectors = drop_unused_texts(writer, _EVER, cancel)
    with writer.transaction() as connection:
        for (content_id,) in connection.execute(_UNUSED_CONTENTS).fetchall():
            if not drop_content(connection, content_id):
                raise CorruptIndexError(
                    f"the purge is not finished: text {content_id} is damaged and may be that of the document",
                    hint="run 'sqlindex check', index into a new file and delete this one",
                )
    merge_lexical(writer, cancel)
    # Pages in use keep bytes of rows that were deleted or moved, also from before: only a file made
    # of what lives holds nothing else.
    rewrite(writer, cancel, lambda done, total: None)
    _empty_log(writer, cancel, wait_s)
    with writer.transaction() as connection:
        drop_setting(connection, _UNFINISHED)
    writer.empty_log()
    return vectors


def _empty_log(writer: Writer, cancel: CancelToken, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not writer.empty_log():
        if time.monotonic() >= deadline:
            raise LockedError(
                "the purge is not finished: the document is in no generation any more, but a reader "
                "still needs the file as it was",
                hint="end that reader, then run 'sqlindex purge' again, or use --wait SECONDS",
            )
        cancel.check()
        time.sleep(0.1)


def _which(place: Place) -> dict[str, Value]:
    return {"source_id": place.source_id, "document_id": place.document_id}
