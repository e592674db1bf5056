"""Our terms are the ones that FTS5 makes of the analysed text."""

from __future__ import annotations

import shutil
import subprocess
import unicodedata
from collections import defaultdict
from collections.abc import Sequence

import pytest

from sqlindex.analysis.analyser import analyse
from sqlindex.analysis.terms import document_terms, query_terms

pytestmark = pytest.mark.req("B-1", "D-7")


def fts5_terms(texts: Sequence[str]) -> list[list[str]]:
    """Terms of each text in a real FTS5 table, in order, each once."""
    program = shutil.which("sqlite3")
    if program is None:
        pytest.skip("the sqlite3 shell is not installed: apt-get install sqlite3")
    statements = [
        "CREATE VIRTUAL TABLE body USING"
        " fts5(text, content='', tokenize='unicode61 remove_diacritics 2');",
        "CREATE VIRTUAL TABLE term USING fts5vocab(body, instance);",
        "BEGIN;",
    ]
    for number, text in enumerate(texts):
        literal = analyse(text).replace("'", "''")
        statements.append(f"INSERT INTO body(rowid, text) VALUES ({number}, '{literal}');")
    statements.append("COMMIT; SELECT doc, term FROM term ORDER BY doc, offset;")
    answer = subprocess.run(
        [program, ":memory:"], input="\n".join(statements).encode(), capture_output=True, check=True
    )
    assert answer.stderr == b""
    terms: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for row in answer.stdout.decode().split("\n")[:-1]:
        number_text, term = row.split("|")
        terms[int(number_text)][term] = None
    return [list(terms[number]) for number in range(len(texts))]


def test_terms_of_sentences_agree_with_fts5() -> None:
    texts = [
        "Die Größe der Straße, MASSE und Maße; GROẞE Halle",
        "İzmir Şubesi, KIRIK CAM, TITLE of INDEX file",
        "Meier's workshop isn't \"open\" AND (NEAR) the old-mill* ^x {y}",
        "We compile C++ and C# here; node.js, .env, snake_case, camelCase",
        "PRUEF-204417 7f3c91aa-02de-4c11-9b1e-aa5501c2d9f0 3x1.5mm² v1.2.3",
        "Tiếng Việt, český, ελληνικά, Русский йод, հայերեն, ქართული",
        "مُحَمَّد في المدينة، שָׁלוֹם עולם",
        "한국어 서울 हिन्दी ภาษาไทย",
        "emoji 🤖🤖 x🚀y, soft\u00adhyphen, zero\u200bwidth, nul\0byte, bell\x07",
    ]
    assert fts5_terms(texts) == [query_terms(text) for text in texts]
    assert [set(terms) for terms in fts5_terms(texts)] == [document_terms(text) for text in texts]


def test_han_and_kana_agree_with_fts5_in_their_bigrams() -> None:
    texts = ["明日は第三会議室でsqlindexの検証", "库存盘点脚本run-audit之后生成季度报告", "漢"]
    for text, terms in zip(texts, fts5_terms(texts), strict=True):
        assert [term for term in terms if term in query_terms(text)] == query_terms(text)
        singles = set(terms) - set(query_terms(text))
        assert all(len(term) == 1 for term in singles)
        assert document_terms(text) == set(terms)


def test_each_character_joins_or_separates_as_in_fts5() -> None:
    # Vowel signs that Unicode took for marks until version 8, and for letters since.
    reclassified = {*range(0x19B0, 0x19CA), 0x1CF2, 0x1CF3}
    han_and_hangul = {*range(0x3400, 0x4DC0), *range(0x4E00, 0xD7A4)}
    characters = [
        chr(code)
        for code in range(1, 0x20000)
        if code not in reclassified
        and code not in han_and_hangul
        and unicodedata.category(chr(code)) not in ("Cn", "Cs")
    ]
    texts = [f"x{character}y" for character in characters]
    for text, terms in zip(texts, fts5_terms(texts), strict=True):
        assert set(query_terms(text)) <= set(terms), f"U+{ord(text[1]):04X}"
