"""What a repair does about golden questions, which nothing but their author brings back."""

from __future__ import annotations

from collections.abc import Iterator

from sqlindex.store.checksum import stored_bytes
from sqlindex.store.driver import Connection
from sqlindex.store.questions import damaged_questions

_STRAY_EXPECTATIONS = """
    SELECT question_id, source, document_id FROM expectation
    WHERE question_id NOT IN (SELECT question_id FROM question) ORDER BY 1, 2, 3
"""
_FORGET_EXPECTATIONS = """
    DELETE FROM expectation WHERE question_id NOT IN (SELECT question_id FROM question)
"""
_FORGET_QUESTION = "DELETE FROM question WHERE CAST(question_id AS BLOB) = ?"


def mend_questions(connection: Connection) -> Iterator[str]:
    """Delete golden questions that do not say what was stored, and expectations of none.

    Nothing brings a question back, so what can be read of each is told.
    """
    strays = connection.execute(_STRAY_EXPECTATIONS).fetchall()
    connection.execute(_FORGET_EXPECTATIONS)
    for question_id, source, document_id in strays:
        yield f"that question {question_id}, which is gone, expects {document_id} of {source}"
    for question in damaged_questions(connection):
        connection.execute(_FORGET_QUESTION, (stored_bytes(question.id),))
        connection.execute(_FORGET_EXPECTATIONS)
        kind = f", class {question.class_name}" if question.class_name else ""
        expected = ", ".join(
            f"{e.document_id} of {e.source} (grade {e.grade})" for e in question.expected
        )
        yield f"question {question.id}: {question.text}{kind}; expected: {expected or 'nothing'}"
