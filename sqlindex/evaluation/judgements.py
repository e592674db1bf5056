"""Queries and judgements: what is asked, and what a good answer is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlindex.errors import UsageError
from sqlindex.evaluation.lines import FORM_HINT, Lines, columns, integer, shown

MAX_GRADE = 20
"""2^grade − 1 is a gain that trec_eval keeps a table of."""

NO_ANSWER = "no answer"
"""Class of a no-answer query that names none."""

Qrels = Mapping[str, Mapping[str, int]]
"""Grades by query id and document id; a grade above 0 is relevant, no grade is not relevant."""

SufficientSets = tuple[frozenset[str], ...]
"""Sets of document ids. Each set suffices to answer, but only as a whole: an OR of ANDs."""

_HEADERS = ("id", "_id", "qid", "query-id", "query_id")


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query as its file has it.

    Attributes:
        classes: that it is reported in; a no-answer query has at least one.
        has_no_answer: whether the file says that nothing answers it.
        sufficient: see `SufficientSets`; empty if the file names none.
    """

    id: str
    text: str
    classes: tuple[str, ...] = ()
    has_no_answer: bool = False
    sufficient: SufficientSets = ()


@dataclass(frozen=True, slots=True)
class Judgements:
    """Queries with their judgements.

    Attributes:
        name: of the collection's folder, or of the file of queries.
        queries: by id, in the order of the file.
        qrels: see `Qrels`.
        queries_sha256, qrels_sha256: of the two files, uncompressed.
    """

    name: str
    queries: Mapping[str, JudgedQuery]
    qrels: Qrels
    queries_sha256: str
    qrels_sha256: str

    @property
    def answerable(self) -> tuple[str, ...]:
        """Query ids with at least one relevant document, in the order of the queries."""
        return tuple(query_id for query_id in self.queries if is_answered(self.qrels, query_id))

    @property
    def no_answer(self) -> tuple[str, ...]:
        """Ids of the queries that are said to have no answer, in the order of the queries."""
        return tuple(query.id for query in self.queries.values() if query.has_no_answer)


def is_answered(qrels: Qrels, query_id: str) -> bool:
    """Whether any document is relevant to the query."""
    return any(grade > 0 for grade in qrels.get(query_id, {}).values())


def read_judgements(queries: Path, qrels: Path, *, name: str | None = None) -> Judgements:
    """Read queries and qrels.

    Queries in JSON Lines (`.jsonl`, `.json`, also `.gz`) have one `{"id", "text"}` a line; `"_id"` is
    the same as `"id"`. `"class"` (a text) or `"classes"` (a list) may say where the query belongs.
    `"answerable": false` marks a no-answer query, whose class may also stand under `"kind"`.
    `"sufficient"` is a list of lists of document ids, see `SufficientSets`. Other fields are ignored.
    Any other file has query id and text parted by a tab, with or without a header.

    Qrels have query id, document id and grade parted by tabs, or TREC's four columns (query id, a
    column that is ignored, document id, grade) parted by tabs or spaces; with or without a header.

    Raises:
        UsageError: a file is missing or malformed; the message names file and line.
    """
    asked, judged = Lines(queries), Lines(qrels)
    query_by_id = _queries_of_json(asked) if asked.is_json else _queries_of_table(asked)
    grades = _grades(judged, query_by_id)
    return Judgements(
        name=name or queries.name.partition(".")[0],
        queries=query_by_id,
        qrels=grades,
        queries_sha256=asked.sha256,
        qrels_sha256=judged.sha256,
    )


def _queries_of_json(lines: Lines) -> dict[str, JudgedQuery]:
    queries: dict[str, JudgedQuery] = {}
    for fields in lines.objects():
        query_id = lines.id_of(fields, queries)
        answerable = fields.get("answerable", True)
        if not isinstance(answerable, bool):
            raise lines.error(f"the field 'answerable' is {shown(answerable)}, not true or false")
        classes = _classes(lines, fields)
        if not answerable and not classes:
            classes = (lines.text_of(fields, "kind", default=NO_ANSWER),)
            if not classes[0]:
                raise lines.error("the field 'kind' is empty")
        sufficient = _sufficient(lines, fields)
        if sufficient and not answerable:
            raise lines.error("a query that is not answerable has 'sufficient' documents")
        queries[query_id] = JudgedQuery(
            query_id, lines.text_of(fields, "text"), classes, not answerable, sufficient
        )
    return queries


def _classes(lines: Lines, fields: Mapping[str, object]) -> tuple[str, ...]:
    if "class" in fields and "classes" in fields:
        raise lines.error("both 'class' and 'classes'", hint="keep one of the two fields")
    if "class" in fields:
        given: object = [lines.text_of(fields, "class")]
    else:
        given = fields.get("classes", [])
    if not isinstance(given, list) or not all(isinstance(name, str) and name for name in given):
        raise lines.error(f"the classes are {shown(given)}, not texts that are not empty")
    lines.require_encodable("classes", *given)
    return tuple(dict.fromkeys(given))


def _sufficient(lines: Lines, fields: Mapping[str, object]) -> SufficientSets:
    given = fields.get("sufficient", [])
    if isinstance(given, list) and all(
        isinstance(one, list) and one and all(isinstance(name, str) for name in one)
        for one in given
    ):
        lines.require_encodable("sufficient", *(name for one in given for name in one))
        return tuple(dict.fromkeys(frozenset(one) for one in given))
    raise lines.error(
        f"the field 'sufficient' is {shown(given)}",
        hint='a list of lists of document ids, none empty: [["a", "b"], ["c"]] means a and b, or c',
    )


def _queries_of_table(lines: Lines) -> dict[str, JudgedQuery]:
    queries: dict[str, JudgedQuery] = {}
    for line in lines:
        query_id, tab, text = line.partition("\t")
        if not tab:
            raise lines.error("no tab", hint="queries have query id and text, parted by a tab")
        if lines.number == 1 and query_id.lower() in _HEADERS:
            continue
        if "\t" in text:
            raise lines.error("more than two columns", hint="other fields need JSON Lines")
        queries[lines.new_id(query_id, queries)] = JudgedQuery(query_id, text)
    return queries


def _grades(lines: Lines, queries: Mapping[str, JudgedQuery]) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for line in lines:
        query_id, document_id, written = _columns(lines, line)
        grade = integer(written)
        if grade is None:
            if lines.number == 1 and query_id not in queries:
                continue  # the header
            raise lines.error(f"the grade {written!r} is not an integer")
        if grade > MAX_GRADE:
            raise lines.error(f"the grade {grade} is above {MAX_GRADE}")
        if query_id not in queries:
            raise lines.error(
                f"no query has the id {query_id!r}", hint="qrels and queries belong together"
            )
        if grade > 0 and queries[query_id].has_no_answer:
            raise lines.error(
                f"query {query_id!r} is not answerable and has a relevant document",
                hint='correct the grade, or "answerable" of the query',
            )
        judged = grades.setdefault(query_id, {})
        if judged.get(document_id, grade) != grade:
            raise lines.error(
                f"query {query_id!r} and document {document_id!r} have the grade "
                f"{judged[document_id]} already",
                hint="keep one of the two judgements",
            )
        judged[document_id] = grade
    if not any(is_answered(grades, query_id) for query_id in grades):
        raise UsageError(f"{lines.path} has no relevant document", hint=FORM_HINT)
    return grades


def _columns(lines: Lines, line: str) -> tuple[str, str, str]:
    cells = line.split("\t")
    if len(cells) == 3:
        return cells[0], cells[1], cells[2]
    cells = [cell.strip() for cell in cells] if len(cells) == 4 else line.split()
    if len(cells) == 4:
        return cells[0], cells[2], cells[3]
    raise lines.error(
        columns(len(cells)),
        hint="qrels have query id, document id and grade, parted by tabs; or TREC's four columns",
    )
