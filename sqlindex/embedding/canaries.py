"""Canaries: a few texts whose vectors are known, so that a model that runs but is wrong is noticed.

Hashes say that files are those that were staged; they cannot say that they were the right ones,
since whoever changes a file can change the manifest beside it. The vectors here come with this
program. They show a change in the weights, the tokenizer, the pooling, the prefixes or the
runtime's arithmetic.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING

from sqlindex.errors import ModelFilesError
from sqlindex.ports import Embedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sqlindex.embedding.models import KnownModel

CANARY_TEXTS = (
    " \n ",
    "The writer holds the lock until its transaction is committed; readers go on meanwhile.",
    "Größere Änderungen müssen die Prüfer bis Ende März schriftlich bestätigen.",
    "数据库在提交事务之前会先写入日志，读取者不会被阻塞。",
    "def retry(count):\n    return [wait(2**n) for n in range(count)]  # naïve façade 😀",
    "Every chapter of this long text repeats itself. " * 120,
)
"""Nothing to speak of, English, German, Chinese, code with rare characters, more than any limit."""

_FILE = "canaries.json"
_STEPS = 32_767
"""Vectors are kept as 16-bit integers: components times this."""

_TOLERANCE_BY_PRECISION = {"fp32": 1e-4, "int8": 2e-3}
"""Of one component. Other processors add in another order, which in 8-bit models moves a value over
the edge of a step now and then; another type moves components by about 1e-2."""

Canaries = Mapping[str, str]
"""For `documents` and `queries`: the vectors of the texts, one after the other, as base64."""


def canaries_of(model: KnownModel) -> Canaries | None:
    """The known vectors of a model; None for a model that is not in the table."""
    content = resources.files("sqlindex.embedding").joinpath(_FILE).read_text("utf-8")
    found: Canaries | None = json.loads(content).get(model.name)
    return found


def packed_canaries(embedder: Embedder) -> Canaries:
    """The vectors that an embedder gives now, ready to be kept."""
    return {kind: _packed(vectors) for kind, vectors in _vectors(embedder).items()}


def check_canaries(model: KnownModel, embedder: Embedder, canaries: Canaries) -> None:
    """Compare what an embedder gives with the known vectors.

    Raises:
        ModelFilesError: a vector differs by more than other processors explain.
        EmbedderError: the model cannot be run.
        OptionalDependencyError: a package of the extra is missing.
    """
    import numpy as np

    tolerance = _TOLERANCE_BY_PRECISION[model.precision]
    for kind, vectors in _vectors(embedder).items():
        known = _unpacked(canaries[kind], vectors.shape)
        differences = np.abs(vectors - known).max(axis=1)
        worst = int(differences.argmax())
        # Written so that NaN fails too.
        if not differences.max() <= tolerance:
            raise ModelFilesError(
                f"model {model.name} does not give the known vectors: as {kind}, text {worst + 1} of "
                f"{len(CANARY_TEXTS)} differs by {differences[worst]:.1g} (at most {tolerance:g})",
                hint=f"delete its folder and install it again: sqlindex model install {model.name}",
            )


def _vectors(embedder: Embedder) -> dict[str, npt.NDArray[np.float32]]:
    import numpy as np

    return {
        "documents": embedder.embed_documents(CANARY_TEXTS),
        "queries": np.stack([embedder.embed_query(text) for text in CANARY_TEXTS]),
    }


def _packed(vectors: npt.NDArray[np.float32]) -> str:
    import numpy as np

    return base64.b64encode(np.rint(vectors * _STEPS).astype("<i2").tobytes()).decode("ascii")


def _unpacked(packed: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    import numpy as np

    integers = np.frombuffer(base64.b64decode(packed), "<i2")
    if integers.size != np.prod(shape):
        raise ModelFilesError(f"the known vectors are not of shape {shape}")
    return integers.reshape(shape).astype(np.float32) / np.float32(_STEPS)
