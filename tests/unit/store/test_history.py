"""Which generation is meant: numbers, tags, dates, places relative to the head."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest

from sqlindex import Index, Retention
from sqlindex.errors import (
    DuplicateError,
    GenerationGoneError,
    LockedError,
    UnknownGenerationError,
    UsageError,
)
from sqlindex.sources.memory import Document
from sqlindex.store import compare
from sqlindex.store.connection import IndexFile
from sqlindex.store.driver import connect
from tests.faults import shell_lines

PUBLISHED = {
    1: "2026-03-01T10:00:00Z",
    2: "2026-03-01T22:30:00Z",
    3: "2026-03-02T08:00:00Z",
    4: "2026-03-05T08:00:00Z",
}


@pytest.fixture
def past(index: Index) -> Index:
    """Four generations, published at known times; all are kept."""
    for number in PUBLISHED:
        index.upsert("notes", [Document("n", f"text {number}")])
    _set_times(index, PUBLISHED)
    return index


@pytest.fixture
def vienna(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time one hour ahead of UTC, two in summer."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Vienna")
        time.tzset()
        yield
    time.tzset()


def _set_times(index: Index, times: Mapping[int, str]) -> None:
    file = IndexFile.open(index.path, make=False, busy_timeout_ms=1_000)
    with file.writing("test") as writer, writer.transaction() as connection:
        for number, moment in times.items():
            connection.execute(
                "UPDATE generation SET published_at = ? WHERE generation = ?", (moment, number)
            )
    file.close()


def _meant(index: Index, at: int | str) -> int:
    with index.snapshot(at) as snapshot:
        return snapshot.generation


@pytest.mark.req("D-2")
@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (0, 0),
        (3, 3),
        ("3", 3),
        (" 3 ", 3),
        ("head", 4),
        ("HEAD", 4),
        ("head~0", 4),
        ("head~1", 3),
        ("head~4", 0),
        ("2026-03-01T10:00:00Z", 1),
        ("2026-03-01T12:30:00+02:00", 1),
        ("2026-03-02T08:00:01Z", 3),
        ("2026-W10-1T09:00Z", 3),
        ("2999-01-01", 4),
    ],
)
def test_a_generation_is_named_by_number_distance_or_time(
    past: Index, at: int | str, expected: int
) -> None:
    assert _meant(past, at) == expected


@pytest.mark.req("D-2")
@pytest.mark.usefixtures("vienna")
@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-03-01", 2),  # 22:30 UTC is 23:30 there
        ("2026-03-01T23:29", 1),
        ("2026-03-01T23:30", 2),
        ("2026-03-01 23:30:00", 2),
        ("2026-03-02", 3),
        ("2026-03-04", 3),
        ("2026-03-05T08:59:59", 3),
    ],
)
def test_a_day_means_its_end_and_a_time_without_zone_is_local(
    past: Index, at: str, expected: int
) -> None:
    assert _meant(past, at) == expected


@pytest.mark.req("D-2")
def test_a_clock_that_was_set_back_does_not_make_an_old_generation_the_newest(past: Index) -> None:
    _set_times(past, {3: "2031-01-01T00:00:00Z"})
    assert _meant(past, "2032-01-01") == 4
    assert _meant(past, "2026-03-03T00:00Z") == 2


@pytest.mark.req("D-2")
@pytest.mark.parametrize(
    "at",
    [5, "5", -1, 2**70, "9" * 40, "head~5", "2026-02-28", "nightly", "", "\0", "\ud800", "١٢٣"],
)
def test_an_unknown_generation_is_told_with_those_there_are(past: Index, at: int | str) -> None:
    past.tag("before", 2)
    with pytest.raises(UsageError) as told:
        past.search("text", at=at)
    if at == "":
        return
    assert isinstance(told.value, UnknownGenerationError)
    assert told.value.exit_code == 3
    assert told.value.hint == "kept: 0–4; tags: before (2)"


@pytest.mark.req("D-2")
@pytest.mark.parametrize(
    "at", ["2026-13-01", "2026-03-01T25:00", "0001-01-01", "9999-12-31T23:59:59-23:59"]
)
def test_a_date_that_is_none_or_out_of_reach_is_a_usage_error(past: Index, at: str) -> None:
    with pytest.raises(UsageError):
        past.search("text", at=at)


@pytest.mark.parametrize("at", [True, 1.0, b"1"])
def test_what_is_neither_number_nor_text_is_a_value_error(index: Index, at: str) -> None:
    with pytest.raises(ValueError, match="a number or a text"):
        index.search("text", at=at)


@pytest.mark.req("D-2")
def test_a_collected_generation_is_gone_and_distances_count_the_kept(past: Index) -> None:
    past.tag("first", 1)
    collected = past.collect(Retention(generations=2))
    assert collected.generations == (0, 2)
    with pytest.raises(GenerationGoneError, match="generation 2 has been collected") as told:
        past.get("n", at=2)
    assert told.value.hint.startswith("kept: 1, 3–4; tags: first (1)")
    assert [past.get("n", at=at).text for at in ("head", "head~1", "head~2")] == [
        "text 4",
        "text 3",
        "text 1",
    ]
    with pytest.raises(GenerationGoneError):  # and not an older one that is kept
        past.get("n", at="2026-03-01T23:00Z")
    assert [(g.number, g.is_kept, g.tags) for g in past.history(with_collected=True)] == [
        (4, True, ()),
        (3, True, ()),
        (2, False, ()),
        (1, True, ("first",)),
        (0, False, ()),
    ]
    assert [g.number for g in past.history()] == [4, 3, 1]
    assert [g.number for g in past.history(2)] == [4, 3]
    assert past.history(10**30) == past.history()


@pytest.mark.req("D-2")
def test_history_says_what_each_refresh_did(index: Index) -> None:
    index.upsert("n", [Document("a", "one"), Document("b", "two")])
    index.upsert("n", [Document("a", "other")], remove=["b"])
    head, first, empty = index.history()
    assert (head.cause, head.documents, head.added, head.changed, head.removed) == (
        "upsert", 1, 0, 1, 1
    )  # fmt: skip
    assert (first.documents, first.chunks, first.added, first.is_head) == (2, 2, 2, False)
    assert (head.is_head, head.embedder, head.restored) == (True, None, None)
    assert (empty.number, empty.cause, empty.documents) == (0, "created", 0)
    assert index.history(0) == []
    with pytest.raises(ValueError, match="negative"):
        index.history(-1)


@pytest.mark.req("D-2")
def test_a_tag_names_a_generation_until_it_is_moved_or_removed(past: Index) -> None:
    assert past.tag("  release 2 ") == 4
    assert past.tag("release 2", 4) == 4
    assert past.get("n", at="release 2").text == "text 4"
    with pytest.raises(DuplicateError, match="names generation 4"):
        past.tag("release 2", 1)
    assert past.tag("release 2", 1, force=True) == 1
    assert past.tag("übernahme/ä", "release 2") == 1
    assert past.tags() == {"release 2": 1, "übernahme/ä": 1}
    assert past.history()[-2].tags == ("release 2", "übernahme/ä")
    assert past.untag(" release 2") == 1
    assert past.tags() == {"übernahme/ä": 1}
    with pytest.raises(UnknownGenerationError) as told:
        past.untag("release 2")
    assert told.value.hint == "tags: übernahme/ä"
    assert shell_lines(past.path, "SELECT tags FROM v_generation WHERE generation = 1") == [
        "übernahme/ä"
    ]


@pytest.mark.req("D-2")
@pytest.mark.parametrize(
    "name",
    [
        "", "  ", "7", "-7", "1_000", "1.5", "١٢", "2026-11-30", "2026-11-30T12:00", "2026-W48-1", "head", "Head",
        "head~1", "head~last", "a\nb", "a\x1bb", "a\u2028b", "\ud800", "x" * 101,
    ],
)  # fmt: skip
def test_a_name_that_could_mean_something_else_is_refused(past: Index, name: str) -> None:
    with pytest.raises(UsageError):
        past.tag(name)
    assert past.tags() == {}


@pytest.mark.req("D-2")
@pytest.mark.parametrize(
    "name", ["v1.2", "1.2.3", "release-2026-11-30", "header", "x" * 100, "日本"]
)
def test_other_names_are_taken(past: Index, name: str) -> None:
    assert past.tag(name, 2) == 2
    assert _meant(past, name) == 2


@pytest.mark.req("A-15", "D-2")
def test_tagging_waits_for_the_writer_or_says_who_it_is(past: Index) -> None:
    file = IndexFile.open(past.path, make=False, busy_timeout_ms=1_000)
    with file.writing("another"), pytest.raises(LockedError, match="another"):
        past.tag("name")
    file.close()
    assert past.tag("name") == 4


@pytest.mark.req("A-18", "D-2")
@pytest.mark.parametrize("statement", [compare._BORN_BETWEEN, compare._DIED_BETWEEN])
def test_a_diff_walks_through_the_change_and_not_the_corpus(past: Index, statement: str) -> None:
    """Also before SQLite has statistics, which an index that was never analysed lacks."""
    connection = connect(past.path, "ro")
    plan = [
        row[3]
        for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", {"earlier": 1, "later": 2})
    ]
    connection.close()
    assert [step for step in plan if step.startswith("SCAN")] == []
    assert any("version_build" in step or "version_died" in step for step in plan)
