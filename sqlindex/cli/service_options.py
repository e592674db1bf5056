"""Options that describe an embedding service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from sqlindex.ports import OverLongPolicy

if TYPE_CHECKING:
    from sqlindex.embedding.service_config import ServiceConfig

_F = TypeVar("_F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--embedder-url",
        metavar="URL",
        help="A service with the OpenAI protocol instead, as https://host/v1; http on loopback only.",
    ),
    click.option("--embedder-model", metavar="NAME", help="The model's name at the service."),
    click.option(
        "--embedder-dimensions",
        type=click.IntRange(min=1),
        help="Ask the service for vectors of that width; default: the model's own.",
    ),
    click.option(
        "--embedder-revision",
        metavar="TEXT",
        help="Names the model's weights, where the service does not.",
    ),
    click.option(
        "--embedder-answers-as",
        metavar="NAME",
        help="The model's name in replies, where it is another one.",
    ),
    click.option(
        "--embedder-key-env", metavar="VAR", help="The environment variable that holds the key."
    ),
    click.option(
        "--embedder-key-file",
        type=click.Path(path_type=Path),
        help="The file that holds the key: mode 0600, no link.",
    ),
    click.option(
        "--embedder-max-tokens",
        type=click.IntRange(min=16),
        help="Most tokens of a text; default: what the service reports, at most 8192.",
    ),
    click.option(
        "--query-instruction", metavar="TEXT", help="Put in front of queries, not of documents."
    ),
    click.option(
        "--over-long",
        type=click.Choice(get_args(OverLongPolicy)),
        help="Texts over the limit: cut and counted, an error, or several chunks (the default).",
    ),
)
_FIELD_BY_OPTION = {
    "embedder_url": "url",
    "embedder_model": "model",
    "embedder_dimensions": "dimensions",
    "embedder_revision": "revision",
    "embedder_answers_as": "answers_as",
    "embedder_key_env": "key_env",
    "embedder_key_file": "key_file",
    "embedder_max_tokens": "max_tokens",
    "query_instruction": "query_instruction",
    "over_long": "over_long",
}


def service_options(function: _F) -> _F:
    """The options from `--embedder-url` on."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def service_of_options(values: Mapping[str, object]) -> ServiceConfig | None:
    """The service that the options describe; None if there are none of them.

    Raises:
        click.UsageError: address or model is missing, or a value cannot be used.
    """
    given: dict[str, Any] = {
        _FIELD_BY_OPTION[name]: str(value) if isinstance(value, Path) else value
        for name, value in values.items()
        if value is not None
    }
    if not given:
        return None
    if not {"url", "model"} <= given.keys():
        raise click.UsageError("a service needs --embedder-url and --embedder-model")
    from sqlindex.embedding.service_config import ServiceConfig

    try:
        return ServiceConfig(**given)
    except ValueError as exc:
        raise click.UsageError(f"the embedding service: {exc}") from exc
