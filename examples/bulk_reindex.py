"""An example job: make an index anew in bulk, and go on after whatever stops it.

    python examples/bulk_reindex.py INDEX [--layer LAYER]… [--workers N] [--every SECONDS] [--tries N]

Run it from a scheduler, or again after a kill: it goes on where it stopped. A line on stderr says now and then
how far it is, how fast, and how long it will still take. Exit code 0 when it is published, 75 (try again
later) when the tries are used up, else that of the error.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence

from sqlindex import CancelToken, Index, Progress
from sqlindex.errors import SqlindexError
from sqlindex.model.layers import LAYERS

TRY_AGAIN_LATER = 75
PAUSE_S = 5.0
WRITER_WAIT_S = 600.0


class Reporter:
    """Says how far a reindex is, but not too often.

    Args:
        every_s: seconds between two lines.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._phase = ""
        self._began = self._said = 0.0
        self._done_before = 0

    def __call__(self, progress: Progress) -> None:
        """Take a step; print it if it is time."""
        now = time.monotonic()
        if progress.phase != self._phase:
            self._phase, self._began, self._done_before = progress.phase, now, progress.done
        elif now - self._said < self._every_s:
            return
        self._said = now
        print(self._line(progress, now - self._began), file=sys.stderr, flush=True)

    def _line(self, progress: Progress, seconds: float) -> str:
        rate = (progress.done - self._done_before) / seconds if seconds else 0.0
        line = f"{progress.phase}: {progress.done:,}"
        if progress.total is not None:
            line += f" of {progress.total:,}"
        line += f" {progress.unit}"
        if rate:
            line += f", {rate:,.1f}/s"
            if progress.total is not None:
                line += f", {(progress.total - progress.done) / rate:,.0f} s left"
        return line


def reindex(options: argparse.Namespace, cancel: CancelToken) -> int:
    """Try until it is published; the exit code."""
    for turn in range(1, options.tries + 1):
        try:
            with Index.open(options.index) as index:
                report = index.reindex(
                    options.layer or None,
                    workers=options.workers,
                    cancel=cancel,
                    progress=Reporter(options.every),
                    wait_s=WRITER_WAIT_S,
                )
        except SqlindexError as exc:
            print(f"try {turn}: {exc}", file=sys.stderr)
            if exc.hint:
                print(f"hint: {exc.hint}", file=sys.stderr)
            if not exc.retryable or cancel.is_cancelled:
                return exc.exit_code
            time.sleep(PAUSE_S)
        else:
            print(f"generation {report.generation} published: {report.embedded:,} texts embedded")
            return 0
    return TRY_AGAIN_LATER


def main(arguments: Sequence[str]) -> int:
    """Run the job; the exit code."""
    parser = argparse.ArgumentParser(description="Make an index anew in bulk.")
    parser.add_argument("index", help="the index file")
    parser.add_argument(
        "--layer", action="append", choices=LAYERS, help="only this one; repeatable"
    )
    parser.add_argument("--workers", type=int, default=0, help="processes that parse and embed")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two lines")
    parser.add_argument("--tries", type=int, default=3, help="before it gives up")
    cancel = CancelToken()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: cancel.cancel())
    return reindex(parser.parse_args(arguments), cancel)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
