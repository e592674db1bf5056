"""The publish gate: what it measures, what it leaves behind, and what becomes of that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sqlindex import Gate, Index
from sqlindex.cancellation import CancelToken
from sqlindex.config import ChunkConfig, IndexConfig, Retention
from sqlindex.errors import (
    BadVectorError,
    BuildChangedError,
    CancelledError,
    CorruptIndexError,
    EmbedderRequiredError,
    GateError,
    OptionalDependencyError,
    StaleBuildError,
    UsageError,
)
from sqlindex.indexing.report import Progress
from sqlindex.model.gate import GateCondition
from sqlindex.model.requests import MODES, Mode, SearchRequest
from sqlindex.model.results import Hit, SearchResult
from sqlindex.search.searcher import Searcher
from sqlindex.sources.memory import Document
from sqlindex.store.driver import connect
from sqlindex.testing import HashingEmbedder

Shell = Callable[[Path, str], list[str]]

QUESTIONS = {
    "grease": ("grease the pump", "a.md"),
    "close": ("valve that closes", "b.md"),
    "lamp": ("quartz lamp", "c.md"),
}
FILES = {
    "a.md": "# Pump\n\nThe pump runs at low pressure.\n\n## Service\n\nGrease the pump each spring.\n",
    "b.md": "# Valve\n\nA valve that closes the water.\n",
    "c.md": "# Lamp\n\nA quartz lamp of the archive.\n",
    "d.md": "# Letter\n\nAn archive letter about water.\n",
}
WORSE = {"c.md": "# Torch\n\nA torch.\n", "b.md": "# Pipe\n\nWater runs.\n"}
GOOD, STRICT = "hit@1 >= 0.3", "hit@1 >= 0.9"


class Twisted(HashingEmbedder):
    """The vectors of other texts under another name: of the same width and no use."""

    @property
    def identity(self) -> str:
        return "twisted"

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return super().embed_query(str(len(text)))


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _open(
    db: Path, embedder: HashingEmbedder | None = None, config: IndexConfig | None = None
) -> Index:
    return Index.open(db, embedder=embedder or HashingEmbedder(64), config=config)


@pytest.fixture
def db(tmp_path: Path, folder: Path) -> Path:
    """An index of four files with three questions, whose files have become worse since."""
    _write(folder, FILES)
    path = tmp_path / "index.db"
    with Index.open(path, create=True, embedder=HashingEmbedder(64)) as index:
        index.add_source(folder, name="notes")
        index.refresh()
        for id_, (text, document) in QUESTIONS.items():
            index.add_question(text, [document], id=id_)
    _write(folder, WORSE)
    return path


def _held(index: Index, gate: Gate | None = None) -> GateError:
    with pytest.raises(GateError) as caught:
        index.refresh(gate=gate or Gate(STRICT, "lexical"))
    return caught.value


@pytest.mark.req("D-10")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("staged_fts_chunks", [1, 20_000], ids=["swapped", "live"])
def test_the_gate_measures_exactly_what_a_search_finds_after_the_publish(
    db: Path, mode: Mode, staged_fts_chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[SearchRequest, SearchResult]] = []
    original = Searcher.search

    def recorded(
        self: Searcher, request: SearchRequest, embedder_of: object, cancel: CancelToken
    ) -> SearchResult:
        result = original(self, request, embedder_of, cancel)  # type: ignore[arg-type]  # passed on
        if result.generation == 2:  # not the head that it is compared with
            seen.append((request, result))
        return result

    with _open(db, config=IndexConfig(staged_fts_chunks=staged_fts_chunks)) as index:
        with monkeypatch.context() as patch:
            patch.setattr(Searcher, "search", recorded)
            refused = _held(index, Gate("mrr >= 0.95", mode))
        assert refused.exit_code == 7
        assert index.status().generation == 1
        assert index.publish(force=True) == 2
        assert index.check() == []
        for request, measured in seen:
            found = index.search(
                request.query, mode=mode, limit=request.limit, offset=request.offset
            )
            assert found.hits == measured.hits
            assert found.has_more == measured.has_more
    assert {request.query for request, _ in seen} == {text for text, _ in QUESTIONS.values()}
    assert any(result.hits for _, result in seen)


@pytest.mark.req("D-10")
def test_the_error_names_missed_conditions_and_fallen_questions_worst_first(
    db: Path, folder: Path
) -> None:
    text = FILES["a.md"].replace("Grease the pump each spring", "Each spring")
    _write(folder, {"a.md": text, "d.md": "# Letter\n\ngrease the pump, grease the pump\n"})
    with _open(db) as index:
        refused = _held(index, Gate("hit@1 >= 0.9, rr > 0.8, hit@5 >= 0.1", "lexical"))
    (first, second) = refused.missed
    assert (first.measure, first.comparison, first.bound, first.before) == ("hit@1", ">=", 0.9, 1)
    assert first.value == 0
    assert second.measure == "MRR"
    assert [(f.id, f.measure, f.before, f.after) for f in refused.fell] == [
        ("close", "MRR", 1.0, 0.0),
        ("close", "hit@1", 1.0, 0.0),
        ("grease", "hit@1", 1.0, 0.0),
        ("lamp", "MRR", 1.0, 0.0),
        ("lamp", "hit@1", 1.0, 0.0),
        ("grease", "MRR", 1.0, 0.5),
    ]
    told = str(refused).splitlines()
    assert "hit@1 0.0000 (now 1.0000), wanted >= 0.9; MRR 0.1667" in told[0]
    assert told[1].startswith("what it changes: 4 changed, 0 unchanged; embedded ")
    assert told[2] == "close: MRR 1.0000 -> 0.0000: valve that closes"
    assert (refused.below, refused.absent) == ((), ())
    assert refused.details["missed"]


@pytest.mark.req("D-10")
def test_what_a_head_below_the_bound_fails_too_and_what_is_nowhere_is_named(
    db: Path, folder: Path
) -> None:
    with _open(db) as index:
        index.add_question("valve of the\n  steam engine", ["valv.md"], id="typo")
        index.add_question("zebra", ["a.md", "e.md"], id="zebra")
        _write(folder, FILES | {"d.md": "# Letter\n\nA letter.\n", "e.md": "# Other\n\nOther.\n"})
        refused = _held(index, Gate("hit@1 >= 0.9", "lexical"))
        assert refused.fell == ()
        assert [(b.id, b.before, b.after) for b in refused.below] == [
            ("typo", 0.0, 0.0),
            ("zebra", 0.0, 0.0),
        ]
        # The new generation holds e.md.
        assert refused.absent == (("typo", "notes", "valv.md"),)
        assert refused.details["absent"] == [
            {"question": "typo", "source": "notes", "document_id": "valv.md"}
        ]
        assert str(refused).splitlines()[2:] == [
            "below the bound, in the head as well:",
            "typo: hit@1 0.0000 -> 0.0000: valve of the steam engine",
            "zebra: hit@1 0.0000 -> 0.0000: zebra",
            "typo expects valv.md of notes, which is not in the index",
        ]


@pytest.mark.req("D-10")
def test_what_waits_says_what_it_changes(db: Path, folder: Path) -> None:
    (folder / "d.md").unlink()
    (folder / "e.md").write_text("# New\n\nSomething new.\n")
    with _open(db) as index:
        refused = _held(index)
        counted = {kind: n for kind, n in refused.changes.items() if n and kind != "embedded"}
        assert counted == {"added": 1, "changed": 2, "removed": 1, "unchanged": 1}
        gated = index.status().gated
        assert gated is not None
        assert gated.changes == refused.changes
        with pytest.raises(GateError) as again:
            index.publish(gate=Gate("hit@1 >= 1", "lexical"))
        assert again.value.changes == refused.changes


@pytest.mark.req("D-10")
def test_a_gate_that_is_met_publishes_and_says_what_was_measured(db: Path) -> None:
    with _open(db) as index:
        report = index.refresh(gate=Gate(GOOD))
        assert report.is_published
        assert report.gate is not None
        assert (report.gate.mode, report.gate.questions) == ("hybrid", 3)
        assert report.gate.values["hit@1"] == pytest.approx(1 / 3)
        assert index.status().gated is None


@pytest.mark.req("D-10")
def test_where_there_is_nothing_to_publish_the_head_is_measured(db: Path) -> None:
    with _open(db) as index:
        published = index.refresh(gate=Gate(GOOD, "lexical"))
        again = index.refresh(gate=Gate(GOOD, "lexical"))
        assert (again.is_published, again.gate) == (False, published.gate)
        refused = _held(index, Gate("hit@1 >= 1"))
        assert refused.is_held is False
        assert refused.missed[0].value == pytest.approx(1 / 3)
        assert refused.missed[0].before is None
        assert [(b.id, b.before, b.after) for b in refused.below] == [
            ("close", None, 0.0),
            ("lamp", None, 0.0),
        ]
        assert str(refused).startswith("nothing to publish, and the head misses the gate: hit@1")
        assert (index.status().generation, index.status().gated) == (2, None)
        assert index.check() == []


@pytest.mark.req("D-10")
@pytest.mark.parametrize("mode", MODES)
def test_an_empty_index_answers_nothing(tmp_path: Path, folder: Path, mode: Mode) -> None:
    with Index.open(tmp_path / "empty.db", create=True, embedder=HashingEmbedder(64)) as index:
        index.add_source(folder, name="notes")
        index.add_question("pump", ["a.md"])
        assert _held(index, Gate(GOOD, mode)).missed[0].value == 0
        _write(folder, {"b.md": "# Valve\n\nA valve.\n"})
        refused = _held(index, Gate(GOOD, mode))
        assert (refused.is_held, refused.missed[0].before) == (True, 0)


@pytest.mark.req("D-10")
def test_status_says_what_waits_and_what_it_measured(db: Path) -> None:
    with _open(db) as index:
        _held(index)
        status = index.status()
        assert status.unfinished == ()
        assert status.gated is not None
        assert status.gated.result.gate == STRICT
        assert status.gated.result.mode == "lexical"
        assert status.gated.result.values == {"hit@1": pytest.approx(1 / 3)}
        assert status.gated.missed == ("hit@1 0.3333 (now 1.0000), wanted >= 0.9",)
        assert (status.gated.base_generation, status.gated.documents) == (1, 2)


@pytest.mark.req("D-10")
def test_a_later_refresh_goes_on_from_what_waits_with_a_gate_or_without(
    db: Path, folder: Path
) -> None:
    with _open(db) as index:
        _held(index)
    with _open(db, embedder := HashingEmbedder(64)) as index:
        _write(folder, {"new.md": "# New\n\nSomething else.\n"})
        _held(index, Gate(STRICT, "lexical"))
        assert (
            embedder.document_inputs == ["Something else.\n"] or len(embedder.document_inputs) == 1
        )
        assert index.status().gated is not None
        report = index.refresh()
        assert (report.is_published, report.embedded, report.resumed) == (True, 0, 3)
        assert index.status().gated is None
        assert index.check() == []


@pytest.mark.req("D-10")
def test_with_other_settings_what_waits_is_dropped_without_a_question(db: Path) -> None:
    small = IndexConfig(chunks=ChunkConfig(target_chars=60, min_chars=10))
    with _open(db, config=small) as index:
        _held(index, Gate("hit@1 >= 1"))
    with _open(db) as index:
        index.plan()
        report = index.refresh()
        assert (report.is_published, report.resumed) == (True, 0)
        assert index.status().gated is None
        assert index.check() == []


@pytest.mark.req("D-10")
def test_what_was_interrupted_is_neither_published_nor_discarded(db: Path) -> None:
    token = CancelToken()

    def cancel(progress: Progress) -> None:
        if progress.phase == "embed":
            token.cancel()

    with _open(db) as index:
        for call in (lambda: index.publish(force=True), index.discard):
            with pytest.raises(UsageError, match=r"no generation waits behind a gate$"):
                call()
        with pytest.raises(CancelledError):
            index.refresh(cancel=token, progress=cancel, gate=Gate(GOOD))
        for call in (lambda: index.publish(force=True), index.discard):
            with pytest.raises(UsageError, match="is unfinished; it was interrupted, or a purge"):
                call()
        assert len(index.status().unfinished) == 1
        with pytest.raises(UsageError, match="another gate, or force"):
            index.publish()
    other = IndexConfig(chunks=ChunkConfig(target_chars=60, min_chars=10))
    with _open(db, config=other) as index, pytest.raises(BuildChangedError):
        index.refresh()


@pytest.mark.req("D-10")
def test_only_what_was_measured_can_be_published(db: Path, folder: Path, tmp_path: Path) -> None:
    with _open(db) as index:
        _held(index)
        index.upsert("cards", [Document("1", "a card")])
        with pytest.raises(StaleBuildError, match="made on generation 1, the head is 2") as stale:
            index.publish(force=True)
        assert stale.value.retryable is False
        _held(index)
        index.move_source("notes", folder.rename(tmp_path / "moved"))
        with pytest.raises(StaleBuildError, match="a source of it was removed or changed"):
            index.publish(force=True)
        index.discard()
        assert index.check() == []


@pytest.mark.req("D-10")
def test_publishing_what_waits_leaves_just_what_a_refresh_would_have(
    db: Path, folder: Path, tmp_path: Path, shell: Shell
) -> None:
    (folder / "d.md").unlink()
    (folder / "picture.md").write_bytes(b"\x89PNG\0\0")
    (folder / "film.mp4").write_bytes(b"film")
    with _open(db) as index:
        index.backup(tmp_path / "plain.db")
    with _open(tmp_path / "plain.db") as index:
        index.refresh()
        (folder / "picture.md").write_text("# Picture\n\nSeen.\n")
        index.refresh()
        (folder / "picture.md").write_bytes(b"\x89PNG\0\0")
    with _open(db) as index:
        _held(index, Gate("hit@1 >= 1"))
        index.publish(force=True)
        (folder / "picture.md").write_text("# Picture\n\nSeen.\n")
        _held(index, Gate("hit@1 >= 1"))
        index.publish(force=True)
        assert index.check() == []
    for sql in (
        "SELECT * FROM refused_document",
        "SELECT source_id, document_id, byte_size, hex(raw_digest) FROM file_stat ORDER BY 2",
        "SELECT generation, cause, documents, chunks, added, changed, removed, embedded FROM generation",
        "SELECT source, document_id, ord, text FROM v_chunk ORDER BY 1, 2, 3",
        "SELECT count(*) FROM gated_refusal",
        "SELECT count(*) FROM build",
    ):
        assert shell(db, sql) == shell(tmp_path / "plain.db", sql)


@pytest.mark.req("D-10")
@pytest.mark.parametrize("staged_fts_chunks", [1, 20_000], ids=["swapped", "live"])
def test_a_discard_leaves_no_row_behind(db: Path, shell: Shell, staged_fts_chunks: int) -> None:
    counted = "SELECT (SELECT count(*) FROM {0}), '{0}'"
    tables = ("document_version", "parse", "chunk", "content", "build", "build_removes")
    with _open(db, config=IndexConfig(staged_fts_chunks=staged_fts_chunks)) as index:
        index.collect(Retention(vector_days=0))
        before = [shell(db, counted.format(table)) for table in tables]
        _held(index)
        assert [shell(db, counted.format(table)) for table in tables] != before
        index.discard()
        assert [shell(db, counted.format(table)) for table in tables] == before
        assert shell(db, "SELECT count(*) FROM chunk_fts_b_docsize") == ["0"]
        assert index.status().gated is None
        assert index.check() == []


@pytest.mark.req("D-10")
def test_another_gate_may_let_it_through_or_hold_it_again(db: Path) -> None:
    with _open(db) as index:
        _held(index)
        with pytest.raises(GateError):
            index.publish(gate=Gate("hit@1 >= 0.7", "semantic"))
        gated = index.status().gated
        assert gated is not None
        assert (gated.result.gate, gated.result.mode) == ("hit@1 >= 0.7", "semantic")
        assert index.publish(gate=Gate(GOOD)) == 2
        assert index.check() == []


@pytest.mark.req("D-10")
def test_a_swapped_model_of_the_same_width_is_stopped(db: Path, folder: Path) -> None:
    _write(folder, FILES)
    with _open(db, Twisted(64)) as index:
        refused = _held(index, Gate("hit@1 >= 0.9", "semantic"))
        # The head's vectors are of another embedder: what it would find cannot be told.
        assert refused.missed[0].before is None
        assert {f.before for f in refused.fell} == {None}
        assert len(refused.fell) >= 2
        with pytest.raises(GateError):
            index.publish(gate=Gate("mrr >= 0.9", "semantic"))
        index.discard()
    with _open(db) as index:
        assert index.search("quartz lamp", mode="semantic").hits[0].document_id == "c.md"
        assert index.refresh(gate=Gate("hit@1 >= 0.9", "semantic")).embedded == 0
    with _open(db, HashingEmbedder(64, "2")) as index:
        assert index.refresh(gate=Gate("hit@1 >= 0.9", "semantic")).is_published
        assert index.check() == []


class _Looking(HashingEmbedder):
    """Begins a write of its own while a query is embedded: nobody else may be writing then."""

    def __init__(self, db: Path) -> None:
        super().__init__(64)
        self._db = db

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        connection = connect(self._db, "rw", timeout_ms=0)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        connection.close()
        return super().embed_query(text)


class _Asking:
    """A gate that searches the index from outside while it measures."""

    text, mode, depth = "asking", None, 5
    conditions = (GateCondition("asked", ">=", 1.0),)

    def __init__(self, index: Index) -> None:
        self._index = index
        self.found: list[tuple[int, tuple[Hit, ...]]] = []

    def measure(
        self, qrels: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]
    ) -> Mapping[str, Mapping[str, float]]:
        result = self._index.search("quartz lamp", mode="lexical")
        self.found.append((result.generation, result.hits))
        return {question: {"asked": 0.0} for question in qrels}


@pytest.mark.req("D-10", "A-15")
def test_queries_are_embedded_before_the_publish_and_readers_see_the_head_meanwhile(
    db: Path,
) -> None:
    embedder = _Looking(db)
    with _open(db, embedder) as index:
        before = index.search("quartz lamp", mode="lexical")
        gate = _Asking(index)
        with pytest.raises(GateError):
            index.refresh(gate=gate)
        assert gate.found[0] == (1, before.hits)
        assert embedder.query_inputs == [text for text, _ in QUESTIONS.values()]


@pytest.mark.req("D-10")
def test_what_a_gate_lacks_is_told_before_any_work(
    db: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = HashingEmbedder(64)
    with _open(db, embedder) as index:
        index.remove_questions(QUESTIONS)
        index.add_question("who won", is_answerable=False)
        with pytest.raises(UsageError, match="no question of the index expects a document"):
            index.refresh(gate=Gate(GOOD))
    assert embedder.document_calls == 0
    assert shell(db, "SELECT count(*) FROM build") == ["0"]
    with Index.open(db) as index:
        index.add_question("valve", ["b.md"])
        with pytest.raises(
            EmbedderRequiredError, match="a gate in mode semantic needs an embedder"
        ):
            index.refresh(gate=Gate(GOOD, "semantic"))
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(OptionalDependencyError, match="ir-measures"):
        Gate(GOOD)


class _Dumb(HashingEmbedder):
    """Has nothing to say to one query."""

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        vector = super().embed_query(text)
        return vector * 0 if "quartz" in text else vector


@pytest.mark.req("D-10")
def test_a_question_that_cannot_be_embedded_is_named_and_the_work_stays(db: Path) -> None:
    with _open(db, _Dumb(64)) as index:
        with pytest.raises(BadVectorError, match="question 'lamp': the query vector is all zeros"):
            index.refresh(gate=Gate(GOOD))
        assert index.status().gated is None
        assert len(index.status().unfinished) == 1
        assert index.refresh(gate=Gate(GOOD, "lexical")).embedded == 0


@pytest.mark.req("D-10", "D-13")
def test_a_purge_of_a_document_that_waits_takes_the_gate_away(db: Path, folder: Path) -> None:
    (folder / "secret.md").write_text("# Secret\n\nswordfish\n")
    with _open(db) as index:
        _held(index)
        (folder / "secret.md").unlink()
        assert index.purge("secret.md").is_gate_lifted
        assert index.status().gated is None
        with pytest.raises(UsageError, match="is unfinished; it was interrupted, or a purge"):
            index.publish(force=True)
        assert index.check() == []
        _held(index)
        index.publish(force=True)
        assert b"swordfish" not in db.read_bytes()


@pytest.mark.req("D-10", "A-29")
def test_a_repair_that_loses_what_waits_takes_the_gate_away(db: Path) -> None:
    with _open(db) as index:
        _held(index)
    connection = connect(db, "rw")
    connection.execute(
        "DELETE FROM content WHERE content_id = (SELECT max(content_id) FROM content)"
    )
    connection.close()
    with _open(db) as index:
        assert index.repair().remaining == ()
        assert index.status().gated is None
        assert index.refresh().is_published
        assert index.check() == []


@pytest.mark.req("D-10", "A-29")
@pytest.mark.parametrize(
    "record",
    [
        "json_set(gated, '$.space_id', NULL)",
        "json_set(gated, '$.counts.added', -5)",
        "json_set(gated, '$.result.values', json('{}'))",
        "json_remove(gated, '$.check8')",
        "printf('%.100000c', '[')",
        "'{}'",
    ],
)
def test_a_changed_record_of_a_gate_is_damage_and_can_be_refreshed_or_discarded(
    db: Path, tmp_path: Path, record: str
) -> None:
    with _open(db) as index:
        _held(index)
        connection = connect(db, "rw")
        connection.execute(f"UPDATE build SET gated = {record}")
        connection.close()
        index.backup(tmp_path / "copy.db")
        index.backup(tmp_path / "mended.db")
        assert [finding.invariant for finding in index.check()] == ["unfinished builds can be read"]
        for call in (index.status, lambda: index.publish(force=True)):
            with pytest.raises(CorruptIndexError, match="what a gate measured") as damaged:
                call()
            assert "discard" in damaged.value.hint
        index.discard()
        assert index.check() == []
    with _open(tmp_path / "copy.db") as index:
        assert (index.refresh().resumed, index.check()) == (2, [])
    with _open(tmp_path / "mended.db") as index:
        assert [each.outcome for each in index.repair().mended] == ["dropped"]
        assert index.check() == []


@pytest.mark.req("D-10")
def test_one_generation_waits_at_a_time(db: Path, folder: Path, shell: Shell) -> None:
    with _open(db) as index:
        _held(index)
        with pytest.raises(GateError):
            index.refresh(paths=[folder / "c.md"], gate=Gate(STRICT, "lexical"))
        assert shell(db, "SELECT count(*), count(gated) FROM build") == ["1|1"]
        assert index.publish(force=True) == 2
        assert index.get("b.md").title == "Valve"
        assert index.get("c.md").title == "Torch"
        assert index.check() == []
