"""An example host: it says what was retrieved, and never that a question is answered.

    python examples/answer_desk.py INDEX QUESTION…

prints a line of JSON for each question: the passages with their provenance, or the error, or that it was
cancelled; whether they answer the question stays `unassessed`. Behind the last one it prints, for each
question, what the present generation still holds of its passages.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from sqlindex import CancelToken, Index, Snapshot
from sqlindex.errors import CancelledError, SqlindexError, UnknownDocumentError
from sqlindex.model.results import Hit

Outcome = Literal["retrieved", "nothing retrieved", "cancelled", "failed"]


@dataclass(frozen=True)
class Passage:
    """A retrieved text and where it stands; ranks and scores say how it was found, nothing more."""

    source: str
    document_id: str
    start_line: int
    end_line: int
    start_char: int
    end_char: int
    text: str
    lexical_rank: int | None
    lexical_bm25: float | None
    semantic_rank: int | None
    semantic_cosine: float | None

    @classmethod
    def of(cls, hit: Hit) -> Passage:
        """What is kept of a hit."""
        return cls(
            hit.source,
            hit.document_id,
            hit.start_line,
            hit.end_line,
            hit.start_char,
            hit.end_char,
            hit.text,
            hit.lexical_rank,
            hit.lexical_score,
            hit.semantic_rank,
            hit.semantic_score,
        )


@dataclass(frozen=True)
class Retrieval:
    """What a search gave for a question.

    Attributes:
        outcome: an error or a cancellation is neither "nothing retrieved" nor an empty answer.
        answerability: a retriever does not know; whoever reads the passages may assess it.
        generation: that answered; None if none did.
        error, hint: of a failed search, in its own words.
    """

    question: str
    outcome: Outcome
    passages: tuple[Passage, ...] = ()
    answerability: Literal["unassessed"] = "unassessed"
    generation: int | None = None
    error: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class Overlap:
    """What a later generation still holds of earlier passages, word for word.

    Attributes:
        same: passages that stand in their document as they did, at the same place or another.
        gone: passages that do not.
        freshness: equal to the index is not equal to the sources, which may have changed since.
    """

    question: str
    retrieved_from: int
    compared_with: int
    same: int
    gone: int
    freshness: Literal["unassessed"] = "unassessed"


def retrieve(index: Index, question: str, cancel: CancelToken) -> Retrieval:
    """Search, and say what happened."""
    try:
        result = index.search(question, limit=5, cancel=cancel)
    except CancelledError:
        return Retrieval(question, "cancelled")
    except SqlindexError as exc:
        return Retrieval(question, "failed", error=f"{type(exc).__name__}: {exc}", hint=exc.hint)
    passages = tuple(map(Passage.of, result.hits))
    outcome: Outcome = "retrieved" if passages else "nothing retrieved"
    return Retrieval(question, outcome, passages, generation=result.generation)


def overlap(index: Index, earlier: Retrieval) -> Overlap | None:
    """Compare the passages with the head; None if nothing was retrieved."""
    if earlier.generation is None:
        return None
    with index.snapshot() as head:
        same = sum(_stands(head, passage) for passage in earlier.passages)
        gone = len(earlier.passages) - same
        return Overlap(earlier.question, earlier.generation, head.generation, same, gone)


def _stands(head: Snapshot, passage: Passage) -> bool:
    try:
        document = head.get(passage.document_id, source=passage.source)
    except UnknownDocumentError:
        return False
    return passage.text in document.text


def main(arguments: Sequence[str]) -> int:
    """Answer no question, but say what is there about each."""
    path, *questions = arguments
    cancel = CancelToken()
    signal.signal(signal.SIGINT, lambda *_: cancel.cancel())
    with Index.open(path) as index:
        retrievals = []
        for question in questions:
            retrievals.append(retrieve(index, question, cancel))
            print(json.dumps(asdict(retrievals[-1]), ensure_ascii=False), flush=True)
        for retrieval in retrievals:
            if (compared := overlap(index, retrieval)) is not None:
                print(json.dumps(asdict(compared), ensure_ascii=False), flush=True)
    return 130 if cancel.is_cancelled else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
