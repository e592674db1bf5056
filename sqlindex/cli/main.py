"""Entry of the command line: finds the command, and turns errors into messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from sqlindex.cli.interrupts import exit_code_of_signal
from sqlindex.cli.output import print_error, print_json
from sqlindex.errors import CancelledError, SqlindexError

# Imported when called, so that a search does not pay for the other commands.
_COMMANDS = {
    "init": ("init_cmd", "Make an index, register folders, choose a model."),
    "source": ("source_cmd", "Register, list and remove sources."),
    "refresh": ("refresh_cmd", "Bring the index up to date with its sources."),
    "search": ("search_cmd", "Search: lexical, semantic or hybrid."),
    "get": ("get_cmd", "Print a document, some of its lines, or a chunk."),
    "status": ("status_cmd", "Show what the index holds and what was refused."),
    "check": ("check_cmd", "Verify every invariant of the file."),
    "model": ("model_cmd", "Install, list and verify embedding models."),
    "eval": ("eval_cmd", "Measure retrieval on a judged collection."),
    "doctor": ("doctor_cmd", "Show which SQLite, scan engine and model are used, and why."),
    "demo": ("demo_cmd", "Run the main job on real files, in a temporary folder."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"sqlindex.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sqlindex")
def cli() -> None:
    """An embedded search index for documents: one SQLite file, offline.

    Exit codes: 0 ok, 1 failed, 2 usage, 3 nothing found (when asked to tell), 4 locked,
    5 done in part, 6 corrupt, 8 not an index or a newer version, 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    wants_json = "--json" in arguments or "--jsonl" in arguments
    try:
        code = cli.main(args=arguments, prog_name="sqlindex", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as exc:
        return int(exc.exit_code)
    except click.ClickException as exc:
        if wants_json:
            error = {
                "code": "usage",
                "message": exc.format_message(),
                "hint": "",
                "retryable": False,
            }
            print_json({"error": error})
        exc.show(file=sys.stderr)
        return 2
    except (KeyboardInterrupt, click.Abort):
        print_error("interrupted", "")
        return 130
    except CancelledError as exc:
        print_error(f"interrupted: {exc.hint}", "")
        return exit_code_of_signal()
    except BrokenPipeError:
        # The reader has gone, as in `sqlindex search … | head`: nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SqlindexError as exc:
        if wants_json:
            error = {
                "code": exc.code,
                "message": str(exc),
                "hint": exc.hint,
                "retryable": exc.retryable,
            }
            print_json({"error": error})
        print_error(str(exc), exc.hint)
        return exc.exit_code
    return code if isinstance(code, int) else 0
