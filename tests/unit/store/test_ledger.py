"""What a walk has found, kept outside of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from sqlindex.indexing.seen import SeenVersions
from sqlindex.model.documents import Refusal, RefusalReason
from sqlindex.model.packed import Packed, packed
from sqlindex.store.ledger import Ledger
from sqlindex.store.scope import EVERYTHING, NOTHING, scope_of


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with closing(Ledger()) as made:
        yield made


@pytest.mark.req("A-16")
def test_equal_bytes_are_paired_as_multisets_within_a_source(ledger: Ledger) -> None:
    for document_id in ("n1", "n2", "n3"):
        assert ledger.add_change(1, document_id, "added", b"same")
    ledger.add_change(2, "other", "added", b"same")
    ledger.add_change(1, "c", "changed", b"x")
    for version, document_id in ((7, "o2"), (5, "o1")):
        ledger.add_removal(1, document_id, b"same", version)
    ledger.add_removal(1, "gone", b"unique", 9)
    ledger.match_renames()
    assert list(ledger.changes(1)) == [
        ("changed", "c", None),
        ("removed", "gone", None),
        ("renamed", "n1", "o1"),
        ("renamed", "n2", "o2"),
        ("added", "n3", None),
    ]
    assert list(ledger.changes(2)) == [("added", "other", None)]
    assert ledger.counts() == {"added": 2, "changed": 1, "removed": 1, "renamed": 2}
    assert list(ledger.ended()) == [5, 7, 9]


def test_a_document_that_comes_twice_is_told(ledger: Ledger) -> None:
    assert ledger.add_change(1, "a", "added", b"x")
    assert not ledger.add_change(1, "a", "added", b"x")
    assert ledger.add_change(2, "a", "added", b"x")


@pytest.mark.req("A-14")
def test_what_lies_below_an_unreadable_folder_is_kept(ledger: Ledger) -> None:
    assert not ledger.keeps(1, "s/a.md", with_folders=True)
    unreadable = Refusal("s/", RefusalReason.UNREADABLE)
    ledger.add_refusal(1, unreadable, is_kept=True, is_news=True)
    ledger.add_refusal(1, Refusal("t/", RefusalReason.HIDDEN), is_kept=False, is_news=True)
    assert ledger.keeps(1, "s/a.md", with_folders=True)
    assert ledger.keeps(1, "s/deep/er.md", with_folders=True)
    assert not ledger.keeps(1, "s/deep/er.md", with_folders=False)
    assert not ledger.keeps(1, "s", with_folders=True)
    assert not ledger.keeps(1, "sa.md", with_folders=True)
    assert not ledger.keeps(1, "t/a.md", with_folders=True)
    assert not ledger.keeps(2, "s/a.md", with_folders=True)
    assert ledger.count_left_out() == 1
    assert [refusal for refusal, _ in ledger.refused(1)] == [unreadable]


def test_long_sequences_are_packed_and_equal_to_plain_ones() -> None:
    values = [f"dokument-{number}" for number in range(10_000)]
    found = packed(iter(values))
    assert isinstance(found, Packed)
    assert (len(found), found[0], found[-1], found[5_000]) == (
        10_000,
        *(values[i] for i in (0, -1, 5_000)),
    )
    assert found == values
    assert found != values[:-1]
    assert found[10:12] == ("dokument-10", "dokument-11")
    assert found[2_000:7_000:3] == tuple(values[2_000:7_000:3])
    assert found[::-1] == tuple(values[::-1])
    assert list(reversed(found)) == values[::-1]
    assert list(found) == values
    assert packed([1, 2]) == (1, 2)
    with pytest.raises(IndexError):
        found[10_000]


def test_seen_versions_are_a_set() -> None:
    seen = SeenVersions()
    for version in (1, 8, 1_000_003):
        assert version not in seen
        seen.add(version)
        assert version in seen
    assert 9 not in seen
    assert 2_000_000 not in seen


def test_a_scope_has_no_part_below_another() -> None:
    assert scope_of(["a/b", "a", "ab", "a/c/d", "a"]) == ("a", "ab")
    assert scope_of(["a", ""]) == EVERYTHING
    assert scope_of([]) == NOTHING
    assert scope_of(["a-b", "a", "a/x"]) == ("a-b", "a")
