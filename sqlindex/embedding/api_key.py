"""The key of a service: read where it lies for each request, shown nowhere.

It is kept in no configuration, index, log, error, `repr` or pickle, and what a service says is not
repeated if it echoes the key.
"""

from __future__ import annotations

import base64
import os
import stat
from typing import NoReturn
from urllib.parse import quote

from sqlindex.embedding.service_config import ServiceConfig
from sqlindex.errors import ApiKeyError

_MAX_KEY_BYTES = 4_096
_ECHO_CHARS = 8
"""So many characters of the key in a row are an echo of it."""


class ApiKey:
    """A key that neither prints nor pickles."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "ApiKey(hidden)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled")

    def authorization(self) -> str:
        """Value of the request's header."""
        return f"Bearer {self._value}"

    def is_in(self, text: str) -> bool:
        """Whether a text holds the key or a longer part of it, also quoted or in base64."""
        if len(self._value) < _ECHO_CHARS:  # too short to hide, and part of many words
            return text.strip() == self._value
        return any(part in text for form in self._forms() for part in _parts(form))

    def is_whole_in(self, body: bytes) -> bool:
        """As `is_in`, for all of the key: quick enough for a long body."""
        if len(self._value) < _ECHO_CHARS:
            return False
        return any(form.encode() in body for form in self._forms())

    def _forms(self) -> set[str]:
        raw = self._value.encode()
        return {
            self._value,
            quote(self._value, safe=""),
            # Its base64 depends on what stands before it only in the first and last characters.
            *(base64.b64encode(b"\0" * pad + raw).decode()[4:-4] for pad in range(3)),
        }


def _parts(form: str) -> set[str]:
    return {form[at : at + _ECHO_CHARS] for at in range(len(form) - _ECHO_CHARS + 1)}


def read_key(config: ServiceConfig) -> ApiKey | None:
    """The key from where the configuration says; None if it names no place.

    Raises:
        ApiKeyError: it is not there, or not usable as one; or its file is a link, not the user's own,
            or readable for others.
    """
    if config.key_env:
        value = os.environ.get(config.key_env, "").strip()
        place = f"environment variable {config.key_env}"
        if not value:
            raise ApiKeyError(
                f"the key of the embedding service is not in {place}",
                hint="set it, or search with mode lexical",
            )
    elif config.key_file:
        value = _read_file(config.key_file).strip()
        place = f"file {config.key_file}"
    else:
        return None
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        del value  # a traceback can show what its frames hold
        raise ApiKeyError(f"what is in {place} is no key", hint="one line of printable ASCII")
    return ApiKey(value)


def _read_file(path: str) -> str:
    # Not followed and not waited for: what is opened is what is looked at below.
    flags = os.O_RDONLY | os.O_CLOEXEC if hasattr(os, "O_CLOEXEC") else os.O_RDONLY
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if os.path.islink(path):
            raise ApiKeyError(f"the key file {path} is a link", hint="name the file itself")
        handle = os.open(path, flags)
    except OSError as exc:
        raise ApiKeyError(f"the key file {path} cannot be read: {exc.strerror}") from exc
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ApiKeyError(f"the key file {path} is not a regular file")
        if os.name == "posix" and (found.st_mode & 0o077 or found.st_uid != os.geteuid()):
            raise ApiKeyError(
                f"the key file {path} is not the user's alone (mode {stat.S_IMODE(found.st_mode):04o})",
                hint=f"chmod 600 {path}, as its owner",
            )
        if found.st_size > _MAX_KEY_BYTES:
            raise ApiKeyError(f"the key file {path} is longer than a key")
        return os.read(handle, _MAX_KEY_BYTES).decode("ascii", "replace")
    finally:
        os.close(handle)
