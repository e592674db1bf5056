"""The model hub: files by repository, revision and name over HTTPS, resumed where they stopped.

What has arrived stays in a `.part` file, also over a killed process, and the next attempt asks
for the rest. The pinned size bounds every download and the pinned hash decides over it, so the
hub is trusted with nothing.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from sqlindex.embedding.models import KnownModel, PinnedFile
from sqlindex.embedding.pinned_copy import BLOCK_BYTES, RouteError, Watch
from sqlindex.embedding.staged import sha256_of

if TYPE_CHECKING:
    import urllib3

HUB_URL = "https://huggingface.co"

_CONNECT_SECONDS = 5.0
"""For each address of the host."""
_READ_SECONDS = 30.0
_MAX_REDIRECTS = 5
_MAX_BREAKS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def download_from_hub(
    model: KnownModel, folder: Path, partial_folder: Path, watch: Watch, *, hub_url: str = HUB_URL
) -> str:
    """Download the pinned files into `folder`.

    Args:
        partial_folder: keeps unfinished files for the next attempt; used by one process at a
            time.
        hub_url: https, or http on a loopback address.

    Returns:
        Where the bytes came from, in words.

    Raises:
        RouteError: the hub cannot be reached, refuses, or has other bytes.
        OSError: a file cannot be written.
    """
    import urllib3

    partial_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS)
    with urllib3.PoolManager(timeout=timeout, retries=False) as pool:
        for pinned in model.files:
            url = f"{hub_url}/{model.repository}/resolve/{model.revision}/{pinned.name}"
            part = partial_folder / f"{pinned.name}.part"
            _download(pool, url, pinned, part, watch)
            part.replace(folder / pinned.name)
    return f"model hub {hub_url}/{model.repository}"


def _download(
    pool: urllib3.PoolManager, url: str, pinned: PinnedFile, part: Path, watch: Watch
) -> None:
    """Fill `part`, going on after a broken connection as long as each brings something."""
    from urllib3.exceptions import HTTPError

    for _ in range(_MAX_BREAKS):
        size_before = _size(part)
        if size_before == pinned.byte_size:
            break
        try:
            _append_rest(pool, url, pinned, part, watch)
        except HTTPError as exc:
            if _size(part) <= size_before:
                raise RouteError(f"{pinned.name}: {exc}") from exc
    if _size(part) != pinned.byte_size:
        raise RouteError(f"{pinned.name}: the connection broke {_MAX_BREAKS} times")
    if sha256_of(part) != pinned.sha256:
        part.unlink()
        raise RouteError(f"{pinned.name} does not have the pinned bytes")


def _append_rest(
    pool: urllib3.PoolManager, url: str, pinned: PinnedFile, part: Path, watch: Watch
) -> None:
    """One request for what is missing, written as it comes."""
    offset = _size(part)
    watch.step(f"downloading {pinned.name}", offset, pinned.byte_size)
    response = _get(pool, url, offset)
    try:
        if response.status == 416:  # nothing at that offset: what we have is not the hub's file
            part.unlink(missing_ok=True)
            raise RouteError(f"{pinned.name}: the hub's file is shorter than the pinned one")
        if response.status not in (200, 206):
            raise RouteError(f"{pinned.name}: HTTP status {response.status}")
        if response.status == 206:
            content_range = response.headers.get("Content-Range", "")
            if not content_range.startswith(f"bytes {offset}-"):
                raise RouteError(f"{pinned.name}: asked from {offset}, got {content_range!r}")
        else:
            offset = 0
        with part.open("r+b" if part.exists() else "xb") as file:
            file.truncate(offset)
            file.seek(offset)
            for block in response.stream(BLOCK_BYTES, decode_content=False):
                file.write(block)
                offset += len(block)
                if offset > pinned.byte_size:
                    file.truncate(0)
                    raise RouteError(f"{pinned.name} is longer than the pinned file")
                watch.step(f"downloading {pinned.name}", offset, pinned.byte_size)
    finally:
        response.close()


def _get(pool: urllib3.PoolManager, url: str, offset: int) -> urllib3.BaseHTTPResponse:
    """GET from an offset on, following redirects to safe addresses only."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "sqlindex"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    for _ in range(_MAX_REDIRECTS + 1):
        _require_safe(url)
        response = pool.request("GET", url, headers=headers, preload_content=False, redirect=False)
        location = response.headers.get("Location")
        if response.status not in _REDIRECTS or not location:
            return response
        response.close()
        url = urljoin(url, location)
    raise RouteError(f"more than {_MAX_REDIRECTS} redirects")


def _require_safe(url: str) -> None:
    """Refuse plain HTTP except to this machine: nobody on the way should learn or change it."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        return
    raise RouteError(f"{parts.scheme}://{parts.hostname} is not https")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
