"""The in-memory source: what the host says is kept, and its mistakes fail early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sqlindex.errors import DuplicateError, SourceError
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal, RefusalReason
from sqlindex.sources.memory import Document, MemorySource


def only_ref(source: MemorySource) -> DocumentRef:
    (ref,) = source.list()
    assert isinstance(ref, DocumentRef)
    return ref


@pytest.mark.req("A-4")
def test_everything_the_host_says_of_a_document_is_kept() -> None:
    document = Document(
        "row/1",
        "größer",
        metadata={"price": 1.5, "ids": [1, 2], "nested": {"a": None}},
        title="Titel",
        path="shop/one.md",
        uri="https://example.org/1",
        date="2024-05-01T10:00:00+02:00",
        tags=("b", "a"),
        type_name=".MD",
    )
    source = MemorySource("shop", [document])
    ref = only_ref(source)
    assert (ref.document_id, ref.path, ref.type_name, ref.stat) == (
        "row/1",
        "shop/one.md",
        "md",
        None,
    )
    raw = source.read(ref)
    assert raw == RawDocument(
        data="größer".encode(),
        uri="https://example.org/1",
        title="Titel",
        date="2024-05-01T10:00:00+02:00",
        tags=("b", "a"),
        metadata={"price": 1.5, "ids": [1, 2], "nested": {"a": None}},
    )


@pytest.mark.req("A-4")
def test_metadata_changed_by_the_host_afterwards_stays_as_it_was() -> None:
    metadata: dict[str, Any] = {"ids": [1]}
    source = MemorySource("s", [Document("a", "x", metadata=metadata)])
    metadata["ids"].append(2)
    raw = source.read(only_ref(source))
    assert isinstance(raw, RawDocument)
    assert raw.metadata == {"ids": [1]}


@pytest.mark.req("A-4")
def test_a_callable_is_asked_for_each_listing() -> None:
    documents = [Document("a", "x")]
    source = MemorySource("s", lambda: documents)
    assert len(list(source.list())) == 1
    documents.append(Document("b", "y"))
    assert len(list(source.list())) == 2


@pytest.mark.req("A-4", "A-14")
def test_an_iterator_is_taken_over_once_so_that_a_second_listing_is_not_empty() -> None:
    source = MemorySource("s", iter([Document("a", "x")]))
    assert list(source.list()) == list(source.list()) != []


@pytest.mark.req("A-4", "A-14")
def test_a_callable_that_returns_a_used_up_iterator_is_an_error_and_no_empty_listing() -> None:
    iterator = iter([Document("a", "x")])
    source = MemorySource("s", lambda: iterator)
    list(source.list())
    with pytest.raises(SourceError, match="same iterator"):
        list(source.list())


@pytest.mark.req("A-14")
def test_an_error_of_the_host_is_a_source_error_with_its_cause() -> None:
    def broken() -> Iterator[Document]:
        yield Document("a", "x")
        raise ConnectionError("gone")

    with pytest.raises(SourceError, match=r"'s'.*gone") as error:
        list(MemorySource("s", broken).list())
    assert isinstance(error.value.__cause__, ConnectionError)


@pytest.mark.req("A-4")
def test_a_duplicate_id_fails_at_construction_or_at_the_listing() -> None:
    twice = [Document("a", "x"), Document("a", "y")]
    with pytest.raises(DuplicateError, match="'s' has two documents with the id 'a'"):
        MemorySource("s", twice)
    with pytest.raises(DuplicateError, match="'a'"):
        list(MemorySource("s", lambda: twice).list())


@pytest.mark.req("A-4", "A-2")
def test_a_text_that_is_not_utf_8_is_refused_as_encoding() -> None:
    source = MemorySource("s", [Document("a", "x\udcff")])
    refusal = source.read(only_ref(source))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.ENCODING
    assert "character 1" in refusal.detail


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ""}, "empty"),
        ({"id": "a\0b"}, "NUL"),
        ({"id": "a\ud800"}, "id holds a lone surrogate"),
        ({"title": "\udcff"}, "title"),
        ({"path": "\udcff"}, "path"),
        ({"uri": "\udcff"}, "uri"),
        ({"tags": ("\udcff",)}, "tags"),
        ({"tags": "abc"}, "tags"),
        ({"date": "yesterday"}, "date 'yesterday'"),
        ({"metadata": {1: "x"}}, "key 1"),
        ({"metadata": {"at": object()}}, "'d'.*field 'at'"),
        ({"metadata": {"price": float("nan")}}, "'d'.*field 'price'"),
        ({"metadata": {"name": "\udcff"}}, "'d'.*field 'name'"),
    ],
)
def test_a_malformed_field_fails_at_construction(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Document(**({"id": "d", "text": "x"} | fields))


@pytest.mark.req("A-4")
def test_metadata_that_holds_itself_fails_at_construction() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="field 'loop'"):
        Document("d", "x", metadata={"loop": loop})
