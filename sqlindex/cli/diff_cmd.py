"""`sqlindex diff`: what differs between two generations."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.options import db_option, json_option, open_index
from sqlindex.cli.output import print_json, print_message, print_text
from sqlindex.model.comparison import DocumentDiff, GenerationDiff, RankedChunk, RankingDiff
from sqlindex.model.requests import DEFAULT_LIMIT, MAX_LIMIT, MODES, Mode

_WHY = {
    "same": "",
    "others": "other chunks came or went",
    "vector": "same text, other vector",
    "changed": "its text is new",
    "renamed": "its document was renamed",
    "added": "its document was added",
    "removed": "its document was removed",
}


@click.command("diff")
@click.argument("old", metavar="A")
@click.argument("new", metavar="[B]", default="head")
@click.option("--query", metavar="QUERY", help="How the hits of this query moved, and why.")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    help="Of the query. Default: semantic; words are of the head.",
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    default=DEFAULT_LIMIT,
    show_default=True,
    help="Hits of the query that are compared.",
)
@json_option
@db_option
def command(
    old: str,
    new: str,
    query: str | None,
    mode: Mode | None,
    limit: int,
    as_json: bool,
    db: Path,
) -> None:
    """Show what turns generation A into B, by default the head: documents and their chunks.

    A and B are numbers, tags, dates (2026-11-30: as of the end of that day), head or head~1.
    """
    if mode is not None and query is None:
        raise click.UsageError("--mode is of a --query")
    with open_index(db) as index:
        diff = index.diff(old, new, query=query, mode=mode, limit=limit)
    if as_json:
        print_json({**asdict(diff), "counts": diff.counts()})
        return
    for document in diff.documents:
        print_text(_document(document))
    counts = ", ".join(f"{count:,} {kind}" for kind, count in diff.counts().items())
    print_message(f"{_generation(diff)}: {counts or 'the same documents'}")
    if diff.ranking is not None:
        _print_ranking(diff, diff.ranking)


def _generation(diff: GenerationDiff) -> str:
    return " → ".join(f"generation {g.number} ({g.published_at})" for g in (diff.old, diff.new))


def _document(document: DocumentDiff) -> str:
    old = f" (was {document.old_id})" if document.old_id else ""
    counts = (
        ("+", document.chunks_added),
        ("−", document.chunks_removed),
        ("=", document.chunks_kept),
    )
    chunks = " ".join(f"{sign}{count:,}" for sign, count in counts if count)
    return f"{document.kind}\t{document.source}\t{document.document_id}{old}\tchunks {chunks or 0}"


def _print_ranking(diff: GenerationDiff, ranking: RankingDiff) -> None:
    print_text()
    print_text(f"{'A':>4} {'B':>4}  score in A, B  ({ranking.mode}: {ranking.query})")
    for chunk in ranking.chunks:
        print_text(_ranked(chunk))
    if not ranking.chunks:
        print_message("no hits in either")


def _ranked(chunk: RankedChunk) -> str:
    ranks = " ".join(f"{rank or '–':>4}" for rank in (chunk.old_rank, chunk.new_rank))
    scores = " ".join(
        f"{'–' if score is None else f'{score:.3f}':>6}"
        for score in (chunk.old_score, chunk.new_score)
    )
    why = _WHY[chunk.move]
    if chunk.move == "changed" and chunk.new_rank is None:
        why = "its text is gone"
    where = f"{chunk.path}:{chunk.start_line}-{chunk.end_line}"
    return f"{ranks}  {scores}  {where}" + (f"  ({why})" if why else "")
