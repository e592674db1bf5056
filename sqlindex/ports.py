"""The ports: what the pipelines ask of sources, parsers and embedders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sqlindex.model.documents import DocumentRef, ParsedDocument, RawDocument, Refusal
    from sqlindex.model.gate import GateCondition
    from sqlindex.model.requests import Mode


@runtime_checkable
class Source(Protocol):
    """Lists documents and reads them. Nothing is indexed that no source lists."""

    @property
    def name(self) -> str:
        """Unique within the index; part of every document's identity."""

    def list(self) -> Iterator[DocumentRef | Refusal]:
        """Yield every document once, and a refusal for each that cannot be indexed.

        A listing that ends without an error is complete: what it does not name is gone. A refusal
        as `UNREADABLE` whose id ends in a slash stands for all ids that begin so: they are kept.

        Raises:
            SourceError: the listing cannot be completed; nothing may be deleted for it.
        """

    def read(self, ref: DocumentRef) -> RawDocument | Refusal:
        """Read one listed document; a document that cannot be read is data, not an error."""


@runtime_checkable
class OnFileSystem(Protocol):
    """A source of files says what its file system is worth."""

    @property
    def trusts_stat(self) -> bool:
        """Whether equal size, times and inode mean equal bytes; not where a network caches them."""

    @property
    def mount_points(self) -> tuple[str, ...]:
        """Ids of the folders at which another file system begins, as the last complete listing
        found them; the root's is an empty text."""


class Parser(Protocol):
    """Finds the sections of a text."""

    @property
    def id(self) -> str:
        """Name of the parser, stable over releases."""

    @property
    def version(self) -> int | str | None:
        """Behaviour version, with that of a library that shapes the output; None means that the
        output is never reused."""

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Parse `text`; offsets in the result index `text` as it is.

        Called from one thread at a time in a refresh, not always the caller's.

        Total: any text gives a result, in time linear in its length.
        """


OverLongPolicy = Literal["truncate", "fail", "window"]
"""What happens with a text over an embedder's limit: it is cut and counted; or refused, and the chunk
named; or what is too long becomes several chunks, with a vector each."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. The host owns it; it is never closed by the index.

    A refresh or search that was given a `CancelToken` calls it from a worker thread of its own, one
    call at a time and in the caller's context; when it is cancelled it leaves a call that is not back
    to end by itself, and drops its result. Without a token calls come from the caller's thread.
    `identity` is asked for first: one that a service tells may take as long as a call.

    A reindex with workers pickles it; each worker, a process, calls a copy of its own. One that
    cannot be pickled is called here, as by a refresh.
    """

    @property
    def identity(self) -> str:
        """Document encoding: everything that shapes a document's vector. Keys stored vectors."""

    @property
    def dimensions(self) -> int:
        """Width of every vector."""

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed document texts.

        Returns:
            float32 array of shape (len(texts), dimensions), finite, no zero row; row i belongs
            to `texts[i]` and does not depend on the other texts.
        """

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Embed a query: float32 array of shape (dimensions,), finite, not zero."""


@runtime_checkable
class QueryEncoding(Protocol):
    """An embedder that encodes queries otherwise than documents says so.

    What it does to queries alone, a prefix or an instruction, is no part of `identity`: changing it
    embeds no document again. Without this, `identity` stands for queries too.
    """

    @property
    def query_identity(self) -> str:
        """Query encoding: everything that shapes a query's vector. Keys what is kept of queries."""


def query_identity_of(embedder: Embedder) -> str:
    """What a kept query vector is keyed by: the query encoding, else the document encoding."""
    if isinstance(embedder, QueryEncoding):
        return embedder.query_identity
    return embedder.identity


@runtime_checkable
class TokenLimited(Protocol):
    """An embedder with an input limit says so, so that over-long input is never silent."""

    @property
    def token_limit(self) -> int:
        """Most tokens of one input that reach the model, special tokens included."""

    @property
    def over_long_policy(self) -> OverLongPolicy:
        """What happens with a longer input."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text without any limit, special tokens included."""


@runtime_checkable
class CountingEmbedder(Protocol):
    """An embedder that sees while it embeds how long its inputs are, so that none is tokenised twice."""

    def embed_counted(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], list[int]]:
        """What `embed_documents` and `count_tokens` return for the same texts."""


@runtime_checkable
class RunsLocally(Protocol):
    """An embedder that computes in this process says so: a plan then embeds a few texts, to tell how
    long all of them will take. Without this, an embedder is never called by a plan."""

    @property
    def runs_locally(self) -> bool:
        """Whether a call costs nothing but time, and sends no text anywhere."""


@runtime_checkable
class PortionedEmbedder(Protocol):
    """An embedder that uses several processors, and can do with one where processes share them."""

    def for_worker(self) -> Embedder:
        """An embedder of the same identity for one of several processes; made and pickled cheaply."""


class PublishGate(Protocol):
    """What golden questions must find in a generation before it may become the head."""

    @property
    def text(self) -> str:
        """Its conditions, as they were written."""

    @property
    def mode(self) -> Mode | None:
        """That the questions are searched in; None for the mode of a search that names none."""

    @property
    def conditions(self) -> Sequence[GateCondition]:
        """All must be met by the mean over the questions."""

    @property
    def depth(self) -> int:
        """How many distinct documents of each ranking the measures look at."""

    def measure(
        self, qrels: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]
    ) -> Mapping[str, Mapping[str, float]]:
        """Measure rankings.

        Args:
            qrels: grades above 0 by question and document; at least one of each question.
            rankings: documents by question, best first, each once.

        Returns:
            By question of `qrels`, then by measure of the conditions.
        """
