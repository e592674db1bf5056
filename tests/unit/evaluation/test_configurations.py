"""Configurations as they are written on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex.config import ChunkConfig, SearchConfig
from sqlindex.errors import UsageError
from sqlindex.evaluation.configurations import (
    DEFAULT_CONFIGURATION,
    Configuration,
    parse_configuration,
    require_different,
)

pytestmark = pytest.mark.req("A-32")


def test_settings_of_both_sides_are_read() -> None:
    found = parse_configuration(
        "small=target_chars=400, min_chars=100,title_weight=3,rank_constant=9"
    )
    assert found.chunks == ChunkConfig(target_chars=400, min_chars=100)
    assert found.search == SearchConfig(title_weight=3.0, rank_constant=9)
    assert found.index.chunks == found.chunks
    assert found.settings["title_weight"] == "3"
    assert parse_configuration("plain=") == Configuration("plain")


def test_only_another_cut_needs_another_index() -> None:
    base = Path("x/tiny.db")
    assert parse_configuration("a=title_weight=3").index_path(base) == base
    assert parse_configuration("a=target_chars=400").index_path(base) == Path("x/tiny-400-300-1.db")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("small", "has no name"),
        ("=target_chars=400", "has no name"),
        ("a/b=target_chars=400", "has no name"),
        ("a=size=400", "'size' that is no setting"),
        ("a=busy_timeout_ms=400", "'busy_timeout_ms' that is no setting"),
        ("a=target_chars", "target_chars is '', not a number"),
        ("a=target_chars=4.5", "target_chars is '4.5', not a number"),
        ("a=target_chars=400,target_chars=500", "'target_chars' twice"),
        ("a=target_chars=4", "target_chars must be at least 40"),
        ("a=title_weight=nan", "title_weight is 'nan', not a number"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_configuration(text)
    assert caught.value.hint


def test_names_are_different() -> None:
    require_different([DEFAULT_CONFIGURATION, Configuration("other")])
    for wrong in ([], [DEFAULT_CONFIGURATION, DEFAULT_CONFIGURATION]):
        with pytest.raises(UsageError):
            require_different(wrong)
