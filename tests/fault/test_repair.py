"""Damage one thing in a file: a search never answers wrongly, `check` names it, `repair` makes it whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from sqlindex import Document, Index
from sqlindex.config import IndexConfig
from sqlindex.errors import (
    CorruptIndexError,
    ForeignSchemaError,
    RebuildRequiredError,
    StorageError,
)
from sqlindex.model.requests import MODES
from sqlindex.store.driver import connect
from sqlindex.testing import HashingEmbedder
from tests.damage import DERIVED, LOST, OTHERS, VECTORS, Damage, inflict, make_base
from tests.faults import (
    FaultKind,
    FaultPlan,
    State,
    copy_index,
    faulty_writer,
    folder_in_memory,
    killed_at_statement,
    observe,
    searched,
    sqlindex,
)

QUERIES = ("pump", "valve", "archive letter")


@dataclass(frozen=True, slots=True)
class Base:
    """An index of three generations, as it is while nothing is damaged."""

    db: Path
    folder: Path
    scratch: Path
    state: State

    def copy(self, name: str, *damages: Damage) -> Path:
        db = copy_index(self.db, self.scratch / name)
        for damage in damages:
            inflict(db, damage)
        return db


def _open(db: Path) -> tuple[Index, HashingEmbedder]:
    embedder = HashingEmbedder(16)
    return Index.open(db, embedder=embedder, config=IndexConfig(documents_per_batch=2)), embedder


def _observed(db: Path) -> State:
    return observe(db, QUERIES, HashingEmbedder(16))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Base]:
    with folder_in_memory(tmp_path_factory.mktemp("repair")) as scratch:
        folder = scratch / "documents"
        folder.mkdir()
        db = scratch / "base" / "index.db"
        db.parent.mkdir()
        make_base(db, folder)
        yield Base(db, folder, scratch / "copies", _observed(db))


def _ids(damages: tuple[Damage, ...]) -> list[str]:
    return [damage.name for damage in damages]


def _search_never_lies(db: Path, *right: State) -> None:
    """Each mode and query ends in a typed error or gives what an undamaged index gives."""
    for mode in MODES:
        for query in QUERIES:
            try:
                index, _ = _open(db)
                with index:
                    lines = _one(index, mode, query)
            except (CorruptIndexError, ForeignSchemaError, RebuildRequiredError):
                continue
            assert any(lines in state.found for state in right), (mode, query, lines)


def _one(index: Index, mode: str, query: str) -> str:
    return next(line for line in searched(index, [query], True) if json.loads(line)[0] == mode)


def _finds(db: Path, damage: Damage) -> None:
    index, _ = _open(db)
    with index:
        if damage.finding == "schema":
            with pytest.raises(ForeignSchemaError, match=r"is missing|was changed|foreign setting"):
                index.check()
            return
        names = [finding.invariant for finding in index.check()]
    assert any(damage.finding in name for name in names), names


@pytest.mark.req("A-29")
@pytest.mark.parametrize("damage", DERIVED, ids=_ids(DERIVED))
def test_a_damaged_derived_structure_is_made_anew_without_embedding(
    base: Base, damage: Damage
) -> None:
    db = base.copy(damage.name, damage)
    _finds(db, damage)
    index, embedder = _open(db)
    with index:
        report = index.repair()
        assert report.remaining == ()
        assert report.mended
        assert not report.needs_refresh
        assert not report.is_published
        assert index.repair().mended == ()
        assert index.check() == []
    assert embedder.document_calls == 0
    assert _observed(db) == base.state


LEXICAL_OR_HEAD = tuple(
    damage
    for damage in DERIVED
    if damage.name
    in {
        "lexical table emptied",
        "lexical pages deleted",
        "lexical index emptied",
        "lexical lengths deleted",
        "lexical version deleted",
        "lexical part dropped",
        "lexical table dropped",
        "spare lexical table dropped",
        "head missing",
        "key deleted",
    }
)


@pytest.mark.req("A-29")
@pytest.mark.parametrize("damage", LEXICAL_OR_HEAD, ids=_ids(LEXICAL_OR_HEAD))
def test_a_search_that_meets_a_missing_structure_ends_in_an_error(
    base: Base, damage: Damage
) -> None:
    _search_never_lies(base.copy(f"searched {damage.name}", damage), base.state)


def test_the_oracle_of_searches_notices_an_answer_that_is_wrong(base: Base) -> None:
    wrong = next(damage for damage in DERIVED if damage.name == "wrong posting")
    with pytest.raises(AssertionError):
        _search_never_lies(base.copy("wrong answer", wrong), base.state)


@pytest.mark.req("A-29")
def test_links_are_not_resolved_without_the_names(base: Base) -> None:
    damage = next(damage for damage in DERIVED if damage.name == "names deleted")
    index, _ = _open(base.db)
    with index:
        assert index.links("pump.md")[0].leads_to is not None
    index, _ = _open(base.copy("no names", damage))
    with index, pytest.raises(CorruptIndexError, match="names"):
        index.links("pump.md")


@pytest.mark.req("A-29")
@pytest.mark.parametrize("name", ["lexical table emptied", "lexical index emptied"])
def test_a_refresh_makes_a_damaged_lexical_table_anew(base: Base, name: str) -> None:
    damage = next(damage for damage in DERIVED if damage.name == name)
    db = base.copy(f"refreshed {name}", damage)
    index, embedder = _open(db)
    with index:
        plan = index.plan()
        assert plan.rebuilt == ("lexical rows: the table is damaged",)
        report = index.refresh()
        assert report.changes == plan
        assert report.is_published
        assert index.check() == []
    assert embedder.document_calls == 0
    assert _observed(db).content() == base.state.content()


@pytest.mark.req("A-29")
@pytest.mark.parametrize("damage", LOST, ids=_ids(LOST))
def test_damaged_truth_is_named_and_bypassed_and_a_refresh_brings_it_back(
    base: Base, damage: Damage
) -> None:
    db = base.copy(damage.name, damage)
    _finds(db, damage)
    index, embedder = _open(db)
    with index:
        report = index.repair()
        assert report.remaining == ()
        assert report.needs_refresh
        assert any("documents: pump.md" in mended.what for mended in report.mended)
        assert index.repair().mended == ()
        hits = {
            hit.document_id for hit in index.search("pump valve twin letter", mode="hybrid").hits
        }
        assert hits == {"twin.md", "valve.md", "old.md"}
        # A version of the second generation has another text of that document.
        assert embedder.document_calls == 0
        refreshed = index.refresh()
        assert refreshed.embedded == 0
        assert refreshed.changes.counts == {"added": 1}
        assert index.check() == []
    assert _observed(db).content() == base.state.content()


@pytest.mark.req("A-29")
@pytest.mark.parametrize("damage", OTHERS, ids=_ids(OTHERS))
def test_what_a_repair_leaves_is_whole(base: Base, damage: Damage) -> None:
    db = base.copy(damage.name, damage)
    _finds(db, damage)
    index, embedder = _open(db)
    with index:
        report = index.repair()
        assert report.mended
        assert report.remaining == ()
        assert index.repair().mended == ()
        assert embedder.document_calls == 0
        if not index.status().sources:
            index.add_source(base.folder)
        index.refresh()
        assert index.check() == []
    assert _observed(db).content() == base.state.content()


@pytest.mark.req("A-29")
def test_a_damaged_text_of_an_older_generation_leaves_the_head_as_it_is(base: Base) -> None:
    piece = "SELECT first_piece FROM content c JOIN parse p USING(content_id) JOIN document_version d USING(parse_id) WHERE d.document_id = 'gone.md'"
    damage = Damage(
        "older", [f"UPDATE content_piece SET body = 'x' WHERE piece_id = ({piece})"], "texts"
    )
    db = base.copy("older", damage)
    _finds(db, damage)
    index, _ = _open(db)
    with index:
        report = index.repair()
        assert not report.is_published
        assert [mended.what for mended in report.mended if mended.outcome == "lost"] == [
            "documents: gone.md (its text, or how it was cut, is damaged), from generations 1"
        ]
        assert index.check() == []
    assert _observed(db) == base.state


@pytest.mark.req("A-29", "A-16")
@pytest.mark.parametrize("damage", VECTORS, ids=_ids(VECTORS))
def test_a_damaged_vector_is_left_out_until_the_next_refresh_makes_it_again(
    base: Base, damage: Damage
) -> None:
    db = base.copy(damage.name, damage)
    _finds(db, damage)
    if "norm" not in damage.name:
        _search_never_lies(db, base.state)
    index, embedder = _open(db)
    with index:
        report = index.repair()
        assert [mended.outcome for mended in report.mended] == ["reembed"]
        assert report.remaining == ()
        assert index.repair().mended == ()
        assert index.search("pump", mode="semantic").hits
        assert embedder.document_calls == 0
    assert _observed(db) != base.state
    index, embedder = _open(db)
    with index:
        plan = index.plan()
        assert plan.embedding_inputs == 1
        refreshed = index.refresh()
        assert refreshed.changes == plan
        assert refreshed.embedded == len(embedder.document_inputs) == 1
        assert refreshed.is_published
        assert index.check() == []
        assert not index.refresh().is_published
    assert _observed(db).content() == base.state.content()


MANY = tuple(
    damage
    for damage in (*DERIVED, *LOST, *VECTORS)
    if damage.name
    in {
        "names deleted",
        "count of an older generation",
        "key changed",
        "slot",
        "section",
        "bytes of a vector",
    }
)


@pytest.mark.req("A-14", "A-29")
@pytest.mark.parametrize("kind", ["error", "kill"])
def test_a_repair_that_ends_at_any_statement_is_completed_by_another(base: Base, kind: str) -> None:
    db = base.copy(f"many {kind}", *MANY)
    after_db = copy_index(db, base.scratch / f"after {kind}")
    with faulty_writer(FaultPlan()) as passing:
        _repair(after_db)
    after = _observed(after_db)
    assert after.content() != base.state.content()
    completed: set[int] = set()
    fired = 0
    for number in range(1, 2_000):
        plan = FaultPlan(number, "error")
        plan.statements = passing.statements[:number]
        plan.has_fired = True
        if plan.durable_steps in completed:
            continue  # between two commits the file stays the same
        completed.add(plan.durable_steps)
        if number > len(passing.statements):
            break
        copied = copy_index(db, base.scratch / f"{kind} {number}")
        if kind == "kill":
            assert killed_at_statement(FaultPlan(number), lambda copied=copied: _repair(copied))  # type: ignore[misc]  # a bound default
        else:
            # What fails after the last commit is the closing, whose failure is of no consequence.
            with faulty_writer(FaultPlan(number, "error")) as failing, suppress(StorageError):
                _repair(copied)
            assert failing.has_fired
        fired += 1
        _search_never_lies(copied, base.state, after)
        _repair(copied)
        index, _ = _open(copied)
        with index:
            assert index.check() == []
        assert _observed(copied).content() == after.content()
    assert fired > 8


@pytest.mark.req("A-14", "A-29")
@pytest.mark.parametrize("kind", ["error", "rollback"])
def test_a_disk_that_fails_under_a_repair_is_no_damage(base: Base, kind: FaultKind) -> None:
    db = base.copy(f"sound {kind}")
    with faulty_writer(FaultPlan()) as passing:
        _repair(db)
    places: dict[str, int] = {}
    for number, sql in enumerate(passing.statements, 1):
        places.setdefault(sql, number)
    failed = 0
    for number in places.values():
        index, _ = _open(db)
        with index, faulty_writer(FaultPlan(number, kind)):
            try:
                assert index.repair().mended == ()
            except StorageError:
                failed += 1
    assert failed > 40
    index, _ = _open(db)
    with index:
        assert index.check() == []
    assert _observed(db) == base.state


def _repair(db: Path) -> None:
    index, embedder = _open(db)
    with index:
        index.repair()
    assert embedder.document_calls == 0


def _break_page(db: Path, name: str) -> bytes:
    """Overwrite the first page of a table or index; the file's bytes then."""
    connection = connect(db, "rw")
    root = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)
    ).fetchone()[0]
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    content = bytearray(db.read_bytes())
    content[(root - 1) * size : root * size] = b"\xa5" * size
    db.write_bytes(content)
    return bytes(content)


@pytest.mark.req("A-29")
def test_pages_that_cannot_be_read_are_told_and_nothing_is_changed(base: Base) -> None:
    db = base.copy("pages")
    content = _break_page(db, "section")
    index, _ = _open(db)
    with index:
        assert any("well-formed" in finding.invariant for finding in index.check())
        with pytest.raises(CorruptIndexError, match="cannot be repaired") as caught:
            index.repair()
    assert "--salvage" in caught.value.hint
    told = sqlindex("repair", "--db", db)
    assert told.code == 6
    saved = base.scratch / "saved.db"
    salvaged = sqlindex("repair", "--salvage", saved, "--db", db)
    assert salvaged.code == 5
    assert "rows of table section: lost" in salvaged.out
    again = sqlindex("repair", "--salvage", saved, "--db", db)
    assert again.code == 2
    assert db.read_bytes() == content
    index, _ = _open(saved)
    with index:
        assert index.status().documents == 0
        assert index.refresh().embedded == 0
        assert index.check() == []
    assert _observed(saved).content() == base.state.content()


@pytest.mark.req("A-29")
def test_a_file_with_a_damaged_index_page_is_salvaged_whole(base: Base) -> None:
    db = base.copy("index page")
    _break_page(db, "version_parse")
    index, _ = _open(db)
    with index:
        with pytest.raises(CorruptIndexError, match="in place"):
            index.repair()
        report = index.salvage(base.scratch / "whole.db")
    assert report.remaining == ()
    assert not report.needs_refresh
    assert _observed(base.scratch / "whole.db") == base.state


@pytest.mark.req("A-29", "C-2")
def test_the_command_says_what_it_did_by_its_exit_code(base: Base) -> None:
    damages = {damage.name: damage for damage in (*DERIVED, *LOST)}
    whole = sqlindex("repair", "--db", base.copy("told whole"))
    assert (whole.code, whole.out, whole.err) == (0, "", "ok\n")
    derived = sqlindex("repair", "--db", base.copy("told derived", damages["names deleted"]))
    assert derived.code == 0
    assert "made anew" in derived.out
    db = base.copy("told lost", damages["text"])
    lost = sqlindex("repair", "--json", "--db", db)
    assert lost.code == 5
    assert {mended["outcome"] for mended in lost.json["mended"]} >= {"lost"}
    assert lost.json["is_published"]
    assert sqlindex("repair", "--db", db).code == 0
    options = Damage("options", ["UPDATE source SET options = '{' WHERE source_id = 1"], "sources")
    remains = sqlindex("repair", "--db", base.copy("told remains", options))
    assert remains.code == 6
    assert "sources and refusals can be read" in remains.out


@pytest.mark.req("A-29")
def test_pushed_documents_that_are_lost_are_indexed_by_pushing_them_again(tmp_path: Path) -> None:
    db = tmp_path / "i.db"
    index = Index.open(db, create=True)
    with index:
        index.upsert("notes", [Document("1", "alpha"), Document("2", "beta")])
    inflict(db, Damage("text", ["UPDATE content_piece SET body = 'x' WHERE piece_id = 1"], "texts"))
    with Index.open(db) as index:
        assert index.repair().generation == 2
        assert [hit.document_id for hit in index.search("alpha beta").hits] == ["2"]
        index.upsert("notes", [Document("1", "alpha")])
        assert len(index.search("alpha beta").hits) == 2
        assert index.check() == []
