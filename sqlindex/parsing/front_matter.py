"""YAML front matter of Markdown files: finding it, reading it, bounding what it can cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime

MAX_FRONT_MATTER_CHARS = 65_536
MAX_ALIASES = 16
MAX_DEPTH = 32

_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_OPENING = re.compile(r"\ufeff?---[ \t]*\r?\n")
_KEY_LINE = re.compile(r"\s*[\w\"'][^:\n]*:(?:\s|$)")
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:(?:[Tt]|[ \t]+)(\d{1,2})(:\d\d.*))?$")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A front matter block.

    Attributes:
        end_char: offset of the line after the closing fence.
        raw: the text between the fences.
        is_well_formed: whether it is a YAML mapping (or empty) within the bounds.
        title, date, tags, aliases: as in `ParsedDocument`; empty if not well formed.
    """

    end_char: int
    raw: str
    is_well_formed: bool
    title: str | None = None
    date: str | None = None
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


def find_front_matter(text: str) -> FrontMatter | None:
    """Find front matter: `---` as line 1, closed by a line `---` or `...`.

    Without a closing line within `MAX_FRONT_MATTER_CHARS` it is a thematic break. A closed
    block is malformed if YAML cannot read it as a mapping but its first line looks like a key;
    closed prose that does not even look like that is Markdown between two breaks.

    Returns:
        The block, well formed or malformed, or None if there is none.
    """
    opening = _OPENING.match(text)
    if opening is None:
        return None
    start = opening.end()
    closing = _CLOSING.search(text, start, start + MAX_FRONT_MATTER_CHARS)
    # A line that only the limit cuts off to `---` closes nothing.
    if closing is None or text[closing.end() : closing.end() + 1] not in ("", "\n"):
        return None
    raw = text[start : closing.start()]
    line_end = text.find("\n", closing.end())
    end = len(text) if line_end < 0 else line_end + 1
    values = _read(raw)
    if values is None:
        looks_meant = _KEY_LINE.match(raw) is not None
        return FrontMatter(end, raw, is_well_formed=False) if looks_meant else None
    return FrontMatter(
        end_char=end,
        raw=raw,
        is_well_formed=True,
        title=_title(values.get("title")),
        date=date_of(values.get("date")),
        tags=tags_of(values.get("tags")),
        aliases=_aliases(values.get("aliases", values.get("alias"))),
    )


def _read(raw: str) -> dict[str, object] | None:
    """Values by lower-case key, scalars as written; None if it is not a bounded mapping."""
    import yaml

    # Scalars stay strings: `on` is a tag, `1984` a title, and no number or date can fail.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        # Events first, one by one: composing nodes recurses, and aliases multiply them.
        depth = aliases = 0
        for event in yaml.parse(raw, Loader=loader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.AliasEvent):
                aliases += 1
            if depth > MAX_DEPTH or aliases > MAX_ALIASES:
                return None
        values = yaml.load(raw, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if values is None:
        return {}
    if not isinstance(values, dict):
        return None
    by_key: dict[str, object] = {}
    for key, value in values.items():
        by_key.setdefault(str(key).lower(), value)
    return by_key


def _title(value: object) -> str | None:
    if not isinstance(value, str) or value in _NULLS:
        return None
    return " ".join(value.split()) or None


def date_of(value: object) -> str | None:
    """ISO 8601 of what YAML calls a date or a timestamp, else None."""
    found = _DATE.match(value.strip()) if isinstance(value, str) else None
    if found is None:
        return None
    year, month, day, hour, rest = found.groups()
    try:
        day_iso = date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None
    if hour is None:
        return day_iso
    try:
        clock = f"{int(hour):02}{rest}".replace(" ", "").upper()
        return datetime.fromisoformat(f"{day_iso}T{clock}").isoformat()
    except ValueError:
        return day_iso


def tags_of(value: object) -> tuple[str, ...]:
    """Tags of a list, or of a text that names them between commas or spaces, each once."""
    if isinstance(value, str):
        names: list[object] = list(value.split(",") if "," in value else value.split())
    elif isinstance(value, list):
        names = value
    else:
        return ()
    tags: dict[str, None] = {}
    for name in names:
        if isinstance(name, str) and name not in _NULLS:
            tags[" ".join(name.split()).lstrip("#").strip()] = None
    tags.pop("", None)
    return tuple(tags)


def _aliases(value: object) -> tuple[str, ...]:
    """Names of a list, or of a text that parts them by commas."""
    names: list[object]
    if isinstance(value, str):
        names = list(value.split(","))
    elif isinstance(value, list):
        names = value
    else:
        return ()
    texts = (
        " ".join(name.split()) for name in names if isinstance(name, str) and name not in _NULLS
    )
    return tuple(dict.fromkeys(text for text in texts if text))
