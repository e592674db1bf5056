"""Write the typo variant of a set of queries: `python -m bench.typos QUERIES.jsonl OUT.jsonl`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.machine import SEED
from sqlindex.errors import SqlindexError, UsageError
from sqlindex.evaluation.typos import ERROR_RATE, KEYBOARDS, Keyboard, with_typos


def main(arguments: Sequence[str]) -> int:
    """Mistype every query of a file; ids and all other fields stay, so the judgements fit.

    Returns:
        0, or 2 if a file cannot be read or written.
    """
    options = _parser().parse_args(arguments)
    try:
        print(
            mistype(options.queries, options.out, options.seed, options.rate, options.keyboard),
            file=sys.stderr,
        )
    except (SqlindexError, OSError, ValueError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    return 0


def mistype(queries: Path, out: Path, seed: int, rate: float, keyboard: Keyboard) -> str:
    """Write the variant; what was changed, in a line.

    Raises:
        UsageError: a line is not a JSON object with a text; nothing is written.
    """
    lines: list[str] = []
    long_words = errors = changed = 0
    for number, line in enumerate(queries.read_text("utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            query = json.loads(line)
        except ValueError as exc:
            raise UsageError(f"{queries}, line {number}: not JSON: {exc}") from exc
        if not isinstance(query, dict) or not isinstance(query.get("text"), str):
            raise UsageError(f"{queries}, line {number}: not an object with a text")
        typed = with_typos(query["text"], seed=seed, rate=rate, keyboard=keyboard)
        long_words += typed.long_words
        errors += typed.errors
        changed += typed.errors > 0
        lines.append(json.dumps({**query, "text": typed.text}, ensure_ascii=False) + "\n")
    out.write_text("".join(lines), "utf-8")
    return (
        f"{errors} of {long_words} long words got an error; "
        f"{changed} of {len(lines)} queries changed"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.typos", description=main.__doc__)
    parser.add_argument("queries", type=Path, metavar="QUERIES.jsonl")
    parser.add_argument("out", type=Path, metavar="OUT.jsonl")
    parser.add_argument("--seed", type=int, default=SEED, help=f"default {SEED}")
    parser.add_argument("--rate", type=float, default=ERROR_RATE, help=f"default {ERROR_RATE}")
    parser.add_argument("--keyboard", choices=KEYBOARDS, default="qwertz", help="default qwertz")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
