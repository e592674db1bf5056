"""Which live versions a listing has named: one bit each."""

from __future__ import annotations


class SeenVersions:
    """A set of version ids, as large as the largest id in bits."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, version_id: int) -> None:
        """Put an id into the set."""
        at = version_id >> 3
        if at >= len(self._bits):
            self._bits.extend(bytes(at + 1 + (at >> 1) - len(self._bits)))
        self._bits[at] |= 1 << (version_id & 7)

    def __contains__(self, version_id: int) -> bool:
        at = version_id >> 3
        return at < len(self._bits) and bool(self._bits[at] & 1 << (version_id & 7))
