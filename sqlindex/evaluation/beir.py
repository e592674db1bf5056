"""Judged collections on disk, in the form of BEIR: corpus, queries and qrels in one folder."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import BufferedIOBase
from pathlib import Path

from sqlindex.errors import UsageError

CORPUS_FILES = ("corpus.jsonl.gz", "corpus.jsonl")
QUERIES_FILE = "queries.jsonl"
QRELS_FILES = ("qrels.tsv", "qrels/test.tsv")

_FORM_HINT = (
    "a judged collection is a folder with corpus.jsonl[.gz], queries.jsonl and qrels.tsv "
    "(or qrels/test.tsv)"
)

Qrels = Mapping[str, Mapping[str, int]]
"""Grades by query id and document id; a grade above 0 is relevant, no grade is not relevant."""


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """A document as the corpus has it."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class JudgedCollection:
    """A corpus with queries and judgements.

    Attributes:
        name: of its folder.
        documents: in the order of the file.
        queries: text by query id, in the order of the file.
        qrels: see `Qrels`.
        corpus_sha256: of the corpus file's lines, uncompressed.
        queries_sha256: of the queries file.
        qrels_sha256: of the qrels file.
    """

    name: str
    documents: tuple[CorpusDocument, ...]
    queries: Mapping[str, str]
    qrels: Qrels
    corpus_sha256: str
    queries_sha256: str
    qrels_sha256: str

    @property
    def answerable(self) -> tuple[str, ...]:
        """Query ids with at least one relevant document, in the order of the queries."""
        return tuple(
            query_id
            for query_id in self.queries
            if any(grade > 0 for grade in self.qrels.get(query_id, {}).values())
        )

    @property
    def unknown_judged(self) -> int:
        """Relevant documents that the corpus lacks; no system can find them."""
        known = {document.id for document in self.documents}
        return sum(
            1
            for grades in self.qrels.values()
            for document_id, grade in grades.items()
            if grade > 0 and document_id not in known
        )


def read_collection(folder: Path) -> JudgedCollection:
    """Read a judged collection whole into memory.

    `corpus.jsonl` or `corpus.jsonl.gz` has one `{"id", "title", "text"}` a line, `queries.jsonl`
    one `{"id", "text"}`; `"_id"` is the same as `"id"`. The qrels have three columns (query id,
    document id, integer grade) parted by tabs under one header line.

    Raises:
        UsageError: a file is missing or malformed; the message names file and line.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", hint=_FORM_HINT)
    corpus = _Lines(_first_of(folder, CORPUS_FILES))
    queries = _Lines(_first_of(folder, (QUERIES_FILE,)))
    qrels = _Lines(_first_of(folder, QRELS_FILES))
    documents = _documents(corpus)
    text_by_query = _queries(queries)
    grades = _grades(qrels, text_by_query)
    return JudgedCollection(
        name=folder.resolve().name,
        documents=documents,
        queries=text_by_query,
        qrels=grades,
        corpus_sha256=corpus.sha256,
        queries_sha256=queries.sha256,
        qrels_sha256=qrels.sha256,
    )


class _Lines:
    """The lines of a file with their numbers; hashes what it reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self._digest = sha256()

    @property
    def sha256(self) -> str:
        """Of the bytes read so far, in hexadecimal."""
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[str]:
        """Yield every line that is not blank, without its line ending."""
        try:
            with self._open() as stream:
                for self.number, line in enumerate(stream, start=1):
                    self._digest.update(line)
                    try:
                        text = line.decode("utf-8-sig" if self.number == 1 else "utf-8")
                    except UnicodeDecodeError as exc:
                        raise self.error(f"not UTF-8: {exc.reason}") from exc
                    if text.strip():
                        yield text.rstrip("\r\n")
        except (OSError, EOFError, zlib.error) as exc:
            raise UsageError(
                f"{self.path} cannot be read: {exc}", hint="check the file, or fetch it again"
            ) from exc

    def error(self, problem: str, hint: str = _FORM_HINT) -> UsageError:
        """What is wrong with the line read last."""
        return UsageError(f"{self.path}, line {self.number}: {problem}", hint=hint)

    def _open(self) -> BufferedIOBase:
        return gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb")


def _first_of(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise UsageError(f"{folder} has no {' or '.join(names)}", hint=_FORM_HINT)


def _documents(lines: _Lines) -> tuple[CorpusDocument, ...]:
    documents: dict[str, CorpusDocument] = {}
    for fields in _objects(lines):
        document_id = _id(lines, fields, documents)
        title = _text(lines, fields, "title", default="")
        documents[document_id] = CorpusDocument(document_id, title, _text(lines, fields, "text"))
    if not documents:
        raise UsageError(f"{lines.path} has no documents", hint=_FORM_HINT)
    return tuple(documents.values())


def _queries(lines: _Lines) -> dict[str, str]:
    queries: dict[str, str] = {}
    for fields in _objects(lines):
        queries[_id(lines, fields, queries)] = _text(lines, fields, "text")
    return queries


def _grades(lines: _Lines, queries: Mapping[str, str]) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for line in lines:
        columns = line.split("\t")
        if len(columns) != 3:
            raise lines.error(
                f"{len(columns)} columns instead of 3",
                hint="qrels have query id, document id and grade, parted by tabs",
            )
        query_id, document_id, written = columns
        grade = _integer(written)
        if grade is None:
            if lines.number == 1:
                continue  # the header
            raise lines.error(f"the grade {written!r} is not an integer")
        if query_id not in queries:
            raise lines.error(
                f"no query has the id {query_id!r}", hint="qrels and queries belong together"
            )
        judged = grades.setdefault(query_id, {})
        if judged.get(document_id, grade) != grade:
            raise lines.error(
                f"query {query_id!r} and document {document_id!r} have the grade "
                f"{judged[document_id]} already",
                hint="keep one of the two judgements",
            )
        judged[document_id] = grade
    if not any(grade > 0 for judged in grades.values() for grade in judged.values()):
        raise UsageError(f"{lines.path} names no relevant document", hint=_FORM_HINT)
    return grades


def _objects(lines: _Lines) -> Iterator[dict[str, object]]:
    for line in lines:
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise lines.error(f"not JSON: {exc}") from exc
        if not isinstance(fields, dict):
            raise lines.error("not a JSON object")
        yield fields


def _id(lines: _Lines, fields: Mapping[str, object], taken: Mapping[str, object]) -> str:
    given = _text(lines, fields, "id" if "id" in fields else "_id")
    if not given or any(character in given for character in "\t\n\r\0"):
        raise lines.error(f"the id {given!r} is empty or holds a tab, a line end or a NUL")
    if given in taken:
        raise lines.error(f"the id {given!r} is taken already", hint="make ids unique in the file")
    return given


def _text(
    lines: _Lines, fields: Mapping[str, object], name: str, *, default: str | None = None
) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str):
        found = f"is {value!r}, not a text" if name in fields else "is missing"
        raise lines.error(f"the field {name!r} {found}")
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise lines.error(f"the field {name!r} holds a lone surrogate") from exc
    return value


def _integer(written: str) -> int | None:
    try:
        return int(written)
    except ValueError:
        return None
