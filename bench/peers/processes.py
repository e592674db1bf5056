"""Run a peer's driver, one process for each task, and read what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.machine import ROOT
from bench.peers.environments import PeerFailedError, last_line

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

TASK_SECONDS = 900
_QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "HF_HUB_OFFLINE": "1",
    "LANCE_LOG": "error",
    "TOKENIZERS_PARALLELISM": "false",
}

Said = dict[str, Any]
"""One object that a driver printed."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer that can be run: its name and the interpreter that has its packages."""

    name: str
    python: Path

    def run(self, task: str, store: Path, corpus: Path, *arguments: object) -> list[Said]:
        """Run one task to its end.

        Raises:
            PeerFailedError: it failed, or did not end in time.
        """
        try:
            done = subprocess.run(
                self._command(task, store, corpus, arguments),
                cwd=ROOT,
                env=_environment(),
                capture_output=True,
                encoding="utf-8",
                timeout=TASK_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise PeerFailedError(f"{task} did not end within {TASK_SECONDS} s") from exc
        if done.returncode:
            raise PeerFailedError(f"{task} failed: {last_line(done.stderr)}")
        return _objects(done.stdout)

    def first_answer_s(self, store: Path, corpus: Path, mode: str) -> float:
        """Time from the start of a new process to its first answer in a mode."""
        return self.first_answer(store, corpus, mode)[0]

    def first_answer(self, store: Path, corpus: Path, mode: str) -> tuple[float, list[Said]]:
        """The same time, and all that the process says."""
        command = self._command("first", store, corpus, (mode,))
        started = time.perf_counter()
        with _started(command) as process:
            assert process.stdout is not None
            answer = process.stdout.readline()
            took = time.perf_counter() - started
            rest = process.stdout.read()
        said = _objects(answer)
        if process.returncode or not said:
            raise PeerFailedError(f"the first {mode} search failed")
        return took, [*said, *_objects(rest)]

    def killed_rebuild(self, store: Path, corpus: Path, moment: Callable[[], None]) -> bool:
        """Begin to give every text its new content, and end the process with SIGKILL.

        Args:
            moment: waits from the beginning of the work to the time of the kill.

        Returns:
            Whether it was still at work then.
        """
        with _started(self._command("rebuild", store, corpus, ())) as process:
            assert process.stdout is not None
            while (line := process.stdout.readline()) and not _objects(line):
                pass
            moment()
            process.send_signal(signal.SIGKILL)
        return process.returncode == -signal.SIGKILL

    def _command(
        self, task: str, store: Path, corpus: Path, arguments: Sequence[object]
    ) -> list[str]:
        given = (self.python, "-m", f"bench.peers.{self.name}", task, store, corpus, *arguments)
        return [str(argument) for argument in given]


def write_corpus(
    folder: Path,
    texts: Sequence[str],
    vectors: npt.NDArray[np.float32],
    questions: Sequence[str] = (),
    question_vectors: npt.NDArray[np.float32] | None = None,
) -> Path:
    """The files that `protocol` reads; the folder."""
    import numpy as np

    folder.mkdir()
    for name, lines, matrix in (
        ("texts", texts, vectors),
        ("questions", questions, question_vectors),
    ):
        written = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(written, encoding="utf-8")
        if matrix is not None:
            file = "vectors.npy" if name == "texts" else "question_vectors.npy"
            np.save(folder / file, np.ascontiguousarray(matrix, "<f4"))
    return folder


def _started(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )


def _environment() -> dict[str, str]:
    """Without the paths of this Python, which the peer's must not see."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**inherited, **_QUIET}


def _objects(output: str) -> list[Said]:
    """The lines that are objects: some libraries print, too."""
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"')]
