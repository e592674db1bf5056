"""Spelling errors: how many, where, and what stays."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.typos import main
from sqlindex.evaluation.typos import KEYBOARDS, Keyboard, with_typos

pytestmark = pytest.mark.req("A-32")

LATIN = st.text("abcdefghijklmnopqrstuvwxyzäöüßéñ", min_size=5, max_size=20)


def _distance_is_one(word: str, typed: str) -> bool:
    """One letter left out, put in or replaced, or two neighbours in each other's place."""
    if len(word) < len(typed):
        word, typed = typed, word
    for at in range(len(word)):
        if word[:at] + word[at + 1 :] == typed:
            return True
        if len(word) == len(typed) and word[at] != typed[at]:
            rest, typed_rest = word[at:], typed[at:]
            return rest[1:] == typed_rest[1:] or (
                rest[:2] == typed_rest[1::-1] and rest[2:] == typed_rest[2:]
            )
    return False


@given(word=LATIN, seed=st.integers(), keyboard=st.sampled_from(KEYBOARDS))
def test_an_error_is_one_edit_behind_the_first_letter(
    word: str, seed: int, keyboard: Keyboard
) -> None:
    typed = with_typos(word, seed=seed, rate=1, keyboard=keyboard)
    assert (typed.long_words, typed.errors) == (1, 1)
    assert typed.text[0] == word[0]
    assert typed.text != word
    assert _distance_is_one(word, typed.text)


@given(text=st.text(max_size=60), seed=st.integers())
def test_any_text_keeps_its_spaces_and_comes_back_in_nfc(text: str, seed: int) -> None:
    typed = with_typos(text, seed=seed, rate=1)
    assert unicodedata.is_normalized("NFC", typed.text)
    assert len(typed.text.split()) == len(unicodedata.normalize("NFC", text).split())
    assert typed.errors == typed.long_words
    assert typed == with_typos(text, seed=seed, rate=1)


@pytest.mark.parametrize(
    "text",
    [
        "Was ist das für ein Haus",
        "12345 2024-01-31 3x1.5mm² 230V",
        "meter_register camelCase os.path.join WB-1107-K E-217 XRECHNUNG",
        "name@example.org https://example.org/pfad --verbose $HOMEDIR C++ foo()",
        "黑豹队的防守丢了多少分 Ελληνικά русский",
        "",
    ],
)
def test_short_words_numbers_identifiers_and_other_scripts_stay(text: str) -> None:
    assert with_typos(text, seed=1, rate=1).text == text
    assert with_typos(text, seed=1, rate=1).long_words == 0


def test_words_in_punctuation_and_compounds_with_hyphens_are_words() -> None:
    typed = with_typos("(Zähler), „Wärme-Strom“: können!", seed=3, rate=1)
    assert typed.long_words == 4
    assert typed.text.startswith("(Z")
    assert ("), „" in typed.text, "“: k" in typed.text, typed.text[-1]) == (True, True, "!")


def test_an_accent_stays_with_its_letter() -> None:
    word = "x\u0302y\u0302z\u0302a\u0302b\u0302"  # x, y, z and b have no composed form with it
    for seed in range(50):
        text = with_typos(word, seed=seed, rate=1).text
        assert not unicodedata.normalize("NFD", text).count("\u0302\u0302")
        assert unicodedata.normalize("NFD", text).startswith("x\u0302")


def test_the_same_seed_gives_the_same_errors_everywhere() -> None:
    text = "Wann wird der Rundsteuerempfänger durch die Steuerbox ersetzt?"
    assert with_typos(text, seed=5).text == (
        "Wann wird der Rundsteuerempfängrr durh die Steuerbox ersetzt?"
    )
    assert len({with_typos(text, seed=seed).text for seed in range(20)}) > 10


@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_a_rate_beyond_its_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate must be from 0 to 1"):
        with_typos("", seed=1, rate=rate)


@pytest.mark.data
@pytest.mark.parametrize("name", ["german-law", "xquad-de", "xquad-en", "cosqa-dev"])
def test_about_half_of_the_long_words_of_real_queries_get_an_error(data: Path, name: str) -> None:
    queries = data / name / "queries.jsonl"
    if not queries.is_file():
        pytest.skip(f"SQLINDEX_DATA has no {name}")
    texts = [json.loads(line)["text"] for line in queries.open(encoding="utf-8")]
    typed = [with_typos(text, seed=7) for text in texts]
    share = sum(one.errors for one in typed) / sum(one.long_words for one in typed)
    assert 0.46 < share < 0.54
    assert all(
        (one.text == text) == (one.errors == 0) for one, text in zip(typed, texts, strict=True)
    )


def test_the_command_keeps_ids_and_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries, out = tmp_path / "queries.jsonl", tmp_path / "out.jsonl"
    rows = [{"id": "a", "text": "Wallbox anmelden", "class": "x"}, {"id": "b", "text": "E-217"}]
    queries.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert main([str(queries), str(out), "--seed", "1", "--rate", "1"]) == 0
    assert "2 of 2 long words got an error; 1 of 2 queries changed" in capsys.readouterr().err
    written = [json.loads(line) for line in out.open(encoding="utf-8")]
    assert [{**row, "text": ""} for row in written] == [{**row, "text": ""} for row in rows]
    assert written[0]["text"] != rows[0]["text"]
    assert written[1] == rows[1]


def test_the_command_names_a_malformed_line_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries, out = tmp_path / "queries.jsonl", tmp_path / "out.jsonl"
    queries.write_text('{"id": "a", "text": "x"}\n{"id": "b"}\n', "utf-8")
    assert main([str(queries), str(out)]) == 2
    assert "line 2: not an object with a text" in capsys.readouterr().err
    assert not out.exists()
