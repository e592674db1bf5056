"""Float32 vectors: one row for each embedding text in each vector space."""

from __future__ import annotations

import math
import re
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from sqlindex.errors import CorruptIndexError
from sqlindex.store.checksum import check8
from sqlindex.store.driver import Connection, Value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

READ_BLOCK = 1_024
"""Vectors fetched and checked at a time."""
_ROUNDING = 2**-53
"""Of a float64, relative: sums of n squares differ by at most n times as much."""

_SPACE = "SELECT space_id, dimensions FROM vector_space WHERE identity = :identity"
_SPACE_BY_ID = "SELECT identity, dimensions FROM vector_space WHERE space_id = :space_id"
# Generations that were collected still name their space: its number is not given again.
_ADD_SPACE = """
    INSERT INTO vector_space(space_id, identity, dimensions)
    SELECT 1 + max(coalesce((SELECT max(space_id) FROM vector_space), 0),
      coalesce((SELECT max(space_id) FROM generation), 0)), :identity, :dimensions
"""
# A space whose vectors are made anew beside those of the same identity is told from it by its name, which
# is the identity and one of these. Published, it takes the plain name, and the other is until then.
_STAGED_NAME = "{identity} (build {number})"
_EARLIER_NAME = "{identity} (until generation {number})"
_NAMED_APART = re.compile(r"(?s)(.*) \((build|until generation) [0-9]+\)")
_RENAME = "UPDATE vector_space SET identity = :name WHERE identity = :identity"
_PUT = "INSERT OR REPLACE INTO vector(vector_id, norm, f32, check8) VALUES(?, ?, ?, ?)"
_REFUSE = "INSERT OR REPLACE INTO vector_refusal(space_id, text_id, detail) VALUES(?, ?, ?)"
_FORGIVE = "DELETE FROM vector_refusal WHERE space_id = ? AND text_id = ?"
_READ = """
    SELECT vector_id & 1099511627775, norm, f32, check8 FROM vector
    WHERE vector_id BETWEEN (:space_id << 40) AND (:space_id << 40) + 1099511627775 ORDER BY vector_id
"""
_ALL = """
    SELECT v.vector_id, v.norm, v.f32, v.check8, s.dimensions
    FROM vector v JOIN vector_space s ON s.space_id = v.vector_id >> 40
"""
# The chunks of the generation to be: what the build staged, and what lives on beside it.
# Beside them the lost ones of what stays.
MISSING_TEXTS = """
    WITH next_parse AS (
      SELECT parse_id FROM document_version WHERE build_id = :build_id AND born IS NULL
      UNION
      SELECT d.parse_id FROM document_version d
      WHERE :is_new_space AND d.born IS NOT NULL AND d.died IS NULL
        AND NOT EXISTS (SELECT 1 FROM build_removes r WHERE r.build_id = :build_id AND r.version_id = d.version_id)
        AND NOT EXISTS (SELECT 1 FROM document_version n WHERE n.build_id = :build_id AND n.born IS NULL
                        AND n.source_id = d.source_id AND n.document_id = d.document_id)),
    place AS (
      SELECT c.text_id, c.parse_id, c.ord
      FROM next_parse CROSS JOIN chunk c USING(parse_id)  -- from the change to its chunks, never the other way
      UNION ALL
      SELECT c.text_id, c.parse_id, c.ord
      FROM vector_refusal f CROSS JOIN chunk c ON c.text_id = f.text_id JOIN document_version d USING(parse_id)
      WHERE f.space_id = :space_id AND f.is_lost AND d.born IS NOT NULL AND d.died IS NULL
        AND NOT EXISTS (SELECT 1 FROM build_removes r WHERE r.build_id = :build_id AND r.version_id = d.version_id)
        AND NOT EXISTS (SELECT 1 FROM document_version n WHERE n.build_id = :build_id AND n.born IS NULL
                        AND n.source_id = d.source_id AND n.document_id = d.document_id))
    SELECT p.text_id, min(p.parse_id), p.ord FROM place p
    WHERE p.text_id IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.vector_id = (:space_id << 40) | p.text_id)
      AND NOT (:skips_refused
               AND EXISTS (SELECT 1 FROM vector_refusal f
                           WHERE f.space_id = :space_id AND f.text_id = p.text_id AND NOT f.is_lost))
    GROUP BY p.text_id ORDER BY min(p.parse_id), p.ord
"""
_LOST_TEXTS = """
    SELECT d.source_id, d.document_id, t.key, c.end_char - c.start_char, c.parse_id, c.ord
    FROM vector_refusal f CROSS JOIN chunk c ON c.text_id = f.text_id JOIN document_version d USING(parse_id)
      JOIN embedding_text t ON t.text_id = f.text_id
    WHERE f.space_id = :space_id AND f.is_lost AND d.born IS NOT NULL AND d.died IS NULL
"""

_LIVE_PARSES = """
    SELECT source_id, document_id, parse_id FROM document_version
    WHERE born IS NOT NULL AND died IS NULL
"""
_LACKING = """
    SELECT t.key, c.end_char - c.start_char, c.parse_id, c.ord FROM chunk c JOIN embedding_text t USING(text_id)
    WHERE c.parse_id = :parse_id
      AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.vector_id = (:space_id << 40) | c.text_id)
      AND NOT (:skips_refused
               AND EXISTS (SELECT 1 FROM vector_refusal f
                           WHERE f.space_id = :space_id AND f.text_id = c.text_id AND NOT f.is_lost))
"""

_HAS_VECTOR = """
    SELECT 1 FROM embedding_text t
    WHERE t.key = :key
      AND (EXISTS (SELECT 1 FROM vector v WHERE v.vector_id = (:space_id << 40) | t.text_id)
           OR :skips_refused
              AND EXISTS (SELECT 1 FROM vector_refusal f
                          WHERE f.space_id = :space_id AND f.text_id = t.text_id AND NOT f.is_lost))
"""
_REFUSED_TEXTS = "SELECT text_id FROM vector_refusal WHERE space_id = :space_id"
_REFUSED_CHUNKS = """
    SELECT count(*) FROM vector_refusal f CROSS JOIN chunk c ON c.text_id = f.text_id
      JOIN document_version d ON d.parse_id = c.parse_id
    WHERE f.space_id = :space_id AND d.born IS NOT NULL AND d.died IS NULL
"""


def find_space(connection: Connection, identity: str) -> tuple[int, int] | None:
    """(space id, dimensions) of a document encoding, or None; its latest published vectors."""
    found = connection.execute(_SPACE, {"identity": identity}).fetchone()
    return None if found is None else (found[0], found[1])


def space_of(connection: Connection, space_id: int) -> tuple[str, int]:
    """(identity, dimensions) of a space, also of one that has another beside it.

    Raises:
        CorruptIndexError: a generation names a space that is not there.
    """
    found = connection.execute(_SPACE_BY_ID, {"space_id": space_id}).fetchone()
    if found is None:
        raise CorruptIndexError(f"vector space {space_id} is missing", hint="run 'sqlindex repair'")
    return plain_identity(found[0]), found[1]


def plain_identity(name: str) -> str:
    """The document encoding that a space of that name belongs to."""
    apart = _NAMED_APART.fullmatch(name)
    return name if apart is None else apart[1]


def is_same_encoding(connection: Connection, one: int | None, other: int | None) -> bool:
    """Whether two spaces, or None and None, hold vectors of one encoding."""
    ids = (one, other)
    found = [connection.execute(_SPACE_BY_ID, {"space_id": i}).fetchone() for i in ids]
    names = [None if row is None else plain_identity(row[0]) for row in found]
    return one == other or (names[0] is not None and names[0] == names[1])


def staged_name(identity: str, build_id: int) -> str:
    """The name of the space in which a build makes the vectors of an encoding anew."""
    return _STAGED_NAME.format(identity=identity, number=build_id)


def take_plain_name(connection: Connection, space_id: int | None, generation: int) -> None:
    """Let a space that a build has made anew be the one of its encoding from that generation on."""
    found = connection.execute(_SPACE_BY_ID, {"space_id": space_id}).fetchone()
    apart = None if found is None else _NAMED_APART.fullmatch(found[0])
    if apart is None or apart[2] != "build":
        return
    earlier = _EARLIER_NAME.format(identity=apart[1], number=generation)
    for identity, name in ((apart[1], earlier), (apart[0], apart[1])):
        connection.execute(_RENAME, {"identity": identity, "name": name})


def has_vectors(connection: Connection, space_id: int) -> bool:
    """Whether a space holds any."""
    return connection.execute(_READ, {"space_id": space_id}).fetchone() is not None


def add_space(connection: Connection, identity: str, dimensions: int) -> int:
    """Register a document encoding; its space id."""
    cursor = connection.execute(_ADD_SPACE, {"identity": identity, "dimensions": dimensions})
    assert cursor.lastrowid is not None
    return cursor.lastrowid


class StoredInput(NamedTuple):
    """An embedding text, and one of the chunks that it is of."""

    key: bytes
    chars: int
    parse_id: int
    ord: int


class TextPlaces:
    """Where embedding texts stand: (text id, parse id, chunk ord) each, in 24 bytes."""

    def __init__(self, places: Iterable[tuple[int, int, int]]) -> None:
        self._numbers = array("q")
        for place in places:
            self._numbers.extend(place)

    def __len__(self) -> int:
        return len(self._numbers) // 3

    def batch(self, start: int, size: int) -> list[tuple[int, int, int]]:
        """Up to `size` places from `start` on."""
        numbers = self._numbers[3 * start : 3 * (start + size)]
        return list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))


def missing_texts(
    connection: Connection, build_id: int, space_id: int, *, is_new_space: bool, skips_refused: bool
) -> TextPlaces:
    """Each embedding text that the build needs a vector for.

    One place is named for each text, in order of parses and chunks, so that texts are embedded in
    the order of the documents.
    """
    parameters = {
        "build_id": build_id,
        "space_id": space_id,
        "is_new_space": int(is_new_space),
        "skips_refused": int(skips_refused),
    }
    return TextPlaces(connection.execute(MISSING_TEXTS, parameters))


def put_vectors(
    connection: Connection, space_id: int, text_ids: Sequence[int], vectors: npt.NDArray[np.float32]
) -> None:
    """Store checked vectors.

    Args:
        vectors: float32 of shape (len(text_ids), dimensions); row i belongs to `text_ids[i]`.
    """
    rows = []
    for text_id, vector in zip(text_ids, vectors, strict=True):
        blob = vector.astype("<f4").tobytes()
        rows.append(((space_id << 40) | text_id, _length(blob), blob, check8(blob)))
    connection.executemany(_PUT, rows)
    connection.executemany(_FORGIVE, [(space_id, text_id) for text_id in text_ids])


def _length(blob: bytes) -> float:
    """Euclidean length, rounded correctly: the same on every machine, so a flipped bit of it shows."""
    numbers = array("f", blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    return math.sqrt(math.fsum(map(mul, numbers, numbers)))


def damaged_vectors(connection: Connection) -> Iterator[tuple[int, str]]:
    """(vector id, what is wrong) of vectors whose bytes or norm are not what was stored."""
    for vector_id, norm, blob, check, dimensions in connection.execute(_ALL):
        fault = vector_fault(norm, blob, check, dimensions)
        if fault:
            yield vector_id, fault


def vector_fault(norm: object, blob: object, check: object, dimensions: int) -> str:
    """What is wrong with a stored vector, or an empty text."""
    if not isinstance(blob, bytes) or len(blob) != 4 * dimensions or check8(blob) != check:
        return "its bytes do not give their checksum"
    return "" if norm == _length(blob) else f"its norm is not {norm}"


def width_of_whole(connection: Connection, space_id: int) -> int | None:
    """Dimensions of the first vector of a space that gives its checksum; None if none does."""
    for _, _, blob, check in connection.execute(_READ, {"space_id": space_id}):
        if isinstance(blob, bytes) and blob and len(blob) % 4 == 0 and check8(blob) == check:
            return len(blob) // 4
    return None


def set_width(connection: Connection, space_id: int, dimensions: int) -> None:
    """Correct the dimensions of a space whose vectors have others, or that has no vectors."""
    connection.execute(
        "UPDATE vector_space SET dimensions = ? WHERE space_id = ?", (dimensions, space_id)
    )


def put_vector_refusals(connection: Connection, space_id: int, details: Mapping[int, str]) -> None:
    """Record texts, by text id, that are published without a vector."""
    connection.executemany(
        _REFUSE, [(space_id, text_id, detail) for text_id, detail in details.items()]
    )


def read_vectors(
    connection: Connection, space_id: int, dimensions: int
) -> Iterator[tuple[list[int], npt.NDArray[np.float64], npt.NDArray[np.float32]]]:
    """The vectors of a space in blocks, ascending by text id: (text ids, norms, vectors).

    Norms are float64 of shape (n,), vectors float32 of shape (n, dimensions), read-only.

    Raises:
        CorruptIndexError: a vector is damaged, of wrong width, or its norm is not its length; the
            message names the text id.
    """
    import numpy as np

    width = 4 * dimensions
    cursor = connection.execute(_READ, {"space_id": space_id})
    rows = iter(cursor)
    while block := list(islice(rows, READ_BLOCK)):
        for text_id, norm, blob, check in block:
            # A flipped byte of the row's header makes NULL or another type of a value.
            is_whole = isinstance(blob, bytes) and len(blob) == width and check8(blob) == check
            if not is_whole or not isinstance(norm, float) or not 0 < norm < math.inf:
                raise _damaged(text_id, space_id)
        norms = np.array([row[1] for row in block], np.float64)
        joined = b"".join(row[2] for row in block)
        vectors = np.frombuffer(joined, "<f4").reshape(len(block), dimensions)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        if (is_wrong := np.abs(lengths - norms) > dimensions * _ROUNDING * norms).any():
            raise _damaged(block[int(np.argmax(is_wrong))][0], space_id)
        yield [row[0] for row in block], norms, vectors


def _damaged(text_id: int, space_id: int) -> CorruptIndexError:
    return CorruptIndexError(
        f"the vector of text {text_id} in space {space_id} is damaged",
        hint="run 'sqlindex repair'; lexical search still works",
    )


def live_parses(connection: Connection) -> Iterator[tuple[int, str, int]]:
    """(source id, document id, parse id) of every document of the head."""
    return iter(connection.execute(_LIVE_PARSES))


def lacking_texts(
    connection: Connection, space_id: int, parse_id: int, *, skips_refused: bool
) -> Iterator[StoredInput]:
    """The embedding texts of a stored parse that the space has no vector for."""
    parameters = {
        "parse_id": parse_id,
        "space_id": space_id,
        "skips_refused": int(skips_refused),
    }
    return (StoredInput(*row) for row in connection.execute(_LACKING, parameters))


def lost_texts(connection: Connection, space_id: int) -> Iterator[tuple[int, str, StoredInput]]:
    """(source id, document id, text) of the head's whose vector a repair gave up: O(lost texts)."""
    for source_id, document_id, *text in connection.execute(_LOST_TEXTS, {"space_id": space_id}):
        yield source_id, document_id, StoredInput(*text)


def has_vector(connection: Connection, key: bytes, space_id: int, *, skips_refused: bool) -> bool:
    """Whether the space needs no inference for the embedding text of that key."""
    parameters: dict[str, Value] = {
        "key": key,
        "space_id": space_id,
        "skips_refused": int(skips_refused),
    }
    return connection.execute(_HAS_VECTOR, parameters).fetchone() is not None


def refused_texts(connection: Connection, space_id: int) -> set[int]:
    """Ids of the texts that a space has no vector for, on request or since a repair gave it up."""
    return {row[0] for row in connection.execute(_REFUSED_TEXTS, {"space_id": space_id})}


def refused_chunks(connection: Connection, space_id: int) -> int:
    """Chunks of the head whose vector was refused: O(refused texts)."""
    return int(connection.execute(_REFUSED_CHUNKS, {"space_id": space_id}).fetchone()[0])
