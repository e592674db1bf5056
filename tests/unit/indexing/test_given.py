"""Hosts that give something else than they promise: told as their fault, and nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlindex import Document, Index
from sqlindex.errors import EmbedderError, SourceError, StorageError, UsageError
from sqlindex.filetypes.builtin import BUILTIN_REGISTRY
from sqlindex.filetypes.registry import FileType
from sqlindex.model.documents import (
    Block,
    DocumentRef,
    FileStat,
    Link,
    ParsedDocument,
    RawDocument,
    Refusal,
    RefusalReason,
    Rendered,
    Section,
)
from sqlindex.parsing.registry import builtin_parsers
from sqlindex.testing import HashingEmbedder

TEXT = "wort eins\nwort zwei\n"
WHOLE = Section(0, len(TEXT))


class Listing:
    """A source that lists and reads what it is told to."""

    name = "s"

    def __init__(self, entries: list[Any], raw: Any = None) -> None:
        self.entries = entries
        self.raw = RawDocument(TEXT.encode()) if raw is None else raw

    def list(self) -> Iterator[Any]:
        return iter(self.entries)

    def read(self, ref: DocumentRef) -> Any:
        return self.raw


REF = DocumentRef("a", "a", "txt")
STAT = FileStat(1, 2, 3, 4, 5)


@pytest.mark.req("A-1", "A-14")
@pytest.mark.parametrize(
    "raw",
    [
        # The ignored types are wrong on purpose: a host may run no type checker.
        RawDocument(b"x", title=5),  # type: ignore[arg-type]
        RawDocument(b"x", tags=(1,)),  # type: ignore[arg-type]
        RawDocument(b"x", tags="ab"),  # type: ignore[arg-type]
        RawDocument(b"x", modified_ns=1.5),  # type: ignore[arg-type]
        RawDocument(b"x", modified_ns=2**63),
        RawDocument(b"x", metadata=[1]),  # type: ignore[arg-type]
        RawDocument(b"x", metadata={"a": float("nan")}),
        RawDocument(b"x", uri="\ud800"),
        RawDocument(b"x", stat=FileStat(1, 2, 3, 2**63, 5)),
        RawDocument("x"),  # type: ignore[arg-type]
        "x",
    ],
    ids=range(11),
)
def test_a_document_that_is_none_fails_the_refresh_and_changes_nothing(
    index: Index, raw: Any
) -> None:
    source = Listing([REF])
    index.add_source(source)
    index.refresh()
    source.raw = raw
    with pytest.raises(SourceError, match="'a'"):
        index.refresh()
    assert index.get("a").text == TEXT


@pytest.mark.req("A-1", "A-14")
@pytest.mark.parametrize(
    "entry",
    [
        # The ignored types are wrong on purpose: a host may run no type checker.
        Refusal("", RefusalReason.ENCODING),
        Refusal("b", "encoding"),  # type: ignore[arg-type]
        Refusal("b", RefusalReason.ENCODING, None),  # type: ignore[arg-type]
        Refusal("b\ud800", RefusalReason.ENCODING),
        DocumentRef("b", "b", "txt", stat="x"),  # type: ignore[arg-type]
        DocumentRef("b", "b", "txt", stat=FileStat(1, 2.5, 3, 4, 5)),  # type: ignore[arg-type]
        Refusal("a", RefusalReason.ENCODING),
        REF,
        "b",
    ],
    ids=range(9),
)
def test_an_entry_that_is_none_or_comes_twice_fails_the_refresh(index: Index, entry: Any) -> None:
    source = Listing([REF])
    index.add_source(source)
    index.refresh()
    for entries in ([REF, entry], [entry, REF]):
        source.entries = entries
        with pytest.raises(SourceError):
            index.refresh()
    assert index.get("a").text == TEXT
    assert list(index.refused()) == []


PARSES: dict[str, Any] = {
    "none": None,
    "beyond": ParsedDocument((Section(0, 99),), "x"),
    "overlap": ParsedDocument((WHOLE, WHOLE), "x"),
    "reversed": ParsedDocument((Section(10, len(TEXT)), Section(0, 10)), "x"),
    "within a line": ParsedDocument((Section(0, 3), Section(3, len(TEXT))), "x"),
    "gap": ParsedDocument((Section(10, len(TEXT)),), "x"),
    "nothing": ParsedDocument((), "x"),
    # The ignored types are wrong on purpose: a host may run no type checker.
    "heading": ParsedDocument((Section(0, len(TEXT), (1,), 1, 1),), "x"),  # type: ignore[arg-type]
    "level": ParsedDocument((Section(0, len(TEXT), ("a",), 2**70, 1),), "x"),
    "language": ParsedDocument((WHOLE,), None),  # type: ignore[arg-type]
    "title": ParsedDocument((WHOLE,), "x", title=5),  # type: ignore[arg-type]
    "tags": ParsedDocument((WHOLE,), "x", tags=(1,)),  # type: ignore[arg-type]
    "link": ParsedDocument((WHOLE,), "x", links=(Link("a", "b", 2**70),)),
    "link target": ParsedDocument((WHOLE,), "x", links=(Link("\ud800", "b", 0),)),
    "block": ParsedDocument((WHOLE,), "x", blocks=(Block(0, 99, 0),)),
    "rendered": ParsedDocument((WHOLE,), "x", rendered=(Rendered(5, 4, ""),)),
    "generator": ParsedDocument((WHOLE for _ in range(1)), "x"),  # type: ignore[arg-type]
    "one text for tags": ParsedDocument((WHOLE,), "x", tags="ab"),  # type: ignore[arg-type]
    "one text for headings": ParsedDocument((Section(0, len(TEXT), "ab", 1, 1),), "x"),  # type: ignore[arg-type]
    "heading line": ParsedDocument((Section(0, len(TEXT), ("a",), 1, 9),), "x"),
    "wiki": ParsedDocument((WHOLE,), "x", links=(Link("a", "b", 0, "no"),)),  # type: ignore[arg-type]
    "rendered text": ParsedDocument((WHOLE,), "x", rendered=(Rendered(0, 4, 1),)),  # type: ignore[arg-type]
}


class HostParser:
    """Gives what it is told to."""

    id = "host"
    version = 1

    def __init__(self, parsed: Any) -> None:
        self.parsed = parsed

    def parse(self, text: str, language: str) -> Any:
        if callable(self.parsed):
            return self.parsed()
        return self.parsed


def index_with(path: Path, parsed: Any) -> Index:
    return Index.open(
        path,
        create=True,
        file_types=BUILTIN_REGISTRY.with_types(FileType("host", ("xyz",), "text", "x", "host")),
        parsers=builtin_parsers().with_parsers([HostParser(parsed)]),
    )


@pytest.mark.req("A-8", "A-14")
@pytest.mark.parametrize("name", PARSES)
def test_what_a_parser_must_not_give_refuses_that_document_alone(
    tmp_path: Path, folder: Path, name: str
) -> None:
    (folder / "a.xyz").write_text(TEXT)
    (folder / "b.md").write_text("wort")
    with index_with(tmp_path / "i.db", PARSES[name]) as index:
        index.add_source(folder)
        assert index.refresh().changes.count("added") == 1
        (refused,) = index.refused()
        assert (refused.refusal.document_id, refused.refusal.reason) == (
            "a.xyz",
            RefusalReason.PARSER,
        )
        assert index.check() == []


@pytest.mark.req("A-14")
def test_no_memory_while_parsing_takes_no_document_out(tmp_path: Path, folder: Path) -> None:
    (folder / "a.xyz").write_text(TEXT)
    with index_with(tmp_path / "i.db", ParsedDocument((WHOLE,), "x")) as index:
        index.add_source(folder)
        index.refresh()

    def fails() -> None:
        raise MemoryError

    (folder / "a.xyz").write_text(TEXT.replace("eins", "neun"))
    with index_with(tmp_path / "i.db", fails) as index:
        with pytest.raises(StorageError):
            index.refresh()
        assert index.get("a.xyz").text == TEXT


@pytest.mark.req("A-8")
def test_a_missing_parser_is_told_when_the_index_is_opened(tmp_path: Path) -> None:
    row = FileType("host", ("xyz",), "text", "x", "missing", text_fallback=False)
    with pytest.raises(UsageError, match="missing"):
        Index.open(tmp_path / "i.db", create=True, file_types=BUILTIN_REGISTRY.with_types(row))


class Counting(HashingEmbedder):
    """An embedder whose token counter does what it is told to."""

    over_long_policy = "truncate"

    def __init__(self, count: Callable[[], Any], limit: Any = 20, revision: str = "1") -> None:
        super().__init__(revision=revision)
        self.count = count
        self.token_limit = limit

    def count_tokens(self, texts: Any) -> Any:
        return self.count()


def unreachable() -> Any:
    raise ConnectionError("tokenizer service is down")


@pytest.mark.req("A-14", "A-27")
@pytest.mark.parametrize(
    "count",
    [unreachable, lambda: None, list, lambda: [1.5], lambda: ["1"], lambda: [-1], lambda: [1, 2]],
    ids=range(7),
)
def test_a_failing_token_counter_fails_the_refresh_and_removes_nothing(
    tmp_path: Path, folder: Path, count: Callable[[], Any]
) -> None:
    (folder / "a.md").write_text("wort " * 40)
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.add_source(folder)
        index.refresh()
    with Index.open(tmp_path / "i.db", embedder=Counting(count, revision="2")) as index:
        with pytest.raises(EmbedderError):
            index.refresh()
        assert index.status().documents == 1
        assert list(index.refused()) == []


@pytest.mark.req("A-27")
@pytest.mark.parametrize("limit", [0, None, "20", -1])
def test_a_token_limit_that_is_none_is_told(tmp_path: Path, folder: Path, limit: Any) -> None:
    (folder / "a.md").write_text("wort")
    with Index.open(tmp_path / "i.db", create=True, embedder=Counting(list, limit)) as index:
        index.add_source(folder)
        with pytest.raises(EmbedderError, match="token limit"):
            index.refresh()


@pytest.mark.req("A-2")
@pytest.mark.parametrize("time_s", [10**10, -(10**10), 9_223_372_037])
def test_a_file_of_another_century_is_indexed(index: Index, folder: Path, time_s: int) -> None:
    (folder / "a.md").write_text("wort")
    try:
        os.utime(folder / "a.md", (time_s, time_s))
    except (OSError, OverflowError):
        pytest.skip("the file system has no such times")
    (folder / "b.md").write_text("wort")
    index.add_source(folder)
    assert index.refresh().changes.count("added") == 2
    assert index.refresh().changes.unchanged == 2


@pytest.mark.req("A-4", "A-14")
def test_text_that_cannot_be_indexed_takes_the_place_of_what_was_pushed(index: Index) -> None:
    index.upsert("t", [Document("1", "geheim alt"), Document("2", "bleibt")])
    report = index.upsert("t", [Document("1", "neu \0")])
    assert report.changes.count("removed") == 1
    assert index.search("geheim").hits == ()
    assert [(r.refusal.document_id, r.is_kept) for r in index.refused()] == [("1", False)]
    index.remove("t", ["1"])
    assert list(index.refused()) == []
    assert index.status().documents == 1


@pytest.mark.req("A-14")
def test_a_path_that_came_and_went_is_ignored_beside_others(index: Index, folder: Path) -> None:
    (folder / "a.md").write_text("wort")
    index.add_source(folder)
    report = index.refresh(paths=[folder / "a.md", folder / ".a.md.swp"])
    assert report.changes.count("added") == 1
    for path in ("", "a\0b", "\ud800"):
        with pytest.raises(UsageError, match="is no path"):
            index.refresh(paths=[path])


@pytest.mark.req("A-2", "A-14")
def test_a_path_below_a_folder_that_became_a_link_is_still_known(
    index: Index, folder: Path, tmp_path: Path
) -> None:
    (folder / "d").mkdir()
    (folder / "d" / "a.md").write_text("wort")
    index.add_source(folder)
    index.refresh()
    (folder / "d").rename(tmp_path / "outside")
    (folder / "d").symlink_to(tmp_path / "outside")
    report = index.refresh(paths=[folder / "d" / "a.md"])
    assert report.changes.count("removed") == 1
    (status,) = index.file_status(folder / "d" / "a.md")
    assert not status.is_indexed


@pytest.mark.req("A-4", "A-14", "A-18")
def test_documents_are_added_changed_and_removed_in_one_generation(index: Index) -> None:
    index.upsert("t", [Document("1", "eins"), Document("2", "zwei"), Document("3", "drei")])
    report = index.upsert(
        "t", (Document(id_, text) for id_, text in (("2", "neu"), ("4", "vier"))), remove=["1", "9"]
    )
    assert report.generation == 2
    assert [(c.kind, c.document_id) for c in report.changes.documents] == [
        ("removed", "1"),
        ("changed", "2"),
        ("added", "4"),
    ]
    with pytest.raises(UsageError, match="both pushed and removed"):
        index.upsert("t", [Document("2", "neu")], remove=["2"])
    with pytest.raises(ValueError, match="several ids"):
        index.upsert("t", [], remove="2")
    assert index.status().documents == 3
    renamed = index.upsert("t", [Document("5", "vier")], remove=["4"]).changes.documents
    assert [(c.kind, c.document_id, c.old_id) for c in renamed] == [("renamed", "5", "4")]


@pytest.mark.req("A-4")
def test_ids_of_pushed_documents_are_names_and_no_paths(index: Index) -> None:
    index.upsert("t", [Document("u/", "a \0"), Document("u/a", "eins")])
    index.upsert("t", [Document("u/b", "zwei")], remove=["\ud800"])
    assert [r.refusal.document_id for r in index.refused()] == ["u/"]


@pytest.mark.req("A-13")
def test_a_link_with_a_nul_leads_nowhere(index: Index) -> None:
    text = "[a](b.md) [b](b.md%00) [c](%00b.md) [[b%00]] <file:///b%00.md>"
    index.upsert("t", [Document("a.md", text, type_name="md"), Document("b.md", "x")])
    found = [link.leads_to is not None for link in index.links("a.md")]
    assert found == [True, False, False, False, False]
    assert len(index.backlinks("b.md")) == 1
