"""Files of golden questions: a folder like a judged collection without its corpus, or JSON Lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sqlindex.errors import UsageError
from sqlindex.model.questions import Question
from sqlindex.text_lines import text_lines

_QRELS_FILES = ("qrels.tsv", "qrels/test.tsv")
_HINT = (
    "a folder with queries.jsonl and qrels.tsv (or qrels/test.tsv), or a file of JSON Lines with "
    "id, text and expect in each"
)

_WHOLE = re.compile(r"[+-]?[0-9]{1,9}")
_KEYS = ("id", "_id", "text", "expect", "class", "classes", "answerable", "kind")
_EXPECT_HINT = '"expect": ["DOCUMENT"] or {"DOCUMENT": GRADE}, or "answerable": false'

Grades = Mapping[str, int]
"""Grade by the name of a document."""


class ReadQuestion(NamedTuple):
    """A question of a file, the documents that it expects, and its file and line."""

    question: Question
    expected: Grades
    where: str


def read_questions(path: Path) -> list[ReadQuestion]:
    """The questions of a folder or file in its order.

    A folder has `queries.jsonl` and `qrels.tsv` (query id, document, grade, parted by tabs, or TREC's
    four columns). A line of JSON Lines has `id` (or `_id`), `text`, and in a file `expect`: a list of
    documents, or an object of their grades. `class` or `classes` is its kind; `"answerable": false`
    says that no document answers it. A file has no other keys; those of a folder's queries may have
    any, as judged collections do.
    Judgements of grade 0 and below are left out, and so are queries of a folder that have no other
    ones and are not said to be without an answer.

    Raises:
        UsageError: a file is missing or malformed; the message names file and line.
    """
    if path.is_dir():
        grades, first = _qrels(path)
        questions = list(_of_lines(path / "queries.jsonl", grades))
        known = {read.question.id for read in questions}
        if first is not None and first.question_id in known:
            raise UsageError(
                f"{first.where}: the grade {first.written!r} is no whole number", hint=_HINT
            )
        stray = sorted(grades.keys() - known)
        if stray:
            raise UsageError(f"{path}: the qrels name {stray[0]!r}, which is no query", hint=_HINT)
        return [r for r in questions if r.expected or not r.question.is_answerable]
    return list(_of_lines(path, None))


def _of_lines(path: Path, grades: Mapping[str, Grades] | None) -> Iterator[ReadQuestion]:
    ids: set[str] = set()
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        try:
            fields = json.loads(line, object_pairs_hook=_once)
        except _RepeatedKey as exc:
            raise UsageError(f"{where}: {exc} is there twice", hint="say it once") from exc
        except (ValueError, RecursionError) as exc:
            raise UsageError(f"{where}: not JSON: {exc}", hint=_HINT) from exc
        if not isinstance(fields, dict):
            raise UsageError(f"{where}: not a JSON object", hint=_HINT)
        if grades is None:
            _require_known(fields, where)
        id_, text = fields.get("id", fields.get("_id")), fields.get("text")
        is_answerable = fields.get("answerable", True)
        if not isinstance(id_, str) or not isinstance(text, str):
            raise UsageError(f"{where}: id and text must be texts", hint=_HINT)
        if not isinstance(is_answerable, bool):
            raise UsageError(f"{where}: answerable must be true or false", hint=_HINT)
        if id_ in ids:
            raise UsageError(f"{where}: the id {id_!r} is taken already", hint="make ids unique")
        ids.add(id_)
        expected = _expected(fields, where) if grades is None else grades.get(id_, {})
        if grades is None and is_answerable and not expected:
            raise UsageError(f"{where}: the question expects no document", hint=_EXPECT_HINT)
        question = Question(id_, text, _class(fields, where), is_answerable)
        yield ReadQuestion(question, expected, where)


class _RepeatedKey(Exception):
    """A JSON object says a key twice."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKey(repr(next(key for key in keys if keys.count(key) > 1)))
    return fields


def _require_known(fields: Mapping[str, object], where: str) -> None:
    for one, other in (("id", "_id"), ("class", "classes")):
        if one in fields and other in fields:
            raise UsageError(f"{where}: {one} and {other} say the same", hint="say it once")
    unknown = [key for key in fields if key not in _KEYS]
    if unknown:
        raise UsageError(
            f"{where}: unknown key {unknown[0]!r}",
            hint=f"known keys: {', '.join(_KEYS)}",
        )


def _class(fields: Mapping[str, object], where: str) -> str | None:
    """One text for `class`, `classes` or, of a query without an answer, `kind`."""
    kind = fields.get("kind") if fields.get("answerable") is False else None
    given = fields.get("class", fields.get("classes", kind))
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        return ", ".join(given) or None
    if not isinstance(given, str | None):
        raise UsageError(f"{where}: class must be a text", hint=_HINT)
    return given


def _expected(fields: Mapping[str, object], where: str) -> Grades:
    given = fields.get("expect", [])
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        if len(set(given)) < len(given):
            twice = next(name for name in given if given.count(name) > 1)
            raise UsageError(f"{where}: document {twice!r} is named twice", hint="name it once")
        return dict.fromkeys(given, 1)
    if isinstance(given, dict) and all(type(grade) is int for grade in given.values()):
        return {name: grade for name, grade in given.items() if grade > 0}
    raise UsageError(
        f"{where}: expect must be a list of documents or an object of grades", hint=_HINT
    )


class _Header(NamedTuple):
    """A first line without a grade; of a query that there is, it is a judgement with a fault."""

    question_id: str
    written: str
    where: str


def _qrels(folder: Path) -> tuple[dict[str, dict[str, int]], _Header | None]:
    """Grades above 0 by query and document, and the line that stands for a header."""
    path = next((folder / name for name in _QRELS_FILES if (folder / name).is_file()), None)
    if path is None:
        raise UsageError(f"{folder} has no {' or '.join(_QRELS_FILES)}", hint=_HINT)
    found: dict[str, dict[str, int]] = {}
    header = None
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        columns = line.split("\t")
        if len(columns) != 3:
            # Names may hold spaces where tabs part all four.
            columns = [c.strip() for c in columns] if len(columns) == 4 else line.split()
            del columns[1:2]  # of TREC's four, the second says nothing
        if len(columns) != 3:
            raise UsageError(f"{where}: neither 3 columns nor TREC's 4", hint=_HINT)
        question_id, document, written = columns
        if not _WHOLE.fullmatch(written.strip()):
            if number == 1:
                header = _Header(question_id, written, where)
                continue
            raise UsageError(f"{where}: the grade {written!r} is no whole number", hint=_HINT)
        grade = int(written)
        judged = found.setdefault(question_id, {})
        if document in judged and judged[document] != grade:
            raise UsageError(f"{where}: {document!r} has another grade already", hint=_HINT)
        judged[document] = grade
    graded = {
        question_id: {name: grade for name, grade in judged.items() if grade > 0}
        for question_id, judged in found.items()
    }
    return graded, header


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number, text) of every line that is not blank."""
    try:
        with path.open("rb") as stream:
            yield from text_lines(stream, path, hint=_HINT)
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc}", hint=_HINT) from exc
