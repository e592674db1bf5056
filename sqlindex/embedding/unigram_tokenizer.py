"""Writes the tokenizer of a model with a SentencePiece unigram vocabulary, as `tokenizers` loads it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SPACE = "\u2581"
"""Stands for a space in pieces."""


@dataclass(frozen=True, slots=True)
class UnigramVocabulary:
    """Pieces with their log probabilities; a piece's id is its place.

    Attributes:
        unknown_id: of what no piece covers.
        opening_id: put before every text.
        closing_id: put after every text.
    """

    pieces: Sequence[tuple[str, float]]
    unknown_id: int
    opening_id: int
    closing_id: int


def write_unigram_tokenizer(
    path: Path, vocabulary: UnigramVocabulary, normalizers: Sequence[Mapping[str, object]]
) -> None:
    """Write `tokenizer.json`.

    Args:
        normalizers: applied to the text one after the other, before spaces are marked.
    """
    opening, closing = (
        {"id": vocabulary.pieces[number][0], "number": number}
        for number in (vocabulary.opening_id, vocabulary.closing_id)
    )
    special_tokens = {
        str(token["id"]): {"id": token["id"], "ids": [token["number"]], "tokens": [token["id"]]}
        for token in (opening, closing)
    }
    content: dict[str, object] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [*normalizers, regex(" {2,}", " ")]},
        "pre_tokenizer": {
            "type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": opening["id"], "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": closing["id"], "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": special_tokens,
        },
        "decoder": None,
        "model": {
            "type": "Unigram",
            "unk_id": vocabulary.unknown_id,
            "vocab": [[piece, score] for piece, score in vocabulary.pieces],
            "byte_fallback": False,
        },
    }  # fmt: skip
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def regex(pattern: str, content: str) -> dict[str, object]:
    """A normalizer that replaces what a regular expression finds."""
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def literal(text: str, content: str) -> dict[str, object]:
    """A normalizer that replaces a text."""
    return {"type": "Replace", "pattern": {"String": text}, "content": content}
