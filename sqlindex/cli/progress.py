"""Progress on a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlindex.indexing.report import Progress, ProgressSink

_LABELS = {
    "read": "reading",
    "embed": "embedding",
    "publish": "publishing",
    "search": "searching",
    "copy": "copying",
    "measure": "measuring",
}


@contextmanager
def shown_progress() -> Iterator[ProgressSink]:
    """A sink that draws a bar for each phase on stderr if that is a terminal.

    With how many of how many, the rate, the time since the phase began and the time it still needs.
    """
    from sqlindex.indexing.report import no_progress

    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task_by_phase = {}

        def show(progress: Progress) -> None:
            if progress.phase not in task_by_phase:
                task_by_phase[progress.phase] = bars.add_task(
                    _LABELS[progress.phase], total=None, rate=""
                )
            task = task_by_phase[progress.phase]
            bars.update(task, completed=progress.done, total=progress.total)
            bars.update(task, rate=rate_of(bars.tasks[task].speed, progress.unit))

        yield show


def rate_of(speed: float | None, unit: str) -> str:
    """`12.3 texts/s`; nothing while it is unknown."""
    return (
        "" if not speed else f"{speed:,.0f} {unit}/s" if speed >= 100 else f"{speed:.1f} {unit}/s"
    )
