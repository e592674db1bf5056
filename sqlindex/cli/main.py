"""Entry of the command line: finds the command, and turns errors into messages and exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from sqlindex.cli.interrupts import (
    exit_code_of_signal,
    interruptible,
    may_tell,
    take_signals,
)
from sqlindex.cli.output import json_error, print_error, print_json_error
from sqlindex.encodable import is_encodable
from sqlindex.errors import CancelledError, SqlindexError

# Imported when called, so that a search does not pay for the other commands.
_COMMANDS = {
    "init": ("init_cmd", "Make an index, register folders, choose a model."),
    "source": ("source_cmd", "Register, list, move and remove sources."),
    "refresh": ("refresh_cmd", "Bring the index up to date with its sources."),
    "reindex": ("reindex_cmd", "Make layers of the index anew, in bulk."),
    "search": ("search_cmd", "Search: lexical, semantic or hybrid."),
    "get": ("get_cmd", "Print a document, some of its lines, or a chunk."),
    "chunks": ("chunks_cmd", "Show how a document is cut into chunks, and why."),
    "documents": ("documents_cmd", "List the documents of the index or of a generation."),
    "links": ("links_cmd", "List the links of a document, or those that lead to it."),
    "history": ("history_cmd", "List the generations that are kept."),
    "diff": ("diff_cmd", "Show what differs between two generations."),
    "publish": ("publish_cmd", "Publish a generation that a gate keeps back."),
    "discard": ("discard_cmd", "Drop a generation that a gate keeps back."),
    "questions": ("questions_cmd", "Golden questions: add, list, remove and import them."),
    "rollback": ("rollback_cmd", "Publish an earlier state as a new generation."),
    "tag": ("tag_cmd", "Name a generation, so that it is kept; list the names."),
    "status": ("status_cmd", "Show what the index holds and what was refused."),
    "check": ("check_cmd", "Verify every invariant of the file."),
    "repair": ("repair_cmd", "Make a damaged file whole again, as far as it can be."),
    "gc": ("gc_cmd", "Collect old generations and what only they used."),
    "backup": ("backup_cmd", "Copy the index to a new file while it is in use."),
    "vectors": ("vectors_cmd", "Carry vectors from one index file to another."),
    "compact": ("compact_cmd", "Give free space of the file back."),
    "purge": ("purge_cmd", "Remove documents for good: from every generation and the file."),
    "model": ("model_cmd", "Install, list and verify embedding models."),
    "serve-embeddings": (
        "serve_embeddings_cmd",
        "Serve a model to programs that speak OpenAI's API.",
    ),
    "eval": ("eval_cmd", "Measure retrieval on a judged collection."),
    "doctor": ("doctor_cmd", "Show which SQLite, scan engine and model are used, and why."),
    "demo": ("demo_cmd", "Run the main job on real files, in a temporary folder."),
}


class _Text(click.ParamType):  # type: ignore[type-arg]  # no generic class in click 8.1
    """Text in which bytes that are no UTF-8 are written as document ids write them."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if is_encodable(value):
            return value
        from sqlindex.sources.paths import document_id_of

        return document_id_of(os.fsencode(value))


def _take_any_bytes(command: click.Command) -> click.Command:
    """Arguments of a shell are bytes; stored text is UTF-8."""
    for parameter in command.params:
        if parameter.type is click.STRING:
            parameter.type = _Text()
    if isinstance(command, click.Group):
        for part in command.commands.values():
            _take_any_bytes(part)
    return command


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"sqlindex.cli.{_COMMANDS[cmd_name][0]}")
        return _take_any_bytes(module.command)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # click would print an empty line for it
            raise CancelledError("interrupted") from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sqlindex")
def cli() -> None:
    """An embedded search index for documents: one SQLite file, offline.

    Exit codes: 0 ok, 1 failed, 2 usage, 3 nothing found (when asked to tell), 4 locked,
    5 done in part, 6 corrupt, 7 refused by a gate, 8 not an index or a newer version, 130 interrupted, 143 terminated.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    take_signals()
    code = run(sys.argv[1:] if arguments is None else list(arguments))
    with suppress(OSError):  # nobody reads any more
        sys.stdout.flush()
        sys.stderr.flush()
    # Every file is closed by now. To take the interpreter apart piece by piece would cost a tenth of
    # a search.
    os._exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    # A program started with closed streams has none; what it prints goes nowhere.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open to the end
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open to the end
    wants_json = "--json" in arguments or "--jsonl" in arguments
    _make_printable(wants_json)
    interrupted = CancelledError("interrupted")
    try:
        with interruptible(_as_json(interrupted) + "\n" if wants_json else ""):
            code = cli.main(args=arguments, prog_name="sqlindex", standalone_mode=False)
            sys.stdout.flush()
    except click.exceptions.Exit as exc:
        return int(exc.exit_code)
    except click.ClickException as exc:
        if wants_json:
            print_json_error("usage", exc.format_message())
        exc.show(file=sys.stderr)
        return 2
    except (KeyboardInterrupt, click.Abort, CancelledError) as exc:
        if may_tell():
            cancelled = exc if isinstance(exc, CancelledError) else interrupted
            if wants_json:
                print(_as_json(cancelled))
            print_error(": ".join(filter(None, ("interrupted", cancelled.hint))), "")
        return exit_code_of_signal()
    except SqlindexError as exc:
        if wants_json:
            print(_as_json(exc))
        print_error(str(exc), exc.hint)
        return exc.exit_code
    except (SystemExit, OSError) as exc:
        # Nothing more can be printed there; the interpreter would try again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(exc, SystemExit | BrokenPipeError):
            # The reader has gone, as in `sqlindex search … | head`: nothing is wrong. Where click
            # sees it first, it exits.
            return 0
        print_error(str(exc), "check the disk and the permissions")
        return 1
    return code if isinstance(code, int) else 0


def _as_json(error: SqlindexError) -> str:
    return json_error(
        error.code, str(error), error.hint, retryable=error.retryable, **error.details
    )


def _make_printable(wants_json: bool) -> None:
    """Let every name be printed in every locale; JSON is UTF-8 wherever it is printed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = "utf-8" if wants_json else sys.stdout.encoding
        # A lone surrogate's escape is also JSON's.
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")
