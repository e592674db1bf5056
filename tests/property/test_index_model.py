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
from tests.property.index_life import live


@pytest.mark.req("A-14", "A-16", "A-17")
def test_every_life_of_an_index_agrees_with_dictionaries() -> None:
    # A life that differs is told as it was found: making it smaller takes longer than a test may.
    live(30, 30, phases=(Phase.explicit, Phase.reuse, Phase.generate))


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
        pytest.param(
            StagedBefore, "stale", lambda _: iter(()), id="keeps-what-is-staged-and-stale"
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
