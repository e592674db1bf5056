"""The address of an embedding service: which ones are taken, and how they are written."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

_MAX_URL_CHARS = 500


def service_url(url: str) -> str:
    """The address in one way of writing: scheme and host in lower case, no slash at the end.

    Raises:
        ValueError: it is no https address, nor http on a loopback address; or it holds a user, a
            query or a fragment, in which a key could hide. The text does not repeat the address.
    """
    if not isinstance(url, str) or len(url) > _MAX_URL_CHARS or not url.isascii():
        raise ValueError(f"url must be an ASCII text of at most {_MAX_URL_CHARS} characters")
    if not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("url holds characters that no address has")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("url is no address") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("url must hold no user and no password; name the key's place instead")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ValueError("url must hold no query and no fragment")
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError("url must be as https://host/v1")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError("url must be https; http is taken on a loopback address only")
    shown = f"[{host}]" if ":" in host else host
    where = shown if port is None else f"{shown}:{port}"
    return f"{parts.scheme}://{where}{parts.path.rstrip('/')}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
