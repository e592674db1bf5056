"""Refresh: what is reported, embedded, kept and removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from sqlindex import CancelToken, Document, Index, IndexConfig, MemorySource
from sqlindex.config import ChunkConfig
from sqlindex.errors import (
    BadVectorError,
    CancelledError,
    DocumentRefusedError,
    DuplicateError,
    EmbedderRequiredError,
    HeadMovedError,
    LockedError,
    SourceError,
    UnknownModelError,
    UnknownSourceError,
    UsageError,
)
from sqlindex.indexing.diff import is_unchanged
from sqlindex.indexing.report import Progress
from sqlindex.model.documents import DocumentRef, FileStat, RawDocument, Refusal, RefusalReason
from sqlindex.store import driver
from sqlindex.store.connection import IndexFile
from sqlindex.store.documents import LiveVersion
from sqlindex.store.sources import StatRow
from sqlindex.testing import HashingEmbedder


def _write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def _found(index: Index, query: str) -> list[str]:
    return [hit.document_id for hit in index.search(query, mode="lexical").hits]


@pytest.mark.req("A-16")
def test_inputs_for_initial_unchanged_one_edit_rename_and_restart_are_3_0_1_0_0(
    tmp_path: Path, folder: Path
) -> None:
    _write(folder, a="Pumpe eins", b="Ventil zwei", c="Motor drei")
    embedder = HashingEmbedder()
    embedded = []
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        index.add_source(folder)
        embedded.append(index.refresh().embedded)
        embedded.append(index.refresh().embedded)
        _write(folder, b="Ventil geändert")
        embedded.append(index.refresh().embedded)
        (folder / "c.md").rename(folder / "d.md")
        report = index.refresh()
        embedded.append(report.embedded)
        assert report.changes.count("renamed") == 1
        assert report.reused == 3
    with Index.open(tmp_path / "i.db", embedder=HashingEmbedder()) as index:
        embedded.append(index.refresh().embedded)
        assert index.check() == []
    assert embedded == [3, 0, 1, 0, 0]
    assert len(embedder.document_inputs) == 4


@pytest.mark.req("A-16")
def test_equal_texts_are_embedded_once_wherever_they_stand(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        report = index.upsert("n", [Document(str(i), "the same words") for i in range(5)])
        assert (report.embedded, report.reused) == (1, 4)
        assert len(index.search("words", mode="semantic").hits) == 5


@pytest.mark.req("A-14", "A-17")
def test_a_removed_file_vanishes_from_search_at_once(index: Index, folder: Path) -> None:
    _write(folder, a="alpha", b="omega")
    index.add_source(folder)
    index.refresh()
    (folder / "a.md").unlink()
    report = index.refresh()
    assert report.changes.count("removed") == 1
    assert _found(index, "alpha") == []
    assert _found(index, "omega") == ["b.md"]


@pytest.mark.req("D-11")
def test_a_plan_says_what_the_refresh_then_does(tmp_path: Path, folder: Path) -> None:
    _write(folder, a="alpha", b="omega", c="gamma")
    (folder / "x.bin").write_bytes(b"\0")
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.add_source(folder)
        plan = index.plan()
        assert index.status().generation == 0
        report = index.refresh()
        assert report.changes == plan
        assert report.embedded == plan.embedding_inputs == 3
        _write(folder, a="alpha beta", d="gamma")
        (folder / "b.md").rename(folder / "e.md")
        plan = index.plan()
        report = index.refresh()
        assert report.changes == plan
        # d.md has the text of c.md, e.md that of b.md.
        assert report.embedded == plan.embedding_inputs == 1
        assert {(c.kind, c.document_id, c.old_id) for c in plan.documents} == {
            ("changed", "a.md", None),
            ("added", "d.md", None),
            ("renamed", "e.md", "b.md"),
        }


@pytest.mark.req("D-11", "A-29")
def test_a_plan_counts_the_inputs_of_another_embedder(tmp_path: Path, folder: Path) -> None:
    _write(folder, a="alpha", b="omega")
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.add_source(folder)
        index.refresh()
    _write(folder, b="omega two", c="alpha")
    with Index.open(tmp_path / "i.db", embedder=HashingEmbedder(revision="2")) as index:
        plan = index.plan()
        report = index.refresh()
        assert report.changes == plan
        assert report.embedded == plan.embedding_inputs == 2
        assert any("embedder" in note for note in report.changes.rebuilt)
        assert index.check() == []


@pytest.mark.req("A-14")
def test_a_refresh_without_changes_publishes_nothing(index: Index, folder: Path) -> None:
    _write(folder, a="alpha")
    index.add_source(folder)
    first = index.refresh()
    second = index.refresh()
    assert (first.is_published, second.is_published) == (True, False)
    assert second.generation == first.generation == 1


@pytest.mark.req("A-14")
def test_a_refused_file_is_recorded_and_the_rest_is_published(index: Index, folder: Path) -> None:
    _write(folder, good="alpha")
    (folder / "bad.txt").write_bytes("Prüfgerät".encode("cp1252"))
    index.add_source(folder)
    index.refresh()
    assert _found(index, "alpha") == ["good.md"]
    refused = index.refused()
    assert [(r.refusal.document_id, r.refusal.reason) for r in refused] == [
        ("bad.txt", RefusalReason.ENCODING)
    ]
    assert refused[0].refusal.hint
    (folder / "bad.txt").write_text("Prüfgerät", encoding="utf-8")
    index.refresh()
    assert list(index.refused()) == []
    assert _found(index, "Prüfgerät") == ["bad.txt"]


@pytest.mark.req("A-14")
def test_strict_fails_on_a_refused_file_but_not_on_a_format_that_is_not_indexed(
    index: Index, folder: Path
) -> None:
    _write(folder, good="alpha")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    index.add_source(folder)
    assert index.refresh(strict=True).is_published
    (folder / "bad.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(DocumentRefusedError, match=r"bad\.txt"):
        index.refresh(strict=True)
    assert index.status().generation == 1


class _ListedSource:
    """A source whose listing and reading the test decides."""

    def __init__(
        self, entries: list[DocumentRef | Refusal], texts: dict[str, bytes | Refusal]
    ) -> None:
        self.name = "listed"
        self.entries = entries
        self.texts = texts
        self.fails_after: int | None = None

    def list(self) -> Iterator[DocumentRef | Refusal]:
        for position, entry in enumerate(self.entries):
            if position == self.fails_after:
                raise SourceError("the disk went away", hint="plug it in")
            yield entry

    def read(self, ref: DocumentRef) -> RawDocument | Refusal:
        found = self.texts[ref.document_id]
        return found if isinstance(found, Refusal) else RawDocument(found)


def _ref(name: str) -> DocumentRef:
    return DocumentRef(name, name, "txt")


@pytest.mark.req("A-14", "A-1")
def test_a_failed_listing_deletes_nothing(index: Index) -> None:
    source = _ListedSource([_ref("a"), _ref("b")], {"a": b"alpha", "b": b"omega"})
    index.add_source(source)
    index.refresh()
    source.fails_after = 1
    with pytest.raises(SourceError, match="the disk went away"):
        index.refresh()
    assert _found(index, "omega") == ["b"]
    assert index.status().generation == 1


@pytest.mark.req("A-14")
def test_an_unreadable_document_keeps_the_version_indexed_earlier(index: Index) -> None:
    source = _ListedSource([_ref("a"), _ref("b")], {"a": b"alpha", "b": b"omega"})
    index.add_source(source)
    index.refresh()
    source.texts["b"] = Refusal("b", RefusalReason.UNREADABLE, "permission denied")
    report = index.refresh()
    assert not report.is_published
    assert report.changes.kept == 1
    assert _found(index, "omega") == ["b"]
    source.texts["b"] = Refusal("b", RefusalReason.VANISHED)
    assert index.refresh().changes.count("removed") == 1


@pytest.mark.req("A-14")
def test_everything_below_an_unreadable_folder_is_kept(index: Index) -> None:
    source = _ListedSource(
        [_ref("s/a"), _ref("s/b"), _ref("top")], {"s/a": b"alpha", "s/b": b"beta", "top": b"omega"}
    )
    index.add_source(source)
    index.refresh()
    source.entries = [Refusal("s/", RefusalReason.UNREADABLE, "permission denied")]
    report = index.refresh()
    assert [c.document_id for c in report.changes.documents] == ["top"]
    assert _found(index, "alpha beta") == ["s/a", "s/b"]


def test_a_source_that_names_a_document_twice_is_refused(index: Index) -> None:
    source = _ListedSource([_ref("a"), _ref("a")], {"a": b"alpha"})
    index.add_source(source)
    with pytest.raises(SourceError, match="twice"):
        index.refresh()


@pytest.mark.req("A-14", "A-24")
def test_a_cancelled_refresh_leaves_the_head(index: Index, folder: Path) -> None:
    _write(folder, a="alpha")
    index.add_source(folder)
    index.refresh()
    _write(folder, b="omega")
    token = CancelToken()
    token.cancel()
    with pytest.raises(CancelledError):
        index.refresh(cancel=token)
    assert index.status().generation == 1
    assert index.refresh().generation == 2


@pytest.mark.req("A-15", "A-30")
def test_a_second_writer_is_refused_with_the_holders_name(index: Index, folder: Path) -> None:
    _write(folder, a="alpha")
    index.add_source(folder)
    seen: list[str] = []

    def while_refreshing(_: object) -> None:
        if seen:
            return
        with Index.open(index.path) as other:
            for attempt in (lambda: other.refresh(), lambda: other.add_source(folder.parent)):
                with pytest.raises(LockedError, match=rf"process {os.getpid()}") as caught:
                    attempt()
                seen.append(str(caught.value))
            assert other.search("alpha").hits == ()

    index.refresh(progress=while_refreshing)
    assert len(seen) == 2
    assert _found(index, "alpha") == ["a.md"]


@pytest.mark.req("A-17")
def test_removing_a_source_is_one_generation(index: Index, folder: Path) -> None:
    _write(folder, a="alpha", b="beta")
    name = index.add_source(folder)
    index.upsert("notes", [Document("n", "alpha note")])
    index.refresh()
    before = index.status().generation
    report = index.remove_source(name)
    assert report.generation == before + 1
    assert _found(index, "alpha") == ["n"]
    assert [source.name for source in index.status().sources] == ["notes"]
    index.add_source(folder)
    assert index.refresh().changes.count("added") == 2


def test_sources_are_registered_once_and_found_by_name(index: Index, folder: Path) -> None:
    index.add_source(folder, name="docs")
    for spelling in (folder, f"{folder}/", folder / ".." / folder.name):
        with pytest.raises(DuplicateError, match="docs"):
            index.add_source(spelling, name="other")
    with pytest.raises(DuplicateError):
        index.add_source(folder.parent, name="docs")
    with pytest.raises(UnknownSourceError, match="nothing"):
        index.refresh(["nothing"])
    with pytest.raises(UnknownModelError):
        index.set_embedder("gpt")


@pytest.mark.req("A-4")
def test_pushed_documents_are_added_replaced_and_removed(index: Index) -> None:
    index.upsert("n", [Document("1", "alpha"), Document("2", "beta")])
    report = index.upsert("n", [Document("2", "gamma"), Document("3", "alpha")])
    assert (report.changes.count("changed"), report.changes.count("added")) == (1, 1)
    assert _found(index, "alpha") == ["1", "3"]
    assert _found(index, "beta") == []
    report = index.remove("n", ["1", "unknown"])
    assert report.changes.count("removed") == 1
    assert _found(index, "alpha") == ["3"]
    assert not index.upsert("n", [Document("3", "alpha")]).is_published
    assert index.upsert("n", [Document("3", "alpha", metadata={"state": "open"})]).is_published


def test_documents_cannot_be_pushed_into_a_folder(index: Index, folder: Path) -> None:
    name = index.add_source(folder)
    with pytest.raises(UsageError, match="folder"):
        index.upsert(name, [Document("1", "alpha")])


@pytest.mark.req("A-4")
def test_a_host_source_is_listed_as_a_whole(index: Index) -> None:
    documents = [Document("1", "alpha"), Document("2", "beta")]
    index.add_source(MemorySource("host", lambda: documents))
    index.refresh()
    documents.pop()
    assert index.refresh().changes.count("removed") == 1
    with Index.open(index.path) as other:
        assert not other.refresh().is_published
        with pytest.raises(UsageError, match="host"):
            other.refresh(["host"])


@pytest.mark.req("C-17")
def test_vectors_are_not_dropped_because_the_embedder_was_forgotten(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.upsert("n", [Document("1", "alpha")])
    with Index.open(tmp_path / "i.db") as index:
        with pytest.raises(EmbedderRequiredError):
            index.upsert("n", [Document("2", "beta")])
        assert index.refresh(drop_vectors=True).is_published
        assert index.status().space is None
        assert index.check() == []


@pytest.mark.req("A-29")
def test_other_chunk_options_cut_again_and_say_so(tmp_path: Path, folder: Path) -> None:
    _write(folder, a="\n\n".join(f"Absatz {i} mit einigen Wörtern darin." for i in range(60)))
    with Index.open(tmp_path / "i.db", create=True) as index:
        index.add_source(folder)
        index.refresh()
        chunks = index.status().chunks
    small = IndexConfig(chunks=ChunkConfig(target_chars=200, min_chars=50))
    with Index.open(tmp_path / "i.db", config=small) as index:
        report = index.refresh()
        assert report.changes.count("reparsed") == 1
        assert any("chunks of 1 documents" in note for note in report.changes.rebuilt)
        assert index.status().chunks > chunks
        assert not index.refresh().is_published
        assert index.check() == []


@pytest.mark.req("D-4")
def test_a_large_change_is_staged_beside_the_live_lexical_table(
    tmp_path: Path, folder: Path
) -> None:
    config = IndexConfig(staged_fts_chunks=2)
    _write(folder, a="alpha", b="beta")
    with Index.open(tmp_path / "i.db", create=True, config=config) as index:
        index.add_source(folder)
        for round_ in range(4):
            _write(
                folder, a=f"alpha {round_}", b=f"beta {round_}", **{f"n{round_}": f"neu {round_}"}
            )
            index.refresh()
            assert _found(index, str(round_)) != []
            assert index.check() == []
        _write(folder, a="alpha only")
        index.refresh()
        assert _found(index, "only") == ["a.md"]
        assert index.check() == []


@pytest.mark.req("A-16")
def test_a_file_edited_within_the_same_time_stamp_is_found(index: Index, folder: Path) -> None:
    path = folder / "a.md"
    index.add_source(folder)
    words = [f"w{i:03d}" for i in range(25)]
    for word, next_word in pairwise(words):
        path.write_text(f"wort {word}", encoding="utf-8")
        index.refresh()
        stat = path.stat()
        path.write_text(f"wort {next_word}", encoding="utf-8")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        index.refresh()
        assert _found(index, next_word) == ["a.md"]
        assert _found(index, word) == []


@pytest.mark.req("A-3")
def test_the_index_does_not_list_itself(folder: Path) -> None:
    _write(folder, a="alpha")
    with Index.open(folder / "index.db", create=True) as index:
        index.add_source(folder)
        index.refresh()
        assert list(index.refused()) == []
        assert _found(index, "alpha") == ["a.md"]


@pytest.mark.req("A-17")
def test_removing_needs_no_embedder_and_keeps_the_vectors_of_what_stays(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.upsert("n", [Document("1", "alpha"), Document("2", "beta")])
        index.upsert("m", [Document("3", "alpha")])
    with Index.open(tmp_path / "i.db") as index:
        space = index.status().space
        assert index.remove("n", ["2"]).is_published
        assert index.remove_source("m").is_published
        assert index.status().space == space
        assert index.check() == []
    embedder = HashingEmbedder()
    with Index.open(tmp_path / "i.db", embedder=embedder) as index:
        assert [h.document_id for h in index.search("alpha", mode="semantic").hits] == ["1"]
    assert embedder.document_inputs == []


@pytest.mark.req("A-29")
def test_pushed_documents_get_the_vectors_of_another_embedder_at_the_next_refresh(
    tmp_path: Path,
) -> None:
    with Index.open(tmp_path / "i.db", create=True) as index:
        index.upsert("n", [Document("1", "alpha"), Document("2", "beta")])
    for revision in ("1", "2"):
        with Index.open(tmp_path / "i.db", embedder=HashingEmbedder(revision=revision)) as index:
            plan = index.plan()
            report = index.refresh()
            assert report.changes == plan
            assert report.embedded == 2
            assert len(index.search("alpha", mode="semantic").hits) == 2
            assert index.check() == []


@pytest.mark.req("A-12")
def test_a_damaged_text_is_healed_when_it_is_read_from_its_file_again(
    tmp_path: Path, folder: Path
) -> None:
    _write(folder, a="alpha " * 50)
    path = tmp_path / "i.db"
    with Index.open(path, create=True) as index:
        index.add_source(folder)
        index.refresh()
    _damage_texts(path)
    with Index.open(path) as index:
        assert any("text" in finding.invariant for finding in index.check())
        _write(folder, b="alpha " * 50)
        index.refresh()
        assert index.check() == []
        assert _found(index, "alpha") == ["a.md", "b.md"]


def _damage_texts(path: Path) -> None:
    file = IndexFile.open(path, make=False, busy_timeout_ms=100)
    with file.writing("test") as writer, writer.transaction() as connection:
        connection.execute("UPDATE content_piece SET body = 'x' || substr(body, 2)")
    file.close()


@pytest.mark.req("A-12", "A-16")
def test_verifying_heals_the_damaged_text_of_an_unchanged_document(
    tmp_path: Path, folder: Path
) -> None:
    _write(folder, a="alpha " * 50)
    path = tmp_path / "i.db"
    with Index.open(path, create=True) as index:
        index.add_source(folder)
        index.refresh()
        index.upsert("n", [Document("1", "beta")])
    _damage_texts(path)
    with Index.open(path) as index:
        report = index.refresh(verify=True)
        assert report.changes.count("reparsed") == 1
        assert index.upsert("n", [Document("1", "beta")]).is_published
        assert index.check() == []
        assert not index.refresh(verify=True).is_published


@pytest.mark.req("A-14", "A-17")
def test_a_document_with_a_damaged_text_can_be_replaced_and_removed(
    tmp_path: Path, folder: Path
) -> None:
    path = tmp_path / "i.db"
    with Index.open(path, create=True) as index:
        index.upsert("n", [Document("1", "alpha"), Document("2", "beta")])
    _damage_texts(path)
    with Index.open(path) as index:
        index.upsert("n", [Document("1", "gamma"), Document("2", "delta"), Document("3", "new")])
        assert _found(index, "gamma delta new alpha beta") == ["1", "2", "3"]
        index.remove("n", ["1"])
        assert _found(index, "gamma delta new") == ["2", "3"]


@pytest.mark.req("A-21")
def test_pushed_chunks_with_a_bad_vector_are_published_on_request(tmp_path: Path) -> None:
    class Zeros(HashingEmbedder):
        def embed_documents(self, texts):  # type: ignore[no-untyped-def]  # as its base
            vectors = super().embed_documents(texts)
            vectors[[text == "bad" for text in texts]] = 0
            return vectors

    with Index.open(tmp_path / "i.db", create=True, embedder=Zeros()) as index:
        documents = [Document("1", "bad"), Document("2", "good")]
        with pytest.raises(BadVectorError, match="n: 1, lines 1-1"):
            index.upsert("n", documents)
        report = index.upsert("n", documents, allow_bad_vectors=True)
        assert report.without_vector == ("n: 1, lines 1-1: all zeros",)
        assert [h.document_id for h in index.search("good", mode="semantic").hits] == ["2"]
        documents.append(Document("3", "more"))
        index.add_source(MemorySource("n", documents))
        plan = index.plan(allow_bad_vectors=True)
        report = index.refresh(allow_bad_vectors=True)
        assert (report.changes, report.embedded, report.reused) == (plan, 1, 1)


@pytest.mark.req("A-3")
def test_a_malformed_pattern_is_refused_before_the_source_is_registered(
    index: Index, folder: Path
) -> None:
    with pytest.raises(UsageError, match=r"\["):
        index.add_source(folder, include=["["])
    assert index.status().sources == ()


@pytest.mark.req("A-14")
@pytest.mark.parametrize(
    ("document_id", "raw"),
    [
        ("\ud800", RawDocument(b"x")),
        ("a", RawDocument("x")),  # type: ignore[arg-type]  # what a host may do
        ("a", RawDocument(b"x", metadata={"x": object()})),
        ("a", RawDocument(b"x", modified_ns=2**70)),
        ("a", RawDocument(b"x", title="\ud800")),
    ],
)
def test_what_a_file_cannot_hold_is_a_source_error(
    index: Index, document_id: str, raw: RawDocument
) -> None:
    source = _ListedSource([_ref(document_id)], {})
    source.texts[document_id] = raw  # type: ignore[assignment]  # its `read` gives no text
    source.read = lambda ref: raw  # type: ignore[method-assign]  # what a host may do
    index.add_source(source)
    with pytest.raises(SourceError, match="listed"):
        index.refresh()
    assert index.status().generation == 0


@pytest.mark.parametrize("name", ["documents_per_batch", "embedding_batch", "staged_fts_chunks"])
def test_a_batch_size_below_one_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        IndexConfig(**{name: 0})  # type: ignore[arg-type]  # by name


@pytest.mark.req("A-17")
def test_a_source_added_again_does_not_rewrite_where_its_old_documents_were(
    index: Index, folder: Path
) -> None:
    other = folder.parent / "other"
    other.mkdir()
    index.add_source(folder, name="docs")
    index.remove_source("docs")
    index.add_source(other, name="docs")
    assert [source.root for source in index.status().sources] == [str(other)]


def test_a_text_in_place_of_several_names_is_an_error(index: Index) -> None:
    index.upsert("s", [Document("s", "alpha")])
    with pytest.raises(ValueError, match="several"):
        index.remove("s", "s")
    with pytest.raises(ValueError, match="several"):
        index.refresh("s")
    assert _found(index, "alpha") == ["s"]


@pytest.mark.req("A-18")
def test_the_texts_of_a_small_change_are_found_from_the_change(tmp_path: Path) -> None:
    from sqlindex.store.vectors import MISSING_TEXTS

    path = tmp_path / "i.db"
    with Index.open(path, create=True, embedder=HashingEmbedder()) as index:
        index.upsert("n", [Document(str(i), f"text {i}") for i in range(300)])
    file = IndexFile.open(path, make=False, busy_timeout_ms=100)
    parameters = {"build_id": 1, "space_id": 1, "is_new_space": 0, "skips_refused": 0}
    with file.reading() as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {MISSING_TEXTS}", parameters).fetchall()
    file.close()
    assert not [row[3] for row in plan if row[3].startswith("SCAN c")]
    assert any("SEARCH c USING PRIMARY KEY (parse_id=?)" in row[3] for row in plan)


@pytest.mark.req("A-2", "A-14")
@pytest.mark.parametrize(
    ("age_s", "is_same_digest", "is_known"),
    [(2.1, True, True), (1.9, True, False), (-5.0, True, False), (60.0, False, False)],
)
def test_a_file_is_known_by_its_stat_only_some_time_after_its_change(
    age_s: float, is_same_digest: bool, is_known: bool
) -> None:
    changed_ns = 1_800_000_000_000_000_000
    stat = FileStat(10, changed_ns, changed_ns, 1, 2)
    version = LiveVersion(1, "a", 1, "recipe", b"digest", "utf-8", b"")
    digest = b"digest" if is_same_digest else b"other"
    known = StatRow(stat, changed_ns + int(age_s * 1e9), digest)
    assert is_unchanged(stat, known, version) is is_known
    for field in ("byte_size", "mtime_ns", "ctime_ns", "inode", "device"):
        other = replace(stat, **{field: getattr(stat, field) - 1})
        assert not is_unchanged(other, known, version)
    assert not is_unchanged(stat, None, version)
    assert not is_unchanged(None, known, version)


@pytest.mark.req("A-14")
def test_a_build_that_is_no_longer_what_was_counted_is_not_published(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    with Index.open(path, create=True, embedder=HashingEmbedder()) as index:
        index.upsert("host", [Document("a", "alpha"), Document("b", "beta")])

        def drop_a_version(told: Progress) -> None:
            if (told.phase, told.done) == ("publish", 0):
                with closing(driver.connect(path, "rw")) as other:
                    other.execute("DELETE FROM document_version WHERE born IS NULL")

        with pytest.raises(HeadMovedError, match="no longer what it was"):
            index.upsert("host", [Document("a", "omega")], progress=drop_a_version)
        assert index.status().generation == 1
        assert [hit.document_id for hit in index.search("alpha", mode="lexical").hits] == ["a"]
        assert index.check() == []
