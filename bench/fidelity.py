"""Whether the chunks of an index say the truth about the files: offsets, lines, coverage.

Nothing of ours takes part in the judging: files are read by plain Python, chunks by the sqlite3
shell, and lines are counted here.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.shell import shell_rows
from sqlindex.index import Index

_COLUMNS = "document_id, start_char, end_char, start_line, end_line, text"
_FROM = "FROM v_chunk ORDER BY document_id, start_char"


class StoredChunk(NamedTuple):
    """A chunk as the index file has it."""

    start_char: int
    end_char: int
    start_line: int
    end_line: int
    text: str


@dataclass(slots=True)
class Violations:
    """How often each promise was broken.

    Attributes:
        chunks: that were looked at.
        text: chunks whose text is not `file[start_char:end_char]`.
        lines: chunks whose lines differ from those counted here.
        uncovered: non-blank lines of accepted files that lie in no chunk.
        documents: files neither indexed nor refused, or whose stored text differs.
        hits: hits of `Index.search` that contradict their file.
    """

    chunks: int = 0
    text: int = 0
    lines: int = 0
    uncovered: int = 0
    documents: int = 0
    hits: int = 0


def find_violations(index_path: Path, root: Path, files: list[Path]) -> Violations:
    """Compare every chunk of the head with the files."""
    text_by_id = {path.relative_to(root).as_posix(): plain_text(path) for path in files}
    found = Violations()
    seen = set()
    rows = shell_rows(index_path, _COLUMNS, _FROM)
    for document_id, group in itertools.groupby(rows, key=lambda row: str(row[0])):
        chunks = [StoredChunk(*row[1:]) for row in group]  # type: ignore[arg-type]  # from JSON
        seen.add(document_id)
        if document_id not in text_by_id:
            found.documents += 1
            continue
        check_chunks(text_by_id[document_id], chunks, found)
    with Index.open(index_path) as index:
        refused = {refusal.refusal.document_id for refusal in index.refused()}
        for document_id, text in text_by_id.items():
            if document_id in refused:
                continue
            if document_id not in seen:
                check_chunks(text, [], found)
            if index.get(document_id).text != text:
                found.documents += 1
        check_hits(index, text_by_id, found)
    return found


def plain_text(path: Path) -> str:
    """A UTF-8 file's text, line endings as they are, without byte-order mark."""
    return path.read_bytes().decode("utf-8").removeprefix("\ufeff")


def check_chunks(text: str, chunks: list[StoredChunk], found: Violations) -> None:
    """Count what is wrong with one document's chunks, given by start character."""
    line, counted_to, covered_to = 1, 0, 0
    for chunk in chunks:
        found.chunks += 1
        if text[chunk.start_char : chunk.end_char] != chunk.text or not chunk.text:
            found.text += 1
        line += text.count("\n", counted_to, chunk.start_char)
        counted_to = chunk.start_char
        # The line of the last character: a line ending belongs to its line.
        end_line = line + text.count("\n", chunk.start_char, chunk.end_char - 1)
        if (chunk.start_line, chunk.end_line) != (line, end_line):
            found.lines += 1
        found.uncovered += non_blank_lines(text[covered_to : chunk.start_char])
        covered_to = max(covered_to, chunk.end_char)
    found.uncovered += non_blank_lines(text[covered_to:])


def non_blank_lines(gap: str) -> int:
    """Lines with a visible character in a part of a text."""
    return sum(1 for line in gap.split("\n") if line.strip()) if gap.strip() else 0


def check_hits(index: Index, text_by_id: Mapping[str, str], found: Violations) -> None:
    """Search for words from the files, and hold the hits against the files."""
    texts = list(text_by_id.values())
    for text in texts[:: max(1, len(texts) // 20)]:
        words = [word for word in text.split() if word.isalpha()]
        for hit in index.search(" ".join(words[-3:]), mode="lexical", limit=100).hits:
            whole = text_by_id[hit.document_id]
            lines = whole.split("\n")[hit.start_line - 1 : hit.end_line]
            is_true = (
                whole[hit.start_char : hit.end_char] == hit.text
                and "\n".join(lines).strip() == hit.text.strip()
            )
            found.hits += not is_true
