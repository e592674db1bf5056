"""`python -m tests.unit.embedding.write_canaries NAME…`: keep the vectors that staged models give now.

To be run when a graph or an adapter changed on purpose, after the tests against the plain float64
forward pass have passed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sqlindex.embedding import canaries
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import require_staged

PATH = Path(canaries.__file__).with_name("canaries.json")


def main(names: list[str]) -> None:
    """Replace the entries of these models."""
    kept = json.loads(PATH.read_text(encoding="utf-8"))
    for name in names:
        kept[name] = canaries.packed_canaries(LocalEmbedder(require_staged(name)))
    PATH.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
