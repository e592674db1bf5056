"""Who parses: this process, or the workers of a crew; the outcome does not depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sqlindex.cancellation import WorkerThread
from sqlindex.errors import CancelledError
from sqlindex.indexing.prepare import Parsed, Workshop


class Parsing(Protocol):
    """Parses and cuts texts while the caller reads others and stores."""

    @property
    def is_free(self) -> bool:
        """Whether another text can be started."""

    def start(self, number: int, document_id: str, type_name: str, text: str) -> None:
        """Begin with a text of a registered type."""

    def finished(self) -> tuple[int, Parsed | Exception]:
        """Wait for a text that was started: its number, and what came of it.

        Raises:
            CancelledError: cancelled while waiting.
        """


class OwnParsing:
    """One text at a time, in the worker thread of an operation."""

    def __init__(self, workshop: Workshop, worker: WorkerThread) -> None:
        self._workshop = workshop
        self._worker = worker
        self._waiting: tuple[int, Callable[[], Parsed]] | None = None

    @property
    def is_free(self) -> bool:
        """Whether no text waits."""
        return self._waiting is None

    def start(self, number: int, document_id: str, type_name: str, text: str) -> None:
        """Take a text; `finished` parses it."""
        self._waiting = number, lambda: self._workshop.parsed(type_name, text)

    def finished(self) -> tuple[int, Parsed | Exception]:
        """Parse the text; see `Parsing`."""
        assert self._waiting is not None
        (number, parse), self._waiting = self._waiting, None
        try:
            return number, self._worker.run(parse)
        except CancelledError:
            raise
        except Exception as exc:
            return number, exc
