"""Golden questions: what people ask of an index, and what it should find."""

from __future__ import annotations

from dataclasses import dataclass

MAX_GRADE = 20
"""Gains of 2^grade stay whole numbers in every measure."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """A document that a question should find.

    Attributes:
        source, document_id: its identity; neither need be there yet.
        grade: how well it answers, from 1 to `MAX_GRADE`; the measures say what grades weigh.
        is_indexed: whether the head held it when this was read.
    """

    source: str
    document_id: str
    grade: int = 1
    is_indexed: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A golden question; it belongs to the index and to no generation.

    Attributes:
        id: unique in the index.
        text: as people ask it; searched as it is.
        class_name: its kind, in the user's words, or None.
        is_answerable: False if no document answers it. An answerable one may have lost all its
            documents to a purge.
        expected: by source and document id.
        is_damaged: whether the file no longer says what was stored; what can be read is here.
    """

    id: str
    text: str
    class_name: str | None = None
    is_answerable: bool = True
    expected: tuple[Expectation, ...] = ()
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class QuestionImport:
    """What an import of questions did.

    Attributes:
        added, replaced: ids, in the order of the file.
        missing: (question id, source, document id) of expected documents that the head does not hold.
    """

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    missing: tuple[tuple[str, str, str], ...]
