"""What a report was made with, in words that its text, Markdown and HTML share."""

from __future__ import annotations

from sqlindex.evaluation.report import EvalReport, IndexFacts


def is_plain(report: EvalReport) -> bool:
    """Whether the default settings are the only ones, so that no name need be said."""
    return [(one.configuration, dict(one.settings)) for one in report.indexes] == [("default", {})]


def unknown_names(report: EvalReport) -> str:
    """The first relevant documents that the index lacks."""
    rest = (report.unknown_judged or 0) > len(report.unknown_ids)
    return ", ".join([*report.unknown_ids, *(["…"] if rest else [])])


def depth_in_words(depth: int | None) -> str:
    """How deep rankings are; None is as deep as they go."""
    return "as deep as they go" if depth is None else f"{depth:,} deep"


def settings_in_words(index: IndexFacts) -> str:
    """What a configuration changes; an empty text for nothing."""
    return ", ".join(f"{key} = {value}" for key, value in index.settings.items())
