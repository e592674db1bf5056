"""`check`: every rule is broken by some damage, nothing is found in a whole file, and quick is a part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlindex import Document, Index
from sqlindex.store.driver import connect
from sqlindex.store.invariants import INVARIANTS
from sqlindex.testing import HashingEmbedder
from tests.damage import DERIVED, LOST, OTHERS, VECTORS, Damage, inflict, make_base
from tests.faults import copy_index, folder_in_memory

ALL = tuple(damage for damage in (*DERIVED, *LOST, *VECTORS, *OTHERS) if damage.finding != "schema")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with folder_in_memory(tmp_path_factory.mktemp("check")) as folder:
        (folder / "documents").mkdir()
        (folder / "base").mkdir()
        make_base(folder / "base" / "index.db", folder / "documents")
        yield folder


def _broken(db: Path, *, quick: bool = False) -> set[str]:
    with Index.open(db) as index:
        return {finding.invariant for finding in index.check(quick=quick)}


@pytest.mark.req("A-29")
def test_every_rule_is_broken_by_some_damage_and_quick_is_a_part_of_the_check(
    scratch: Path,
) -> None:
    broken: set[str] = set()
    broken_quick: set[str] = set()
    for number, damage in enumerate(ALL):
        db = copy_index(scratch / "base" / "index.db", scratch / str(number))
        assert _broken(db) == set()
        inflict(db, damage)
        broken |= _broken(db)
        broken_quick |= _broken(db, quick=True)
    rules = {invariant.name: invariant.is_quick for invariant in INVARIANTS}
    assert rules.keys() <= broken
    assert {name for name, is_quick in rules.items() if is_quick} <= broken_quick
    assert not {name for name, is_quick in rules.items() if not is_quick} & broken_quick


@pytest.mark.req("A-29")
def test_each_part_of_the_check_is_a_step_and_quick_reads_no_text(scratch: Path) -> None:
    db = copy_index(scratch / "base" / "index.db", scratch / "steps")
    inflict(db, next(damage for damage in LOST if damage.name == "text"))
    steps: list[str] = []
    with Index.open(db) as index:
        assert index.check(quick=True, step=steps.append) == []
        assert "texts give their checksum" not in steps
        assert index.check(step=steps.append)
    assert "texts give their checksum" in steps


@pytest.mark.req("A-29")
def test_a_row_that_cannot_be_read_is_a_finding_and_ends_no_check(scratch: Path) -> None:
    db = copy_index(scratch / "base" / "index.db", scratch / "unreadable")
    for name in ("lexical version deleted", "names deleted"):
        inflict(db, next(damage for damage in DERIVED if damage.name == name))
    with Index.open(db) as index:
        findings = {finding.invariant: finding.detail for finding in index.check()}
    assert "cannot be read" in findings["the lexical table holds the terms of the texts"]
    assert "versions are found by their names" in findings


@pytest.mark.req("A-29")
def test_a_flipped_bit_of_a_stored_text_parse_version_or_vector_is_found(tmp_path: Path) -> None:
    db = tmp_path / "index.db"
    with Index.open(db, create=True, embedder=HashingEmbedder(8)) as index:
        index.upsert(
            "notes", [Document("1", "# A\n\nalpha beta [x](y)\n", title="T", type_name="md")]
        )
    columns = {
        "content_piece": ("body", "check8"),
        "content": ("digest",),
        "parse": ("recipe", "tags", "aliases", "check8"),
        "section": ("heading_path", "kind"),
        "chunk": ("fingerprint", "cut", "rendered"),
        "link": ("target", "label", "key"),
        "document_version": (
            "document_id",
            "title",
            "raw_digest",
            "metadata",
            "encoding",
            "check8",
        ),
        "vector": ("f32", "check8"),
        "embedding_text": ("key",),
    }
    connection = connect(db, "rw")
    cells = [
        (
            table,
            column,
            connection.execute(f"SELECT CAST({column} AS BLOB) FROM {table}").fetchone()[0],
        )
        for table, names in columns.items()
        for column in names
    ]
    connection.close()
    for table, column, cell in cells:
        flipped = bytes([cell[0] ^ 0x01]) + cell[1:]
        copied = copy_index(db, tmp_path / f"{table}.{column}")
        value = f"x'{flipped.hex()}'"
        sql = f"UPDATE {table} SET {column} = CASE typeof({column}) WHEN 'text' THEN CAST({value} AS TEXT) ELSE {value} END"
        inflict(copied, Damage("flip", [sql], ""))
        assert _broken(copied), (table, column)
