"""The options of a publish gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sqlindex.model.requests import MODES, Mode

if TYPE_CHECKING:
    from sqlindex.evaluation.gate import Gate

_F = TypeVar("_F", bound=Callable[..., Any])


def gate_option(function: _F) -> _F:
    """`--gate CONDITIONS` and `--gate-mode MODE`."""
    function = click.option(
        "--gate-mode",
        type=click.Choice(MODES),
        help="How the gate searches; default: hybrid with an embedder, else lexical.",
    )(function)
    return click.option(
        "--gate",
        metavar="CONDITIONS",
        help="Publish only if the golden questions reach this, for example 'ndcg@10 >= 0.8, hit@5 >= 0.9'.",
    )(function)


def gate_or_none(text: str | None, mode: Mode | None) -> Gate | None:
    """The gate that the options name.

    Raises:
        UsageError: it is malformed, or a mode is given without conditions.
        OptionalDependencyError: ir-measures is missing.
    """
    if text is None:
        if mode is not None:
            raise click.UsageError("--gate-mode belongs to --gate")
        return None
    from sqlindex.evaluation.gate import Gate

    return Gate(text, mode)
