"""What every peer gets: texts, questions, their vectors and judgements."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench.data import Texts, data_folder
from bench.peers.vector_cache import cached_vectors
from sqlindex.errors import UsageError
from sqlindex.evaluation.beir import JudgedCollection, read_collection

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

COLLECTIONS = ("german-law", "scifact-train", "cosqa-dev")
QUESTIONS_PER_COLLECTION = 100
DOCUMENTS_PER_QUESTION = 20
"""A small corpus gets fewer questions, so that it does not consist of judged documents alone."""

DIMENSIONS = 384

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the collection it belongs to (empty if it is made up), grades by row of a text."""

    text: str
    collection: str
    grades: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts and questions with unit vectors.

    Attributes:
        texts: each is one chunk for every peer; Unicode NFC, LF, no blanks at the ends.
        questions: of all collections in turn, so that any first part of them is mixed.
        text_vectors: float32 array of shape (len(texts), 384), rows of norm 1.
        question_vectors: the same for the questions.
        model: what embedded them.
    """

    texts: Sequence[str]
    questions: Sequence[Question]
    text_vectors: npt.NDArray[np.float32]
    question_vectors: npt.NDArray[np.float32]
    model: str


def judged_corpus(n: int, cache: Path) -> Corpus:
    """Texts of the judged collections, spread evenly, with all judged ones of the questions.

    Raises:
        UsageError: the collections or the model are not on this machine.
    """
    from sqlindex.embedding.local import LocalEmbedder
    from sqlindex.embedding.staged import require_staged

    texts, questions = judged_texts(n)
    embedder = LocalEmbedder(require_staged("minilm"))
    try:
        wording = [question.text for question in questions]
        vectors = cached_vectors([*texts, *wording], embedder, cache)
        model = embedder.identity
    finally:
        embedder.close()
    return Corpus(texts, questions, vectors[: len(texts)], vectors[len(texts) :], model)


def judged_texts(n: int) -> tuple[list[str], list[Question]]:
    """The texts and questions of `judged_corpus`, without vectors."""
    collections = [read_collection(data_folder(name)) for name in COLLECTIONS]
    per_collection = min(QUESTIONS_PER_COLLECTION, n // DOCUMENTS_PER_QUESTION)
    if per_collection < 1:
        raise UsageError(
            f"{n} texts are too few", hint=f"take at least {DOCUMENTS_PER_QUESTION}, or --quick"
        )
    asked = [_spread(collection.answerable, per_collection) for collection in collections]
    keys = [
        (collection.name, document.id)
        for collection in collections
        for document in collection.documents
    ]
    judged = {
        (collection.name, document_id)
        for collection, query_ids in zip(collections, asked, strict=True)
        for query_id in query_ids
        for document_id in collection.qrels[query_id]
    }
    others = [key for key in keys if key not in judged]
    chosen = judged.union(_spread(others, max(0, n - len(judged))))
    row_by_key = {key: row for row, key in enumerate(key for key in keys if key in chosen)}
    text_by_key = {
        (collection.name, document.id): _plain(f"{document.title}\n\n{document.text}")
        for collection in collections
        for document in collection.documents
    }
    questions = [
        _question(collection, query_id, row_by_key)
        for query_ids in zip(*asked, strict=True)
        for collection, query_id in zip(collections, query_ids, strict=True)
    ]
    return [text_by_key[key] for key in row_by_key], questions


def made_up_corpus(n: int) -> Corpus:
    """Seeded texts of made-up words with hashed vectors; nothing is judged."""
    import numpy as np

    from sqlindex.testing import HashingEmbedder

    generator = Texts()
    embedder = HashingEmbedder(DIMENSIONS)
    texts = [generator.text() for _ in range(n)]
    questions = [
        Question(generator.query(), "", {})
        for _ in range(max(1, min(3 * QUESTIONS_PER_COLLECTION, n // DOCUMENTS_PER_QUESTION)))
    ]
    return Corpus(
        texts,
        questions,
        embedder.embed_documents(texts),
        np.stack([embedder.embed_query(question.text) for question in questions]),
        embedder.identity,
    )


def has_judged_texts() -> bool:
    """Whether the judged collections are on this machine; `SQLINDEX_DATA` names their folder."""
    try:
        for name in COLLECTIONS:
            data_folder(name)
    except UsageError:
        return False
    return True


def _question(
    collection: JudgedCollection, query_id: str, row_by_key: Mapping[tuple[str, str], int]
) -> Question:
    grades = {
        row_by_key[collection.name, document_id]: grade
        for document_id, grade in collection.qrels[query_id].items()
        if (collection.name, document_id) in row_by_key
    }
    return Question(_plain(collection.queries[query_id]), collection.name, grades)


def _spread(values: Sequence[T], count: int) -> list[T]:
    """That many of the values, spread evenly, or all."""
    count = min(count, len(values))
    return [values[at * len(values) // count] for at in range(count)]


def _plain(text: str) -> str:
    """The text as an embedder gets it from sqlindex, so that one vector belongs to one text."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return unicodedata.normalize("NFC", lines).strip()
