"""`sqlindex status`: what the index holds."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.options import db_option, json_option, open_index
from sqlindex.cli.output import plural, print_json, print_text
from sqlindex.indexing.report import described
from sqlindex.model.gate import GatedGeneration
from sqlindex.model.status import FileStatus, IndexStatus, RefusedDocument

_NOT_IN = 3


@click.command("status")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...")
@click.option(
    "--refused", "with_refused", is_flag=True, help="List each document that is not in, and why."
)
@click.option(
    "--left-out",
    "with_left_out",
    is_flag=True,
    help="With that, also each file and folder that rules leave out.",
)
@json_option
@db_option
def command(
    paths: tuple[Path, ...], with_refused: bool, with_left_out: bool, as_json: bool, db: Path
) -> int:
    """Show generation, sources, counts, model and sizes.

    With PATHs, tell of each file or folder whether it is in, and if not, why and what would
    change that, as the last refresh saw it; exit code 3 if one is not in.
    """
    with open_index(db) as index:
        if paths and (with_refused or with_left_out):
            raise click.UsageError("name PATHs, or ask for --refused and --left-out, not both")
        if paths:
            found = [(path, index.file_status(path)) for path in paths]
            _print_files(found, as_json=as_json)
            is_in = all(any(s.is_indexed for s in statuses) for _, statuses in found)
            return 0 if is_in else _NOT_IN
        status = index.status()
        wanted = with_refused or with_left_out
        refused = index.refused(with_left_out=with_left_out) if wanted else []
    if as_json:
        listed = {"refused": [_refused_as_json(r) for r in refused]} if wanted else {}
        print_json({**asdict(status), **listed})
        return 0
    _print_status(status)
    for document in refused:
        kept = " (earlier version kept)" if document.is_kept else ""
        refusal = document.refusal
        print_text(
            f"{document.source}\t{refusal.document_id}\t{refusal.reason.value}{kept}\t{refusal.detail}\t{refusal.hint}"
        )
    return 0


def _print_files(found: list[tuple[Path, list[FileStatus]]], *, as_json: bool) -> None:
    if as_json:
        files = [
            {"path": str(path), "sources": [asdict(status) for status in statuses]}
            for path, statuses in found
        ]
        print_json({"files": files})
        return
    for path, statuses in found:
        if not statuses:
            print_text(f"{path}: in no registered folder; 'sqlindex source list' shows them")
        for status in statuses:
            print_text(f"{path}: {_described(path, status)}")


def _described(path: Path, status: FileStatus) -> str:
    where = f"source {status.source}"
    refusal = status.refusal
    why = ""
    if refusal is not None:
        whose = "" if refusal.document_id == status.document_id else f"{refusal.document_id}: "
        why = f"{whose}{refusal.reason.value}: {refusal.detail}"
        why += f" ({refusal.hint})" if refusal.hint else ""
    if status.is_indexed:
        counted = f"{plural(status.documents, 'document')}, {plural(status.chunks, 'chunk')}"
        return f"indexed in {where}: {counted}" + (f"; now {why}" if why else "")
    if refusal is None and os.path.isdir(path):
        return f"not in {where}: the last refresh saw no document below it"
    if refusal is None and not os.path.lexists(path):
        return f"not in {where}: there is no such file"
    if refusal is None:
        return f"not in {where}: the last refresh did not see it; run 'sqlindex refresh'"
    return f"not in {where}: {why}"


def _print_status(status: IndexStatus) -> None:
    print_text(f"index       {status.path} ({status.file_bytes:,} bytes, log {status.log_bytes:,})")
    kept = f"; {status.kept_generations} kept" if status.kept_generations > 1 else ""
    print_text(f"generation  {status.generation}, published {status.published_at}{kept}")
    for build in status.unfinished:
        staged = (
            f"{plural(build.documents, 'document')} staged, embedder {build.embedder or 'none'}"
        )
        print_text(f"unfinished  a refresh begun at {build.started_at}, {staged}; refresh goes on")
    if status.gated is not None:
        _print_gated(status.gated, status.generation)
    if status.is_collecting:
        print_text("collecting  interrupted; the next refresh, or 'sqlindex gc', goes on")
    print_text(
        f"holds       {plural(status.documents, 'document')}, {plural(status.chunks, 'chunk')}"
    )
    if status.chunk_chars is not None:
        other = plural(status.documents_cut_otherwise, "document")
        later = f"; the next refresh cuts {other} anew" if status.documents_cut_otherwise else ""
        print_text(f"cut into    chunks of about {status.chunk_chars:,} characters{later}")
    print_text(f"model       {status.embedder or 'none'}; default mode {status.default_mode}")
    print_text(f"vectors     {status.space or 'none'}")
    print_text(
        f"sqlite      {status.sqlite_version} ({status.driver}), schema {status.schema_version}"
    )
    for source in status.sources:
        refused = ", ".join(
            f"{count:,} {reason}" for reason, count in sorted(source.refused.items())
        )
        left_out = ", ".join(
            f"{count:,} {reason}" for reason, count in sorted(source.left_out.items())
        )
        not_in = f"; not indexed: {refused}" if refused else ""
        not_in += f"; left out: {left_out}" if left_out else ""
        documents = plural(source.documents, "document")
        print_text(f"source      {source.name}: {documents} from {source.where}{not_in}")


def _print_gated(gated: GatedGeneration, head: int) -> None:
    result = gated.result
    asked = plural(result.questions, "question")
    print_text(
        f"gated       a generation of {gated.gated_at} waits ({described(gated.changes)}): "
        f"{'; '.join(gated.missed)} ({result.mode}, {asked})"
    )
    can = "'sqlindex publish --force' or 'sqlindex discard' decide"
    if gated.base_generation != head:
        can = f"the head was {gated.base_generation} then; refresh goes on from it, 'sqlindex discard' drops it"
    print_text(f"            {can}")


def _refused_as_json(document: RefusedDocument) -> dict[str, object]:
    refusal = document.refusal
    return {
        "source": document.source,
        "document_id": refusal.document_id,
        "reason": refusal.reason.value,
        "detail": refusal.detail,
        "hint": refusal.hint,
        "is_kept": document.is_kept,
    }
