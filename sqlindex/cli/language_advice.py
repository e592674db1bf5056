"""Says when the chosen model was not made for the languages of the indexed texts."""

from __future__ import annotations

from sqlindex.model.languages import LanguageSigns

MULTILINGUAL = "e5-small"
"""The model to choose instead: the best of those that can be installed."""
FASTER = "use"


def found_languages(signs: LanguageSigns) -> str:
    """What a sample showed, in words."""
    if signs.is_english:
        return "mostly English, as far as can be told"
    return (
        f"of {signs.documents:,} sampled documents {signs.german:,} in German, "
        f"{signs.other_scripts:,} in other scripts"
    )


def advice(signs: LanguageSigns, model_name: str | None) -> str | None:
    """What to do about texts that the index's model is not made for; None if it is."""
    from sqlindex.embedding.models import KNOWN_MODELS

    model = KNOWN_MODELS.get(model_name or "")
    if signs.is_english or (model is not None and model.is_multilingual):
        return None
    choose = f"'sqlindex init --embedder {MULTILINGUAL}' (or the faster '{FASTER}') and refresh"
    if model is None:
        return f"for search by meaning choose a multilingual model: {choose}"
    return f"{model.name} is an English model and hardly finds these by meaning: {choose}"
