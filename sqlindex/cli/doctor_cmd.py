"""`sqlindex doctor`: which SQLite, scan engine and model are used, and why."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlindex.cli.language_advice import advice, found_languages
from sqlindex.cli.options import db_option, json_option, open_index
from sqlindex.cli.output import plural, print_json, print_text

if TYPE_CHECKING:
    from sqlindex.index import Index
    from sqlindex.model.status import FileCondition, IndexStatus

_WAL_RESET_FIXED = (3, 51, 3)
_SERVICE_TIMEOUT_S = 10.0
_LONG_LOG_BYTES = 64_000_000
"""The writer keeps the log below a quarter of this, unless a reader needs it."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One examined part: `state` is ok, note or fault; `why` says what follows."""

    part: str
    state: str
    found: str
    why: str


@click.command("doctor")
@json_option
@db_option
def command(as_json: bool, db: Path) -> int:
    """Examine this installation and, if it exists, the index; exit with 1 on a fault."""
    found = [*_installation(), *_models(), *_index(db)]
    if as_json:
        print_json({"diagnoses": [asdict(diagnosis) for diagnosis in found]})
    else:
        for diagnosis in found:
            print_text(
                f"{diagnosis.state:<5} {diagnosis.part:<12} {diagnosis.found}: {diagnosis.why}"
            )
    return 1 if any(diagnosis.state == "fault" for diagnosis in found) else 0


def _installation() -> list[Diagnosis]:
    from sqlindex.store.driver import (
        MINIMUM_VERSION,
        connect_memory,
        driver_name,
        sqlite_version,
    )

    version = tuple(int(part) for part in sqlite_version.split("."))
    found = [Diagnosis("python", "ok", sys.version.split()[0], sys.executable)]
    if version < MINIMUM_VERSION:
        wanted = ".".join(str(part) for part in MINIMUM_VERSION)
        found.append(Diagnosis("sqlite", "fault", sqlite_version, f"at least {wanted} is needed"))
    elif version < _WAL_RESET_FIXED:
        why = (
            "has the WAL-reset race (fixed in 3.51.3); it cannot occur among sqlindex's own connections, "
            "since only the locked writer checkpoints: do not write to the index with other programs"
        )
        found.append(Diagnosis("sqlite", "ok", f"{sqlite_version} ({driver_name})", why))
    else:
        found.append(Diagnosis("sqlite", "ok", f"{sqlite_version} ({driver_name})", "current"))
    connection = connect_memory()
    options = {row[0] for row in connection.execute("PRAGMA compile_options")}
    connection.close()
    has_fts5 = "ENABLE_FTS5" in options
    found.append(
        Diagnosis(
            "lexical",
            "ok" if has_fts5 else "fault",
            "FTS5" if has_fts5 else "no FTS5",
            "BM25 over contentless tables" if has_fts5 else "this SQLite was built without it",
        )
    )
    numpy = _version("numpy")
    found.append(
        Diagnosis(
            "vector scan",
            "ok" if numpy else "fault",
            f"numpy {numpy}" if numpy else "no numpy",
            "exact cosine by np.vecdot; no extension is needed",
        )
    )
    return found


def _models() -> list[Diagnosis]:
    from sqlindex.embedding.staged import list_models

    found = []
    runtime = _version("onnxruntime")
    for state in list_models():
        name = f"model {state.model.name}"
        if state.problem:
            found.append(Diagnosis(name, "fault", "damaged", state.problem))
        elif state.staged is None:
            why = f"semantic search needs 'sqlindex model install {state.model.name}'; languages: {state.model.languages}"
            found.append(Diagnosis(name, "note", "not installed", why))
        elif runtime is None:
            why = "pip install 'sqlindex[minilm]' brings its runtime"
            found.append(Diagnosis(name, "note", "staged, no onnxruntime", why))
        else:
            why = f"onnxruntime {runtime}; languages: {state.model.languages}"
            found.append(Diagnosis(name, "ok", str(state.staged.folder), why))
    return found


def _index(db: Path) -> list[Diagnosis]:
    from sqlindex.errors import SqlindexError

    if not db.exists():
        return [Diagnosis("index", "note", str(db), "there is none; make one with 'sqlindex init'")]
    try:
        with open_index(db) as index:
            status, condition = index.status(), index.condition()
            findings = index.check(quick=True)
            unreachable = index.unreachable()
            services = _service(index)
            signs = index.language_signs()
    except SqlindexError as exc:
        return [Diagnosis("index", "fault", str(db), f"{exc} ({exc.hint})")]
    if findings:
        why = f"{findings[0].invariant}: {findings[0].detail}; run 'sqlindex repair'"
        return [Diagnosis("index", "fault", str(db), why)]
    why = f"generation {status.generation}, {status.documents:,} documents, default mode {status.default_mode}"
    found = [Diagnosis("index", "ok", str(db), why), *_file_systems(db, status)]
    found += services
    if signs.documents:
        told = advice(signs, status.embedder)
        why = told or f"model: {status.embedder or 'none, lexical search only'}"
        found.append(Diagnosis("languages", "note" if told else "ok", found_languages(signs), why))
    found += _inside(status, condition)
    for source in status.sources:
        if source.kind == "table":
            problem = unreachable.get(source.name)
            state = "ok" if problem is None else "note"
            found.append(
                Diagnosis(
                    "database",
                    state,
                    source.where,
                    f"{problem} ({problem.hint})" if problem else "can be read",
                )
            )
    return found


def _service(index: Index) -> list[Diagnosis]:
    """Whether the embedding service that the index names answers, if it names one."""
    from sqlindex.errors import SqlindexError

    config = index.service()
    if config is None:
        return []
    from sqlindex.embedding.allowed_services import require_allowed
    from sqlindex.embedding.service import ServiceEmbedder

    asked = replace(config, retries=0, total_timeout_s=_SERVICE_TIMEOUT_S)
    embedder = ServiceEmbedder(asked)
    try:
        require_allowed(asked)
        identity = embedder.identity
    except SqlindexError as exc:
        return [Diagnosis("embedder", "fault", config.title, f"{exc} ({exc.hint})")]
    finally:
        embedder.close()
    return [Diagnosis("embedder", "ok", config.title, f"answers; {identity}")]


def _inside(status: IndexStatus, condition: FileCondition) -> list[Diagnosis]:
    """The file's pages and log, its history, and what was interrupted."""
    is_wal = condition.journal_mode == "wal"
    why = (
        "readers and a writer side by side" if is_wal else "a copy; the first write makes it a wal"
    )
    found = [Diagnosis("journal", "ok" if is_wal else "note", condition.journal_mode, why)]
    free = f"{condition.free_bytes:,} of {status.file_bytes:,} bytes"
    found.append(
        Diagnosis("free pages", "ok", free, "are used again; 'sqlindex compact' gives them back")
    )
    why = "is copied into the file by the next writer"
    if condition.log_holders:
        holders = ", ".join(map(str, condition.log_holders))
        why = f"cannot begin anew while process {holders} reads"
    is_long = status.log_bytes > _LONG_LOG_BYTES
    found.append(Diagnosis("log", "note" if is_long else "ok", f"{status.log_bytes:,} bytes", why))
    if condition.foreign_sidecars:
        why = "another user's: the index's owner cannot write; delete them while nobody has it open"
        found.append(Diagnosis("sidecars", "note", ", ".join(condition.foreign_sidecars), why))
    tags = f"tagged: {', '.join(condition.tags)}" if condition.tags else "none is tagged"
    kept = plural(status.kept_generations, "generation")
    found.append(Diagnosis("history", "ok", f"{kept} kept", tags))
    for build in status.unfinished:
        staged = f"{plural(build.documents, 'document')} staged"
        why = f"begun at {build.started_at}; the next refresh of the same sources goes on with it"
        found.append(Diagnosis("unfinished", "note", staged, why))
    if status.is_collecting:
        why = "was interrupted; the next refresh or 'sqlindex gc' goes on with it"
        found.append(Diagnosis("collection", "note", "unfinished", why))
    return found


def _file_systems(db: Path, status: IndexStatus) -> list[Diagnosis]:
    """What the index and the folders lie on, where the system tells."""
    from sqlindex.mounts import filesystem_of, is_network, read_mounts

    mounts = read_mounts()
    found = []
    places = [
        ("index on", str(db.resolve().parent), "use a local disk: SQLite's log needs shared memory")
    ]
    places += [
        (
            "folder on",
            source.root,
            "caches make its times unreliable: each refresh reads every file",
        )
        for source in status.sources
        if source.kind == "folder" and source.root
    ]
    for part, path, consequence in places:
        kind = filesystem_of(path, mounts)
        if is_network(kind):
            found.append(
                Diagnosis(part, "note", f"{path} ({kind})", f"a network file system; {consequence}")
            )
        elif kind is not None:
            found.append(Diagnosis(part, "ok", f"{path} ({kind})", "a local file system"))
    return found


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
