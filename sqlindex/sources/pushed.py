"""Documents pushed by a host: read once, one at a time, as the refresh asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlindex.model.documents import DocumentRef, RawDocument, Refusal, RefusalReason
from sqlindex.sources.memory import Document, content, reference


class PushedDocuments:
    """A partial listing: what it does not name stays. Holds only the document listed last.

    Args:
        name: of the source.
        documents: any iterable; a generator is read as far as the refresh gets.
    """

    def __init__(self, name: str, documents: Iterable[Document]) -> None:
        self.name = name
        self._documents = documents
        self._last: Document | None = None

    def list(self) -> Iterator[DocumentRef | Refusal]:
        """Yield each document; read it before asking for the next."""
        for document in self._documents:
            self._last = document
            yield reference(document)

    def read(self, ref: DocumentRef) -> RawDocument | Refusal:
        """The document listed last."""
        if self._last is None or self._last.id != ref.document_id:
            return Refusal(ref.document_id, RefusalReason.VANISHED, "it was listed earlier")
        return content(self._last)
