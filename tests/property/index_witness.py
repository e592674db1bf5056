"""Looks at an index as its users do, and compares what it shows with its model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from sqlindex import Index
from sqlindex.errors import GenerationGoneError, LexicalHistoryError, UnknownGenerationError
from sqlindex.model.results import Hit
from sqlindex.testing import HashingEmbedder
from tests.property.index_model import Generation, IndexModel, Key, written

if TYPE_CHECKING:
    from sqlindex.snapshot import Snapshot

COMMON = "common"
"""A word of every line of every document."""


class LoggingEmbedder(HashingEmbedder):
    """Writes down every batch before it is embedded, also in a process that is killed then."""

    def __init__(self, log: Path, dimensions: int, revision: str) -> None:
        super().__init__(dimensions, revision)
        self._log = log

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(list(texts)) + "\n")
        return super().embed_documents(texts)


class EmbeddingLog:
    """Who embeds, what was embedded, and whose vector must be in the file."""

    def __init__(self, log: Path) -> None:
        log.touch()
        self._log = log
        self._read = 0
        self.embedders = [
            LoggingEmbedder(log, dimensions, revision)
            for dimensions, revision in ((8, "1"), (12, "1"), (8, "2"))
        ]
        self._durable: dict[str, set[str]] = {e.identity: set() for e in self.embedders}

    def of(self, space: str | None) -> LoggingEmbedder | None:
        """The embedder of that identity."""
        return next((e for e in self.embedders if e.identity == space), None)

    def account_for_news(
        self, space: str | None, needed: set[str] | None, *, is_struck: bool
    ) -> None:
        """No text was embedded that had its vector, and none that nobody needs.

        All batches are durable; of work that was struck, all but the last.

        Args:
            space: whose vectors might be made.
            needed: texts of what was published; None if nothing was.
        """
        with self._log.open(encoding="utf-8") as log:
            log.seek(self._read)
            batches: list[list[str]] = [json.loads(line) for line in log]
            self._read = log.tell()
        embedded = [text for batch in batches for text in batch]
        assert len(embedded) == len(set(embedded))
        if space is None:
            assert not embedded
            return
        assert self._durable[space].isdisjoint(embedded)
        assert needed is None or set(embedded) <= needed
        for batch in batches[:-1] if is_struck else batches:
            self._durable[space].update(batch)

    def forget(self, model: IndexModel, texts: set[str], *, with_spaces: bool) -> None:
        """Vectors may be gone that no generation needs: of other texts, of spaces that none has."""
        spaces = {generation.space for generation in model.kept.values()}
        for space, durable in self._durable.items():
            durable &= texts if space in spaces or not with_spaces else set()


class IndexWitness:
    """Reads one index through objects of its own, which stay open while another one writes."""

    def __init__(
        self, open_with: Callable[[LoggingEmbedder | None], Index], log: EmbeddingLog
    ) -> None:
        self._open_with = open_with
        self._embedder_of = log.of
        self._readers: dict[str | None, Index] = {}
        self._snapshots: list[tuple[Snapshot, Sequence[Hit]]] = []
        self._cuts: dict[tuple[str, str], Counter[str]] = {}

    def close(self) -> None:
        """Let go of everything, until the next look."""
        while self._snapshots:
            self.release(0)
        while self._readers:
            self._readers.popitem()[1].close()

    def _reader(self, space: str | None) -> Index:
        if space not in self._readers:
            self._readers[space] = self._open_with(self._embedder_of(space))
        return self._readers[space]

    # Holding generations

    @property
    def held(self) -> set[int]:
        """Generations that a snapshot holds."""
        return {snapshot.generation for snapshot, _ in self._snapshots}

    def hold(self, model: IndexModel, number: int) -> None:
        """Hold a generation, and remember what it shows."""
        generation = model.kept[number]
        snapshot = self._reader(generation.space).snapshot(number)
        self._snapshots.append((snapshot, _all_hits(snapshot, generation)))

    def release(self, pick: int) -> None:
        """Let go of one of them, if there is one."""
        if self._snapshots:
            self._snapshots.pop(pick % len(self._snapshots))[0].close()

    # Looking

    def look_back(self, model: IndexModel) -> None:
        """Every generation that is kept shows what it held; the others are gone."""
        index = self._reader(model.head.space)
        for number in range(model.number):
            if number in model.kept:
                self._look_at(number, model.kept[number])
                with pytest.raises(LexicalHistoryError):
                    index.search(COMMON, mode="lexical", at=number)
            else:
                with pytest.raises(GenerationGoneError):
                    index.search(COMMON, at=number)
        with pytest.raises(UnknownGenerationError):
            index.search(COMMON, at=model.number + 1)
        for snapshot, hits in self._snapshots:
            assert _all_hits(snapshot, model.kept[snapshot.generation]) == hits

    def look_at_head(self, model: IndexModel, words: Iterable[str]) -> None:
        """A search without a generation shows the head, in each mode, and these words where they are."""
        number, head = model.number, model.head
        self._look_at(number, head)
        index = self._reader(head.space)
        status = index.status()
        assert (status.generation, status.documents) == (number, len(head.documents))
        everything = index.search(COMMON, mode="lexical", limit=100)
        assert everything.generation == number
        self._compare(everything.hits, head)
        for word in words:
            places = {_place(hit) for hit in everything.hits if word in hit.text}
            for mode in ("lexical", None):
                found = index.search(word, mode=mode, limit=100)
                assert found.mode == ("hybrid" if mode is None and head.space else "lexical")
                by_words = [hit for hit in found.hits if hit.lexical_rank is not None]
                assert {_place(hit) for hit in by_words} == places
                assert len(by_words) == len(places)
                if found.mode == "hybrid":
                    self._compare(found.hits, head)

    def _look_at(self, number: int, generation: Generation) -> None:
        index = self._reader(generation.space)
        listed = {(document.source, document.document_id) for document in index.documents(number)}
        assert listed == generation.documents.keys()
        embedder = self._embedder_of(generation.space)
        if embedder is None:
            for source, id_ in listed:
                document = index.get(id_, source=source, at=number)
                assert document.text == generation.documents[source, id_]
            return
        result = index.search(COMMON, mode="semantic", at=number, limit=100)
        assert result.generation == number
        self._compare(result.hits, generation)
        for hit in result.hits:
            cosine = float(embedder.embed_query(COMMON) @ embedder.embed_query(hit.text))
            assert hit.semantic_score == pytest.approx(cosine, abs=1e-5)

    def _compare(self, hits: Iterable[Hit], generation: Generation) -> None:
        """The hits are all chunks of a generation, each just where its document has it."""
        chunks: dict[Key, list[Hit]] = {}
        for hit in hits:
            chunks.setdefault((hit.source, hit.document_id), []).append(hit)
        assert chunks.keys() == {key for key, text in generation.documents.items() if text}
        for key, found in chunks.items():
            text = generation.documents[key]
            end = 0
            for hit in sorted(found, key=_place):
                assert not text[end : hit.start_char].strip()
                end = hit.end_char
                assert hit.text == text[hit.start_char : end]
                assert hit.start_line == text.count("\n", 0, hit.start_char) + 1
                assert hit.end_line == hit.start_line + hit.text.rstrip("\n").count("\n")
            assert not text[end:].strip()
            cut = Counter(hit.text for hit in found)
            assert self._cuts.setdefault(written(key, text), cut) == cut

    def texts_of(self, generations: Iterable[Generation]) -> set[str]:
        """Chunks that they have, as far as they were looked at."""
        return {
            chunk
            for generation in generations
            for key, text in generation.documents.items()
            for chunk in self._cuts.get(written(key, text), ())
        }


def _all_hits(snapshot: Snapshot, generation: Generation) -> Sequence[Hit]:
    if generation.space is None:
        return ()
    return snapshot.search(COMMON, mode="semantic", limit=100).hits


def _place(hit: Hit) -> tuple[str, str, int]:
    return hit.source, hit.document_id, hit.start_char
