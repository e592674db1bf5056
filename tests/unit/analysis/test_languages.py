"""Languages by script and function words: what a model for English would not find."""

from __future__ import annotations

import pytest

from sqlindex.analysis.languages import language_signs
from sqlindex.model.languages import LanguageSigns

ENGLISH = "The writer holds the lock until its transaction is committed; readers go on."
GERMAN = "Der Mieter kann die Miete mindern, wenn die Wohnung einen Mangel hat."


@pytest.mark.req("D-7")
@pytest.mark.parametrize(
    ("text", "other_scripts", "german"),
    [
        (ENGLISH, 0, 0),
        (GERMAN, 0, 1),
        ("def die(self):\n    return self.der", 0, 0),
        ("La base de données garde les textes et les vecteurs.", 0, 0),
        ("数据库在提交事务之前会先写入日志", 1, 0),
        ("пока держит блокировку", 1, 0),
        ("القفل", 1, 0),
        ("Ελληνικά", 1, 0),
        (f"{ENGLISH} {ENGLISH} 日本語", 0, 0),
        ("", 0, 0),
        ("1234 -- 5678", 0, 0),
    ],
)
def test_a_text_counts_by_its_letters_and_function_words(
    text: str, other_scripts: int, german: int
) -> None:
    assert language_signs([text]) == LanguageSigns(1, other_scripts, german)


def test_a_tenth_of_other_texts_is_enough_to_say_so() -> None:
    assert language_signs([ENGLISH] * 10 + [GERMAN]).is_english
    assert not language_signs([ENGLISH] * 9 + [GERMAN]).is_english
    assert language_signs([]).is_english
