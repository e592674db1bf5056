"""Terms of a query."""

from __future__ import annotations

import time
import unicodedata

import pytest

from sqlindex.analysis.analyser import ANALYZER_VERSION, analyse, analyzer_fingerprint
from sqlindex.analysis.terms import MAX_QUERY_CHARS, MAX_TERM_CHARS, MAX_TERMS, query_terms


@pytest.mark.req("B-2", "D-7")
@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("Größe der Straße", ["grosse", "der", "strasse"]),
        ("PRUEF-204417", ["pruef", "204417"]),
        ("snake_case", ["snake", "case"]),
        ('"old mill" AND (NEAR*)', ["old", "mill", "and", "near"]),
        ("Schulze\u2019s", ["schulze", "s"]),
        ("a b A", ["a", "b"]),
        ("会議室", ["会議", "議室"]),
        ("会", ["会"]),
        (
            "第三会議室でsqlindexの検証",
            ["第三", "三会", "会議", "議室", "室で", "sqlindex", "の検", "検証"],
        ),
        ("データ・ベース", ["デー", "ータ", "ベー", "ース"]),
        ("ü\u0301x ế đ", ["ux", "e", "đ"]),
        ("Привет МИР", ["привет", "мир"]),
        ("\ue000x", ["\ue000x"]),
        ("Roboter🤖läuft", ["roboter", "lauft"]),
        ("-- ++ !!! \u0301 _", []),
        ("", []),
    ],
)
def test_terms_of_a_query(query: str, terms: list[str]) -> None:
    assert query_terms(query) == terms


@pytest.mark.req("D-7")
def test_runs_of_han_and_kana_are_spread_into_bigrams_then_characters() -> None:
    assert analyse("在会議室A").split() == ["在会", "会議", "議室", "在", "会", "議", "室", "a"]
    assert analyse("x漢y").split() == ["x", "漢", "y"]
    assert analyse("한국어 서울") == "한국어 서울"


@pytest.mark.req("B-2")
def test_oversized_queries_are_cut() -> None:
    assert len(query_terms(" ".join(f"t{n}" for n in range(10_000)))) == MAX_TERMS
    assert query_terms("x" * 10_000) == ["x" * MAX_TERM_CHARS]
    assert query_terms(" " * MAX_QUERY_CHARS + "x") == []
    assert len(query_terms("漢字" + "".join(map(chr, range(0x4E00, 0x5E00))))) == MAX_TERMS


def test_a_large_text_is_analysed_at_once() -> None:
    started = time.monotonic()
    for part in ("äß ", "漢", "\0é", "🤖a", "a\u0301", "İ"):
        assert analyse(part * 500_000)
    assert time.monotonic() - started < 60


@pytest.mark.req("A-29")
def test_the_fingerprint_names_what_shapes_the_terms() -> None:
    assert str(ANALYZER_VERSION) in analyzer_fingerprint()
    assert unicodedata.unidata_version in analyzer_fingerprint()


@pytest.mark.req("A-29")
def test_the_output_of_this_version_is_kept() -> None:
    assert ANALYZER_VERSION == 1
    text = "Maße: 3x1.5mm², İZMİR\u00ad! 会議室\0ΐ 🤖x ｶﾞ مُحَمَّد"
    assert analyse(text) == (
        "masse: 3x1.5mm2, izmir!  会議 議室 会 議 室  ι\u0308\u0301  x  ガ  محمد"
    )
