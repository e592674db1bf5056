"""Names of an index's documents and chunks in judgements, rankings and run files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from sqlindex.errors import UsageError
from sqlindex.evaluation.judgements import JudgedQuery, Judgements, Qrels
from sqlindex.model.results import Hit
from sqlindex.snapshot import Snapshot

_NO_CHUNK = "(not in the index)"


class DocumentNames:
    """How the documents of a generation are named: by id, or `SOURCE:ID` where that is ambiguous.

    A chunk's name is its document's name, `#`, and the chunk's id.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """Read the names of a generation: O(documents)."""
        self._snapshot = snapshot
        self._documents = [(listed.source, listed.document_id) for listed in snapshot.documents()]
        sources = Counter(document_id for _, document_id in self._documents)
        self._known = {f"{source}:{name}": (source, name) for source, name in self._documents}
        # An id that reads as another document's full name would be ambiguous, too.
        self._plain = {
            name: (source, name)
            for source, name in self._documents
            if sources[name] == 1 and name not in self._known
        }
        self._ambiguous = {name for name, count in sources.items() if count > 1}

    def of_document(self, hit: Hit) -> str:
        """The name of the document that a chunk was found in."""
        return self._name(hit.source, hit.document_id)

    def of_chunk(self, hit: Hit) -> str:
        """The name of a found chunk."""
        return f"{self.of_document(hit)}#{hit.chunk_id}"

    def judged(self, judgements: Judgements) -> Judgements:
        """The judgements with each document under its name in rankings; unknown ones as they are.

        Raises:
            UsageError: an id is ambiguous, or one document has two grades under two names.
        """
        return replace(
            judgements,
            queries={query.id: self._query(query) for query in judgements.queries.values()},
            qrels={query: self._grades(query, row) for query, row in judgements.qrels.items()},
        )

    def unknown(self, qrels: Qrels) -> int:
        """Relevant documents that the generation lacks; the qrels are those of `judged`."""
        return sum(
            grade > 0 and self._find(name) is None
            for grades in qrels.values()
            for name, grade in grades.items()
        )

    def chunk_qrels(self, qrels: Qrels) -> dict[str, dict[str, int]]:
        """Grades of chunks: each has that of its document; the qrels are those of `judged`.

        A document that the generation lacks counts as one chunk, which is never found.
        """
        names: dict[str, list[str]] = {}
        found: dict[str, dict[str, int]] = {}
        for query_id, grades in qrels.items():
            found[query_id] = {}
            for name, grade in grades.items():
                if grade > 0 and name not in names:
                    names[name] = self._chunks_of(name)
                found[query_id].update(dict.fromkeys(names.get(name, ()), grade))
        return found

    def _chunks_of(self, name: str) -> list[str]:
        known = self._find(name)
        if known is None:
            return [f"{name}#{_NO_CHUNK}"]
        source, document_id = known
        chunks = self._snapshot.chunks(document_id, source=source)
        return [f"{name}#{chunk.chunk_id}" for chunk in chunks]

    def _name(self, source: str, document_id: str) -> str:
        return document_id if document_id in self._plain else f"{source}:{document_id}"

    def _find(self, name: str) -> tuple[str, str] | None:
        return self._plain.get(name) or self._known.get(name)

    def _canonical(self, query_id: str, name: str) -> str:
        known = self._find(name)
        if known is not None:
            return self._name(*known)
        if name in self._ambiguous:
            sources = sorted(source for source, other in self._documents if other == name)
            raise UsageError(
                f"query {query_id!r} is judged for document {name!r}, which {len(sources)} sources "
                "have",
                hint="write " + " or ".join(f"{source}:{name}" for source in sources),
            )
        return name

    def _grades(self, query_id: str, grades: Mapping[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, grade in grades.items():
            canonical = self._canonical(query_id, name)
            if found.setdefault(canonical, grade) != grade:
                raise UsageError(
                    f"query {query_id!r} has two grades for document {canonical!r}",
                    hint="keep one of the two judgements",
                )
        return found

    def _query(self, query: JudgedQuery) -> JudgedQuery:
        sets = tuple(
            frozenset(self._canonical(query.id, name) for name in one) for one in query.sufficient
        )
        return replace(query, sufficient=sets)


def document_of_chunk(name: str) -> str:
    """The document's name in a chunk's name."""
    return name.rpartition("#")[0]
