"""Which services this user lets an index name: an index from elsewhere may name any address.

Refreshing sends texts to the address that an index names, searching sends the query, and both send
the key from the place that it names. So an index alone is not enough: a service is used only if this
user chose it on this machine, for any index. Services on a loopback address without a key need no
choice. What is allowed is a list of lines in the user's configuration folder.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from sqlindex.embedding.service_config import ServiceConfig
from sqlindex.embedding.service_url import is_loopback
from sqlindex.errors import EmbedderRefusedError, StorageError

_MAX_BYTES = 1 << 20


def allowed_services_path() -> Path:
    """`SQLINDEX_SERVICES`, or `services` in the user's configuration folder of this program."""
    configured = os.environ.get("SQLINDEX_SERVICES")
    if configured:
        return Path(configured)
    import platformdirs

    return Path(platformdirs.user_config_dir("sqlindex", appauthor=False)) / "services"


def allow_service(config: ServiceConfig) -> None:
    """Let indexes of this user name that address with that place of a key.

    Raises:
        StorageError: the list cannot be written; it is as it was.
    """
    if _needs_no_choice(config):
        return
    path, line = allowed_services_path(), _line(config)
    lines = _lines(path)
    if line in lines:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.writelines(f"{each}\n" for each in [*lines, line])
            os.replace(made, path)
        except BaseException:
            os.unlink(made)
            raise
    except OSError as exc:
        raise StorageError(
            f"the list of allowed services {path} cannot be written: {exc.strerror}",
            hint="name another file: SQLINDEX_SERVICES",
        ) from exc


def require_allowed(config: ServiceConfig) -> None:
    """Refuse a service that this user has not chosen here.

    Raises:
        EmbedderRefusedError: it is not on the list.
    """
    if _needs_no_choice(config) or _line(config) in _lines(allowed_services_path()):
        return
    key = " with a key" if config.has_key else ""
    raise EmbedderRefusedError(
        f"the index names the service {config.title}{key}, which you have not chosen on this machine",
        hint="if you trust it with your texts: sqlindex init with --embedder-url, --embedder-model and "
        "the place of the key; or search with mode lexical",
    )


def _needs_no_choice(config: ServiceConfig) -> bool:
    return not config.has_key and is_loopback(urlsplit(config.url).hostname or "")


def _line(config: ServiceConfig) -> str:
    key = f"env {config.key_env}" if config.key_env else ""
    key = f"file {config.key_file}" if config.key_file else key
    return f"{config.url} {key}".rstrip()


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
