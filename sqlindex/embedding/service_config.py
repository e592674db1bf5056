"""Which embedding service an index works with: everything but the key, of which only the place is kept."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args

from sqlindex.embedding.service_url import service_url
from sqlindex.ports import OverLongPolicy

MAX_INPUTS = 8
MAX_TOKENS = 8_192

_MAX_NAME_CHARS = 200
_MAX_DIMENSIONS = 65_536
_STORED_VERSION = 1
"""1: first."""


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """An OpenAI-compatible service and how it is used; stored in the index, without the key.

    Attributes:
        url: what `/embeddings` and `/models` are appended to, as `https://host/v1`; https, or http on
            a loopback address; without user, query and fragment.
        model: name of the model, as the service knows it.
        dimensions: asked for with every request, for models that can shorten their vectors; None for
            the model's own width, which is learned.
        revision: names the model's weights, where the service does not; one that it reports must be
            equal.
        answers_as: the name that replies carry, where it is not `model`.
        key_env: name of the environment variable that holds the key.
        key_file: path of the file that holds it: mode 0600, no link.
        query_instruction: put in front of queries, not of documents; changing it embeds nothing.
        over_long: what happens with a text over the limit; see `OverLongPolicy`.
        max_inputs: most texts of a request.
        max_tokens: most tokens of a text; None for what the service reports, at most 8,192.
        bytes_per_token: tokens are estimated as the UTF-8 bytes of a text divided by this, since the
            tokenizer is the service's. Less is more careful.
        in_flight: most requests of one call at the same time.
        read_timeout_s: longest wait for the next bytes of a reply.
        total_timeout_s: for a request with its repetitions and the waits between them.
        retries: most repetitions of a request.
    """

    url: str
    model: str
    dimensions: int | None = None
    revision: str = ""
    answers_as: str = ""
    key_env: str = ""
    key_file: str = ""
    query_instruction: str = ""
    over_long: OverLongPolicy = "window"
    max_inputs: int = MAX_INPUTS
    max_tokens: int | None = None
    bytes_per_token: float = 2.0
    in_flight: int = 2
    read_timeout_s: float = 60.0
    total_timeout_s: float = 120.0
    retries: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", service_url(self.url))
        for name in ("revision", "answers_as", "key_env", "key_file", "query_instruction", "model"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be a text, not {getattr(self, name)!r}")
        for name in ("model", "revision", "answers_as"):
            value = getattr(self, name)
            if not is_name(value) and (value or name == "model"):
                raise ValueError(f"{name} must be a short printable text without |, not {value!r}")
        if self.key_env and self.key_file:
            raise ValueError("the key is in key_env or in key_file, not in both")
        if "=" in self.key_env or not f"{self.key_env}{self.key_file}".isprintable():
            raise ValueError("key_env is the name of a variable and key_file a path, not the key")
        if self.key_file:
            path = os.path.abspath(os.path.expanduser(self.key_file))
            object.__setattr__(self, "key_file", path)
        if self.over_long not in get_args(OverLongPolicy):
            raise ValueError(f"over_long must be truncate, fail or window, not {self.over_long!r}")
        _check_whole("max_inputs", self.max_inputs, 1, MAX_INPUTS)
        _check_whole("in_flight", self.in_flight, 1, 16)
        _check_whole("retries", self.retries, 0, 10)
        if self.dimensions is not None:
            _check_whole("dimensions", self.dimensions, 1, _MAX_DIMENSIONS)
        if self.max_tokens is not None:
            _check_whole("max_tokens", self.max_tokens, 16, MAX_TOKENS)
        for name, least in (
            ("bytes_per_token", 1.0),
            ("read_timeout_s", 0.01),
            ("total_timeout_s", 0.01),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
                raise ValueError(f"{name} must be at least {least}, not {value!r}")
            if math.isinf(value):
                raise ValueError(f"{name} must be finite")

    @property
    def has_key(self) -> bool:
        """Whether requests carry a key."""
        return bool(self.key_env or self.key_file)

    @property
    def title(self) -> str:
        """Model and place, for people; no key and not where it is."""
        return f"{self.model} at {self.url}"

    def to_json(self) -> str:
        """What the index stores: fields that are not the default, as one JSON object."""
        defaults = {field.name: field.default for field in fields(self)}
        chosen = {
            name: value for name, value in asdict(self).items() if value != defaults.get(name)
        }
        return json.dumps({"service": _STORED_VERSION, **chosen}, sort_keys=True)

    @classmethod
    def from_json(cls, stored: str) -> ServiceConfig:
        """What `to_json` gave.

        Raises:
            ValueError: it is something else, or of a newer version.
        """
        try:
            found = json.loads(stored)
        except RecursionError as exc:
            raise ValueError("nested too deeply") from exc
        if not isinstance(found, dict) or found.pop("service", None) != _STORED_VERSION:
            raise ValueError("no service of this version")
        return cls(**_known(found))


def is_stored_service(setting: str) -> bool:
    """Whether a stored choice of embedder is a service and not the name of a model."""
    return setting.startswith("{")


def is_name(value: object) -> bool:
    """Whether a name can be a part of an identity: short, printable, without its separator."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= _MAX_NAME_CHARS
        and value.isprintable()
        and "|" not in value
    )


def _known(found: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(ServiceConfig)}
    if not {"url", "model"} <= found.keys() <= names:
        raise ValueError(f"fields {sorted(found)}")
    return dict(found)


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number in {least}..{most}, not {value!r}")
