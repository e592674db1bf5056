"""The text that the lexical table is fed with."""

from __future__ import annotations

import unicodedata

from sqlindex.analysis.folding import fold
from sqlindex.analysis.ideographs import has_unspaced_run, spread

ANALYZER_VERSION = 1
"""1: NFKC, case folding, bigrams and single characters of Han and kana."""


def analyzer_fingerprint() -> str:
    """Short text that changes whenever `analyse` may give another result for some text.

    Deleting from a contentless FTS5 table needs the very text that was inserted; with another
    fingerprint the table is rebuilt instead.
    """
    return f"analyser {ANALYZER_VERSION}, unicode {unicodedata.unidata_version}"


def analyse(text: str) -> str:
    """Text for an FTS5 table with the tokenizer `unicode61 remove_diacritics 2`.

    Folded, see `folding.fold`; runs of Han, Hiragana and Katakana are spread into bigrams and
    single characters. Analyse a query with `terms.query_terms`.

    Linear in the text's length.
    """
    folded = fold(text)
    return spread(folded) if has_unspaced_run(folded) else folded
