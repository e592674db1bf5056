"""Stand-ins for hosts' tests: deterministic, counted, never chosen by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlindex.testing.embedders import HashingEmbedder

__all__ = ["HashingEmbedder"]


def __getattr__(name: str) -> object:
    """Import a stand-in when it is first used, so that each costs only its own imports."""
    if name == "HashingEmbedder":
        from sqlindex.testing.embedders import HashingEmbedder

        return HashingEmbedder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
