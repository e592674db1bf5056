"""Code blocks of a Markdown page, run in order as a reader would type them.

A page is one lesson: its blocks run in one shell session, so variables and `cd` stay. `sh` blocks
are typed into bash, `python` blocks are run as programs, `sql` blocks are given to the stock
`sqlite3` shell with `-readonly` on `./sqlindex.db`. A `text` block right behind is the expected
output, both streams as a terminal shows them. In it `…` stands for anything on a line, and a line
that is only `…` for any lines.

HTML comments on the lines before a block say more: `<!-- model -->` needs the installed model,
`<!-- exit N -->` ends with that code, `<!-- not run: reason -->` is only read.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

RUN_LANGUAGES = ("sh", "python", "sql")
_FENCE = re.compile(r"(?P<fence>`{3,})(?P<language>[\w-]*)\s*")
_COMMENT = re.compile(r"<!-- (?P<text>.*?) -->")
_SESSION_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block that is run.

    Attributes:
        line: 1-based line of its opening fence.
        expected: the `text` block right behind it, or None.
    """

    line: int
    language: str
    code: str
    needs_model: bool = False
    exit_code: int = 0
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class _Fenced:
    line: int
    end_line: int
    language: str
    code: str
    comments: tuple[str, ...]


def runnable_blocks(page: str) -> list[Block]:
    """The blocks of a page that are run, in order.

    Raises:
        ValueError: a comment before a block is none of those above.
    """
    blocks: list[Block] = []
    previous: _Fenced | None = None
    for fenced in _fenced_blocks(page):
        if fenced.language in RUN_LANGUAGES:
            block = _block(fenced)
            if block is not None:
                blocks.append(block)
            previous = fenced if block is not None else None
        elif (
            fenced.language == "text" and previous is not None and _follows(page, previous, fenced)
        ):
            blocks.append(replace(blocks.pop(), expected=fenced.code))
            previous = None
        else:
            previous = None
    return blocks


def run_blocks(
    blocks: Sequence[Block], *, start: Path, scratch: Path, environment: Mapping[str, str]
) -> list[str]:
    """Run blocks in one session that begins in the folder `start`; what went wrong, if anything.

    Args:
        scratch: an empty folder for the session's own files; also its `TMPDIR`.
        environment: added to a copy of this process's environment.
    """
    script = ["set -e -o pipefail"]
    for number, block in enumerate(blocks):
        script += _script(scratch / f"block-{number}", block)
    session = scratch / "session.sh"
    session.write_text("\n".join(script) + "\n", encoding="utf-8")
    temporary = scratch / "tmp"
    temporary.mkdir()
    with subprocess.Popen(
        ["bash", str(session)],
        cwd=start,
        env={**_environment(), "TMPDIR": str(temporary), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            said, _ = running.communicate(timeout=_SESSION_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)  # the block's own children too
            said = f"stopped after {_SESSION_LIMIT_S} s\n"
    return _problems(blocks, scratch, said)


def matches_output(expected: str, found: str) -> bool:
    """Whether an output is the expected one, `…` standing for anything."""
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "…":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("…"))
            pattern += r"[ \t]*\n"
    lines = "".join(f"{line}\n" for line in found.splitlines())
    return re.fullmatch(pattern, lines) is not None


def _fenced_blocks(page: str) -> list[_Fenced]:
    found: list[_Fenced] = []
    lines = page.splitlines()
    comments: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        opening = _FENCE.fullmatch(line)
        if opening is None:
            comment = _COMMENT.fullmatch(line.strip())
            if comment is not None:
                comments.append(comment["text"])
            elif line.strip():
                comments = []
            at += 1
            continue
        end = at + 1
        while end < len(lines) and lines[end].rstrip() != opening["fence"]:
            end += 1
        code = "".join(f"{text}\n" for text in lines[at + 1 : end])
        found.append(_Fenced(at + 1, end + 1, opening["language"], code, tuple(comments)))
        comments = []
        at = end + 1
    return found


def _follows(page: str, block: _Fenced, output: _Fenced) -> bool:
    """Whether only blank lines are between the two."""
    between = page.splitlines()[block.end_line : output.line - 1]
    return not any(line.strip() for line in between)


def _block(fenced: _Fenced) -> Block | None:
    needs_model, exit_code = False, 0
    for comment in fenced.comments:
        if comment == "model":
            needs_model = True
        elif comment.startswith("exit "):
            exit_code = int(comment.removeprefix("exit "))
        elif comment.startswith("not run: "):
            return None
        else:
            raise ValueError(f"line {fenced.line}: unknown comment {comment!r}")
    return Block(fenced.line, fenced.language, fenced.code, needs_model, exit_code)


def _script(stem: Path, block: Block) -> list[str]:
    """Lines of the session for one block: its output and its exit code end up in files."""
    source = stem.with_suffix("." + block.language)
    source.write_text(block.code, encoding="utf-8")
    quoted = shlex.quote(str(source))
    command = {
        "sh": f"source {quoted}",
        "python": f"python {quoted}",
        "sql": f"sqlite3 -batch -readonly sqlindex.db < {quoted}",
    }[block.language]
    output, code = shlex.quote(str(stem.with_suffix(".out"))), str(stem.with_suffix(".code"))
    return [
        "set +e" if block.exit_code else "set -e",
        f"{command} > {output} 2>&1",
        f"code=$?; echo $code > {shlex.quote(code)}",
        f"set -e; test $code -eq {block.exit_code}",
    ]


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SQLINDEX_DB")}
    own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', os.defpath)}"
    # As on a terminal: each line of both streams at once, in their common order.
    own["PYTHONUNBUFFERED"] = "1"
    own["PYTHONIOENCODING"] = "utf-8"
    return own


def _problems(blocks: Sequence[Block], scratch: Path, session_output: str) -> list[str]:
    for number, block in enumerate(blocks):
        stem = scratch / f"block-{number}"
        output = stem.with_suffix(".out")
        printed = output.read_text(encoding="utf-8") if output.exists() else ""
        code = stem.with_suffix(".code")
        ended = code.read_text(encoding="utf-8").strip() if code.exists() else "an error"
        where = f"block at line {block.line}:\n{block.code}"
        if ended != str(block.exit_code):
            return [f"{where}ended with {ended}, not {block.exit_code}:\n{printed}{session_output}"]
        if block.expected is not None and not matches_output(block.expected, printed):
            return [f"{where}expected:\n{block.expected}\nprinted:\n{printed}"]
    return []
