"""Write the rules of a customer service, filled up to any size: `python -m bench.rules --n N OUT/`."""

from __future__ import annotations

import argparse
import datetime
import json
import random
import shutil
import sys
import tomllib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from bench.machine import ROOT, SEED
from sqlindex.errors import SqlindexError, UsageError

JUDGED = ROOT / "fixtures" / "corpora" / "service-rules"
PARTS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("rule_parts.toml").read_text("utf-8")
)
ENGLISH_SHARE = 0.2
SUPERSEDED_SHARE = 0.1
REJECTED_SHARE = 0.03
PROPOSED_SHARE = 0.06
SENTENCES = 5

Rule = dict[str, str | None]
T = TypeVar("T")


def main(arguments: Sequence[str]) -> int:
    """Write a judged collection: the 300 rules, their queries and judgements, and filler rules.

    Returns:
        0, or 2 if it cannot be written as asked.
    """
    options = _parser().parse_args(arguments)
    try:
        write_rules(options.out, options.n, seed=options.seed)
    except (SqlindexError, OSError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    return 0


def write_rules(out: Path, n: int, *, seed: int = SEED) -> None:
    """Write `corpus.jsonl`, `queries.jsonl` and `qrels.tsv` into a folder, which is made.

    The same `n` and seed give the same bytes on every machine and Python version. Rules stand in
    the order of a hash of their id, so that ties broken by order favour neither judged nor filler
    rules. Queries and judgements are those of the 300 rules, byte for byte.

    Raises:
        UsageError: `n` is less than the judged rules.
    """
    judged = read_rules(JUDGED)
    if n < len(judged):
        raise UsageError(f"n must be at least {len(judged)}, the number of judged rules, not {n}")
    rules = [*judged, *filler_rules(n - len(judged), seed=seed)]
    rules.sort(key=lambda rule: sha256(f"{seed} {rule['id']}".encode()).digest())
    out.mkdir(parents=True, exist_ok=True)
    with (out / "corpus.jsonl").open("w", encoding="utf-8", newline="\n") as corpus:
        corpus.writelines(json.dumps(rule, ensure_ascii=False) + "\n" for rule in rules)
    for name in ("queries.jsonl", "qrels.tsv"):
        shutil.copyfile(JUDGED / name, out / name)


def read_rules(folder: Path) -> list[Rule]:
    """The rules of a folder with all their fields, in the order of the file."""
    return [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]


def filler_rules(count: int, *, seed: int = SEED) -> Iterator[Rule]:
    """Rules that answer no query of the judged collection, in the form of its rules.

    Each is about one subject of `rule_parts.toml`, whose word stands in its title and its text and
    nowhere in the judged rules and queries. What it says about its subject (fees, deadlines,
    reminders, refunds) it says in words that those use too, so it competes with them. Its codes
    have a form that theirs never have. One in eleven is superseded and stands before its successor,
    which differs in one code.
    """
    number = 0
    while number < count:
        number += 1
        writer = _Writer(random.Random(f"{seed} {number}"))
        rule = writer.rule(_id(number))
        if number < count and writer.chance() < SUPERSEDED_SHARE:
            number += 1
            yield from writer.with_predecessor(rule, _id(number))
        else:
            yield rule


class _Writer:
    """Writes one rule, or two that differ in one code.

    Draws only by `random()`: it alone is promised to give the same numbers in every Python version.
    """

    def __init__(self, source: random.Random) -> None:
        self.chance = source.random
        self._day = datetime.date(2019, 1, 1) + datetime.timedelta(days=self._below(2800))

    def rule(self, rule_id: str) -> Rule:
        """A rule that is confirmed, proposed or rejected."""
        language = "en" if self.chance() < ENGLISH_SHARE else "de"
        title, words = self._english() if language == "en" else self._german()
        sentences = PARTS["english" if language == "en" else "german"]["sentences"].split("\n")[:-1]
        # The first sentence names the subject.
        chosen = [self._one([sentence for sentence in sentences if "{x" in sentence])]
        while len(chosen) < SENTENCES:
            chosen.append(self._one([other for other in sentences if other not in chosen]))
        draw = self.chance()
        is_rejected = draw < REJECTED_SHARE
        is_proposed = draw < REJECTED_SHARE + PROPOSED_SHARE
        return {
            "id": rule_id,
            "title": title,
            "text": " ".join(sentence.format(**words) for sentence in chosen),
            "language": language,
            "status": "rejected" if is_rejected else "proposed" if is_proposed else "confirmed",
            "valid_from": self._day.isoformat(),
            "valid_until": None,
        }

    def with_predecessor(self, rule: Rule, successor_id: str) -> tuple[Rule, Rule]:
        """The rule as superseded, and its confirmed successor with another form."""
        form = "Form" if rule["language"] == "en" else "Vordruck"
        last_day = self._day - datetime.timedelta(days=1)
        first_day = last_day - datetime.timedelta(days=self._below(700))
        superseded = {
            **rule,
            "text": f"{rule['text']} {form} {self._code()}.",
            "status": "superseded",
            "valid_from": first_day.isoformat(),
            "valid_until": last_day.isoformat(),
            "successor": successor_id,
        }
        successor = {
            **rule,
            "id": successor_id,
            "text": f"{rule['text']} {form} {self._code()}.",
            "status": "confirmed",
        }
        return superseded, successor

    def _german(self) -> tuple[str, dict[str, object]]:
        subject = self._word("german", "subjects")
        article, compound, plural = self._compound(subject)
        other_article, other, others = self._compound(subject)
        adjective = self._word("german", "adjectives") + "e"
        words = {
            "x": compound,
            "xs": plural,
            "y": other,
            "ys": others,
            "der": article,
            "Der": article.capitalize(),
            "den": "den" if article == "der" else article,
            "der_y": other_article,
            "Der_y": other_article.capitalize(),
            "adj": adjective,
            "adj_cap": adjective.capitalize(),
            **self._facts("german"),
        }
        return f"{compound} {words['place']}: {others}", words

    def _compound(self, subject: str) -> tuple[str, str, str]:
        """Article, singular and plural of a compound of two to four parts."""
        article, head, plural = self._word("german", "heads").lower().split("/")
        start = subject
        while len(start) < 30 and self.chance() < 0.6:
            start += self._word("german", "middles")
        return article, start + head, start + plural

    def _english(self) -> tuple[str, dict[str, object]]:
        subject, head = self._word("english", "subjects"), self._word("english", "heads")
        words = {
            "x": f"{subject} {head}",
            "adj": self._word("english", "adjectives"),
            **self._facts("english"),
        }
        return f"{subject.capitalize()} {head} in {words['place']}", words

    def _facts(self, language: str) -> dict[str, object]:
        euro = 5 + self._below(400)
        return {
            "name": self._name("people"),
            "name2": self._name("people"),
            "place": self._name("places"),
            "street": f"{self._name('people')}{self._word('names', 'streets')} {1 + self._below(180)}",
            "code": self._code(),
            "code2": self._code(),
            "n": 2 + self._below(28),
            "euro": euro,
            "euro2": 1 + euro // 2,
            "day": 1 + self._below(28),
            "month": self._word(language, "months"),
        }

    def _name(self, kind: str) -> str:
        return self._word("names", "starts") + self._word("names", kind)

    def _code(self) -> str:
        """Three letters and five digits, as no code of the judged collection has."""
        letters = "".join(self._one("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(3))
        return f"{letters}-{self._below(100_000):05}"

    def _word(self, table: str, name: str) -> str:
        return self._one(PARTS[table][name].split())

    def _one(self, values: Sequence[T]) -> T:
        return values[self._below(len(values))]

    def _below(self, limit: int) -> int:
        return int(self.chance() * limit)


def _id(number: int) -> str:
    return f"f{number:06}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.rules", description=main.__doc__)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--n", type=int, default=20_000, help="rules in all; default 20,000")
    parser.add_argument("--seed", type=int, default=SEED, help=f"default {SEED}")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
