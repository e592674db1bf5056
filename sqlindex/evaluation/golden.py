"""The golden questions of an index as judged queries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from sqlindex.evaluation.judgements import JudgedQuery, Judgements
from sqlindex.model.questions import Question

NO_ANSWER = "no answer"
"""Class of a question without one that no document answers."""


def judgements_of(questions: Sequence[Question], name: str) -> Judgements:
    """Golden questions as `evaluate_index` takes them; documents are named `SOURCE:ID`.

    Args:
        name: of the report's collection.
    """
    written = [(one.id, one.text, one.class_name, one.is_answerable) for one in questions]
    grades = {
        question.id: {f"{one.source}:{one.document_id}": one.grade for one in question.expected}
        for question in questions
    }
    return Judgements(
        name,
        {question.id: _query(question) for question in questions},
        grades,
        queries_sha256=_digest(written),
        qrels_sha256=_digest(grades),
    )


def _digest(values: object) -> str:
    return sha256(json.dumps(values, ensure_ascii=False).encode()).hexdigest()


def _query(question: Question) -> JudgedQuery:
    classes = () if question.class_name is None else (question.class_name,)
    if not question.is_answerable:
        return JudgedQuery(question.id, question.text, classes or (NO_ANSWER,), has_no_answer=True)
    return JudgedQuery(question.id, question.text, classes)
