"""`doctor` and `init` say when the model is not made for what is indexed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex import Index
from tests.faults import sqlindex

GERMAN = "Der Mieter kann die Miete mindern, wenn die Wohnung einen Mangel hat.\n"
ENGLISH = "The writer holds the lock until its transaction is committed.\n"


def _indexed(db: Path, folder: Path, texts: list[str]) -> str:
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    with Index.open(db, create=True) as index:
        index.add_source(folder)
        index.refresh()
        assert index.language_signs().documents == min(len(texts), 100)
    return str(db)


def _languages(db: str) -> dict[str, str]:
    diagnoses = sqlindex("doctor", "--json", "--db", db).json["diagnoses"]
    (found,) = (one for one in diagnoses if one["part"] == "languages")
    return dict(found)


@pytest.mark.req("D-7")
def test_german_under_an_english_model_is_told_with_the_model_to_choose(
    tmp_path: Path, folder: Path
) -> None:
    db = _indexed(tmp_path / "index.db", folder, [GERMAN] * 3 + [ENGLISH] * 2)
    assert "multilingual" in _languages(db)["why"]
    told = sqlindex("init", "--embedder", "minilm", "--db", db)
    assert "minilm is an English model" in told.err
    found = _languages(db)
    assert (found["state"], found["found"]) == (
        "note",
        "of 5 sampled documents 3 in German, 0 in other scripts",
    )
    assert "'sqlindex init --embedder e5-small'" in found["why"]
    assert "English model" not in sqlindex("init", "--embedder", "e5-small", "--db", db).err
    assert _languages(db)["state"] == "ok"


@pytest.mark.req("D-7")
def test_english_under_an_english_model_is_fine(tmp_path: Path, folder: Path) -> None:
    db = _indexed(tmp_path / "index.db", folder, [ENGLISH] * 250)
    assert sqlindex("init", "--embedder", "minilm-int8", "--db", db).err.count("English") == 0
    assert _languages(db)["state"] == "ok"
