"""`sqlindex questions`: the golden questions of an index."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import click

from sqlindex.cli.documents import of_document
from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import plural, print_error, print_json, print_message, print_text
from sqlindex.errors import UnknownDocumentError, UsageError
from sqlindex.index import Index
from sqlindex.model.questions import MAX_GRADE, Question
from sqlindex.questions import DocumentName

_SHOWN_MISSING = 5
_CORRUPT = 6
_MAX_DIGITS = 9
_LIKE_A_GRADE = re.compile(r"[-+]?[\d.,_]*")


@click.group("questions")
def command() -> None:
    """Golden questions: what people ask, and which documents should be found.

    They stay in the index whatever is refreshed, rolled back or collected. 'sqlindex refresh --gate'
    measures a new generation by them before it is published.
    """


@command.command("add")
@click.argument("text")
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="DOC[=GRADE]",
    help="A document that should be found, by id or path, with its grade, 1 to 20; repeatable.",
)
@click.option("--none", "is_none", is_flag=True, help="No document answers it.")
@click.option("--class", "class_name", metavar="C", help="Its kind, in words of your own.")
@click.option("--id", "question_id", metavar="ID", help="Default: q and the next number.")
@click.option("--source", metavar="NAME", help="Whose documents, where several sources have one.")
@wait_option
@json_option
@db_option
def _add(
    text: str,
    expected: tuple[str, ...],
    is_none: bool,
    class_name: str | None,
    question_id: str | None,
    source: str | None,
    wait_s: float,
    as_json: bool,
    db: Path,
) -> None:
    """Store the question TEXT.

    A document that the index does not hold yet is accepted with a warning.
    """
    if is_none is bool(expected):
        raise UsageError(
            f"question {text!r} "
            + ("has documents and --none" if is_none else "expects no document"),
            hint="name documents (--expect DOCUMENT), or say that none answers it (--none)",
        )
    with open_index(db) as index:
        grades: dict[DocumentName, int] = {}
        for name, grade in (_graded(index, written, source) for written in expected):
            if name in grades:
                called = name if isinstance(name, str) else name[1]
                raise UsageError(f"document {called!r} is named twice", hint="name it once")
            grades[name] = grade
        question = index.add_question(
            text,
            grades,
            source=source,
            id=question_id,
            class_name=class_name,
            is_answerable=not is_none,
            wait_s=wait_s,
        )
    for e in question.expected:
        if not e.is_indexed:
            _warn(e.source, e.document_id)
    if as_json:
        print_json({"question": _as_json(question)})
    else:
        print_message(f"added question {question.id}")


@command.command("list")
@json_option
@db_option
def _list(as_json: bool, db: Path) -> int:
    """List all questions with their documents, in the order in which they were added.

    One that is damaged is marked and shown as far as it can be read; the exit code is 6 then.
    """
    with open_index(db) as index:
        questions = index.questions(with_damaged=True)
    if as_json:
        print_json({"questions": [_as_json(question) for question in questions]})
    else:
        _print_questions(questions)
    damaged = [question.id for question in questions if question.is_damaged]
    if damaged:
        print_error(
            f"damaged: {', '.join(damaged)}",
            "remove what is damaged (sqlindex questions rm ID, or sqlindex repair) and add it again",
        )
    return _CORRUPT if damaged else 0


def _print_questions(questions: Sequence[Question]) -> None:
    for question in questions:
        kind = f" ({question.class_name})" if question.class_name else ""
        mark = "\t(damaged)" if question.is_damaged else ""
        print_text(f"{question.id}{kind}\t{question.text}{mark}")
        if not question.is_answerable:
            print_text("\tno document answers it")
        elif not question.expected:
            print_text("\tits documents were purged")
        for e in question.expected:
            note = "" if e.is_indexed else "\t(not in the index)"
            print_text(f"\t{e.grade}\t{e.document_id}\t{e.source}{note}")


@command.command("rm")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@wait_option
@json_option
@db_option
def _rm(ids: tuple[str, ...], wait_s: float, as_json: bool, db: Path) -> None:
    """Forget the questions with these IDs."""
    with open_index(db) as index:
        index.remove_questions(ids, wait_s=wait_s)
    if as_json:
        print_json({"removed": list(dict.fromkeys(ids))})
    else:
        print_message(f"removed {plural(len(set(ids)), 'question')}")


@command.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--source", metavar="NAME", help="Whose documents, where several sources have one.")
@wait_option
@json_option
@db_option
def _import(path: Path, source: str | None, wait_s: float, as_json: bool, db: Path) -> None:
    """Store the questions of PATH; those with the same ids are replaced.

    PATH is a folder with queries.jsonl and qrels.tsv, as BEIR has them, or a file of JSON Lines:
    {"id", "text", "expect": {document: grade} or [document, …], "class", "answerable"}. Documents are
    named by id or path, or as SOURCE:ID.
    """
    with open_index(db) as index:
        done = index.import_questions(path, source=source, wait_s=wait_s)
    for _, where, document_id in done.missing[:_SHOWN_MISSING]:
        _warn(where, document_id)
    if len(done.missing) > _SHOWN_MISSING:
        print_message(f"and {len(done.missing) - _SHOWN_MISSING:,} more (sqlindex questions list)")
    if as_json:
        missing = [
            {"question": id_, "source": where, "document_id": document_id}
            for id_, where, document_id in done.missing
        ]
        print_json({"added": list(done.added), "replaced": list(done.replaced), "missing": missing})
    else:
        print_message(
            f"added {plural(len(done.added), 'question')}, replaced {len(done.replaced):,}"
        )


def _graded(index: Index, written: str, source: str | None) -> tuple[DocumentName, int]:
    """The document and the grade of `DOC[=GRADE]`; a name that ends in `=3` takes `=3=1`.

    Raises:
        UsageError: what stands for a grade is no whole number.
    """
    name, equals, grade = written.rpartition("=")
    if not equals or not _LIKE_A_GRADE.fullmatch(grade):
        return _named(index, written, source), 1
    if not (grade.isascii() and grade.isdecimal()) or len(grade) > _MAX_DIGITS:
        raise UsageError(
            f"the grade of {name!r} is {grade!r}",
            hint=f"a whole number from 1 to {MAX_GRADE}; a name that ends so takes '=1' behind it",
        )
    return _named(index, name, source), int(grade)


def _named(index: Index, name: str, source: str | None) -> DocumentName:
    try:
        stored = of_document(index, lambda n, s: index.get(n, source=s), name, source)
        return stored.source, stored.document_id
    except UnknownDocumentError:
        if not name or "\0" in name or not os.path.isfile(name):
            return name
        # A file of a folder that is not in yet has its id already.
        places = [s for s in index.file_status(name) if source in (None, s.source)]
        return (places[0].source, places[0].document_id) if len(places) == 1 else name


def _warn(source: str, document_id: str) -> None:
    print_message(f"warning: {document_id} of {source} is not in the index (yet)")


def _as_json(question: Question) -> dict[str, object]:
    return {
        "id": question.id,
        "text": question.text,
        "class": question.class_name,
        "is_answerable": question.is_answerable,
        "is_damaged": question.is_damaged,
        "expected": [
            {
                "source": e.source,
                "document_id": e.document_id,
                "grade": e.grade,
                "is_indexed": e.is_indexed,
            }
            for e in question.expected
        ],
    }
