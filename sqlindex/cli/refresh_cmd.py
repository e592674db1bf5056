"""`sqlindex refresh`: bring the index up to date."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.gate import gate_option, gate_or_none
from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import plural, print_json, print_message, print_text
from sqlindex.cli.progress import shown_progress
from sqlindex.indexing.report import Changes, RefreshReport, described
from sqlindex.model.documents import RefusalReason
from sqlindex.model.requests import Mode

_DONE_IN_PART = 5
_SHOWN_REFUSALS = 5


@click.command("refresh")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...")
@click.option(
    "--source", "sources", multiple=True, metavar="NAME", help="Only this source; repeatable."
)
@click.option("--plan", "is_plan", is_flag=True, help="Say what would be done; write nothing.")
@click.option(
    "--strict",
    is_flag=True,
    help="Fail when a document is refused, but for formats that are not indexed.",
)
@click.option("--verify", is_flag=True, help="Read and hash every file.")
@click.option(
    "--lexical-only-on-bad-vector",
    "allow_bad_vectors",
    is_flag=True,
    help="Publish a chunk without a vector instead of failing.",
)
@click.option(
    "--drop-vectors", is_flag=True, help="Publish lexical-only when no embedder is set any more."
)
@click.option(
    "--restart",
    is_flag=True,
    help="Begin anew although an interrupted refresh was begun with other settings; reuse what is valid.",
)
@gate_option
@wait_option
@db_option
@json_option
def command(
    paths: tuple[Path, ...],
    sources: tuple[str, ...],
    is_plan: bool,
    strict: bool,
    verify: bool,
    allow_bad_vectors: bool,
    drop_vectors: bool,
    restart: bool,
    gate: str | None,
    gate_mode: Mode | None,
    wait_s: float,
    db: Path,
    as_json: bool,
) -> int:
    """Make the index equal to its sources and publish that as one generation.

    With PATHs, only these files and folders below registered ones, without listing the rest.

    Ctrl-C stops it and leaves the last generation; the next refresh goes on where it stopped.

    With --gate the golden questions are searched on the new generation before it is published. If
    they reach too little, the last generation stays, exit code 7 says so, and the new one waits for
    'sqlindex publish', 'sqlindex discard' or another refresh. If there is nothing to publish, they are
    searched on the last generation: exit code 0 says that it meets the gate.
    """
    asked = gate_or_none(gate, gate_mode)
    if is_plan and asked is not None:
        raise click.UsageError("--plan makes nothing that --gate could measure")
    names = list(sources) or None
    with (
        open_index(db) as index,
        cancelled_by_signals() as cancel,
        shown_progress() as progress,
    ):
        if is_plan:
            changes = index.plan(
                names,
                paths=paths or None,
                strict=strict,
                verify=verify,
                allow_bad_vectors=allow_bad_vectors,
                drop_vectors=drop_vectors,
                restart=restart,
                cancel=cancel,
                progress=progress,
            )
            report = None
        else:
            report = index.refresh(
                names,
                paths=paths or None,
                strict=strict,
                verify=verify,
                allow_bad_vectors=allow_bad_vectors,
                drop_vectors=drop_vectors,
                restart=restart,
                gate=asked,
                cancel=cancel,
                progress=progress,
                wait_s=wait_s,
            )
            changes = report.changes
    if report is not None:
        print_report(report, as_json=as_json)
    elif as_json:
        print_json(_as_json(changes, None))
    else:
        _print_plan(changes)
    return exit_code_of(changes, report)


def print_report(report: RefreshReport, *, as_json: bool, what: str = "refresh") -> None:
    """What a refresh, or a reindex, did: one JSON object, or some words."""
    if as_json:
        print_json(_as_json(report.changes, report))
    else:
        _print_report(report, what)


def exit_code_of(changes: Changes, report: RefreshReport | None) -> int:
    """5 if something could not be indexed as it is now."""
    is_partial = any(refusal.reason.keeps_last_version for _, refusal, _ in changes.refused)
    return _DONE_IN_PART if is_partial or (report is not None and report.without_vector) else 0


def _as_json(changes: Changes, report: RefreshReport | None) -> dict[str, object]:
    values: dict[str, object] = {
        "added": changes.count("added"),
        "changed": changes.count("changed"),
        "reparsed": changes.count("reparsed"),
        "renamed": changes.count("renamed"),
        "removed": changes.count("removed"),
        "unchanged": changes.unchanged,
        "left_out": changes.left_out,
        "embedding_inputs": changes.embedding_inputs,
        "rebuilt": list(changes.rebuilt),
        "documents": [
            {"change": c.kind, "source": c.source, "document_id": c.document_id, "old_id": c.old_id}
            for c in changes.documents
        ],
        "refused": [
            {
                "source": source,
                "document_id": refusal.document_id,
                "reason": refusal.reason.value,
                "detail": refusal.detail,
                "hint": refusal.hint,
                "is_kept": is_kept,
            }
            for source, refusal, is_kept in changes.refused
        ],
    }
    if report is None:
        estimate = changes.estimate
        values["embedding_tokens"] = None if estimate is None else estimate.tokens
        values["embedding_s"] = None if estimate is None else _rounded(estimate.seconds)
        return {"plan": values}
    return {
        "generation": report.generation,
        "is_published": report.is_published,
        **values,
        "embedded": report.embedded,
        "reused": report.reused,
        "resumed": report.resumed,
        "truncated": report.truncated,
        "without_vector": list(report.without_vector),
        "gate": None if report.gate is None else asdict(report.gate),
        "duration_s": round(report.duration_s, 3),
    }


def _print_plan(changes: Changes) -> None:
    for change in changes.documents:
        old = f" (was {change.old_id})" if change.old_id else ""
        print_text(f"{change.kind}\t{change.source}\t{change.document_id}{old}")
    print_message(_summary(changes))
    print_message(f"would embed {plural(changes.embedding_inputs, 'text')}{_cost(changes)}")
    _print_notes(changes)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _cost(changes: Changes) -> str:
    """`, about 1,200,000 tokens, about 4 min on this machine`: what embedding takes, as far as it is known."""
    estimate = changes.estimate
    if estimate is None or not changes.embedding_inputs:
        return ""
    told = []
    if estimate.tokens is not None:
        told.append(f"about {_two_digits(estimate.tokens):,} tokens")
    if estimate.seconds is not None:
        told.append(f"{_span(estimate.seconds)} on this machine")
    else:
        told.append("how long the embedder takes is not known")
    return "".join(f", {part}" for part in told)


def _span(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    if seconds < 100:
        return f"about {seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 100 else f"about {seconds / 3_600:.1f} h"


def _two_digits(count: int) -> int:
    """An estimate says no more than it knows."""
    digits = len(str(count))
    return round(count, min(0, 2 - digits))


def _print_report(report: RefreshReport, what: str) -> None:
    if report.resumed:
        were = "was" if report.resumed == 1 else "were"
        print_message(
            f"went on with an unfinished {what}: {plural(report.resumed, 'document')} {were} staged"
        )
    print_message(_summary(report.changes))
    _print_notes(report.changes)
    if report.embedded or report.reused:
        cut = f", {report.truncated:,} cut at the model's limit" if report.truncated else ""
        print_message(f"embedded {plural(report.embedded, 'text')}, reused {report.reused:,}{cut}")
    if report.without_vector:
        print_message(
            f"{plural(len(report.without_vector), 'text')} without a vector: found lexically only"
        )
    if not report.generation and not report.changes.refused:
        print_message("hint: nothing to index: register folders with 'sqlindex source add FOLDER'")
    if report.gate is not None:
        values = ", ".join(f"{name} {value:.4f}" for name, value in report.gate.values.items())
        asked = plural(report.gate.questions, "question")
        by = "" if report.is_published else " by the head"
        print_message(f"the gate is met{by}: {values} ({report.gate.mode}, {asked})")
    state = "published" if report.is_published else "nothing to publish, still"
    print_message(f"{state} generation {report.generation} ({report.duration_s:.1f} s)")


def _summary(changes: Changes) -> str:
    return described({**changes.counts, "unchanged": changes.unchanged})


def _print_notes(changes: Changes) -> None:
    if changes.left_out:
        print_message(
            f"left out by ignore rules: {changes.left_out:,} (sqlindex status --left-out)"
        )
    for note in changes.rebuilt:
        print_message(f"rebuilt {note}")
    if not changes.refused:
        return
    reasons = Counter(refusal.reason.value for _, refusal, _ in changes.refused)
    listed = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
    print_message(f"not indexed: {listed}")
    telling = [r for r in changes.refused if r[1].reason is not RefusalReason.UNSUPPORTED]
    for source, refusal, is_kept in telling[:_SHOWN_REFUSALS]:
        kept = " (the version indexed earlier is kept)" if is_kept else ""
        print_message(
            f"  {source}: {refusal.document_id}: {refusal.reason.value}: {refusal.detail}{kept}"
        )
    print_message("  all of them: sqlindex status --refused")
