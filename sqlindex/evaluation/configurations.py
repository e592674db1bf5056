"""Settings to compare: a name, and what differs from the defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from sqlindex.config import ChunkConfig, IndexConfig, SearchConfig
from sqlindex.errors import UsageError
from sqlindex.evaluation.lines import finite, integer

_CHUNK_SETTINGS = {one.name: one for one in fields(ChunkConfig)}
_SEARCH_SETTINGS = {
    one.name: one
    for one in fields(SearchConfig)
    if one.name not in ("busy_timeout_ms", "deadline_ms")
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """What an evaluation is run under.

    Attributes:
        name: in reports and names of runs.
        chunks: how documents are cut; each other cut has an index of its own.
        search: how channels are weighted and fused.
        settings: what was written, by name.
    """

    name: str = "default"
    chunks: ChunkConfig = field(default_factory=ChunkConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def index(self) -> IndexConfig:
        """The write side's settings."""
        return IndexConfig(chunks=self.chunks)

    def index_path(self, base: Path) -> Path:
        """The index of this cut: `base` for the default one, else a file beside it."""
        if self.chunks == ChunkConfig():
            return base
        cut = self.chunks.fingerprint.replace("/", "-")
        return base.with_name(f"{base.stem}-{cut}{base.suffix}")


DEFAULT_CONFIGURATION = Configuration()


def parse_configuration(text: str) -> Configuration:
    """`NAME=key=value,key=value`; the keys are fields of `ChunkConfig` and `SearchConfig`.

    `NAME=` alone means the defaults.

    Raises:
        UsageError: it is malformed, or a key or value is none that there is.
    """
    name, is_named, written = text.partition("=")
    if not is_named or not name or not name.replace("-", "").replace("_", "").isalnum():
        raise UsageError(
            f"configuration {text!r} has no name",
            hint="for example 'small=target_chars=400,min_chars=100'; letters, digits, - and _ in the name",
        )
    settings: dict[str, str] = {}
    chunks: dict[str, Any] = {}
    search: dict[str, Any] = {}
    for pair in filter(None, written.split(",")):
        key, _, value = (part.strip() for part in pair.partition("="))
        group, known = (
            (chunks, _CHUNK_SETTINGS[key])
            if key in _CHUNK_SETTINGS
            else (search, _SEARCH_SETTINGS.get(key))
        )
        if known is None or key in settings:
            raise UsageError(
                f"configuration {name!r} has {key!r} "
                + ("twice" if key in settings else "that is no setting"),
                hint=f"one of {', '.join([*_CHUNK_SETTINGS, *_SEARCH_SETTINGS])}",
            )
        settings[key] = value
        number = finite(value) if known.type == "float" else integer(value)
        if number is None:
            raise UsageError(
                f"configuration {name!r}: {key} is {value!r}, not a number",
                hint=f"the default is {known.default}",
            )
        group[key] = number
    try:
        return Configuration(
            name, replace(ChunkConfig(), **chunks), replace(SearchConfig(), **search), settings
        )
    except ValueError as exc:
        raise UsageError(
            f"configuration {name!r}: {exc}", hint="settings are checked together"
        ) from exc


def require_different(configurations: Sequence[Configuration]) -> None:
    """Refuse two configurations of one name, and none at all.

    Raises:
        UsageError: there are such.
    """
    names = [configuration.name for configuration in configurations]
    if not names or len(set(names)) < len(names):
        raise UsageError(
            f"the configurations are {', '.join(names) or 'none'}", hint="give each its own name"
        )
