"""What every source promises, run over each implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from sqlindex.model.documents import DocumentRef, RawDocument, Refusal, RefusalReason
from sqlindex.model.ids import DocumentId
from sqlindex.ports import Source
from sqlindex.sources.containment import canonical_root
from sqlindex.sources.filesystem import FolderSource
from sqlindex.sources.memory import Document, MemorySource
from sqlindex.sources.sqlite_file import SqliteFileSource, canonical_database
from sqlindex.sources.sqlite_table import SqliteTableSource
from sqlindex.sources.table_selection import SqliteTable

TEXT_BY_ID = {
    "a.md": "# Anfang\r\n",
    "b.txt": "",
    "tief/Übung.md": "größer",
    "tief/z \\\\ 'q\"\n.txt": "odd name",
}

MakeSource = Callable[[dict[str, str]], Source]


@pytest.fixture(params=["folder", "memory", "memory callable", "table", "table file"])
def make_source(request: pytest.FixtureRequest, tmp_path: Path) -> MakeSource:
    """Makes a source named `s` that offers exactly these texts."""

    def folder(text_by_id: dict[str, str]) -> Source:
        for document_id, text in text_by_id.items():
            target = tmp_path / document_id.replace("\\\\", "\\")
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
        return FolderSource("s", canonical_root(tmp_path))

    def documents(text_by_id: dict[str, str]) -> list[Document]:
        return [
            Document(document_id, text, type_name=document_id.rpartition(".")[2])
            for document_id, text in text_by_id.items()
        ]

    def database(text_by_id: dict[str, str]) -> tuple[Path, Any, str]:
        path = tmp_path / "rows.db"
        connection = pytest.importorskip("sqlite3").connect(path)
        connection.execute("CREATE TABLE page(id TEXT PRIMARY KEY, body TEXT NOT NULL)")
        connection.executemany("INSERT INTO page VALUES(?, ?)", text_by_id.items())
        connection.commit()
        return path, connection, next(iter(text_by_id), "").rpartition(".")[2]

    def table(text_by_id: dict[str, str]) -> Source:
        _, connection, type_name = database(text_by_id)
        return SqliteTableSource("s", connection, table="page", type_name=type_name)

    def table_file(text_by_id: dict[str, str]) -> Source:
        path, connection, type_name = database(text_by_id)
        connection.close()
        wanted = SqliteTable(table="page", type_name=type_name)
        return SqliteFileSource("s", canonical_database(path), wanted)

    makers: dict[str, MakeSource] = {
        "folder": folder,
        "memory": lambda texts: MemorySource("s", iter(documents(texts))),
        "memory callable": lambda texts: MemorySource("s", lambda: documents(texts)),
        "table": table,
        "table file": table_file,
    }
    return makers[request.param]


@pytest.mark.req("A-1", "A-4")
def test_a_source_satisfies_the_port(make_source: MakeSource) -> None:
    source = make_source({})
    assert isinstance(source, Source)
    assert source.name == "s"


@pytest.mark.req("A-1")
def test_every_document_is_listed_once_and_read_as_it_is(make_source: MakeSource) -> None:
    source = make_source(TEXT_BY_ID)
    refs = [ref for ref in source.list() if isinstance(ref, DocumentRef)]
    assert sorted(ref.document_id for ref in refs) == sorted(TEXT_BY_ID)
    for ref in refs:
        raw = source.read(ref)
        assert isinstance(raw, RawDocument)
        assert raw.data.decode() == TEXT_BY_ID[ref.document_id]


@pytest.mark.req("A-1")
def test_listing_again_gives_the_same_in_the_same_order(make_source: MakeSource) -> None:
    source = make_source(TEXT_BY_ID)
    assert list(source.list()) == list(source.list())


@pytest.mark.req("A-1")
def test_an_empty_source_lists_nothing(make_source: MakeSource) -> None:
    assert list(make_source({}).list()) == []


@pytest.mark.req("A-1", "A-7")
def test_the_type_is_the_extension_in_lower_case_without_dot(make_source: MakeSource) -> None:
    (ref,) = make_source({"LIES.MD": "x"}).list()
    assert isinstance(ref, DocumentRef)
    assert ref.type_name == "md"


@pytest.mark.req("A-5")
def test_the_path_is_the_id_unless_the_host_says_otherwise(make_source: MakeSource) -> None:
    for ref in make_source(TEXT_BY_ID).list():
        assert isinstance(ref, DocumentRef)
        assert ref.path == ref.document_id


@pytest.mark.req("A-1", "A-14")
def test_reading_what_is_not_there_is_a_refusal_and_not_an_error(make_source: MakeSource) -> None:
    source = make_source(TEXT_BY_ID)
    list(source.list())
    refusal = source.read(DocumentRef(DocumentId("fehlt.md"), "fehlt.md", "md"))
    assert isinstance(refusal, Refusal)
    assert (refusal.document_id, refusal.reason) == ("fehlt.md", RefusalReason.VANISHED)


@pytest.mark.req("A-1")
def test_a_listing_can_be_left_half_way_and_started_anew(make_source: MakeSource) -> None:
    source = make_source(TEXT_BY_ID)
    next(source.list())
    assert len(list(source.list())) == len(TEXT_BY_ID)


class ListsParts(Source, Protocol):
    """A source that can list a part of itself."""

    def list_under(self, document_id: str) -> Iterator[DocumentRef | Refusal]: ...


@pytest.fixture
def listing_parts(tmp_path: Path) -> ListsParts:
    """A source with the same texts that can list parts."""
    for document_id, text in (TEXT_BY_ID | {"tief/er/x.md": "x", "tiefer.md": "y"}).items():
        target = tmp_path / document_id.replace("\\\\", "\\")
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="")
    (tmp_path / ".gitignore").write_text("b.txt\n/tief/er/\n")
    return FolderSource("s", canonical_root(tmp_path))


@pytest.mark.req("A-1")
def test_a_part_is_the_listing_restricted_to_it(listing_parts: ListsParts) -> None:
    whole = list(listing_parts.list())
    ids = [found.document_id for found in whole]
    assert list(listing_parts.list_under("")) == whole
    for part in [*ids, "tief", "tief/er", "fehlt"]:
        part = part.rstrip("/")
        expected = [
            found
            for found in whole
            if found.document_id in (part, f"{part}/") or found.document_id.startswith(f"{part}/")
        ]
        assert list(listing_parts.list_under(part)) == expected


@pytest.mark.req("A-1")
def test_a_document_of_a_part_reads_as_in_the_whole(listing_parts: ListsParts) -> None:
    for part in ("a.md", "tief"):
        for ref in listing_parts.list_under(part):
            if isinstance(ref, DocumentRef):
                raw = listing_parts.read(ref)
                assert isinstance(raw, RawDocument)
                assert raw.data.decode() == TEXT_BY_ID[ref.document_id]
