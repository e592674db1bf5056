"""Golden questions and the documents that they should find; outside of generations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from sqlindex.errors import CorruptIndexError
from sqlindex.model.questions import Expectation, Question
from sqlindex.store.checksum import check8_of_values
from sqlindex.store.driver import Connection, Row, Value

# In the order in which they were added; expectations by source and document id. Texts as bytes: what is
# no UTF-8 is shown too.
_LIST = """
    SELECT CAST(q.question_id AS BLOB), CAST(q.text AS BLOB), CAST(q.class AS BLOB), q.is_answerable,
      q.check8, CAST(e.source AS BLOB), CAST(e.document_id AS BLOB), e.grade,
      EXISTS (SELECT 1 FROM document_version d JOIN source s USING(source_id)
              WHERE d.document_id = e.document_id AND s.name = e.source AND s.is_removed = 0
                AND d.born IS NOT NULL AND d.died IS NULL)
    FROM question q LEFT JOIN expectation e USING(question_id)
    WHERE :question_id IS NULL OR q.question_id = :question_id
    ORDER BY q.position, e.source, e.document_id
"""
_IDS = "SELECT question_id FROM question ORDER BY position"
_NEXT = "SELECT coalesce(max(position), 0) + 1 FROM question"
_PUT = """
    INSERT INTO question(question_id, text, class, is_answerable, check8)
    VALUES(:question_id, :text, :class, :is_answerable, :check8)
    ON CONFLICT(question_id) DO UPDATE SET text = excluded.text, class = excluded.class,
      is_answerable = excluded.is_answerable, check8 = excluded.check8
"""
_EXPECT = "INSERT INTO expectation(question_id, source, document_id, grade) VALUES(?, ?, ?, ?)"
_SET_CHECK8 = "UPDATE question SET check8 = :check8 WHERE question_id = :question_id"
_DROP = "DELETE FROM question WHERE question_id = ?"
_DROP_EXPECTED = "DELETE FROM expectation WHERE question_id = ?"
_EXPECTING = """
    SELECT question_id FROM expectation WHERE source = :source AND document_id = :document_id
"""
_FORGET = "DELETE FROM expectation WHERE source = :source AND document_id = :document_id"


def list_questions(connection: Connection, *, with_damaged: bool = False) -> list[Question]:
    """All questions in the order in which they were added.

    Args:
        with_damaged: those that do not say what was stored are listed too, and marked.

    Raises:
        CorruptIndexError: one does not say what was stored.
    """
    found = list(_stored(connection, None))
    damaged = [question.id for question in found if question.is_damaged]
    if damaged and not with_damaged:
        raise CorruptIndexError(
            f"question {', '.join(map(repr, damaged[:9]))} is damaged",
            hint="'sqlindex questions list' shows what is left; remove it (sqlindex questions rm ID, or "
            "sqlindex repair) and add it again",
        )
    return found


def question_ids(connection: Connection) -> list[str]:
    """Ids of all questions, in the order in which they were added."""
    return [row[0] for row in connection.execute(_IDS)]


def next_position(connection: Connection) -> int:
    """One more than the number of the question that was added last."""
    return int(connection.execute(_NEXT).fetchone()[0])


def put_question(connection: Connection, question: Question) -> None:
    """Store a question; one of the same id is replaced and keeps its position."""
    connection.execute(
        _PUT,
        {
            "question_id": question.id,
            "text": question.text,
            "class": question.class_name,
            "is_answerable": int(question.is_answerable),
            "check8": _check8(question),
        },
    )
    connection.execute(_DROP_EXPECTED, (question.id,))
    connection.executemany(
        _EXPECT,
        [(question.id, e.source, e.document_id, e.grade) for e in question.expected],
    )


def drop_question(connection: Connection, question_id: str) -> bool:
    """Delete a question; whether there was one."""
    connection.execute(_DROP_EXPECTED, (question_id,))
    return connection.execute(_DROP, (question_id,)).rowcount > 0


def forget_expected(connection: Connection, source: str, document_id: str) -> None:
    """Let no question expect a document any more; the questions stay."""
    which: Mapping[str, Value] = {"source": source, "document_id": document_id}
    # A damaged one stays so: a new checksum would make the damage pass for what was stored.
    sound = [
        question.id
        for (question_id,) in connection.execute(_EXPECTING, which).fetchall()
        for question in _stored(connection, question_id)
        if not question.is_damaged
    ]
    connection.execute(_FORGET, which)
    for question_id in sound:
        for question in _stored(connection, question_id):
            connection.execute(
                _SET_CHECK8, {"question_id": question_id, "check8": _check8(question)}
            )


def damaged_questions(connection: Connection) -> list[Question]:
    """Questions that, with their expectations, no longer give their checksum."""
    return [question for question in _stored(connection, None) if question.is_damaged]


def _stored(connection: Connection, question_id: str | None) -> Iterator[Question]:
    rows = connection.execute(_LIST, {"question_id": question_id}).fetchall()
    for (id_, text, class_name, is_answerable, check8), group in groupby(
        rows, key=lambda row: tuple(row[:5])
    ):
        question = Question(
            _text(id_),
            _text(text),
            None if class_name is None else _text(class_name),
            bool(is_answerable),
            tuple(_expected(list(group))),
        )
        yield replace(question, is_damaged=_check8(question) != check8)


def _expected(rows: Sequence[Row]) -> Iterator[Expectation]:
    for *_, source, document_id, grade, is_indexed in rows:
        if source is not None:
            yield Expectation(_text(source), _text(document_id), grade, bool(is_indexed))


def _text(stored: bytes) -> str:
    """The text of stored bytes; those that are no UTF-8 become lone surrogates."""
    return stored.decode("utf-8", "surrogateescape")


def _check8(question: Question) -> bytes:
    return check8_of_values(
        (
            question.id,
            question.text,
            question.class_name,
            int(question.is_answerable),
            sorted([e.source, e.document_id, e.grade] for e in question.expected),
        )
    )
