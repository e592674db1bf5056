"""The in-memory source: documents handed over by the host, from values or from a callable."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlindex.errors import DuplicateError, SourceError, SqlindexError
from sqlindex.model.documents import (
    NO_METADATA,
    DocumentRef,
    RawDocument,
    Refusal,
    RefusalReason,
)
from sqlindex.model.ids import DocumentId


@dataclass(frozen=True, slots=True)
class Document:
    """One document of the host.

    Attributes:
        id: identity within the source; not empty, without NUL.
        text: what is indexed; one that is not encodable to UTF-8 is refused as `ENCODING`.
        metadata: fields for filters; JSON values under text keys. Copied as JSON.
        title: shown and searched; None means "the parser finds it".
        path: for display and path filters; the id if not given.
        uri: a re-openable origin.
        date: ISO 8601 date or date-time.
        tags: in the host's order.
        type_name: extension of the file type whose parser reads the text, without dot.

    Raises:
        ValueError: a field is malformed; the message names the document and the field.
    """

    id: str
    text: str
    metadata: Mapping[str, object] = field(default_factory=lambda: NO_METADATA)
    title: str | None = None
    path: str | None = None
    uri: str | None = None
    date: str | None = None
    tags: tuple[str, ...] = ()
    type_name: str = "txt"

    def __post_init__(self) -> None:
        if not self.id or "\0" in self.id:
            raise ValueError(f"document id {self.id!r} is empty or holds a NUL")
        tags: object = self.tags
        if isinstance(tags, str):
            raise ValueError(f"document {self.id!r}: tags must be a tuple, not one text")
        object.__setattr__(self, "tags", tuple(self.tags))
        object.__setattr__(self, "type_name", self.type_name.removeprefix(".").lower())
        object.__setattr__(self, "metadata", self._copied_metadata())
        for name in ("id", "title", "path", "uri", "date", "type_name"):
            self._check_encodable(name, getattr(self, name))
        for tag in self.tags:
            self._check_encodable("tags", tag)
        if self.date is not None:
            try:
                datetime.fromisoformat(self.date)
            except ValueError as exc:
                raise ValueError(
                    f"document {self.id!r}: date {self.date!r} is not ISO 8601"
                ) from exc

    def _copied_metadata(self) -> dict[str, object]:
        copies: dict[str, object] = {}
        for key, value in self.metadata.items():
            if not isinstance(key, str):
                raise ValueError(f"document {self.id!r}: metadata key {key!r} is not a text")
            try:
                encoded = json.dumps({key: value}, ensure_ascii=False, allow_nan=False)
                encoded.encode()
            except (TypeError, ValueError, RecursionError) as exc:
                raise ValueError(
                    f"document {self.id!r}: metadata field {key!r} is not JSON: {exc}"
                ) from exc
            copies.update(json.loads(encoded))
        return copies

    def _check_encodable(self, name: str, value: str | None) -> None:
        try:
            (value or "").encode()
        except UnicodeEncodeError as exc:
            raise ValueError(
                f"document {self.id!r}: {name} holds a lone surrogate and is not UTF-8"
            ) from exc


def reference(document: Document) -> DocumentRef:
    """A document of the host as a source lists it."""
    return DocumentRef(
        DocumentId(document.id),
        document.id if document.path is None else document.path,
        document.type_name,
    )


def content(document: Document) -> RawDocument | Refusal:
    """The text of a document in UTF-8, with what the host said of it."""
    try:
        data = utf8(document.text)
    except UnicodeEncodeError as exc:
        return Refusal(
            document.id,
            RefusalReason.ENCODING,
            f"character {exc.start} is a lone surrogate and is not encodable to UTF-8",
            "decode the text without surrogateescape",
        )
    return RawDocument(
        data=data,
        uri=document.uri,
        title=document.title,
        date=document.date,
        tags=document.tags,
        metadata=dict(document.metadata),
    )


def utf8(text: str) -> bytes:
    """A host's text as the bytes that are decoded to exactly this text."""
    # A mark at the start is a character of the text: decoding takes only one away.
    return (codecs.BOM_UTF8 if text.startswith("\ufeff") else b"") + text.encode()


class MemorySource:
    """Documents of the host. What a listing does not name is gone from the index.

    Each listing holds its documents until the next one, for `read`.

    Args:
        name: unique within the index.
        documents: an iterable, taken over whole at construction; or a callable, asked anew for
            each listing, for documents that change.

    Raises:
        DuplicateError: two documents of the iterable have the same id.
    """

    def __init__(
        self, name: str, documents: Iterable[Document] | Callable[[], Iterable[Document]]
    ) -> None:
        self._name = name
        self._documents: Callable[[], Iterable[Document]]
        self._last_iterable: object = None
        self._listed: dict[str, Document] = {}
        if callable(documents):
            self._documents = documents
        else:
            # An iterator would be empty the second time, which reads as "all documents are gone".
            taken = tuple(documents)
            self._documents = lambda: taken
            for document in taken:
                self._add(self._listed, document)

    @property
    def name(self) -> str:
        """Unique within the index."""
        return self._name

    def list(self) -> Iterator[DocumentRef | Refusal]:
        """Yield every document in the host's order.

        Raises:
            DuplicateError: two documents have the same id.
            SourceError: the host's callable failed, or gave an iterator for the second time.
        """
        listed: dict[str, Document] = {}
        self._listed = listed
        for document in self._from_host():
            self._add(listed, document)
            yield reference(document)

    def read(self, ref: DocumentRef) -> RawDocument | Refusal:
        """The text of a document of the last listing, in UTF-8, with what the host said of it."""
        document = self._listed.get(ref.document_id)
        if document is None:
            return Refusal(
                ref.document_id, RefusalReason.VANISHED, "the last listing does not name it"
            )
        return content(document)

    def _from_host(self) -> Iterator[Document]:
        """The host's documents, with its exceptions translated."""
        try:
            iterable = self._documents()
            if iter(iterable) is iterable and iterable is self._last_iterable:
                raise SourceError(
                    f"source {self._name!r}: the callable returned the same iterator again, "
                    "which is used up",
                    hint="return a new iterator each time",
                )
            self._last_iterable = iterable
            yield from iterable
        except SqlindexError:
            raise
        except Exception as exc:  # the host's callable may raise anything
            raise SourceError(
                f"source {self._name!r}: the host's documents cannot be listed: {exc}",
                hint="see the cause; nothing was deleted",
            ) from exc

    def _add(self, documents: dict[str, Document], document: Document) -> None:
        if document.id in documents:
            raise DuplicateError(
                f"source {self._name!r} has two documents with the id {document.id!r}",
                hint="make ids unique within the source",
            )
        documents[document.id] = document
