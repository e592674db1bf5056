"""Do hits hold the answers? Questions with exact answer spans, against windows and an oracle."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.data import data_folder
from bench.figures import Figure, at_most, reported
from bench.independent import best_cosines
from sqlindex.config import ChunkConfig, IndexConfig
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import require_staged
from sqlindex.index import Index
from sqlindex.model.requests import Mode
from sqlindex.ports import Embedder
from sqlindex.sources.memory import Document

CUTOFFS = (1, 5)
MODES: tuple[Mode, ...] = ("lexical", "semantic", "hybrid")
NOT_CUT = IndexConfig(chunks=ChunkConfig(target_chars=1_000_000, min_chars=0, overlap_lines=0))
TIE = 1e-6
"""Cosines closer than this may swap places: ours are Float32 products, the oracle's Float64."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the file that answers it, and the spans of the file that do, all of them."""

    text: str
    file: str
    references: tuple[Span, ...]


def run(n: int | None) -> Iterator[Figure]:
    """Measure on the first `n` questions; all 220 by default.

    A question counts as answered within k hits if each of its spans lies in these hits, blank text
    between them aside. The oracle knows the spans and takes the best k chunks there are: what
    stands above the cuts' own loss is the ranking's.
    """
    folder = data_folder("span-eval")
    questions = read_questions(folder)[:n]
    texts = {name: read_text(folder / name) for name in {question.file for question in questions}}
    embedder = LocalEmbedder(require_staged("minilm"))
    try:
        with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as base:
            yield from _measure(Path(base).resolve(), questions, texts, embedder)
    finally:
        embedder.close()


def _measure(
    base: Path, questions: Sequence[Question], texts: Mapping[str, str], embedder: Embedder
) -> Iterator[Figure]:
    count = len(questions)
    with Index.open(base / "chunks.db", create=True, embedder=embedder) as index:
        index.upsert("files", [Document(name, texts[name], type_name="md") for name in texts])
        chunks = {
            name: [(chunk.start_char, chunk.end_char) for chunk in index.chunks(name)]
            for name in texts
        }
        yield from _shares("chunks", index, questions, texts, chunks)
        differing = sum(_differs(index, base / "chunks.db", q, embedder) for q in questions)
        yield at_most("spans.chunks.semantic.differing", differing, "questions", count, 0)
    lengths = [end - start for spans in chunks.values() for start, end in spans]
    size = sum(lengths) // len(lengths)
    windows = {
        name: [(at, min(at + size, len(text))) for at in range(0, len(text), size)]
        for name, text in texts.items()
    }
    path = base / "windows.db"
    with Index.open(path, create=True, embedder=embedder, config=NOT_CUT) as index:
        documents = [
            Document(f"{name}:{start}", texts[name][start:end], title=name, path=name)
            for name, spans in windows.items()
            for start, end in spans
            if texts[name][start:end].strip()
        ]
        index.upsert("windows", documents)
        yield from _shares("windows", index, questions, texts, windows)
    for name, spans_by_file in (("chunks", chunks), ("windows", windows)):
        lengths = [end - start for spans in spans_by_file.values() for start, end in spans]
        yield reported(f"spans.{name}.count", len(lengths), "chunks", count)
        yield reported(f"spans.{name}.mean_chars", sum(lengths) / len(lengths), "chars", count)


def _shares(
    name: str,
    index: Index,
    questions: Sequence[Question],
    texts: Mapping[str, str],
    spans: Mapping[str, Sequence[Span]],
) -> Iterator[Figure]:
    for cutoff in CUTOFFS:
        best = sum(
            oracle_answers(q.references, spans[q.file], texts[q.file], cutoff) for q in questions
        )
        oracle = best / len(questions)
        yield reported(f"spans.{name}.oracle.first_{cutoff}", oracle, "share", len(questions))
        for mode in MODES:
            answered = sum(
                covers(q.references, _hits(index, q, mode, cutoff), texts[q.file])
                for q in questions
            )
            yield Figure(
                figure=f"spans.{name}.{mode}.first_{cutoff}",
                value=answered / len(questions),
                unit="share",
                n=len(questions),
                baseline=oracle,
            )


def _hits(index: Index, question: Question, mode: Mode, cutoff: int) -> list[Span]:
    """Spans of the first hits that lie in the question's file, in its characters."""
    spans = []
    for hit in index.search(question.text, mode=mode, limit=cutoff).hits:
        file, _, start = hit.document_id.partition(":")
        if file == question.file:
            offset = int(start or 0)
            spans.append((offset + hit.start_char, offset + hit.end_char))
    return spans


def covers(references: Sequence[Span], spans: Sequence[Span], text: str) -> bool:
    """Whether each reference lies in the spans, but for blank text between them."""
    return all(not _uncovered(reference, spans, text) for reference in references)


def _uncovered(reference: Span, spans: Sequence[Span], text: str) -> bool:
    at, end = reference
    for span_start, span_end in sorted(spans):
        if span_end > at:
            if text[at : min(span_start, end)].strip():
                return True
            at = max(at, min(span_end, end))
    return bool(text[at:end].strip())


def oracle_answers(
    references: Sequence[Span], spans: Sequence[Span], text: str, cutoff: int
) -> bool:
    """Whether the best `cutoff` of the spans cover the references: greedily, the largest gain first."""
    chosen: list[Span] = []
    touching = [s for s in spans if any(s[0] < end and start < s[1] for start, end in references)]
    for _ in range(cutoff):
        if covers(references, chosen, text):
            return True
        left = [span for span in touching if span not in chosen]
        if not left:
            break
        chosen.append(max(left, key=lambda span: _covered_chars(references, [*chosen, span])))
    return covers(references, chosen, text)


def _covered_chars(references: Sequence[Span], spans: Sequence[Span]) -> int:
    total = 0
    for start, end in references:
        at = start
        for span_start, span_end in sorted(spans):
            low, high = max(at, span_start), min(end, span_end)
            if high > low:
                total += high - low
                at = high
    return total


def _differs(index: Index, path: Path, question: Question, embedder: Embedder) -> bool:
    """Whether our semantic ranking is another one than that of all cosines, computed independently."""
    ours = index.search(question.text, mode="semantic", limit=max(CUTOFFS)).hits
    best = best_cosines(path, embedder.embed_query(question.text), max(CUTOFFS))
    return any(
        abs((hit.semantic_score or 0.0) - cosine) > TIE
        for hit, cosine in zip(ours, best, strict=True)
    )


def read_questions(folder: Path) -> list[Question]:
    """The questions in the order of the file."""
    questions = []
    with (folder / "questions.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            spans = tuple((found["start"], found["end"]) for found in row["references"])
            questions.append(Question(row["text"], row["file"], spans))
    return questions


def read_text(path: Path) -> str:
    """A file's text, line endings as they are."""
    return path.read_bytes().decode("utf-8")
