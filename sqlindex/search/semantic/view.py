"""The chunks and vectors of one generation in memory, for the channels that look at all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlindex.cancellation import CancelToken
from sqlindex.errors import CorruptIndexError
from sqlindex.search.semantic.exact_cosine import VectorTable
from sqlindex.store.driver import Connection
from sqlindex.store.snapshot import chunk_columns
from sqlindex.store.vectors import read_vectors, space_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class GenerationView:
    """What semantic and hybrid search need of a generation; positions are the order of ties.

    Attributes:
        slots: int64 of shape (chunks,), in the order (source, document id, start character).
        rows: int64 of shape (chunks,): the chunk's row in `table`, or -1 without a vector.
        by_slot: int64 of shape (chunks,): positions in ascending order of their slots.
        table: the vectors.
    """

    slots: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    by_slot: npt.NDArray[np.int64]
    table: VectorTable

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        table = self.table
        arrays = (self.slots, self.rows, self.by_slot, table.text_ids, table.norms, table.vectors)
        return sum(array.nbytes for array in arrays)

    @classmethod
    def read(
        cls, connection: Connection, generation: int, space_id: int, cancel: CancelToken
    ) -> GenerationView:
        """Read the chunks and vectors of a generation: O(chunks × dimensions).

        Raises:
            CorruptIndexError: a vector is damaged.
        """
        import numpy as np

        columns = chunk_columns(connection, generation)
        slots = np.array([slot for slot, _ in columns], np.int64)
        text_ids = np.array([text_id for _, text_id in columns], np.int64)
        _, dimensions = space_of(connection, space_id)
        blocks = cancel.checked(read_vectors(connection, space_id, dimensions))
        table = VectorTable.of_blocks(blocks, dimensions, np.unique(text_ids))
        rows = np.searchsorted(table.text_ids, text_ids)
        known = rows < len(table.text_ids)
        known[known] = table.text_ids[rows[known]] == text_ids[known]
        rows[~known] = -1
        return cls(slots, rows, np.argsort(slots), table)

    def candidates(self, version_ranges: Sequence[tuple[int, int]] | None) -> npt.NDArray[np.bool_]:
        """Which positions belong to the versions with these (first slot, chunks); all for None."""
        import numpy as np

        if version_ranges is None:
            return np.ones(len(self.slots), bool)
        if not version_ranges:
            return np.zeros(len(self.slots), bool)
        firsts = np.array([first for first, _ in version_ranges], np.int64)
        behind = firsts + np.array([chunks for _, chunks in version_ranges], np.int64)
        at = np.searchsorted(firsts, self.slots, side="right") - 1
        return (at >= 0) & (self.slots < behind[at])

    def positions_of(self, slots: Sequence[int]) -> npt.NDArray[np.int64]:
        """Positions of slots.

        Raises:
            CorruptIndexError: a slot is none of the generation's.
        """
        import numpy as np

        wanted = np.array(slots, np.int64)
        ascending = self.slots[self.by_slot]
        at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
        is_stray = ascending[at] != wanted
        if is_stray.any():
            raise CorruptIndexError(
                f"the lexical table names slot {wanted[is_stray][0]}, which holds no chunk",
                hint="run 'sqlindex check'",
            )
        return self.by_slot[at]
