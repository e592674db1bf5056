"""Take vectors over from another index file: by document encoding and by key of the exact text.

No generation changes: what is taken over is there before a refresh needs it, and is kept like a
vector that has gone out of use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sqlindex.cancellation import CancelToken
from sqlindex.errors import EmbedderMismatchError, UsageError
from sqlindex.store.connection import IndexFile
from sqlindex.store.driver import Connection
from sqlindex.store.vectors import add_space, find_space, has_vectors, set_width, vector_fault
from sqlindex.store.writer import Writer

_Row = tuple[bytes, float, bytes, bytes]
"""Key of the text, norm, bytes and checksum."""

_STEP_ROWS = 1_000
_KEY_BYTES = 32

_COUNT = "SELECT count(*) FROM vector"
_SPACES = "SELECT space_id, identity, dimensions FROM vector_space ORDER BY space_id"
_ROWS = """
    SELECT t.key, v.norm, v.f32, v.check8 FROM vector v
      LEFT JOIN embedding_text t ON t.text_id = v.vector_id & 1099511627775
    WHERE v.vector_id BETWEEN (:space_id << 40) AND (:space_id << 40) + 1099511627775 ORDER BY v.vector_id
"""
_TEXT_OF_KEY = "SELECT text_id FROM embedding_text WHERE key = ?"
_ADD_KEY = "INSERT INTO embedding_text(key) VALUES(?)"
# What no chunk has yet is kept as long as what no chunk has any more.
_NOTE_UNUSED = "INSERT OR REPLACE INTO unused_text VALUES(?, ?)"
_PUT = "INSERT OR IGNORE INTO vector(vector_id, norm, f32, check8) VALUES(?, ?, ?, ?)"
# A generation that shows a text without a vector goes on doing so.
_IS_REFUSED = "SELECT 1 FROM vector_refusal WHERE space_id = ? AND text_id = ?"


@dataclass(frozen=True, slots=True)
class VectorTransfer:
    """What was taken over.

    Attributes:
        copied: vectors that were missing here.
        present: vectors of texts that have one here, or are published without one; they stay so.
        damaged: vectors of the other file that do not give their checksum; they were left out.
        encodings: the document encodings of the other file.
    """

    copied: int
    present: int
    damaged: int
    encodings: tuple[str, ...]


def import_vectors(
    file: IndexFile,
    other: Path,
    cancel: CancelToken,
    step: Callable[[int, int], None],
    *,
    wait_s: float = 0.0,
) -> VectorTransfer:
    """Take over what the index at `other` has; see `Index.import_vectors`."""
    source = file.beside(other)
    try:
        _refuse_itself(file, source)
        with file.writing("import vectors", wait_s=wait_s, cancel=cancel) as writer:
            return _take_over(writer, source, cancel, step)
    finally:
        source.close()


def export_vectors(
    file: IndexFile, path: Path, cancel: CancelToken, step: Callable[[int, int], None]
) -> VectorTransfer:
    """Give the index at `path`, made if nothing is there, what it lacks."""
    target = file.beside(path, make=True)
    try:
        _refuse_itself(file, target)
        with target.writing("export vectors", cancel=cancel) as writer:
            return _take_over(writer, file, cancel, step)
    finally:
        target.close()


def _refuse_itself(file: IndexFile, other: IndexFile) -> None:
    if file.identity() == other.identity():
        raise UsageError(
            f"{other.path} is this index itself", hint="name the other index, or a new file"
        )


def _take_over(
    writer: Writer, source: IndexFile, cancel: CancelToken, step: Callable[[int, int], None]
) -> VectorTransfer:
    with source.reading(is_new=True, is_timed=False, cancel=cancel) as connection:
        return take_over(writer, connection, cancel=cancel, step=step)


def take_over(
    writer: Writer, other: Connection, *, cancel: CancelToken, step: Callable[[int, int], None]
) -> VectorTransfer:
    """Copy every vector of another index that this one lacks, in small transactions.

    An interrupted transfer leaves what it copied; the next one goes on with the rest.

    Args:
        other: in a read transaction.
        step: called with (vectors seen, vectors in all).

    Raises:
        EmbedderMismatchError: both have vectors of the same encoding, of different widths.
        CancelledError: cancelled between two transactions.
    """
    total = other.execute(_COUNT).fetchone()[0]
    spaces = other.execute(_SPACES).fetchall()
    seen = copied = damaged = 0
    for space_id, identity, dimensions in spaces:
        here = _space_here(writer, identity, dimensions)
        rows = iter(other.execute(_ROWS, {"space_id": space_id}))
        while batch := list(islice(rows, _STEP_ROWS)):
            cancel.check()
            sound = [row for row in batch if _is_sound(row, dimensions)]
            damaged += len(batch) - len(sound)
            copied += _put(writer, here, sound)
            seen += len(batch)
            step(seen, total)
    return VectorTransfer(
        copied, seen - copied - damaged, damaged, tuple(identity for _, identity, _ in spaces)
    )


def _space_here(writer: Writer, identity: str, dimensions: int) -> int:
    found = find_space(writer.connection, identity)
    if found is None:
        with writer.transaction() as connection:
            return add_space(connection, identity, dimensions)
    space_id, width = found
    if width != dimensions:
        if has_vectors(writer.connection, space_id):
            raise EmbedderMismatchError(
                f"the vectors of {identity} are {width} wide here and {dimensions} wide there",
                hint="an embedder of another width needs another identity",
            )
        with writer.transaction() as connection:
            set_width(connection, space_id, dimensions)
    return space_id


def _is_sound(row: _Row, dimensions: int) -> bool:
    """Whether a row names its text and holds what was stored."""
    key, norm, blob, check = row
    is_named = isinstance(key, bytes) and len(key) == _KEY_BYTES
    return is_named and norm > 0 and not vector_fault(norm, blob, check, dimensions)


def _put(writer: Writer, space_id: int, rows: Sequence[_Row]) -> int:
    """Store the vectors that are missing; how many."""
    copied = 0
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with writer.transaction() as connection:
        for key, norm, blob, check in rows:
            found = connection.execute(_TEXT_OF_KEY, (key,)).fetchone()
            if found is None:
                text_id = connection.execute(_ADD_KEY, (key,)).lastrowid
                assert text_id is not None
                connection.execute(_NOTE_UNUSED, (text_id, now))
            else:
                text_id = found[0]
            if connection.execute(_IS_REFUSED, (space_id, text_id)).fetchone() is None:
                put = connection.execute(_PUT, (space_id << 40 | text_id, norm, blob, check))
                copied += put.rowcount
    writer.bound_log()
    return copied
