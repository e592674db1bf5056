"""Long sequences in little memory: a report of a million documents must not need a gigabyte."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar, overload

T = TypeVar("T")

_BLOCK = 2_048


def packed(values: Iterable[T]) -> Sequence[T]:
    """The values as a tuple if they are few, else packed."""
    iterator = iter(values)
    first = tuple(islice(iterator, _BLOCK))
    if len(first) < _BLOCK:
        return first
    return Packed(first, iterator)


class Packed(Sequence[T], Generic[T]):
    """An immutable sequence whose values are kept compressed, in blocks.

    Iterating unpacks one block after the other; an index unpacks one block. Equal to any sequence
    with equal values. The blocks never leave this process.
    """

    def __init__(self, first: tuple[T, ...], rest: Iterator[T]) -> None:
        self._blocks: list[bytes] = []
        self._length = 0
        block = first
        while block:
            self._blocks.append(zlib.compress(pickle.dumps(block, pickle.HIGHEST_PROTOCOL), 1))
            self._length += len(block)
            block = tuple(islice(rest, _BLOCK))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step < 0:
                return tuple(self)[index]
            return tuple(islice(self._from(start), 0, max(0, stop - start), step))
        at = index + self._length if index < 0 else index
        if not 0 <= at < self._length:
            raise IndexError(f"index {index} of {self._length} values")
        return self._unpacked(at // _BLOCK)[at % _BLOCK]

    def __iter__(self) -> Iterator[T]:
        return self._from(0)

    def __reversed__(self) -> Iterator[T]:
        for at in reversed(range(len(self._blocks))):
            yield from reversed(self._unpacked(at))

    def _from(self, start: int) -> Iterator[T]:
        for at in range(start // _BLOCK, len(self._blocks)):
            block = self._unpacked(at)
            yield from block[start - at * _BLOCK :] if start > at * _BLOCK else block

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, (str, bytes)):
            return NotImplemented
        return len(self) == len(other) and all(
            ours == theirs for ours, theirs in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash

    def __repr__(self) -> str:
        return f"<Packed: {self._length} values, the first {self[0]!r}>"

    def _unpacked(self, at: int) -> tuple[T, ...]:
        block: tuple[T, ...] = pickle.loads(zlib.decompress(self._blocks[at]))
        return block
