"""Golden questions of an index: name the documents that they expect, store and import them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from sqlindex.encodable import is_encodable
from sqlindex.errors import DuplicateError, UnknownQuestionError, UsageError
from sqlindex.model.questions import MAX_GRADE, Expectation, Question, QuestionImport
from sqlindex.question_files import read_questions
from sqlindex.store.catalog import find_documents
from sqlindex.store.connection import IndexFile
from sqlindex.store.driver import Connection
from sqlindex.store.head import read_head
from sqlindex.store.questions import (
    drop_question,
    next_position,
    put_question,
    question_ids,
)
from sqlindex.store.sources import list_sources

DocumentName = str | tuple[str, str]
"""A document: its id or path, or (source, document id)."""


def add(
    file: IndexFile,
    text: str,
    expected: Iterable[DocumentName] | Mapping[DocumentName, int],
    *,
    source: str | None,
    id: str | None,
    class_name: str | None,
    is_answerable: bool,
    wait_s: float,
) -> Question:
    """Store one question; see `Index.add_question`."""
    if isinstance(expected, str):
        raise ValueError("expected must be several documents, not one text")
    grades = dict(expected) if isinstance(expected, Mapping) else dict.fromkeys(expected, 1)
    with (
        file.writing("questions", wait_s=wait_s) as writer,
        writer.transaction(durable=True) as connection,
    ):
        taken = set(question_ids(connection))
        if id in taken:
            raise DuplicateError(
                f"there is a question {id!r} already",
                hint=f"remove it first (sqlindex questions rm {id}), or choose another id",
            )
        question = Question(
            _free_id(connection, taken) if id is None else id,
            text,
            class_name,
            is_answerable,
            _named(connection, grades, source),
        )
        put_question(connection, checked(question))
        return question


def _free_id(connection: Connection, taken: Collection[str]) -> str:
    numbers = count(next_position(connection))
    return next(id_ for id_ in (f"q{number}" for number in numbers) if id_ not in taken)


def remove(file: IndexFile, ids: Iterable[str], *, wait_s: float) -> None:
    """Delete questions; see `Index.remove_questions`."""
    if isinstance(ids, str):
        raise ValueError("ids must be several ids, not one text")
    wanted = list(dict.fromkeys(ids))
    with (
        file.writing("questions", wait_s=wait_s) as writer,
        writer.transaction(durable=True) as connection,
    ):
        known = set(question_ids(connection))
        for id_ in wanted:
            if id_ not in known:
                raise UnknownQuestionError(
                    f"there is no question {id_!r}", hint="'sqlindex questions list' shows them"
                )
            drop_question(connection, id_)


def import_file(
    file: IndexFile, path: Path, *, source: str | None, wait_s: float
) -> QuestionImport:
    """Store the questions of a folder or file; see `Index.import_questions`."""
    read = read_questions(path)
    added: list[str] = []
    replaced: list[str] = []
    missing: list[tuple[str, str, str]] = []
    with (
        file.writing("questions", wait_s=wait_s) as writer,
        writer.transaction(durable=True) as connection,
    ):
        known = set(question_ids(connection))
        for question, grades, where in read:
            try:
                named = _named(connection, grades, source)
                put_question(connection, checked(replace(question, expected=named)))
            except UsageError as exc:
                raise UsageError(
                    f"{where}: question {question.id!r}: {exc}", hint=exc.hint
                ) from exc
            (replaced if question.id in known else added).append(question.id)
            missing += [(question.id, e.source, e.document_id) for e in named if not e.is_indexed]
    return QuestionImport(tuple(added), tuple(replaced), tuple(missing))


def checked(question: Question) -> Question:
    """The question, if it can be stored.

    Raises:
        UsageError: an id, text or grade is malformed, an answerable question expects nothing, or
            one without an answer expects something.
    """
    for name, value in (("id", question.id), ("text", question.text)):
        _require_text(name, value)
    if question.class_name is not None:
        _require_text("class", question.class_name)
    if any(character in question.id for character in "\t\n\r"):
        raise UsageError(f"the question id {question.id!r} holds a tab or a line end", hint="")
    for e in question.expected:
        grade: object = e.grade
        if not isinstance(grade, int) or isinstance(grade, bool) or not 1 <= grade <= MAX_GRADE:
            raise UsageError(
                f"the grade of {e.document_id!r} is {e.grade!r}",
                hint=f"a whole number from 1 to {MAX_GRADE}",
            )
    if question.is_answerable and not question.expected:
        raise UsageError(
            f"question {question.text!r} expects no document",
            hint="name one in expected, or say that none answers it (is_answerable=False)",
        )
    if question.expected and not question.is_answerable:
        raise UsageError(
            f"question {question.text!r} expects documents, and is said to have no answer",
            hint="leave the documents out, or do not say so",
        )
    return question


def _require_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise UsageError(
            f"the {name} of a question is {value!r}", hint="a text that is not blank, without NUL"
        )
    if not is_encodable(value):
        raise UsageError(
            f"the {name} of a question is not encodable to UTF-8: {value!r}",
            hint="it holds a lone surrogate",
        )


def _named(
    connection: Connection,
    grades: Mapping[DocumentName, int] | Mapping[str, int],
    source: str | None,
) -> tuple[Expectation, ...]:
    found: dict[tuple[str, str], Expectation] = {}
    for name, grade in grades.items():
        where, document_id, is_indexed = _place(connection, name, source)
        if (where, document_id) in found:
            raise UsageError(
                f"document {document_id!r} of {where} is named twice", hint="name it once"
            )
        found[where, document_id] = Expectation(where, document_id, grade, is_indexed)
    return tuple(found[key] for key in sorted(found))


def _place(connection: Connection, name: DocumentName, source: str | None) -> tuple[str, str, bool]:
    """(source, document id, whether the head holds it)."""
    if isinstance(name, tuple):
        source, name = name
    for value in (name, source):
        if value is not None:
            _require_text("document", value)
    generation = read_head(connection).generation
    known = find_documents(connection, generation, name, source)
    if len(known) == 1:
        return (*known[0], True)
    if known:
        names = ", ".join(f"{document_id} of {where}" for where, document_id in known[:9])
        raise UsageError(
            f"{name!r} is more than one document: {names}",
            hint="name one by its id and --source (source=)",
        )
    if source is not None:
        return source, name, False
    registered = [row.name for row in list_sources(connection)]
    prefix, colon, rest = name.partition(":")
    if colon and rest and prefix in registered:
        return _place(connection, (prefix, rest), None)
    if len(registered) == 1:
        return registered[0], name, False
    raise UsageError(
        f"the index holds no document {name!r}, and it is not said which source it will come from",
        hint="name the source too: --source NAME (source=)",
    )
