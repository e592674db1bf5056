"""Which languages the texts of an index seem to be in."""

from __future__ import annotations

from dataclasses import dataclass

_ENOUGH = 0.1


@dataclass(frozen=True, slots=True)
class LanguageSigns:
    """What a sample of documents looks like.

    Attributes:
        documents: how many were looked at.
        other_scripts: of these, written in other letters than Latin ones.
        german: of these, in German.
    """

    documents: int
    other_scripts: int
    german: int

    @property
    def is_english(self) -> bool:
        """Whether less than a tenth is known to be in another language."""
        return self.other_scripts + self.german < _ENOUGH * self.documents or not self.documents
