"""A report as text for a terminal, and as Markdown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from sqlindex.evaluation.report import EvalReport
from sqlindex.evaluation.tables import Table, blocks, head_lines, tables

_WIDTH = 100


def render_table(report: EvalReport) -> str:
    """The report as plain text of several lines, without a line ending at the end.

    Tables that are wider than 100 characters are continued below.
    """
    lines = head_lines(report)
    for table in tables(report, is_brief=True):
        lines += ["", table.title]
        for position, part in enumerate(blocks(table, _WIDTH)):
            lines += [""] * (position > 0) + _aligned(part)
    return "\n".join(lines)


def render_markdown(report: EvalReport) -> str:
    """The report as a Markdown page: the same tables, with hashes and versions."""
    facts = [f"- {_escaped(line)}" for line in head_lines(report)]
    facts += [f"- warning: {_escaped(warning)}" for warning in report.warnings]
    hashes = (
        ("corpus", report.corpus_sha256),
        ("queries", report.queries_sha256),
        ("qrels", report.qrels_sha256),
    )
    facts += [f"- SHA-256 of the {name}: `{value}`" for name, value in hashes if value is not None]
    facts += [f"- {_escaped(index.embedder)}" for index in report.indexes[:1] if index.embedder]
    facts.append("- " + ", ".join(f"{name} {found}" for name, found in report.versions.items()))
    lines = [f"# Evaluation of {_escaped(report.collection)}", "", *facts]
    for table in tables(report):
        rows = [table.columns, *table.rows]
        cells = ["| " + " | ".join(map(_escaped, row)) + " |" for row in rows]
        rule = "|" + "".join("---|" if is_left else "---:|" for is_left in table.is_left)
        lines += ["", f"## {_escaped(table.title)}", "", cells[0], rule, *cells[1:]]
    return "\n".join(lines) + "\n"


def _aligned(table: Table) -> list[str]:
    """Lines of a table, each column as wide as its longest cell."""
    rows: Sequence[Sequence[str]] = [table.columns, *table.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(row, widths, table.is_left, strict=True)
        ).rstrip()
        for row in rows
    ]


def _escaped(text: str) -> str:
    """Text that Markdown takes as it is: queries are anybody's."""
    words = " ".join(text.split())
    line = "".join(c if unicodedata.category(c) != "Cc" else f"\\x{ord(c):02x}" for c in words)
    return re.sub(r"([\\`*_\[\]<>|&#~])", r"\\\1", line)
