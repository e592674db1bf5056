"""The judged rules of a customer service are what their README says, and so is their filling."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bench.rules import JUDGED, PARTS, filler_rules, main, read_rules, write_rules
from sqlindex.errors import UsageError
from sqlindex.evaluation.beir import read_collection

pytestmark = pytest.mark.req("B-14")

CLASSES = (
    "code",
    "compound",
    "cross-lingual",
    "direct",
    "english",
    "inflection",
    "long mail",
    "paraphrase",
    "typo",
    "validity",
)
FILLED = 3000

RULES = read_rules(JUDGED)
RULE_BY_ID = {rule["id"]: rule for rule in RULES}
QUERIES: list[dict[str, Any]] = [
    json.loads(line) for line in (JUDGED / "queries.jsonl").open(encoding="utf-8")
]
GRADES = read_collection(JUDGED).qrels


def _words(text: str) -> list[str]:
    return re.findall(r"[\w-]+", text)


def _is_valid_on(rule: Mapping[str, str | None], day: str) -> bool:
    return (rule["valid_from"] or "") <= day <= (rule["valid_until"] or "9999")


def test_counts_are_those_of_the_readme() -> None:
    assert len(RULES) == len(RULE_BY_ID) == 300
    assert Counter(rule["status"] for rule in RULES) == {
        "confirmed": 251,
        "superseded": 29,
        "proposed": 9,
        "rejected": 11,
    }
    assert Counter(rule["language"] for rule in RULES) == {"de": 256, "en": 36, "mixed": 8}
    assert Counter(query["class"] for query in QUERIES) == {
        **dict.fromkeys(CLASSES, 13),
        "no-answer": 7,
    }
    assert len({query["id"] for query in QUERIES}) == len({q["text"] for q in QUERIES}) == 137
    assert sum("stale" in query for query in QUERIES) == 43
    assert sum("forbidden" in query for query in QUERIES) == 16


def test_texts_are_short_different_and_nfc() -> None:
    assert len({rule["text"] for rule in RULES}) == 300
    for rule in RULES:
        assert 20 <= len((rule["text"] or "").split()) <= 90, rule["id"]
    for query in QUERIES:
        assert (60 <= len(query["text"].split()) <= 150) == (query["class"] == "long mail")
    for path in JUDGED.iterdir():
        assert unicodedata.is_normalized("NFC", path.read_text("utf-8")), path.name


@pytest.mark.parametrize("rules", [RULES, list(filler_rules(FILLED))], ids=["judged", "filler"])
def test_validity_has_an_order(rules: list[dict[str, str | None]]) -> None:
    rule_by_id = {rule["id"]: rule for rule in rules}
    for rule in rules:
        start, end = rule["valid_from"], rule["valid_until"]
        assert start is not None
        assert end is None or date.fromisoformat(start) <= date.fromisoformat(end), rule["id"]
        assert ("successor" in rule) == (rule["status"] == "superseded")
        if "successor" in rule:
            successor = rule_by_id[rule["successor"]]
            assert successor["status"] == "confirmed"
            assert end is not None
            assert end < (successor["valid_from"] or ""), rule["id"]
            assert successor["text"] != rule["text"]


def test_judgements_name_rules_that_exist_and_fit_the_queries() -> None:
    for query in QUERIES:
        grades = GRADES.get(query["id"], {})
        relevant = {rule_id for rule_id, grade in grades.items() if grade > 0}
        assert grades.keys() <= RULE_BY_ID.keys()
        assert set(grades.values()) <= {0, 1, 2, 3}
        assert bool(relevant) == query.get("answerable", True) == (query["class"] != "no-answer")
        assert not relevant or max(grades.values()) == 3
        for named in (*query.get("stale", ()), *query.get("forbidden", ())):
            assert grades[named] == 0, query["id"]
        for sufficient in query.get("sufficient", ()):
            assert sufficient
            assert set(sufficient) <= relevant, query["id"]
        for rule_id in query.get("forbidden", ()):
            assert RULE_BY_ID[rule_id]["status"] == "rejected"


def test_a_question_of_validity_is_answered_by_what_holds_that_day() -> None:
    for query in QUERIES:
        assert ("today" in query) == (query["class"] == "validity")
        if "today" in query:
            assert query["stale"]
            for rule_id, grade in GRADES[query["id"]].items():
                if grade > 0 or rule_id in query["stale"]:
                    assert _is_valid_on(RULE_BY_ID[rule_id], query["today"]) == (grade > 0), query
        elif "stale" in query:
            assert {RULE_BY_ID[rule_id]["status"] for rule_id in query["stale"]} == {"superseded"}


def test_a_relevant_rule_that_superseded_another_has_it_named_as_stale() -> None:
    predecessor = {rule["successor"]: rule["id"] for rule in RULES if "successor" in rule}
    for query in QUERIES:
        relevant = {rule_id for rule_id, grade in GRADES.get(query["id"], {}).items() if grade}
        expected = {predecessor[rule_id] for rule_id in relevant if rule_id in predecessor}
        assert expected <= set(query.get("stale", ())), query["id"]


def test_the_split_halves_every_class_by_a_hash_of_the_id() -> None:
    ordered = sorted(QUERIES, key=lambda q: (q["class"], sha256(q["id"].encode()).hexdigest()))
    assert [query["split"] for query in ordered] == (["tuning", "held-out"] * 69)[:137]


def test_no_filler_rule_can_answer_a_query() -> None:
    """It is about a subject, names it in title and text, and the judged collection names none."""
    subjects = [
        subject.casefold()
        for language in ("german", "english")
        for subject in PARTS[language]["subjects"].split()
    ]
    judged = " ".join(f"{rule['title']} {rule['text']}" for rule in RULES)
    judged += " ".join(query["text"] for query in QUERIES)
    assert not [subject for subject in subjects if subject in judged.casefold()]
    codes = {word for word in _words(judged) if any(character.isdigit() for character in word)}
    for rule in filler_rules(FILLED):
        title, text = (rule["title"] or "").casefold(), (rule["text"] or "").casefold()
        assert any(subject in title and subject in text for subject in subjects), rule["id"]
        own_codes = {
            word for word in _words(rule["text"] or "") if "-" in word and word[-1].isdigit()
        }
        assert not own_codes & codes


def test_filler_rules_have_the_length_and_the_vocabulary_of_a_real_collection() -> None:
    rules = list(filler_rules(FILLED))
    assert len(rules) == len({rule["id"] for rule in rules}) == FILLED
    for rule in rules:
        assert 20 <= len((rule["text"] or "").split()) <= 90, rule["id"]
    words = {word.casefold() for rule in rules for word in _words(rule["text"] or "")}
    assert len(words) > 8_000  # 52,000 at 20,000 rules
    assert {rule["language"] for rule in rules} == {"de", "en"}
    assert {rule["status"] for rule in rules} == {"confirmed", "superseded", "proposed", "rejected"}


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    write_rules(first, 500)
    assert main(["--n", "500", str(second)]) == 0
    write_rules(other, 500, seed=1)
    names = ["corpus.jsonl", "qrels.tsv", "queries.jsonl"]
    assert sorted(path.name for path in first.iterdir()) == names
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert (first / "corpus.jsonl").read_bytes() != (other / "corpus.jsonl").read_bytes()
    assert sha256((first / "corpus.jsonl").read_bytes()).hexdigest()[:16] == "b213b132bdf28b35"
    written = read_rules(first)
    assert len(written) == 500
    assert [rule for rule in RULES if rule not in written] == []
    assert read_collection(first).qrels == GRADES


def test_fewer_rules_than_are_judged_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="at least 300"):
        write_rules(tmp_path, 299)
    assert main(["--n", "1", str(tmp_path)]) == 2
    assert "at least 300" in capsys.readouterr().err
