"""A random life of an index agrees with dictionaries of its files and generations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import Phase

from sqlindex.errors import SqlindexError
from sqlindex.indexing.resume import StagedBefore
from sqlindex.store import collect, generations
from tests.property.index_life import Change, IndexLife, live
from tests.property.mishaps import Mishap


@pytest.mark.req("A-14", "A-16", "A-17")
def test_every_life_of_an_index_agrees_with_dictionaries() -> None:
    # A life that differs is told as it was found: making it smaller takes longer than a test may.
    live(20, 25, phases=(Phase.explicit, Phase.reuse, Phase.generate))


@contextmanager
def _nothing_is_held(_: Path, droppable: Sequence[int]) -> Iterator[list[int]]:
    yield list(droppable)


@pytest.mark.req("A-14", "A-16", "A-17")
@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        pytest.param(
            generations, "_DIE", generations._DIE + " AND version_id % 3 > 0", id="ends-not-all"
        ),
        pytest.param(collect, "excluded", _nothing_is_held, id="collects-held-generations"),
    ],
)
def test_the_life_of_a_broken_store_does_not_agree(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, broken: object
) -> None:
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises((AssertionError, SqlindexError, pytest.fail.Exception)):
        live(150, 30, derandomize=True, database=None, phases=(Phase.generate,))


@pytest.mark.req("A-14")
@pytest.mark.parametrize("is_broken", [False, True])
def test_a_file_that_is_deleted_behind_an_interrupted_refresh_shows_a_broken_store(
    monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    if is_broken:
        monkeypatch.setattr(StagedBefore, "stale", lambda _: iter(()))
    files = [Change("write", "files", 0, path, 0) for path in ("a.txt", "b.md")]
    found = 0
    for at in range(1, 30):
        life = IndexLife()
        life.start(staged_fts_chunks=12, documents_per_batch=1, embedding_batch=2, retention=3)
        try:
            life.refresh(files, Mishap("cancel", at), [Change("delete", "files", 0, "a.txt", 0)])
        except AssertionError:
            found += 1
        finally:
            life.teardown()
    assert bool(found) == is_broken
