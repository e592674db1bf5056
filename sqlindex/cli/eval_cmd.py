"""`sqlindex eval`: measure retrieval on a judged collection."""

from __future__ import annotations

from pathlib import Path

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import embedder_name, json_option
from sqlindex.cli.output import print_json, print_text
from sqlindex.cli.progress import shown_progress
from sqlindex.model.requests import MODES, Mode


@click.command("eval")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(MODES),
    help="Repeatable; default all three.",
)
@click.option(
    "--embedder", default="minilm", show_default=True, help="Model for semantic and hybrid."
)
@click.option(
    "--db",
    type=click.Path(path_type=Path),
    help="Keep the collection's index here; default: the user's cache.",
)
@click.option("--limit-queries", type=click.IntRange(min=1), help="Only the first queries.")
@json_option
def command(
    folder: Path,
    modes: tuple[Mode, ...],
    embedder: str,
    db: Path | None,
    limit_queries: int | None,
    as_json: bool,
) -> None:
    """Index the BEIR-like collection in FOLDER and measure nDCG@10, R@10, R@100 and MRR.

    FOLDER holds corpus.jsonl[.gz], queries.jsonl and qrels.tsv. The index is kept, so another mode or
    run embeds nothing again.
    """
    from sqlindex.embedding.minilm import MiniLMEmbedder
    from sqlindex.embedding.staged import require_staged
    from sqlindex.evaluation.evaluate import evaluate
    from sqlindex.evaluation.render import render_table

    wanted = modes or MODES
    needs_model = any(mode != "lexical" for mode in wanted)
    name = embedder_name(embedder)
    model = MiniLMEmbedder(require_staged(name)) if needs_model and name else None
    with cancelled_by_signals() as cancel, shown_progress() as progress:
        report = evaluate(
            folder,
            wanted,
            embedder=model,
            index_path=db,
            limit_queries=limit_queries,
            progress=progress,
            cancel=cancel,
        )
    if as_json:
        print_json(report.to_json())
    else:
        for line in render_table(report).split("\n"):
            print_text(line)
