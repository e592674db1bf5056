"""A vector for each text of a build that lacks one: read ahead, embed, store, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import index
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex

from sqlindex.cancellation import CancelToken
from sqlindex.errors import (
    BadVectorError,
    EmbedderError,
    EmbedderMismatchError,
    InputTooLongError,
)
from sqlindex.indexing.inference import Encoding, Hands, Inferred
from sqlindex.indexing.report import Progress, ProgressSink
from sqlindex.indexing.stored_inputs import InputReader
from sqlindex.store.driver import Connection, stopped_by
from sqlindex.store.parses import chunk_place, document_of_parse
from sqlindex.store.vectors import TextPlaces, missing_texts, put_vector_refusals, put_vectors
from sqlindex.store.writer import Writer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


_LEXICAL_ONLY = (
    "fix the embedder, or publish such chunks lexical-only: allow_bad_vectors=True, "
    "--lexical-only-on-bad-vector"
)


@dataclass(slots=True)
class Embedded:
    """What the embedding step did."""

    texts: int = 0
    truncated: int = 0
    without_vector: list[str] = field(default_factory=list)


def embed_missing(
    writer: Writer,
    build_id: int,
    space_id: int,
    hands: Hands,
    *,
    encoding: Encoding,
    is_new_space: bool,
    allow_bad_vectors: bool,
    batch_size: int,
    cancel: CancelToken,
    progress: ProgressSink,
) -> Embedded:
    """Embed every text of the build that the space has no vector for; each batch is durable.

    While batches are being embedded, the texts of the next one are read. A batch is stored before
    the hands that made it get another one: whenever the process ends, at most one batch of each of
    them is lost.

    Args:
        hands: who calls the embedder.
        encoding: what the embedder said of itself before.

    Raises:
        BadVectorError: a vector is zero, not finite or of the wrong width and `allow_bad_vectors`
            is False; the message names the document and its lines.
        InputTooLongError: a text is over the limit of an embedder that does not cut it.
        EmbedderMismatchError: the embedder's identity or width changed on the way.
        EmbedderError: the embedder raised.
    """
    done = Embedded()
    with stopped_by(cancel, writer.connection):
        places = missing_texts(
            writer.connection,
            build_id,
            space_id,
            is_new_space=is_new_space,
            skips_refused=allow_bad_vectors,
        )
    keeper = _Keeper(writer, space_id, encoding, done, allow_bad_vectors=allow_bad_vectors)
    batches = _batches(writer.connection, places, batch_size)
    progress(Progress("embed", 0, len(places)))
    ahead = next(batches, None)
    running: dict[int, _Batch] = {}
    while ahead is not None or running:
        while ahead is not None and hands.is_free:
            cancel.check()
            hands.start(ahead.number, ahead.texts)
            running[ahead.number] = ahead
            ahead = next(batches, None)
        writer.bound_log()
        number, outcome = hands.finished()
        cancel.check()
        batch = running.pop(number)
        if allow_bad_vectors and isinstance(outcome, BadVectorError) and batch.has(outcome.row):
            # Told by the embedder, which then gives nothing for the others: they are asked for again.
            batch = keeper.leave_out(batch, outcome)
            if batch.texts:
                hands.start(number, batch.texts)
                running[number] = batch
        else:
            keeper.keep(batch, outcome)
        progress(Progress("embed", done.texts, len(places)))
    writer.bound_log()
    return done


class _Batch(NamedTuple):
    """Texts to embed; the places are (text id, parse id, chunk ord)."""

    number: int
    places: list[tuple[int, int, int]]
    texts: list[str]

    def has(self, row: object) -> bool:
        """Whether an embedder that names this row means one of these texts."""
        return isinstance(row, SupportsIndex) and 0 <= index(row) < len(self.places)


def _batches(connection: Connection, places: TextPlaces, size: int) -> Iterator[_Batch]:
    reader = InputReader(connection)
    for at in range(0, len(places), size):
        batch = places.batch(at, size)
        yield _Batch(at, batch, [reader.text(parse_id, ord_) for _, parse_id, ord_ in batch])


class _Keeper:
    """Checks what came of a batch and stores it."""

    def __init__(
        self,
        writer: Writer,
        space_id: int,
        encoding: Encoding,
        done: Embedded,
        *,
        allow_bad_vectors: bool,
    ) -> None:
        self._writer = writer
        self._space_id = space_id
        self._encoding = encoding
        self._done = done
        self._allow_bad_vectors = allow_bad_vectors

    def keep(self, batch: _Batch, outcome: Inferred | Exception) -> None:
        """Store the vectors of a batch in one transaction.

        Raises:
            As `embed_missing`.
        """
        places, done = batch.places, self._done
        identity, dimensions, token_limit = self._encoding
        if isinstance(outcome, EmbedderError) and batch.has(outcome.row):
            where = self._where(places[outcome.row or 0])
            hint = _LEXICAL_ONLY if isinstance(outcome, BadVectorError) else ""
            raise type(outcome)(f"{where}: {outcome}", hint=outcome.hint or hint) from outcome
        if isinstance(outcome, Exception):
            raise EmbedderError(
                f"the embedder failed on a batch of {len(places)}, from {self._where(places[0])} on: "
                f"{type(outcome).__name__}: {outcome}"
            ) from outcome
        if outcome.vectors is None and outcome.over_long:
            raise InputTooLongError(
                f"{self._where(places[outcome.over_long[0]])} is over the embedder's limit of "
                f"{token_limit} tokens",
                hint="choose smaller chunks, or an embedder's policy that cuts",
            )
        if (outcome.identity, outcome.dimensions) != (identity, dimensions):
            raise EmbedderMismatchError(
                f"the embedder changed from {identity} to {outcome.identity} during the refresh",
                hint="run the refresh again",
            )
        vectors = _rows_of(outcome.vectors, len(places))
        if vectors is None:
            raise BadVectorError(
                f"the embedder gave {_described(outcome.vectors)} for a batch of {len(places)}, "
                f"from {self._where(places[0])} on",
                hint=f"it must give a float32 array of shape ({len(places)}, {dimensions})",
            )
        faults = vector_faults(vectors, dimensions)
        if faults and not self._allow_bad_vectors:
            row, detail = min(faults.items())
            raise BadVectorError(
                f"the embedder gave a bad vector for {self._where(places[row])}: {detail}",
                hint=_LEXICAL_ONLY,
            )
        good = [row for row in range(len(places)) if row not in faults]
        with self._writer.transaction() as connection:
            if good:
                text_ids = [places[row][0] for row in good]
                put_vectors(connection, self._space_id, text_ids, vectors[good])
            refused = {places[row][0]: detail for row, detail in faults.items()}
            put_vector_refusals(connection, self._space_id, refused)
        done.texts += len(places)
        done.truncated += len(outcome.over_long)
        for row, detail in faults.items():
            done.without_vector.append(f"{self._where(places[row])}: {detail}")

    def leave_out(self, batch: _Batch, refused: BadVectorError) -> _Batch:
        """Note the text that an embedder has no good vector for; the batch without it."""
        row = refused.row
        assert row is not None
        detail = str(refused).encode(errors="replace").decode()
        with self._writer.transaction() as connection:
            put_vector_refusals(connection, self._space_id, {batch.places[row][0]: detail})
        self._done.texts += 1
        self._done.without_vector.append(f"{self._where(batch.places[row])}: {detail}")
        places, texts = batch.places[:], batch.texts[:]
        del places[row], texts[row]
        return _Batch(batch.number, places, texts)

    def _where(self, place: tuple[int, int, int]) -> str:
        """The document and lines of a chunk, for messages."""
        _, parse_id, ord_ = place
        chunk = chunk_place(self._writer.connection, parse_id, ord_)
        source, document_id = document_of_parse(self._writer.connection, parse_id)
        return f"{source}: {document_id}, lines {chunk.start_line}-{chunk.end_line}"


def _rows_of(reply: object, count: int) -> npt.NDArray[np.float32] | None:
    """An embedder's reply as float32, as it is stored; None if it is not a row for each text."""
    import numpy as np

    if not isinstance(reply, np.ndarray) or reply.dtype.kind not in "fiu":
        return None
    if reply.ndim != 2 or reply.shape[0] != count:
        return None
    with np.errstate(over="ignore", under="ignore"):
        # Too large a float64 becomes infinite here, too small a one zero: both are faults.
        rows: npt.NDArray[np.float32] = reply.astype(np.float32, copy=False)
    return rows


def _described(reply: object) -> str:
    shape, dtype = getattr(reply, "shape", None), getattr(reply, "dtype", None)
    return type(reply).__name__ if shape is None else f"shape {shape} of dtype {dtype}"


def vector_faults(vectors: npt.NDArray[np.float32], dimensions: int) -> dict[int, str]:
    """What is wrong with an embedder's rows, by row."""
    import numpy as np

    if vectors.shape[1] != dimensions:
        detail = f"width {vectors.shape[1]} instead of {dimensions}"
        return dict.fromkeys(range(len(vectors)), detail)
    faults: dict[int, str] = {}
    finite = np.asarray(np.isfinite(vectors).all(axis=1))
    nonzero = np.asarray(vectors.any(axis=1))
    for row in np.flatnonzero(~(finite & nonzero)).tolist():
        faults[row] = "not finite" if not finite[row] else "all zeros"
    return faults
