"""What a publish gate asks of a generation, and what it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlindex.model.requests import Mode

Comparison = Literal[">=", ">"]


@dataclass(frozen=True, slots=True)
class GateCondition:
    """One bound that the mean of a measure over the questions must reach.

    Attributes:
        measure: its canonical name, for example `nDCG@10`.
        comparison: `>=` or `>`.
        bound: within 0..1.
    """

    measure: str
    comparison: Comparison
    bound: float

    def is_met(self, value: float) -> bool:
        """Whether a value reaches the bound."""
        return value >= self.bound if self.comparison == ">=" else value > self.bound

    def __str__(self) -> str:
        return f"{self.measure} {self.comparison} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class GateResult:
    """What a gate measured of a generation.

    Attributes:
        gate: its conditions, as they were written.
        mode: that the questions were searched in.
        questions: how many were measured: those with an expected document.
        values: mean by measure.
    """

    gate: str
    mode: Mode
    questions: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class GatedGeneration:
    """A generation that a gate keeps from being published; it waits in the file.

    Attributes:
        result: what the gate measured of it.
        missed: the conditions that it missed, in words.
        base_generation: the head that it was made on. It can be published as long as that is the head.
        started_at: when its refresh began, UTC, ISO 8601.
        gated_at: when the gate measured it.
        documents: that it adds or changes.
        changes: how many documents its refresh found `added`, `changed`, `reparsed`, `renamed`,
            `removed` and `unchanged`, and how many texts it `embedded`.
    """

    result: GateResult
    missed: tuple[str, ...]
    base_generation: int
    started_at: str
    gated_at: str
    documents: int
    changes: Mapping[str, int]
