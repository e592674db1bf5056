"""Stage a build: documents in small transactions, then a vector for each text that lacks one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlindex.cancellation import CancelToken, WorkerThread
from sqlindex.chunking.embedding_text import embedding_key, embedding_text, lost_heading
from sqlindex.errors import (
    BadVectorError,
    EmbedderError,
    EmbedderMismatchError,
    InputTooLongError,
    SqlindexError,
)
from sqlindex.indexing.diff import TouchedFile
from sqlindex.indexing.prepare import PreparedDocument
from sqlindex.indexing.report import Progress, ProgressSink
from sqlindex.ports import Embedder, TokenLimited
from sqlindex.rendering import rendered_text
from sqlindex.store.contents import put_content, read_content
from sqlindex.store.documents import VersionRow, stage_versions
from sqlindex.store.driver import Connection, stopped_by
from sqlindex.store.parses import ChunkPlace, chunk_place, document_of_parse, find_parse, put_parse
from sqlindex.store.sources import SourceRow, StatRow, put_file_stats
from sqlindex.store.vectors import missing_texts, put_vector_refusals, put_vectors
from sqlindex.store.writer import Writer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(slots=True)
class Embedded:
    """What the embedding step did."""

    texts: int = 0
    truncated: int = 0
    without_vector: list[str] = field(default_factory=list)


def stage_documents(
    writer: Writer,
    build_id: int,
    source: SourceRow,
    found: Sequence[PreparedDocument | TouchedFile],
) -> None:
    """Store texts and parses of a batch and stage its versions, in one transaction.

    What was seen of the files is remembered at once: it counts only beside a live version with the
    same digest.
    """
    with writer.transaction() as connection:
        versions: list[VersionRow] = []
        stats: list[tuple[str, StatRow]] = []
        for document in found:
            if isinstance(document, TouchedFile):
                stats.append((document.document_id, document.stat))
                continue
            version = document.version
            if document.stat is not None:
                stats.append((version.document_id, document.stat))
            if document.parse is not None:
                content_id = put_content(connection, document.text)
                known = find_parse(connection, content_id, document.recipe)
                if known is None:
                    parse_id = put_parse(
                        connection,
                        content_id,
                        document.recipe,
                        document.text,
                        document.parse,
                        document.chunks,
                    )
                    known = (parse_id, len(document.chunks))
                version = replace(version, parse_id=known[0], chunks=known[1])
            versions.append(version)
        stage_versions(connection, build_id, source.source_id, versions)
        put_file_stats(connection, source.source_id, stats)
    writer.bound_log()


def embed_missing(
    writer: Writer,
    build_id: int,
    space_id: int,
    embedder: Embedder,
    *,
    is_new_space: bool,
    allow_bad_vectors: bool,
    batch_size: int,
    cancel: CancelToken,
    worker: WorkerThread,
    progress: ProgressSink,
) -> Embedded:
    """Embed every text of the build that the space has no vector for; each batch is durable.

    Args:
        worker: where the embedder is called.

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
    identity, dimensions = embedder.identity, embedder.dimensions
    reader = _TextReader(writer.connection)
    for at in range(0, len(places), batch_size):
        cancel.check()
        progress(Progress("embed", at, len(places)))
        batch = places.batch(at, batch_size)
        texts = [reader.text(parse_id, ord_) for _, parse_id, ord_ in batch]
        try:
            over_long = worker.run(partial(_over_long, embedder, texts))
            if over_long:
                _require_truncating(writer.connection, embedder, batch[over_long[0]])
            done.truncated += len(over_long)
            reply: object = worker.run(partial(embedder.embed_documents, texts))
        except EmbedderError as exc:
            if exc.row is None or not 0 <= exc.row < len(batch):
                raise
            where = _where(writer.connection, *batch[exc.row][1:])
            raise type(exc)(f"{where}: {exc}", hint=exc.hint) from exc
        except SqlindexError:
            raise
        except Exception as exc:  # a host's embedder may raise anything
            where = _where(writer.connection, *batch[0][1:])
            raise EmbedderError(
                f"the embedder failed on a batch of {len(batch)}, from {where} on: {type(exc).__name__}: {exc}"
            ) from exc
        if (embedder.identity, embedder.dimensions) != (identity, dimensions):
            raise EmbedderMismatchError(
                f"the embedder changed from {identity} to {embedder.identity} during the refresh",
                hint="run the refresh again",
            )
        cancel.check()
        vectors = _rows_of(reply, len(texts))
        if vectors is None:
            where = _where(writer.connection, *batch[0][1:])
            raise BadVectorError(
                f"the embedder gave {_described(reply)} for a batch of {len(batch)}, from {where} on",
                hint=f"it must give a float32 array of shape ({len(batch)}, {dimensions})",
            )
        faults = vector_faults(vectors, dimensions)
        if faults and not allow_bad_vectors:
            row, detail = min(faults.items())
            where = _where(writer.connection, *batch[row][1:])
            raise BadVectorError(
                f"the embedder gave a bad vector for {where}: {detail}",
                hint="fix the embedder, or publish such chunks lexical-only: allow_bad_vectors=True, "
                "--lexical-only-on-bad-vector",
            )
        good = [row for row in range(len(batch)) if row not in faults]
        with writer.transaction() as connection:
            if good:
                put_vectors(connection, space_id, [batch[row][0] for row in good], vectors[good])
            refused = {batch[row][0]: detail for row, detail in faults.items()}
            put_vector_refusals(connection, space_id, refused)
        done.texts += len(batch)
        for row, detail in faults.items():
            done.without_vector.append(f"{_where(writer.connection, *batch[row][1:])}: {detail}")
        writer.bound_log()
    progress(Progress("embed", len(places), len(places)))
    return done


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


class _TextReader:
    """Rebuilds embedding texts from the store; keeps the last content, as places come in order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._content_id = 0
        self._content = ""

    def text(self, parse_id: int, ord_: int) -> str:
        place = chunk_place(self._connection, parse_id, ord_)
        if place.content_id != self._content_id:
            self._content = read_content(self._connection, place.content_id)
            self._content_id = place.content_id
        return text_at(self._content, place)


def text_at(content: str, place: ChunkPlace) -> str:
    """What an embedder gets for a stored chunk of a content."""
    body = rendered_text(content[place.start_char : place.end_char], place.rendered)
    heading = lost_heading(place.heading_path, place.heading_line, place.is_continuation)
    return embedding_text(body, heading=heading, context=place.context)


def key_at(content: str, place: ChunkPlace) -> bytes | None:
    """The key of that, or None for a chunk that is not embedded: raw ones, and what is markup alone."""
    if not place.is_body:
        return None
    part = content[place.start_char : place.end_char]
    if place.rendered and not rendered_text(part, place.rendered).strip():
        return None
    return embedding_key(text_at(content, place))


def _over_long(embedder: Embedder, texts: Sequence[str]) -> list[int]:
    """Which texts are over the embedder's limit."""
    if not isinstance(embedder, TokenLimited):
        return []
    limit = embedder.token_limit
    return [row for row, tokens in enumerate(embedder.count_tokens(texts)) if tokens > limit]


def _require_truncating(
    connection: Connection, embedder: Embedder, place: tuple[int, int, int]
) -> None:
    """Refuse a text over the limit of an embedder that does not cut it.

    With the policy `window` it has been cut already: what is left are heading and context.
    """
    if isinstance(embedder, TokenLimited) and embedder.over_long_policy != "truncate":
        raise InputTooLongError(
            f"{_where(connection, *place[1:])} is over the embedder's limit of "
            f"{embedder.token_limit} tokens",
            hint="choose smaller chunks, or an embedder's policy that cuts",
        )


def _where(connection: Connection, parse_id: int, ord_: int) -> str:
    """The document and lines of a chunk, for messages."""
    place = chunk_place(connection, parse_id, ord_)
    source, document_id = document_of_parse(connection, parse_id)
    return f"{source}: {document_id}, lines {place.start_line}-{place.end_line}"
