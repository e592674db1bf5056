"""Judged collections on disk, in the form of BEIR: corpus, queries and qrels in one folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlindex.errors import UsageError
from sqlindex.evaluation.judgements import Judgements, Qrels, read_judgements
from sqlindex.evaluation.lines import FORM_HINT, Lines
from sqlindex.filetypes.builtin import BUILTIN_REGISTRY

CORPUS_FILES = ("corpus.jsonl.gz", "corpus.jsonl")
QUERIES_FILES = ("queries.jsonl", "queries.tsv")
QRELS_FILES = ("qrels.tsv", "qrels/test.tsv", "qrels.txt")

PLAIN_TEXT = "txt"
"""Type of a text that names none."""


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """A document as the corpus has it.

    Attributes:
        type_name: of the file type that says how the text is read; see `Document.type_name`.
    """

    id: str
    title: str
    text: str
    type_name: str = PLAIN_TEXT


@dataclass(frozen=True, slots=True)
class JudgedCollection:
    """A corpus with queries and judgements.

    Attributes:
        documents: in the order of the file.
        judgements: the queries and what is relevant to them.
        corpus_sha256: of the corpus file's lines, uncompressed.
    """

    documents: tuple[CorpusDocument, ...]
    judgements: Judgements
    corpus_sha256: str

    @property
    def name(self) -> str:
        """Name of its folder."""
        return self.judgements.name

    @property
    def queries(self) -> Mapping[str, str]:
        """Texts by query id, in the order of the file."""
        return {query.id: query.text for query in self.judgements.queries.values()}

    @property
    def qrels(self) -> Qrels:
        """Grades by query id and document id."""
        return self.judgements.qrels

    @property
    def answerable(self) -> tuple[str, ...]:
        """Query ids with at least one relevant document, in the order of the queries."""
        return self.judgements.answerable


def read_collection(
    folder: Path, *, queries: Path | None = None, qrels: Path | None = None
) -> JudgedCollection:
    """Read a judged collection whole into memory.

    `corpus.jsonl` or `corpus.jsonl.gz` has one `{"id", "title", "text"}` a line; `"_id"` is the same
    as `"id"`, and the title may be missing. `"type"` is a file type such as `md`, by which the text
    is read; plain text if missing. Queries and qrels: see `judgements.read_judgements`.

    Args:
        queries, qrels: these files instead of the folder's.

    Raises:
        UsageError: a file is missing or malformed; the message names file and line.
    """
    _require_folder(folder)
    corpus = Lines(_first_of(folder, CORPUS_FILES))
    return JudgedCollection(
        documents=_documents(corpus),
        judgements=read_folder_judgements(folder, queries=queries, qrels=qrels),
        corpus_sha256=corpus.sha256,
    )


def read_folder_judgements(
    folder: Path, *, queries: Path | None = None, qrels: Path | None = None
) -> Judgements:
    """Read queries and qrels of a collection, without its corpus; see `read_collection`."""
    _require_folder(folder)
    return read_judgements(
        queries or _first_of(folder, QUERIES_FILES),
        qrels or _first_of(folder, QRELS_FILES),
        name=folder.resolve().name,
    )


def collection_files(folder: Path) -> list[Path]:
    """Every file that a collection could be read from, whether it is there or not."""
    return [folder / name for name in (*CORPUS_FILES, *QUERIES_FILES, *QRELS_FILES)]


def files_left_unread(
    folder: Path, *, queries: Path | None = None, qrels: Path | None = None
) -> tuple[str, ...]:
    """Which file was read where a collection has several of a kind: one sentence for each kind.

    Args:
        queries, qrels: read instead of the folder's.
    """
    told = []
    for names, instead in ((CORPUS_FILES, None), (QUERIES_FILES, queries), (QRELS_FILES, qrels)):
        first, *others = [name for name in names if (folder / name).is_file()] or [""]
        if others and instead is None:
            told.append(f"{folder} has several of a kind: {first} is read, not {', '.join(others)}")
    return tuple(told)


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", hint=FORM_HINT)


def _first_of(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise UsageError(f"{folder} has no {' or '.join(names)}", hint=FORM_HINT)


def _documents(lines: Lines) -> tuple[CorpusDocument, ...]:
    documents: dict[str, CorpusDocument] = {}
    for fields in lines.objects():
        document_id = lines.id_of(fields, documents)
        title = lines.text_of(fields, "title", default="")
        documents[document_id] = CorpusDocument(
            document_id, title, lines.text_of(fields, "text"), _type_name(lines, fields)
        )
    if not documents:
        raise UsageError(f"{lines.path} has no documents", hint=FORM_HINT)
    return tuple(documents.values())


def _type_name(lines: Lines, fields: Mapping[str, object]) -> str:
    name = lines.text_of(fields, "type", default=PLAIN_TEXT).removeprefix(".").lower()
    if BUILTIN_REGISTRY.for_extension(name) is None:
        known = ", ".join(file_type.extensions[0] for file_type in BUILTIN_REGISTRY.types)
        raise lines.error(f"no file type is called {name!r}", hint=f"one of {known}")
    return name
