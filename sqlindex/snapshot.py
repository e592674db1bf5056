"""A snapshot: one generation of an index, pinned until it is closed, in this process or another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlindex.adapters import uri_of
from sqlindex.cancellation import CancelToken
from sqlindex.config import SearchConfig
from sqlindex.errors import StorageError
from sqlindex.model.requests import DEFAULT_LIMIT, Filters, Mode, SearchRequest
from sqlindex.search.searcher import Searcher
from sqlindex.store.connection import IndexFile
from sqlindex.wiring import Wiring, rewired

if TYPE_CHECKING:
    from sqlindex.model.history import Generation, ListedDocument
    from sqlindex.model.links import DocumentLink
    from sqlindex.model.results import Chunk, DocumentChunk, SearchResult
    from sqlindex.model.stored import StoredDocument
    from sqlindex.store.driver import Connection
    from sqlindex.store.held import Hold


class Snapshot:
    """One generation of an index, which stays as it is for as long as the snapshot is open.

    `Index.snapshot` makes it; use it as a context manager. It is safe for threads, and uses the
    connections and the embedder of its index, which stays open meanwhile.

    Collection leaves the generation alone while a snapshot of it is open. A forked child holds it
    anew when it first reads. Pickled, a snapshot opens the index again where it is unpickled, with
    connections of its own, holds the generation there and refuses if it is gone: keep the first one
    open until then. The host's embedder travels along.
    """

    def __init__(
        self,
        file: IndexFile,
        wiring: Wiring,
        searcher: Searcher,
        generation: int,
        *,
        close_index: Callable[[], None] | None = None,
    ) -> None:
        """Hold a generation.

        Args:
            close_index: called when the snapshot is closed, if the index is its own.

        Raises:
            GenerationGoneError: it has been collected, or was never published.
            StorageError: the lock file cannot be read, so nothing can be held.
        """
        self._holds: list[Hold] = []
        self._is_closed = False
        self._file = file
        self._wiring = wiring
        self._searcher = searcher
        self._generation = generation
        self._close_index = close_index
        self._hold()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        for hold in getattr(self, "_holds", ()):
            hold.abandon()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<Snapshot of generation {self._generation} of {self._file.path}, {state}>"

    def __reduce__(self) -> tuple[Callable[..., Snapshot], tuple[object, ...]]:
        self._require_open()
        return _reopen, (
            self._file,
            self._wiring.packed(),
            self._searcher.config,
            self._generation,
        )

    @property
    def generation(self) -> int:
        """The number of the generation."""
        return self._generation

    @property
    def count(self) -> int:
        """How many documents it holds."""
        return self.info().documents

    def close(self) -> None:
        """Let the generation be collected; harmless when it was closed before."""
        self._is_closed = True
        while self._holds:
            self._holds.pop().release()
        if self._close_index is not None:
            close, self._close_index = self._close_index, None
            close()

    def info(self) -> Generation:
        """What the generation's refresh did, its counts and tags."""
        from sqlindex.store.history import read_generation

        with self._reading() as connection:
            return read_generation(connection, self._generation)

    def search(
        self,
        query: str,
        *,
        mode: Mode | None = None,
        limit: int = DEFAULT_LIMIT,
        offset: int = 0,
        filters: Filters | None = None,
        cursor: str | None = None,
        cancel: CancelToken | None = None,
    ) -> SearchResult:
        """Search the generation, see `Index.search`.

        Words are indexed for the head only. Once it is not the head any more, `mode` None means
        semantic, and lexical and hybrid are refused; semantic answers stay the same to the bit.

        Raises:
            LexicalHistoryError: lexical or hybrid, and it is not the head, or no longer.
            EmbedderMismatchError: the embedder is not the one that made the generation's vectors.
        """
        request = SearchRequest(
            query, mode, limit, offset, filters or Filters(), self._generation, cursor
        )
        self._hold()
        return self._searcher.search(request, self._wiring.embedder, cancel or CancelToken())

    def get(self, path_or_id: str, *, source: str | None = None) -> StoredDocument:
        """A document by its id or path, see `Index.get`."""
        from sqlindex.search.lookup import get_document

        with self._reading() as connection:
            return get_document(connection, path_or_id, source, uri_of, self._generation)

    def get_chunk(self, chunk_id: str) -> Chunk:
        """A chunk by the id that a hit carries, see `Index.get_chunk`."""
        from sqlindex.search.lookup import get_chunk

        with self._reading() as connection:
            return get_chunk(connection, chunk_id, uri_of, self._generation)

    def chunks(self, path_or_id: str, *, source: str | None = None) -> list[DocumentChunk]:
        """How a document is cut, see `Index.chunks`."""
        from sqlindex.search.lookup import get_chunks

        with self._reading() as connection:
            return get_chunks(connection, path_or_id, source, uri_of, self._generation)

    def links(self, path_or_id: str, *, source: str | None = None) -> list[DocumentLink]:
        """The links of a document and where they lead in this generation, see `Index.links`."""
        from sqlindex.search.links import outgoing_links

        with self._reading() as connection:
            return outgoing_links(connection, path_or_id, source, self._generation)

    def backlinks(self, path_or_id: str, *, source: str | None = None) -> list[DocumentLink]:
        """The links of this generation that lead to a document, see `Index.backlinks`."""
        from sqlindex.search.links import backlinks

        with self._reading() as connection:
            return backlinks(connection, path_or_id, source, self._generation)

    def documents(self, *, source: str | None = None) -> Iterator[ListedDocument]:
        """All documents by id and source, see `Index.documents`."""
        from sqlindex.search.lookup import walk_documents

        self._hold()
        return walk_documents(self._file, self._generation, source)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        self._hold()
        with self._file.reading() as connection:
            yield connection

    def _hold(self) -> None:
        """Hold the generation in this process: a forked child inherits no hold."""
        self._require_open()
        if not any(hold.is_held for hold in self._holds):
            self._holds.append(self._file.hold(self._generation))

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageError(
                f"the snapshot of generation {self._generation} was closed", hint="take another one"
            )


def _reopen(
    file: IndexFile, packed: Mapping[str, Any], config: SearchConfig, generation: int
) -> Snapshot:
    """A pickled snapshot where it is unpickled; errors are those of `Index.open` and of a hold."""
    wiring = rewired(file, packed)

    def close() -> None:
        file.close()
        wiring.close()

    try:
        return Snapshot(file, wiring, Searcher(file, config, uri_of), generation, close_index=close)
    except BaseException:
        close()
        raise
