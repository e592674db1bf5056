"""Files of judged collections line by line: every complaint names the file and the line."""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Container, Iterator, Mapping
from hashlib import sha256
from io import BufferedIOBase
from pathlib import Path

from sqlindex.errors import UsageError
from sqlindex.text_lines import text_lines

FORM_HINT = (
    "a judged collection is a folder with corpus.jsonl[.gz], queries.jsonl or queries.tsv, and "
    "qrels.tsv (or qrels/test.tsv)"
)


# Python's own readers also take `1_0`, other scripts' digits, and words.
_INTEGER = re.compile(r"[+-]?[0-9]{1,100}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Lines:
    """The lines of a file, plain or `.gz`, with their numbers; hashes what it reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self._digest = sha256()

    @property
    def sha256(self) -> str:
        """Of the bytes read so far, uncompressed, in hexadecimal."""
        return self._digest.hexdigest()

    @property
    def is_json(self) -> bool:
        """Whether the name says JSON Lines."""
        return self.path.name.removesuffix(".gz").endswith((".jsonl", ".json"))

    def __iter__(self) -> Iterator[str]:
        """Yield every line that is not blank, without its line ending."""
        try:
            with self._open() as stream:
                lines = text_lines(self._hashed(stream), self.path, hint=FORM_HINT)
                for self.number, text in lines:
                    yield text
        except (OSError, EOFError, zlib.error) as exc:
            raise UsageError(
                f"{self.path} cannot be read: {getattr(exc, 'strerror', None) or exc}",
                hint="check the file, or fetch it again",
            ) from exc

    def objects(self) -> Iterator[dict[str, object]]:
        """Yield every line as a JSON object."""
        for line in self:
            try:
                fields = json.loads(line)
            except (ValueError, RecursionError) as exc:
                raise self.error(f"not JSON: {exc}") from exc
            if not isinstance(fields, dict):
                raise self.error("not a JSON object")
            yield fields

    def error(self, problem: str, hint: str = FORM_HINT) -> UsageError:
        """What is wrong with the line read last."""
        return UsageError(f"{self.path}, line {self.number}: {problem}", hint=hint)

    def new_id(self, given: str, taken: Container[str]) -> str:
        """An id as it is, if it can be one and is new."""
        if not given or any(character in given for character in "\t\n\r\0"):
            raise self.error(f"the id {given!r} is empty or holds a tab, a line end or a NUL")
        if given in taken:
            raise self.error(
                f"the id {given!r} is taken already", hint="make ids unique in the file"
            )
        return given

    def text_of(
        self, fields: Mapping[str, object], name: str, *, default: str | None = None
    ) -> str:
        """A field of a line's object that is a text."""
        value = fields.get(name, default)
        if not isinstance(value, str):
            found = f"is {shown(value)}, not a text" if name in fields else "is missing"
            raise self.error(f"the field {name!r} {found}")
        self.require_encodable(name, value)
        return value

    def require_encodable(self, name: str, *values: str) -> None:
        """Refuse texts of a field that no file in UTF-8 can hold."""
        try:
            "".join(values).encode()
        except UnicodeEncodeError as exc:
            raise self.error(f"the field {name!r} holds a lone surrogate") from exc

    def id_of(self, fields: Mapping[str, object], taken: Container[str]) -> str:
        """The id of a line's object, `id` or `_id`."""
        return self.new_id(self.text_of(fields, "id" if "id" in fields else "_id"), taken)

    def _hashed(self, stream: BufferedIOBase) -> Iterator[bytes]:
        for line in stream:
            self._digest.update(line)
            yield line

    def _open(self) -> BufferedIOBase:
        return gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb")


def shown(value: object) -> str:
    """A value of a JSON file as it is written there; a lone surrogate stays an escape."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def columns(count: int) -> str:
    """`1 column`, `2 columns`."""
    return f"{count} column" if count == 1 else f"{count} columns"


def integer(written: str) -> int | None:
    """The integer that is written there in ASCII digits, or None."""
    return int(written) if _INTEGER.fullmatch(written.strip()) else None


def finite(written: str) -> float | None:
    """The finite number that is written there in ASCII digits, or None."""
    value = float(written) if _NUMBER.fullmatch(written.strip()) else math.nan
    return value if math.isfinite(value) else None
