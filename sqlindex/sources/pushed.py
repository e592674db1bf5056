"""Documents pushed by a host: read once, one at a time, as the refresh asks for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from sqlindex.errors import UsageError
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal, RefusalReason
from sqlindex.sources.memory import Document, content, reference


class PushedDocuments:
    """A partial listing: what it does not name stays. Holds only the document listed last.

    Args:
        name: of the source.
        documents: any iterable; a generator is read as far as the refresh gets.
        not_among: ids that may not come, because they are removed at the same time.
    """

    def __init__(
        self, name: str, documents: Iterable[Document], *, not_among: Collection[str] = ()
    ) -> None:
        self.name = name
        self._not_among = not_among
        self._documents = documents
        self._last: Document | None = None

    def list(self) -> Iterator[DocumentRef | Refusal]:
        """Yield each document; read it before asking for the next.

        Raises:
            UsageError: one of them is to be removed.
        """
        for document in self._documents:
            if document.id in self._not_among:
                raise UsageError(
                    f"document {document.id!r} is both pushed and removed", hint="choose one"
                )
            self._last = document
            yield reference(document)

    def read(self, ref: DocumentRef) -> RawDocument | Refusal:
        """The document listed last."""
        if self._last is None or self._last.id != ref.document_id:
            return Refusal(ref.document_id, RefusalReason.VANISHED, "it was listed earlier")
        return content(self._last)
