"""A flipped bit of a closed index: found by `check`, or without effect, and never a crash."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.flips import CONTENT, Subject, make_subject, probe_each, random_bits
from tests.faults import folder_in_memory

SEED = 20_261_130


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    with folder_in_memory(tmp_path_factory.mktemp("flips")) as place:
        yield make_subject(place)


@pytest.mark.req("A-29", "D-4")
def test_a_flipped_bit_in_content_is_found_or_without_effect(subject: Subject) -> None:
    verdicts = probe_each(subject, random_bits(subject, 300, SEED, CONTENT))
    assert [v for v in verdicts if v.outcome in ("missed", "crashed")] == []
    assert sum(v.outcome == "detected" for v in verdicts) > 200


@pytest.mark.req("A-29", "D-4")
def test_a_flipped_bit_anywhere_ends_no_process_and_raises_only_our_errors(
    subject: Subject,
) -> None:
    verdicts = probe_each(subject, random_bits(subject, 100, SEED))
    assert [v for v in verdicts if v.outcome == "crashed"] == []
    assert {v.outcome for v in verdicts} >= {"detected", "harmless"}


@pytest.mark.req("A-29")
def test_without_checksums_some_flipped_bits_go_unseen(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("sqlindex.") and hasattr(module, "check8"):
            monkeypatch.setattr(module, "check8", lambda data: b"no check")
    careless = make_subject(tmp_path)
    bits = random_bits(careless, 60, SEED, ["vector"])
    assert any(v.outcome == "missed" for v in probe_each(careless, bits))


@pytest.mark.req("A-29")
def test_a_probe_that_does_not_end_is_a_crash(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.fault import flips

    monkeypatch.setattr(flips, "PROBE_S", 1)
    monkeypatch.setattr(flips, "probe", lambda *_: max(itertools.repeat(0)))
    assert [v.outcome for v in probe_each(subject, [0])] == ["crashed"]
