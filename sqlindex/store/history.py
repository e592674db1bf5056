"""Generations by number, tag, date or distance from the head; the tags that name them."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterable
from datetime import UTC, date, datetime
from datetime import time as time_of_day

from sqlindex.encodable import is_encodable
from sqlindex.errors import (
    DuplicateError,
    GenerationGoneError,
    SqlindexError,
    UnknownGenerationError,
    UnknownSourceError,
    UsageError,
)
from sqlindex.model.history import Generation, ListedDocument
from sqlindex.store.driver import Connection, Row, Value
from sqlindex.store.head import read_served
from sqlindex.store.vectors import plain_identity
from sqlindex.store.visible import LIVE

MAX_TAG_CHARS = 100

_NUMBER = re.compile(r"[+-]?\d[\d_]*(?:[.,]\d+)?")
_DATE = re.compile(r"\d{4}-(?:\d\d|W\d\d)(?:-|T|$)")
_BEFORE_HEAD = re.compile(r"head(?:~(\d{1,18}))?", re.IGNORECASE | re.ASCII)
_HEADLIKE = re.compile(r"head(?:~.*)?", re.IGNORECASE | re.DOTALL)
_SHOWN_RANGES = 9
_MAX_INTEGER = 2**63 - 1  # that a statement takes

_LIST = """
    SELECT g.generation, g.published_at, g.cause, g.restored, g.documents, g.chunks, g.added, g.changed, g.removed,
      g.renamed, g.embedded, s.identity, g.is_kept, g.generation = h.generation
    FROM head h CROSS JOIN generation g LEFT JOIN vector_space s USING(space_id)
"""
_LATEST_FIRST = """
    WHERE :with_collected OR g.is_kept = 1 ORDER BY g.generation DESC LIMIT :limit
"""
_ONE = " WHERE g.generation = :generation"
_TAGS_OF = "SELECT name FROM tag WHERE generation = :generation ORDER BY name"
_TAGS = "SELECT name, generation FROM tag ORDER BY generation, name"
_TAG = "SELECT generation FROM tag WHERE name = :name"
_PUT_TAG = (
    "INSERT OR REPLACE INTO tag(name, generation, tagged_at) VALUES(:name, :generation, :now)"
)
_DROP_TAG = "DELETE FROM tag WHERE name = :name"
_WAS_PUBLISHED = "SELECT 1 FROM generation WHERE generation = :generation"
_KEPT = "SELECT generation FROM generation WHERE is_kept = 1 ORDER BY generation"
_KEPT_BEFORE_HEAD = """
    SELECT generation FROM generation
    WHERE is_kept = 1 AND generation <= (SELECT generation FROM head)
    ORDER BY generation DESC LIMIT 1 OFFSET :steps
"""
# From the newest on, so that a date of today reads one row. By number and not by time: a clock that
# was set back does not make an older generation the newer one.
_PUBLISHED_BY = """
    SELECT generation FROM generation WHERE published_at <= :moment ORDER BY generation DESC LIMIT 1
"""
_SOURCE_EVER = "SELECT 1 FROM source WHERE name = :name"
_DOCUMENTS = f"""
    SELECT s.name, d.document_id, d.path, d.title, d.type_name, d.byte_size, d.chunks, d.date
    FROM document_version d JOIN source s USING(source_id)
    WHERE d.document_id >= :document_id AND (d.document_id > :document_id OR s.name > :source)
      AND (:wanted IS NULL OR s.name = :wanted) AND d.born IS NOT NULL AND {LIVE}
    ORDER BY d.document_id, s.name LIMIT :count
"""


def resolve(connection: Connection, at: int | str) -> int:
    """The number of a kept generation.

    Args:
        at: its number; `head`, or `head~2` for the second before it among the kept; a tag; a date
            for the last one published by then. A day means its end, and a time without a zone is
            local time. Times of publishing are kept to the second.

    Raises:
        UnknownGenerationError: there is none; the hint says which are kept.
        GenerationGoneError: it has been collected.
        UsageError: a malformed date or an empty text.
    """
    if isinstance(at, bool) or not isinstance(at, int | str):
        raise ValueError(f"a generation is a number or a text, not {at!r}")
    number = at if isinstance(at, int) else _find(connection, at.strip())
    return read_served(connection, number).generation if _fits(number) else _none(connection, at)


def _find(connection: Connection, text: str) -> int:
    if not text:
        raise UsageError(
            "the generation is an empty text", hint="a number, a tag, a date, head or head~1"
        )
    if text.isdecimal():
        return int(text) if len(text) < 20 else _none(connection, text)
    relative = _BEFORE_HEAD.fullmatch(text)
    if relative is not None:
        found = connection.execute(_KEPT_BEFORE_HEAD, {"steps": int(relative[1] or 0)}).fetchone()
    elif _DATE.match(text):
        found = connection.execute(_PUBLISHED_BY, {"moment": _moment(text)}).fetchone()
    elif is_encodable(text):
        found = connection.execute(_TAG, {"name": text}).fetchone()
    else:
        found = None
    return _none(connection, text) if found is None else int(found[0])


def _moment(text: str) -> str:
    """A date as the UTC second by which a generation was published."""
    try:
        try:
            moment = datetime.combine(date.fromisoformat(text), time_of_day(23, 59, 59))
        except ValueError:
            moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{text!r} is no date of a generation",
            hint="for example 2026-11-30, 2026-11-30T12:00 (local time) or 2026-11-30T12:00Z",
        ) from None


def _fits(number: int) -> bool:
    return -(2**63) <= number < 2**63


def _none(connection: Connection, at: int | str) -> int:
    raise UnknownGenerationError(f"there is no generation {at!r}", hint=_known(connection))


def not_served(connection: Connection, number: int) -> SqlindexError:
    """Why a generation cannot be read: it never was, or it has been collected."""
    if connection.execute(_WAS_PUBLISHED, {"generation": number}).fetchone() is None:
        return UnknownGenerationError(f"there is no generation {number}", hint=_known(connection))
    return GenerationGoneError(
        f"generation {number} has been collected",
        hint=f"{_known(connection)}; a tag keeps a generation (sqlindex tag NAME GEN)",
    )


def _known(connection: Connection) -> str:
    """Which generations there are, in words."""
    kept = _in_words(row[0] for row in connection.execute(_KEPT))
    names = ", ".join(
        f"{name} ({number})" for name, number in list_tags(connection)[:_SHOWN_RANGES]
    )
    return f"kept: {kept}" + (f"; tags: {names}" if names else "")


def _in_words(numbers: Iterable[int]) -> str:
    """`0, 3–5, 9`, the newest ones of many."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    shown = [str(first) if first == last else f"{first}–{last}" for first, last in ranges]
    return ", ".join((["…"] if len(shown) > _SHOWN_RANGES else []) + shown[-_SHOWN_RANGES:])


def list_generations(
    connection: Connection, *, limit: int | None = None, with_collected: bool = False
) -> list[Generation]:
    """Published generations, newest first."""
    parameters: dict[str, Value] = {
        "with_collected": int(with_collected),
        "limit": -1 if limit is None else min(limit, _MAX_INTEGER),
    }
    rows = connection.execute(_LIST + _LATEST_FIRST, parameters).fetchall()
    return [_generation(connection, row) for row in rows]


def read_generation(connection: Connection, number: int) -> Generation:
    """A kept generation with what its refresh did.

    Raises:
        UnknownGenerationError, GenerationGoneError: it cannot be read.
    """
    read_served(connection, number)
    row = connection.execute(_LIST + _ONE, {"generation": number}).fetchone()
    return _generation(connection, row)


def _generation(connection: Connection, row: Row) -> Generation:
    tags = connection.execute(_TAGS_OF, {"generation": row[0]}).fetchall()
    *values, space, is_kept, is_head = row
    values += [None if space is None else plain_identity(space)]
    values += [bool(is_kept), bool(is_head), tuple(name for (name,) in tags)]
    return Generation(*values)


def list_tags(connection: Connection) -> list[tuple[str, int]]:
    """(name, generation) of every tag, by generation and name."""
    return connection.execute(_TAGS).fetchall()


def put_tag(connection: Connection, name: str, at: int | str, *, force: bool = False) -> int:
    """Name a kept generation, which is not collected while it has a name.

    In the writer's transaction: collection, which is a writer too, cannot come between.

    Returns:
        The generation.

    Raises:
        UsageError: the name cannot be told from a number, a date or `head`, or is malformed.
        DuplicateError: it names another generation, and not `force`.
        UnknownGenerationError, GenerationGoneError: there is nothing to name.
    """
    name = _usable_name(name)
    generation = resolve(connection, at)
    found = connection.execute(_TAG, {"name": name}).fetchone()
    if found is not None and found[0] == generation:
        return generation
    if found is not None and not force:
        raise DuplicateError(
            f"tag {name!r} names generation {found[0]}",
            hint="choose another name, or move it with --force (force=True)",
        )
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    connection.execute(_PUT_TAG, {"name": name, "generation": generation, "now": now})
    return generation


def drop_tag(connection: Connection, name: str) -> int:
    """Take a name away; the generation that had it.

    Raises:
        UnknownGenerationError: there is no such tag; the hint names those there are.
    """
    name = name.strip()
    found = connection.execute(_TAG, {"name": name}).fetchone() if is_encodable(name) else None
    if found is None:
        tags = ", ".join(name for name, _ in list_tags(connection))
        raise UnknownGenerationError(f"there is no tag {name!r}", hint=f"tags: {tags or 'none'}")
    connection.execute(_DROP_TAG, {"name": name})
    return int(found[0])


def _usable_name(name: str) -> str:
    if not isinstance(name, str):
        raise ValueError(f"a tag is a text, not {name!r}")
    stripped = name.strip()
    if not stripped or len(stripped) > MAX_TAG_CHARS:
        raise UsageError(
            f"a tag has 1 to {MAX_TAG_CHARS} characters, not {len(stripped)}",
            hint="for example 'release 2'",
        )
    if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in stripped):
        raise UsageError(
            f"tag {stripped!r} holds a control character", hint="use letters, digits, '-', '.', '/'"
        )
    for pattern, what in ((_NUMBER, "a number"), (_HEADLIKE, "a place relative to the head")):
        if pattern.fullmatch(stripped):
            raise _ambiguous(stripped, what)
    if _DATE.match(stripped):
        raise _ambiguous(stripped, "a date")
    return stripped


def _ambiguous(name: str, what: str) -> UsageError:
    return UsageError(f"tag {name!r} looks like {what}", hint="put a word in front of it")


def require_source_ever(connection: Connection, name: str) -> None:
    """Refuse a name that no source has or had: an older generation may hold a removed one.

    Raises:
        UnknownSourceError: none was ever named so.
    """
    if connection.execute(_SOURCE_EVER, {"name": name}).fetchone() is None:
        raise UnknownSourceError(
            f"no source was ever named {name!r}", hint="'sqlindex status' lists those there are"
        )


def documents_behind(
    connection: Connection,
    generation: int,
    last: tuple[str, str],
    *,
    source: str | None,
    count: int,
) -> list[ListedDocument]:
    """The next documents of a generation in the order of (document id, source): one walk in all.

    Args:
        last: (document id, source) of the one before, two empty texts at the beginning.
        source: only of this source.
    """
    rows = connection.execute(
        _DOCUMENTS,
        {
            "generation": generation,
            "document_id": last[0],
            "source": last[1],
            "wanted": source,
            "count": count,
        },
    )
    return [ListedDocument(*row) for row in rows]
