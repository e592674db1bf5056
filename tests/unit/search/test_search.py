"""Search: modes, filters, provenance, one generation, ties."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqlindex import CancelToken, Document, Filters, Hit, Index
from sqlindex.errors import (
    CancelledError,
    CorruptIndexError,
    EmbedderMismatchError,
    EmbedderRequiredError,
    FilterError,
    UnknownDocumentError,
    UnknownSourceError,
)
from sqlindex.model.requests import Mode
from sqlindex.testing import HashingEmbedder

MODES: tuple[Mode, ...] = ("lexical", "semantic", "hybrid")


def _ids(index: Index, query: str, mode: Mode | None = None, **filters: object) -> list[str]:
    found = index.search(query, mode=mode, limit=100, filters=Filters(**filters))  # type: ignore[arg-type]  # by name
    return [hit.document_id for hit in found.hits]


@pytest.fixture
def notes(index: Index) -> Index:
    """A lexical index over five notes with catalog fields."""
    index.upsert(
        "notes",
        [
            Document(
                "a/1",
                "pump valve alpha",
                tags=("x", "y"),
                date="2026-01-10",
                path="a/1.md",
                type_name="md",
            ),
            Document("a/2", "pump valve beta", tags=("y",), date="2026-02-10", path="a/2.txt"),
            Document(
                "b/1", "pump gamma", metadata={"state": "open", "n": 3, "ok": True, "none": None}
            ),
            Document(
                "b/2", "pump delta", metadata={"state": "closed"}, type_name="py", path="b/2.py"
            ),
        ],
    )
    index.upsert("other", [Document("c", "pump epsilon")])
    return index


@pytest.mark.req("A-20")
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"sources": {"other"}}, ["c"]),
        ({"path_prefix": "a/"}, ["a/1", "a/2"]),
        ({"path_glob": "*/1*"}, ["a/1", "b/1"]),
        ({"path_glob": "a/?.md"}, ["a/1"]),
        ({"extensions": {".MD"}}, ["a/1"]),
        ({"languages": {"python"}}, ["b/2"]),
        ({"tags_any": {"x", "z"}}, ["a/1"]),
        ({"tags_all": {"x", "y"}}, ["a/1"]),
        ({"tags_all": {"y"}}, ["a/1", "a/2"]),
        ({"date_from": "2026-02-01"}, ["a/2"]),
        ({"date_to": "2026-01-10"}, ["a/1"]),
        ({"metadata": {"state": "open"}}, ["b/1"]),
        ({"metadata": {"n": 3, "ok": True}}, ["b/1"]),
        ({"metadata": {"state": "open"}, "path_prefix": "a/"}, []),
    ],
)
def test_filters_let_through_only_what_they_name(
    notes: Index, filters: dict[str, object], expected: list[str]
) -> None:
    found = notes.search("pump", limit=100, filters=Filters(**filters)).hits  # type: ignore[arg-type]  # by name
    assert sorted(hit.document_id for hit in found) == expected


@pytest.mark.req("A-20")
@pytest.mark.parametrize("mode", MODES)
def test_every_channel_obeys_the_filters(tmp_path: Path, mode: Mode) -> None:
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.upsert(
            "n",
            [Document(f"{i:02}", f"pump number {i}", tags=("odd",) * (i % 2)) for i in range(40)],
        )
        found = _ids(index, "pump number 7", mode, tags_any={"odd"})
        assert len(found) == 20
        assert all(int(name) % 2 for name in found)


@pytest.mark.req("A-20")
def test_a_malformed_filter_is_an_error(index: Index) -> None:
    index.upsert("n", [Document("1", "alpha")])
    with pytest.raises(FilterError, match="ISO 8601"):
        index.search("alpha", filters=Filters(date_from="yesterday"))


@pytest.mark.req("A-20")
def test_a_filter_for_a_source_that_is_not_registered_is_an_error(notes: Index) -> None:
    with pytest.raises(UnknownSourceError, match="nothing") as caught:
        notes.search("pump", filters=Filters(sources=frozenset({"nothing"})))
    assert "notes, other" in caught.value.hint


@pytest.mark.req("A-20")
def test_dates_compare_as_moments_whatever_their_spelling(index: Index) -> None:
    dates = ("20260101", "2026-W20-1", "2026-01-01T00:30:00+02:00", "2026-01-01T00:00:00.5Z")
    index.upsert("n", [Document(date, "word", date=date) for date in dates])
    assert index.get("2026-01-01T00:30:00+02:00").date == "2025-12-31T22:30:00Z"
    new_year = {"20260101", "2026-01-01T00:00:00.5Z"}
    assert set(_ids(index, "word", date_from="2026-12-01")) == set()
    assert set(_ids(index, "word", date_to="2026-12-31")) == set(dates)
    assert (
        set(_ids(index, "word", date_from="2026-01-01T00:00:00Z", date_to="2026-01-01")) == new_year
    )
    assert _ids(index, "word", date_to="2025-12-31T23:00:00Z") == ["2026-01-01T00:30:00+02:00"]
    assert _ids(index, "word", date_from="2026-05-11", date_to="2026-05-11") == ["2026-W20-1"]


@pytest.mark.req("A-20")
@pytest.mark.parametrize(
    "filters",
    [
        {"tags_all": {str(i) for i in range(2_000)}},
        {"path_glob": "*a" * 60_000},
        {"path_prefix": "\udce9"},
        {"metadata": {"x": "\udce9"}},
    ],
)
def test_a_filter_that_sqlite_cannot_take_is_a_filter_error(
    notes: Index, filters: dict[str, object]
) -> None:
    with pytest.raises(FilterError):
        notes.search("pump", filters=Filters(**filters))  # type: ignore[arg-type]  # by name


@pytest.mark.req("A-21")
def test_a_lexical_row_without_a_chunk_is_an_error_in_every_mode(tmp_path: Path) -> None:
    from sqlindex.store.connection import IndexFile

    path = tmp_path / "i.db"
    with Index.open(path, create=True, embedder=HashingEmbedder()) as index:
        index.upsert("n", [Document("1", "alpha")])
    file = IndexFile.open(path, make=False, busy_timeout_ms=100)
    with file.writing("test") as writer, writer.transaction() as connection:
        connection.execute("INSERT INTO chunk_fts_a(chunk_fts_a) VALUES('delete-all')")
        connection.execute("INSERT INTO chunk_fts_a(rowid, body) VALUES(77, 'ghost')")
    file.close()
    with Index.open(path, embedder=HashingEmbedder()) as index:
        for mode in ("lexical", "hybrid"):
            with pytest.raises(CorruptIndexError, match="slot 77"):
                index.search("ghost", mode=mode)
        assert index.check() != []


@pytest.mark.req("A-26")
def test_an_identity_with_another_width_is_refused(tmp_path: Path) -> None:
    class Same(HashingEmbedder):
        identity = "same"

    with Index.open(tmp_path / "i.db", create=True, embedder=Same(dimensions=64)) as index:
        index.upsert("n", [Document("1", "alpha")])
    with Index.open(tmp_path / "i.db", embedder=Same(dimensions=32)) as index:
        for attempt in (
            lambda: index.upsert("n", [Document("2", "beta")]),
            lambda: index.plan(),
            lambda: index.search("alpha", mode="semantic"),
        ):
            with pytest.raises(EmbedderMismatchError, match="64"):
                attempt()


@pytest.mark.req("A-20")
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"a\\b": "x"}, ["escapes"]),
        ({"tab\tkey": "y"}, ["escapes"]),
        ({'quo"te': "z"}, ["escapes"]),
        ({"l": "[1,2]"}, ["text"]),
        ({"b": True}, ["true"]),
        ({"b": 1}, ["one"]),
        ({"b": 1.0}, ["one"]),
        ({"q": None}, ["null"]),
        ({"ü.x": "dot"}, ["escapes"]),
    ],
)
def test_a_metadata_filter_takes_exactly_the_value_and_its_type(
    index: Index, wanted: dict[str, object], expected: list[str]
) -> None:
    index.upsert(
        "n",
        [
            Document(
                "escapes",
                "word",
                metadata={"a\\b": "x", "tab\tkey": "y", 'quo"te': "z", "ü.x": "dot"},
            ),
            Document("text", "word", metadata={"l": "[1,2]"}),
            Document("list", "word", metadata={"l": [1, 2]}),
            Document("true", "word", metadata={"b": True}),
            Document("one", "word", metadata={"b": 1}),
            Document("null", "word", metadata={"q": None}),
        ],
    )
    assert _ids(index, "word", metadata=wanted) == expected


@pytest.mark.req("A-20")
@pytest.mark.parametrize(
    "value", [{"b": 1}, [1], "a\0b", float("nan"), float("inf"), 10**400, 2**70]
)
def test_a_metadata_value_that_no_field_can_have_is_a_filter_error(
    notes: Index, value: object
) -> None:
    with pytest.raises(FilterError, match=r"cannot be|NUL"):
        notes.search("pump", filters=Filters(metadata={"v": value}))  # type: ignore[dict-item]  # wrong on purpose


@pytest.mark.req("A-20")
@pytest.mark.parametrize("name", ["sources", "extensions", "languages", "tags_any", "tags_all"])
def test_a_text_where_a_set_is_meant_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Filters(**{name: "plant"})  # type: ignore[arg-type]  # wrong on purpose


def test_an_open_index_serves_the_file_that_has_its_name_now(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Index.open(tmp_path / f"{name}.db", create=True, embedder=HashingEmbedder()) as made:
            made.upsert("n", [Document(name, f"word {name}")])
    with Index.open(tmp_path / "a.db", embedder=HashingEmbedder()) as index:
        for mode in MODES:
            assert _ids(index, "word", mode) == ["a"]
        for suffix in ("", "-wal", "-shm"):
            (tmp_path / f"b.db{suffix}").replace(tmp_path / f"a.db{suffix}")
        for mode in MODES:
            assert _ids(index, "word", mode) == ["b"]
        index.upsert("n", [Document("c", "word c")])
        assert _ids(index, "word", "lexical") == ["b", "c"]


@pytest.mark.req("A-12")
def test_a_mark_at_the_start_of_a_hosts_text_is_a_character_of_it(index: Index) -> None:
    text = "\ufeffone\nbomline two"
    index.upsert("n", [Document("b", text)])
    (hit,) = index.search("bomline").hits
    assert text[hit.start_char : hit.end_char] == hit.text
    assert index.get("b").text == text


def test_an_id_is_found_before_a_path_that_equals_it(index: Index) -> None:
    index.upsert("s", [Document("same", "three", path="other"), Document("p2", "two", path="same")])
    assert index.get("same").text == "three"
    assert index.get("other").text == "three"


@pytest.mark.req("A-20")
@pytest.mark.parametrize("date", ["2024-13-45", "2024-02-30", "2024-06-15T25:00", "gestern", ""])
def test_a_date_that_does_not_exist_is_an_error(notes: Index, date: str) -> None:
    with pytest.raises(FilterError, match="ISO 8601"):
        notes.search("pump", filters=Filters(date_from=date))


@pytest.mark.req("A-20")
@pytest.mark.parametrize("name", ["Übung.md", "U\u0308bung.md"])
def test_a_path_filter_matches_composed_and_decomposed_names(index: Index, name: str) -> None:
    index.upsert("n", [Document(name, "eins")])
    assert _ids(index, "eins", path_glob="Übung*") == [name]
    assert _ids(index, "eins", path_prefix="U\u0308b") == [name]


@pytest.mark.req("A-19")
def test_the_default_mode_is_hybrid_with_an_embedder_and_lexical_without(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        index.upsert("n", [Document("1", "alpha")])
        assert index.search("alpha").mode == "hybrid"
        assert index.search("alpha").fusion == "rrf"
        asked = len(embedder.query_inputs)
        assert index.search("alpha", mode="lexical").mode == "lexical"
        assert len(embedder.query_inputs) == asked
    with Index.open(tmp_path / "i.db") as index:
        assert index.search("alpha").mode == "lexical"
        for mode in ("semantic", "hybrid"):
            with pytest.raises(EmbedderRequiredError):
                index.search("alpha", mode=mode)


@pytest.mark.req("A-21")
def test_the_query_is_embedded_exactly_once_and_unchanged(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        index.upsert("n", [Document("1", "alpha")])
        index.search("  Wie GEHT das?\n", mode="hybrid")
    assert embedder.query_inputs == ["  Wie GEHT das?\n"]


@pytest.mark.req("A-23")
@pytest.mark.parametrize("mode", MODES)
def test_a_blank_query_or_no_candidate_gives_nothing_and_infers_nothing(
    tmp_path: Path, mode: Mode
) -> None:
    embedder = HashingEmbedder()
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        assert index.search("alpha", mode=mode).hits == ()
        index.upsert("n", [Document("1", "alpha")])
        assert index.search(" \n\t", mode=mode).hits == ()
        assert index.search("alpha", mode=mode, filters=Filters(path_prefix="x")).hits == ()
    assert embedder.query_inputs == []


@pytest.mark.req("A-23")
def test_a_query_without_lexical_terms_still_works_semantically(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.upsert("n", [Document("1", "alpha")])
        assert index.search("!!! ++", mode="lexical").hits == ()
        for mode in ("semantic", "hybrid"):
            hits = index.search("!!! ++", mode=mode).hits
            assert [hit.match_reasons for hit in hits] == [("semantic",)]


@pytest.mark.req("A-21", "B-2")
@pytest.mark.parametrize(
    "query",
    [
        '"',
        "AND",
        "NEAR(a b)",
        "alpha*",
        "title:alpha",
        "a\x00b",
        "-alpha",
        "^alpha",
        "(((",
        "alpha OR NOT",
        "𝔞\ud800",
    ],
)
def test_no_character_of_a_query_is_syntax(index: Index, query: str) -> None:
    index.upsert("n", [Document("1", "alpha beta")])
    found = index.search(query).hits
    assert [hit.document_id for hit in found] == (["1"] if "alpha" in query else [])


@pytest.mark.req("A-21")
def test_lexical_search_returns_only_chunks_that_hold_a_term(index: Index) -> None:
    index.upsert("n", [Document("1", "alpha"), Document("2", "beta"), Document("3", "alpha beta")])
    assert sorted(_ids(index, "alpha gamma")) == ["1", "3"]


@pytest.mark.req("A-22")
def test_equal_scores_are_ordered_by_source_document_and_position(tmp_path: Path) -> None:
    names = ["b", "a", "ä", "C", "a/b", "10", "9"]
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        for source in ("y", "x"):
            index.upsert(
                source, [Document(name, "same words", title="t", path="p") for name in names]
            )
        for mode in MODES:
            hits = index.search("words", mode=mode, limit=100).hits
            assert [(h.source, h.document_id) for h in hits] == [
                (s, n) for s in "xy" for n in sorted(names)
            ]
            assert [h.rank for h in hits] == list(range(1, 15))


@pytest.mark.req("A-22")
@pytest.mark.parametrize("mode", MODES)
def test_pages_join_to_one_ranking(tmp_path: Path, mode: Mode) -> None:
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.upsert("n", [Document(f"{i:02}", f"pump {i % 7} valve {i % 3}") for i in range(50)])
        whole = index.search("pump 3 valve", mode=mode, limit=50)
        assert len(whole.hits) == 50
        assert not whole.has_more
        paged: list[Hit] = []
        for offset in range(0, 50, 7):
            page = index.search("pump 3 valve", mode=mode, limit=7, offset=offset)
            assert page.has_more == (offset + 7 < 50)
            paged.extend(page.hits)
        assert tuple(paged) == whole.hits


@pytest.mark.req("A-22", "A-12")
def test_a_hit_says_where_it_stands(index: Index, folder: Path) -> None:
    text = "# Anlage\r\n\r\nVorwort\r\n\r\n## Pumpe ä\r\n\r\nDie Pumpe läuft.\r\n"
    path = folder / "sub" / "plan b.md"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    index.add_source(folder, name="docs")
    index.refresh()
    (hit,) = index.search("läuft").hits
    assert (hit.source, hit.document_id, hit.path) == ("docs", "sub/plan b.md", "sub/plan b.md")
    assert hit.uri == (folder / "sub" / "plan b.md").resolve().as_uri()
    assert hit.title == "Anlage"
    assert hit.heading_path == ("Anlage", "Pumpe ä")
    assert hit.language == "markdown"
    assert (hit.start_line, hit.end_line) == (5, 7)
    assert text[hit.start_char : hit.end_char] == hit.text == "## Pumpe ä\r\n\r\nDie Pumpe läuft."
    assert (hit.rank, hit.lexical_rank, hit.semantic_rank) == (1, 1, None)
    assert hit.match_reasons == ("lexical",)
    assert "Die Pumpe läuft." in hit.snippet
    assert index.get_chunk(hit.chunk_id).text == hit.text


@pytest.mark.req("A-13")
def test_a_document_is_read_back_with_its_catalog_entry(index: Index, folder: Path) -> None:
    text = "---\ntitle: Plan\ntags: [rot, blau]\ndate: 2026-03-01\n---\n# Kopf\n\nSiehe [dort](b.md) und [[Wiki|w]].\n"
    (folder / "a.md").write_text(text, encoding="utf-8")
    index.add_source(folder)
    index.refresh()
    document = index.get("a.md")
    assert document.text == text
    assert (document.title, document.tags, document.date) == ("Plan", ("rot", "blau"), "2026-03-01")
    assert document.headings == ((6, ("Kopf",)),)
    assert [(link[0], link[1], link[3]) for link in document.links] == [
        ("b.md", "dort", False),
        ("Wiki", "w", True),
    ]
    assert document.front_matter.startswith("title: Plan")
    with pytest.raises(UnknownDocumentError):
        index.get("b.md")
    with pytest.raises(UnknownDocumentError):
        index.get_chunk("0" * 32)


@pytest.mark.req("A-24")
def test_a_search_that_meets_a_new_head_moves_to_it_as_a_whole(tmp_path: Path) -> None:
    class Publishing(HashingEmbedder):
        publish: Callable[[], object] | None = None

        def embed_query(self, text: str):  # type: ignore[no-untyped-def]  # as its base
            if self.publish is not None:
                publish, self.publish = self.publish, None
                publish()
            return super().embed_query(text)

    embedder = Publishing()
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        index.upsert("n", [Document("1", "alpha")])
        embedder.publish = lambda: index.upsert(
            "n", [Document("1", "beta"), Document("2", "alpha")]
        )
        result = index.search("alpha", mode="hybrid")
        assert (result.generation, result.head_moved) == (2, True)
        assert [(h.document_id, h.text, h.match_reasons) for h in result.hits] == [
            ("2", "alpha", ("lexical", "semantic")),
            ("1", "beta", ("semantic",)),
        ]
        assert len(embedder.query_inputs) == 1
        assert not index.search("alpha", mode="hybrid").head_moved


@pytest.mark.req("A-24", "A-26")
def test_another_embedder_than_the_one_that_made_the_vectors_is_refused(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.upsert("n", [Document("1", "alpha")])
    with Index.open(tmp_path / "i.db", embedder=HashingEmbedder(revision="2")) as index:
        with pytest.raises(EmbedderMismatchError):
            index.search("alpha", mode="semantic")
        assert _ids(index, "alpha", "lexical") == ["1"]
        index.refresh()
        assert _ids(index, "alpha", "semantic") == ["1"]


@pytest.mark.req("A-24")
@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_search_stops_and_changes_nothing(tmp_path: Path, mode: Mode) -> None:
    token = CancelToken()
    token.cancel()
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.upsert("n", [Document("1", "alpha")])
        with pytest.raises(CancelledError):
            index.search("alpha", mode=mode, cancel=token)
        assert index.search("alpha", mode=mode).generation == 1


@pytest.mark.req("A-22")
@pytest.mark.parametrize("limit", [0, 101, -1])
def test_a_limit_out_of_range_is_an_error(index: Index, limit: int) -> None:
    with pytest.raises(ValueError, match=r"1\.\.100"):
        index.search("alpha", limit=limit)


@pytest.mark.req("A-22")
def test_d27_plain_fusion_sums_reciprocal_ranks_over_complete_channels(tmp_path: Path) -> None:
    """A is first lexically and third semantically, B second lexically without a vector."""

    class Given(HashingEmbedder):
        def embed_documents(self, texts):  # type: ignore[no-untyped-def]  # as its base
            import numpy as np

            by_text = {"C only": (1.0, 0.1), "D only": (1.0, 0.2), "pump pump": (1.0, 0.5)}
            return np.array([by_text.get(text, (0.0, 0.0)) for text in texts], np.float32)

        def embed_query(self, text: str):  # type: ignore[no-untyped-def]  # as its base
            import numpy as np

            return np.array((1.0, 0.0), np.float32)

    documents = [
        Document("A", "pump pump"),
        Document("B", "pump and other words here"),
        Document("C", "C only"),
        Document("D", "D only"),
    ]
    for order in (documents, documents[::-1]):
        path = tmp_path / f"{order[0].id}.db"
        with Index.open(path, create=True, embedder=Given(dimensions=2)) as index:
            index.add_source(_Listed(order))
            index.refresh(allow_bad_vectors=True)
            assert index.check() == []
        for _ in range(10):
            with Index.open(path, embedder=Given(dimensions=2)) as index:
                hits = index.search("pump", mode="hybrid").hits
            ranks = [(h.document_id, h.lexical_rank, h.semantic_rank) for h in hits]
            assert ranks == [("A", 1, 3), ("C", None, 1), ("B", 2, None), ("D", None, 2)]


class _Listed:
    def __init__(self, documents: list[Document]) -> None:
        from sqlindex import MemorySource

        source = MemorySource("n", documents)
        self.name, self.list, self.read = source.name, source.list, source.read
