"""TREC's text files: runs in and out, qrels out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlindex.errors import UsageError
from sqlindex.evaluation.judgements import Qrels
from sqlindex.evaluation.lines import Lines, columns, finite
from sqlindex.evaluation.outputs import write_text
from sqlindex.evaluation.runs import Run

_RUN_HINT = "a run has six columns: query id, Q0, document id, rank, score, name of the run"

_Numbered = dict[str, dict[str, float]]


def read_run(path: Path) -> Run:
    """Read a run: query id, `Q0`, document id, rank, score, name; parted by tabs or spaces.

    Rank and name are ignored, as trec_eval ignores them. A file whose lines have five tabs is parted
    by tabs, so that ids may hold spaces.

    Raises:
        UsageError: the file is missing or malformed; the message names file and line.
    """
    lines = Lines(path)
    run: _Numbered = {}
    for line in lines:
        cells = line.split("\t") if line.count("\t") == 5 else line.split()
        if len(cells) != 6:
            raise lines.error(f"{columns(len(cells))} instead of 6", hint=_RUN_HINT)
        query_id, _, name, _, written, _ = cells
        score = finite(written)
        if score is None:
            raise lines.error(f"the score {written!r} is no finite number", hint=_RUN_HINT)
        scores = run.setdefault(query_id, {})
        if name in scores:
            raise lines.error(
                f"document {name!r} is ranked twice for query {query_id!r}", hint=_RUN_HINT
            )
        scores[name] = score
    return run


def write_run(path: Path, rankings: Mapping[str, Sequence[str]], name: str) -> None:
    """Write rankings as a run, parted by tabs.

    Scores strictly descend by one with the rank, so that no tool orders ties anew.

    Raises:
        UsageError: an id holds a tab or a line end.
        StorageError: the file cannot be written.
    """
    tag = re.sub(r"\s+", "-", name)
    rows = [
        (query_id, "Q0", found, str(rank), str(len(ranking) - rank + 1), tag)
        for query_id, ranking in rankings.items()
        for rank, found in enumerate(ranking, start=1)
    ]
    write_text(path, _lines(rows))


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write qrels in TREC's four columns, parted by tabs; grades below 0 as 0.

    Raises:
        UsageError: an id holds a tab or a line end, or the file has other qrels.
        StorageError: the file cannot be written.
    """
    text = _lines(
        [
            (query_id, "0", name, str(max(grade, 0)))
            for query_id, grades in qrels.items()
            for name, grade in grades.items()
        ],
    )
    if path.exists() and path.read_bytes() != text.encode():
        raise UsageError(
            f"{path} has other judgements, and runs beside it belong to them",
            hint="save to another folder",
        )
    write_text(path, text)


def _lines(rows: Sequence[Sequence[str]]) -> str:
    for row in rows:
        for cell in row:
            if any(character in cell for character in "\t\n\r"):
                raise UsageError(
                    f"{cell!r} holds a tab or a line end, which no TREC file can hold",
                    hint="save no runs of this index",
                )
    return "".join("\t".join(row) + "\n" for row in rows)
