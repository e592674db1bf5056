"""Searches, pages and readings of generations that are not the head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqlindex import Filters, Index, Retention, SearchConfig
from sqlindex.errors import (
    EmbedderMismatchError,
    EmbedderRequiredError,
    GenerationGoneError,
    LexicalHistoryError,
    StaleCursorError,
    UnknownDocumentError,
    UnknownSourceError,
    UsageError,
)
from sqlindex.model.requests import MODES, Mode
from sqlindex.search.semantic import view
from sqlindex.sources.memory import Document
from sqlindex.store import held
from sqlindex.store.snapshot import chunk_columns as chunk_columns_of
from sqlindex.testing import HashingEmbedder

WORDS = ("pump", "valve", "motor", "pipe", "seal")


class Interrupted(HashingEmbedder):
    """Does something else while it embeds the next query."""

    meanwhile: Callable[[], object] | None = None

    def embed_query(self, text: str):  # type: ignore[no-untyped-def]  # as its base
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return super().embed_query(text)


@pytest.fixture
def embedder() -> Interrupted:
    return Interrupted(dimensions=32)


@pytest.fixture
def index(tmp_path: Path, embedder: Interrupted):  # type: ignore[no-untyped-def]  # a fixture
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as opened:
        yield opened
        assert opened.check() == []


def _publish(index: Index, number: int, *, documents: int = 12) -> None:
    """Generation `number`: each time other documents, and other texts in some of them."""
    texts = [
        Document(f"d{i}", f"{WORDS[i % 5]} {WORDS[(i * number) % 5]} part {i if i % 3 else number}")
        for i in range(documents)
    ]
    index.upsert("plant", texts, remove=[f"d{number % 7}x"] if number else [])
    assert index.status().generation == number


@pytest.mark.req("A-24", "D-2")
def test_a_kept_generation_answers_semantically_as_it_did_when_it_was_the_head(
    index: Index,
) -> None:
    then = {}
    for number in range(1, 6):
        _publish(index, number)
        then[number] = [
            index.search(query, mode="semantic", limit=100).hits for query in (*WORDS, "part 3")
        ]
    assert len({repr(hits) for hits in then.values()}) == 5
    for number in (3, 1, 5, 2, 4, 1, 3):  # in turn, as views come from memory
        for query, hits in zip((*WORDS, "part 3"), then[number], strict=True):
            again = index.search(query, mode="semantic", limit=100, at=number)
            assert again.hits == hits
            assert (again.generation, again.mode, again.head_moved) == (number, "semantic", False)


@pytest.mark.req("A-24", "D-2")
@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_words_of_an_earlier_generation_are_a_typed_error(index: Index, mode: Mode) -> None:
    _publish(index, 1)
    _publish(index, 2)
    with pytest.raises(LexicalHistoryError, match="generation 1 ") as told:
        index.search("pump", mode=mode, at=1)
    assert "--mode semantic" in told.value.hint
    assert index.search("pump", mode=mode, at=2) == index.search("pump", mode=mode)
    assert index.search("pump", at="head").mode == "hybrid"
    assert index.search("pump", at="head~1").mode == "semantic"


@pytest.mark.req("A-24", "D-2")
def test_without_vectors_or_embedder_an_earlier_generation_is_read_and_not_searched(
    tmp_path: Path,
) -> None:
    with Index.open(tmp_path / "w.db", create=True) as words:
        words.upsert("n", [Document("a", "one")])
        words.upsert("n", [Document("a", "two")])
        with pytest.raises(LexicalHistoryError, match="has no vectors") as told:
            words.search("one", at=1)
        assert told.value.hint == "search the head"
        with pytest.raises(EmbedderRequiredError):
            words.search("one", mode="semantic", at=1)
        assert words.search("two", at=2).mode == "lexical"
        assert words.get("a", at=1).text == "one"


@pytest.mark.req("A-24", "A-26", "D-2")
def test_the_embedder_must_be_that_of_the_generation(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    with Index.open(path, create=True, embedder=HashingEmbedder()) as first:
        first.upsert("n", [Document("a", "one")])
    with Index.open(path, embedder=HashingEmbedder(revision="2")) as second:
        second.upsert("n", [Document("b", "two")])
        with pytest.raises(EmbedderMismatchError, match="hashing@1"):
            second.search("one", at=1)
        assert [hit.document_id for hit in second.search("one", at=2).hits]
    with Index.open(path, embedder=HashingEmbedder()) as again:
        assert [hit.document_id for hit in again.search("one", at=1).hits] == ["a"]


@pytest.mark.req("A-24", "D-2")
@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_a_search_of_the_head_by_its_number_never_moves_to_another(
    index: Index, embedder: Interrupted, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    _publish(index, 1)
    if mode == "hybrid":
        embedder.meanwhile = lambda: _publish(index, 2)
    else:  # between the two transactions of a lexical search
        from sqlindex.search import searcher

        def query_terms(query: str) -> list[str]:
            _publish(index, 2)
            return [query]

        monkeypatch.setattr(searcher, "query_terms", query_terms)
    with pytest.raises(LexicalHistoryError, match="generation 1 "):
        index.search("pump", mode=mode, at=1)
    assert index.status().generation == 2


@pytest.mark.req("A-24", "D-2")
def test_a_generation_is_held_while_a_query_is_embedded(
    index: Index, embedder: Interrupted, monkeypatch: pytest.MonkeyPatch
) -> None:
    _publish(index, 1)
    hits = index.search("pump", mode="semantic").hits

    def collect() -> None:
        for number in range(index.status().generation + 1, index.status().generation + 4):
            _publish(index, number)
        index.collect(Retention(generations=1))

    embedder.meanwhile = collect
    result = index.search("pump", mode="semantic", at=1)
    assert (result.hits, result.head_moved) == (hits, True)
    index.collect()
    with pytest.raises(GenerationGoneError):
        index.search("pump", mode="semantic", at=1)
    # Where nothing can be held, a collection meanwhile ends the search: never a part of an answer.
    monkeypatch.setattr(held, "HAS_SHARED_LOCKS", False)
    embedder.meanwhile = collect
    with pytest.raises(GenerationGoneError, match="generation 4"):
        index.search("pump", mode="semantic", at=4)


@pytest.mark.req("A-20", "D-2")
def test_filters_look_at_the_generation_also_for_a_source_that_is_gone(index: Index) -> None:
    index.upsert("old", [Document("a", "pump", tags=("red",))])
    index.upsert("new", [Document("a", "pump", tags=("blue",))])
    index.remove_source("old")

    def found(at: int, filters: Filters) -> list[str]:
        return [h.source for h in index.search("pump", at=at, filters=filters).hits]

    red = Filters(tags_any=frozenset({"red"}))
    assert found(1, Filters(sources=frozenset({"old"}))) == ["old"]
    assert (found(2, red), found(3, red)) == (["old"], [])
    assert [d.source for d in index.documents(2)] == ["new", "old"]
    assert [d.source for d in index.documents(2, source="old")] == ["old"]
    assert [d.source for d in index.documents()] == ["new"]
    with pytest.raises(UnknownSourceError):
        index.search("pump", filters=Filters(sources=frozenset({"old"})))
    with pytest.raises(UnknownSourceError, match="ever named 'other'"):
        found(1, Filters(sources=frozenset({"other"})))
    with pytest.raises(UnknownSourceError):
        list(index.documents(source="other"))


@pytest.mark.req("A-13", "D-2")
def test_documents_chunks_and_links_are_those_of_the_generation(
    tmp_path: Path, folder: Path
) -> None:
    (folder / "a.md").write_text("# A\n\nSee [b](b.md#part).\n", encoding="utf-8")
    (folder / "b.md").write_text("# B\n\n## Part\n\nThere.\n", encoding="utf-8")
    with Index.open(tmp_path / "l.db", create=True) as index:
        index.add_source(folder)
        index.refresh()
        chunk = index.chunks("b.md")[-1]
        (folder / "a.md").write_text("# A\n\nNothing.\n", encoding="utf-8")
        (folder / "b.md").rename(folder / "c.md")
        index.refresh()
        target = index.links("a.md", at=1)[0].leads_to
        assert target is not None
        assert (target.document_id, target.heading_line) == ("b.md", 3)
        assert [link.document_id for link in index.backlinks("b.md", at=1)] == ["a.md"]
        assert index.links("a.md") == index.backlinks("c.md") == []
        assert index.chunks("b.md", at=1)[-1] == chunk
        assert index.get_chunk(chunk.chunk_id, at=1).text == chunk.text
        assert index.get("b.md", at="head~1").generation == 1
        for ask in (index.get, index.chunks, index.links, index.backlinks):
            with pytest.raises(UnknownDocumentError, match="generation 1 has no document"):
                ask("c.md", at=1)
        with pytest.raises(UnknownDocumentError, match="generation 2 has no chunk"):
            index.get_chunk(chunk.chunk_id)


@pytest.mark.req("A-24", "D-2")
@pytest.mark.parametrize("mode", MODES)
def test_pages_of_a_cursor_are_one_ranking(index: Index, mode: Mode) -> None:
    _publish(index, 1, documents=23)
    whole = index.search("pump valve", mode=mode, limit=100).hits
    page = index.search("pump valve", mode=mode, limit=5)
    paged = list(page.hits)
    while page.cursor is not None:
        page = index.search("pump valve", limit=4, cursor=page.cursor)
        paged += page.hits
    assert tuple(paged) == whole
    assert not page.has_more


@pytest.mark.req("A-24", "D-2")
def test_a_semantic_cursor_stays_with_its_generation_and_others_with_the_head(
    index: Index,
) -> None:
    _publish(index, 1)
    whole = index.search("pump", mode="semantic", limit=100).hits
    cursors = {mode: index.search("pump", mode=mode, limit=2).cursor for mode in MODES}
    _publish(index, 2)
    page = index.search("pump", cursor=cursors["semantic"], limit=100)
    assert (page.generation, page.hits) == (1, whole[2:])
    for mode in ("lexical", "hybrid"):
        with pytest.raises(StaleCursorError, match="generation 1 no longer answers") as told:
            index.search("pump", cursor=cursors[mode])
        assert (told.value.retryable, told.value.exit_code) == (False, 1)
        assert "start again" in told.value.hint
    index.collect(Retention(generations=1))
    with pytest.raises(StaleCursorError):
        index.search("pump", cursor=cursors["semantic"])


@pytest.mark.req("A-24", "D-2")
def test_a_cursor_of_another_search_is_refused(index: Index, tmp_path: Path) -> None:
    _publish(index, 1)
    cursor = index.search("pump", mode="semantic", limit=2).cursor
    assert cursor is not None
    assert index.search("pump", cursor=cursor, limit=9).hits
    assert index.search("pump", cursor=cursor, at=1, mode="semantic").hits
    with pytest.raises(UsageError, match="belongs to another query"):
        index.search("valve", cursor=cursor)
    with pytest.raises(UsageError, match="belongs to another query"):
        index.search("pump", cursor=cursor, filters=Filters(path_prefix="d"))
    with pytest.raises(UsageError, match="a semantic search"):
        index.search("pump", cursor=cursor, mode="hybrid")
    with pytest.raises(UsageError, match="where its page ended"):
        index.search("pump", cursor=cursor, offset=3)
    with pytest.raises(UsageError, match="where its page ended"):
        index.search("pump", cursor=cursor, at=0)
    config = SearchConfig(rank_constant=10)
    with (
        Index.open(index.path, embedder=HashingEmbedder(32), search_config=config) as other,
        pytest.raises(UsageError, match="other weights"),
    ):
        other.search("pump", cursor=cursor)


@pytest.mark.req("A-24")
def test_text_that_is_no_cursor_is_a_usage_error(index: Index) -> None:
    _publish(index, 1)
    cursor = index.search("pump", limit=2).cursor
    assert cursor is not None
    assert cursor.isalnum()
    tampered = [
        cursor[:i] + ("0" if c != "0" else "1") + cursor[i + 1 :] for i, c in enumerate(cursor)
    ]
    others = ["", "0", cursor[:-2], cursor + "00", cursor.upper(), f" {cursor}", "x" * 52, "é" * 52]
    for text in (*tampered, *others):
        with pytest.raises(UsageError, match="none that a search has given"):
            index.search("pump", cursor=text)


@pytest.mark.req("A-24", "D-2")
def test_generations_in_turn_are_read_once(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2, 3):
        _publish(index, number)
    read: list[int] = []

    def chunk_columns(connection, generation):  # type: ignore[no-untyped-def]  # passed through
        read.append(generation)
        return chunk_columns_of(connection, generation)

    monkeypatch.setattr(view, "chunk_columns", chunk_columns)
    for _ in range(3):
        for at in (None, 1, 2, 3):
            index.search("pump", mode="semantic", at=at)
    assert read == [3, 1, 2]


@pytest.mark.req("A-24", "D-2")
def test_views_of_older_generations_stay_within_their_bytes(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlindex.search.semantic import view_cache

    for number in (1, 2, 3, 4):
        _publish(index, number)
    for at in (1, 2, 3, 4):
        index.search("pump", mode="semantic", at=at)
    views = index._searcher._views
    assert views is not None
    assert [key.generation for key in views._older] == [1, 2, 3]
    one = max(kept.nbytes for kept in views._older.values())
    monkeypatch.setattr(view_cache, "OLDER_BYTES", one)
    index.search("pump", mode="semantic", at=0)  # empty: nothing is read for it
    index.upsert("plant", [Document("more", "pump")])
    index.search("pump", mode="semantic", at=4)
    assert [key.generation for key in views._older] == [4]


@pytest.mark.req("D-2")
def test_documents_are_listed_in_pages_of_one_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlindex.search import lookup

    monkeypatch.setattr(lookup, "PAGE_DOCUMENTS", 3)
    with Index.open(tmp_path / "i.db", create=True) as index:
        ids = [f"d{i}" for i in range(8)]
        index.upsert("b", [Document(i, f"text {i}") for i in ids])
        index.upsert("a", [Document(i, f"other {i}") for i in ids[:4]])
        expected = sorted([(i, "b") for i in ids] + [(i, "a") for i in ids[:4]])
        listing = index.documents()
        seen = [next(listing)]
        index.remove("b", ids)
        index.collect(Retention(generations=1))
        seen += listing
        assert [(d.document_id, d.source) for d in seen] == expected
        assert [d.document_id for d in index.documents()] == ids[:4]
        index.collect()
        with pytest.raises(GenerationGoneError):
            index.documents(2)
