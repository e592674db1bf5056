"""Rank chunks by BM25 over analysed text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from sqlindex.cancellation import CancelToken
from sqlindex.config import SearchConfig
from sqlindex.search.lexical.match_expression import any_of
from sqlindex.store.driver import Connection
from sqlindex.store.lexical import FieldWeights, LexicalTable, matches
from sqlindex.store.snapshot import chunk_key

_CANCEL_EVERY = 4_096


class LexicalChannel:
    """The chunks that hold at least one term of the query, best BM25 score first."""

    def __init__(self, connection: Connection, table: LexicalTable, config: SearchConfig) -> None:
        self._connection = connection
        self._table = table
        self._weights = FieldWeights(
            title=config.title_weight,
            headings=config.headings_weight,
            body=config.body_weight,
            tags=config.tags_weight,
            path=config.path_weight,
        )

    def scores(
        self,
        terms: Sequence[str],
        candidates: Sequence[tuple[int, int]] | None,
        cancel: CancelToken,
    ) -> Iterator[tuple[int, float]]:
        """(slot, score) of every candidate that matches, best first, equal scores by slot.

        Args:
            candidates: (first slot, chunks) of the eligible versions by first slot; None for all.
        """
        if not terms:
            return
        firsts = None if candidates is None else [first for first, _ in candidates]
        found = matches(self._connection, self._table, any_of(terms), self._weights)
        for position, (slot, score) in enumerate(found):
            if position % _CANCEL_EVERY == 0:
                cancel.check()
            if firsts is not None and candidates is not None:
                at = bisect_right(firsts, slot) - 1
                if at < 0 or slot >= firsts[at] + candidates[at][1]:
                    continue
            yield slot, score

    def top(
        self,
        terms: Sequence[str],
        candidates: Sequence[tuple[int, int]] | None,
        generation: int,
        count: int,
        cancel: CancelToken,
    ) -> list[tuple[int, float]]:
        """The first `count` of `scores`, ties by (source, document id, start character).

        Reads as far as the scores tie with the last place, so the order is exact.
        """
        window: list[tuple[int, float]] = []
        for slot, score in self.scores(terms, candidates, cancel):
            if len(window) >= count and score != window[-1][1]:
                break
            window.append((slot, score))
        keyed = [
            (-score, chunk_key(self._connection, generation, slot) or ("", "", 0), slot)
            for slot, score in window
        ]
        keyed.sort()
        return [(slot, -negated) for negated, _, slot in keyed[:count]]
