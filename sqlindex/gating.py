"""The publish gate: search the golden questions on a generation that is not published yet, and judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlindex.adapters import uri_of
from sqlindex.cancellation import CancelToken
from sqlindex.config import SearchConfig
from sqlindex.embedding.once import EmbedsOnce
from sqlindex.errors import (
    CorruptIndexError,
    EmbedderError,
    EmbedderMismatchError,
    EmbedderRequiredError,
    GateError,
    RebuildRequiredError,
    UsageError,
)
from sqlindex.indexing.report import Progress, ProgressSink
from sqlindex.model.gate import GateResult
from sqlindex.model.questions import Question
from sqlindex.model.requests import MAX_LIMIT, Mode, SearchRequest
from sqlindex.ports import Embedder, PublishGate
from sqlindex.search.searcher import Searcher
from sqlindex.store.driver import Connection
from sqlindex.store.generations import ChangeCounts
from sqlindex.store.head import read_head
from sqlindex.store.inside import OneConnection
from sqlindex.store.questions import list_questions
from sqlindex.verdict import Absent, Asked, Measured, head_misses, kept_back

_CHUNKS_PER_DOCUMENT = 3
"""Hits fetched at a time for each document wanted: making a hit costs more than ranking it."""


class QuestionGate:
    """Measures generations by the golden questions of an index and refuses those below a gate.

    A generation is searched by way of the connection that has just made it the head and has not
    committed: with the same code, and the same results, as any search after the commit.
    """

    def __init__(
        self,
        gate: PublishGate,
        questions: Sequence[Question],
        *,
        embedder: Embedder | None,
        config: SearchConfig,
        cancel: CancelToken,
        progress: ProgressSink,
    ) -> None:
        """Take what is asked.

        Args:
            questions: of the index; those that expect a document are measured.
            embedder: of the generation to be; None if it has no vectors.
            config: as the index is searched with.

        Raises:
            UsageError: no question expects a document.
            EmbedderRequiredError: the gate's mode needs an embedder.
        """
        self._gate = gate
        self._questions = [question for question in questions if question.expected]
        if not self._questions:
            raise UsageError(
                "the gate has nothing to measure: no question of the index expects a document",
                hint="add some: sqlindex questions add TEXT --expect DOCUMENT",
            )
        self._mode: Mode = gate.mode or ("lexical" if embedder is None else "hybrid")
        if self._mode != "lexical" and embedder is None:
            raise EmbedderRequiredError(
                f"a gate in mode {self._mode} needs an embedder, and there is none",
                hint="measure words only: mode='lexical' (--gate-mode lexical)",
            )
        self._embedder = None if embedder is None else EmbedsOnce(embedder)
        self._config = config
        self._cancel = cancel
        self._progress = progress
        self._asked = Asked(gate.conditions, self._mode, self._questions)
        self._result: GateResult | None = None
        self._measured = Measured({}, {})
        self._absent: frozenset[Absent] = frozenset()

    @property
    def result(self) -> GateResult | None:
        """What was measured last, or None."""
        return self._result

    def prepare(self) -> None:
        """Embed the questions, so that no model runs inside the publishing transaction."""
        from sqlindex.search.semantic.query_vector import embed_query

        if self._embedder is None or self._mode == "lexical":
            return
        for done, question in enumerate(self._questions):
            self._progress(Progress("measure", done, len(self._questions)))
            try:
                embed_query(self._embedder, question.text, self._cancel)
            except EmbedderError as exc:
                raise type(exc)(f"question {question.id!r}: {exc}", hint=exc.hint) from exc
        self._progress(Progress("measure", len(self._questions), len(self._questions)))

    def judge(self, connection: Connection) -> None:
        """Measure the head that this connection sees.

        Raises:
            GateError: a condition is missed; without what fell.
        """
        self._measured = self._measure(connection)
        self._absent = _absent(connection)
        self._result = GateResult(
            self._gate.text, self._mode, len(self._questions), dict(self._measured.mean)
        )
        missed = self._asked.missed(self._measured)
        if missed:
            raise GateError("a condition of the gate is missed", missed=missed)

    def compared(self, connection: Connection, counts: ChangeCounts) -> GateError:
        """The error of what was judged last, with what fell against the head that this connection sees.

        The head is left out if it cannot be searched in this mode, for example because its vectors
        are of another embedder.
        """
        try:
            head = self._measure(connection)
        except (
            EmbedderMismatchError,
            EmbedderRequiredError,
            RebuildRequiredError,
            CorruptIndexError,
        ):
            head = None
        absent = self._absent & _absent(connection)
        return kept_back(self._asked, self._measured, head, absent=absent, changes=asdict(counts))

    def judge_head(self, connection: Connection, counts: ChangeCounts) -> None:
        """Measure the head where there is nothing to publish.

        Raises:
            GateError: a condition is missed; nothing is held.
        """
        self.prepare()
        try:
            self.judge(connection)
        except GateError:
            raise head_misses(
                self._asked, self._measured, absent=self._absent, changes=asdict(counts)
            ) from None

    def _measure(self, connection: Connection) -> Measured:
        searcher = Searcher(OneConnection(connection), self._config, uri_of)
        # Without a document there are no vectors to search either; nothing is found in any mode.
        is_empty = read_head(connection).documents == 0
        # Numbers in place of names: whatever an id holds, a measure sees plain words.
        names: dict[tuple[str, str], str] = {}

        def name(source: str, document_id: str) -> str:
            return names.setdefault((source, document_id), str(len(names)))

        qrels, rankings = {}, {}
        for question in self._questions:
            self._cancel.check()
            qrels[question.id] = {name(e.source, e.document_id): e.grade for e in question.expected}
            found = [] if is_empty else self._ranking(searcher, question.text)
            rankings[question.id] = [name(*document) for document in found]
        by_question = self._gate.measure(qrels, rankings)
        mean = {
            condition.measure: sum(values[condition.measure] for values in by_question.values())
            / len(by_question)
            for condition in self._gate.conditions
        }
        return Measured(mean, by_question)

    def _ranking(self, searcher: Searcher, text: str) -> list[tuple[str, str]]:
        """(source, document id) by best chunk, as deep as the gate looks."""
        found: dict[tuple[str, str], None] = {}
        offset, limit = 0, min(MAX_LIMIT, _CHUNKS_PER_DOCUMENT * self._gate.depth)
        while True:
            request = SearchRequest(text, self._mode, limit, offset)
            page = searcher.search(request, lambda: self._embedder, self._cancel)
            found.update(((hit.source, hit.document_id), None) for hit in page.hits)
            offset += len(page.hits)
            if not page.has_more or len(found) >= self._gate.depth:
                return list(found)[: self._gate.depth]


def _absent(connection: Connection) -> frozenset[Absent]:
    """Expected documents that the head, as this connection sees it, does not hold."""
    return frozenset(
        (question.id, e.source, e.document_id)
        for question in list_questions(connection)
        for e in question.expected
        if not e.is_indexed
    )
