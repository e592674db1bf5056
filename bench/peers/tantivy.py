"""tantivy through its Python binding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import tantivy

from bench.peers.protocol import Driver, Vectors, serve, words

_HEAP_BYTES = 200_000_000
_THREADS = 2


class Tantivy(Driver):
    """A schema of id and body."""

    modes: ClassVar[tuple[str, ...]] = ("lexical",)
    note = "German stems"
    _index: tantivy.Index

    def build(self, texts: Sequence[str], vectors: Vectors) -> None:
        self.open()
        self._write(texts, first=True)

    def open(self, texts: Sequence[str] = (), vectors: Vectors | None = None) -> None:
        schema = tantivy.SchemaBuilder()
        schema.add_integer_field("id", stored=True, indexed=True)
        schema.add_text_field("body", tokenizer_name="german")
        self._index = tantivy.Index(schema.build(), path=str(self.store))
        stems = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        for step in (tantivy.Filter.lowercase(), tantivy.Filter.stemmer("german")):
            stems = stems.filter(step)
        self._index.register_tokenizer("german", stems.build())

    def rebuild(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._write(texts, first=False)

    def replace(self, row: int, text: str, vector: bytes) -> None:
        writer = self._index.writer(_HEAP_BYTES, _THREADS)
        writer.delete_documents("id", row)
        writer.add_document(tantivy.Document(id=row, body=text))
        self._commit(writer)

    def lexical(self, text: str, limit: int) -> list[int]:
        searcher = self._index.searcher()
        query = self._index.parse_query(" ".join(words(text)), ["body"])
        hits = searcher.search(query, min(limit, max(1, searcher.num_docs)), count=False).hits
        return [int(searcher.doc(address)["id"][0]) for _, address in hits]

    def _write(self, texts: Sequence[str], *, first: bool) -> None:
        writer = self._index.writer(_HEAP_BYTES, _THREADS)
        if not first:
            writer.delete_all_documents()
        for row, text in enumerate(texts):
            writer.add_document(tantivy.Document(id=row, body=text))
        self._commit(writer)

    def _commit(self, writer: tantivy.IndexWriter) -> None:
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()


if __name__ == "__main__":
    serve(Tantivy)
