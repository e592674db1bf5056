"""The layers of an index that can be made anew without a change of what they are made from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, get_args

from sqlindex.errors import UsageError

Layer = Literal["chunks", "lexical", "vectors"]
"""`chunks`: the documents are read, parsed and cut. `lexical`: the full-text table. `vectors`: those
of the present embedder. Each is made from the one before it or from the sources, never in place."""

LAYERS: Final[tuple[Layer, ...]] = get_args(Layer)


def chosen_layers(names: Iterable[str] | None, *, has_embedder: bool) -> frozenset[Layer]:
    """The layers that are meant: all that there are if None.

    Raises:
        UsageError: a name is that of no layer; there are none; or vectors, without an embedder.
    """
    if isinstance(names, str):
        raise ValueError("layers must be several names, not one text")
    there = [layer for layer in LAYERS if layer != "vectors" or has_embedder]
    if names is None:
        return frozenset(there)
    wanted = set(names)
    if unknown := sorted(wanted.difference(LAYERS)):
        raise UsageError(
            f"there is no layer {', '.join(map(repr, unknown))}", hint=f"one of {', '.join(LAYERS)}"
        )
    if not wanted:
        raise UsageError(
            "no layer is named", hint=f"name one of {', '.join(LAYERS)}, or none at all"
        )
    if "vectors" in wanted and not has_embedder:
        raise UsageError(
            "vectors cannot be made anew without an embedder",
            hint="open the index with one, or choose a model: 'sqlindex init --embedder NAME'",
        )
    return frozenset(layer for layer in LAYERS if layer in wanted)
