"""`python -m tests.docs.generate`: say which generated pages are stale, or write them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from . import (
    api_page,
    cli_page,
    errors_page,
    file_format_page,
    ignore_page,
    requirements_page,
)

REPOSITORY = Path(__file__).resolve().parents[2]
FILE_FORMAT_PATH = "docs/reference/file-format.md"


def generated_pages() -> Iterator[tuple[str, str]]:
    """(path in the repository, text) of every generated page."""
    yield "docs/reference/cli.md", cli_page.render()
    yield "docs/reference/api.md", api_page.render()
    yield "docs/reference/errors.md", errors_page.render()
    yield "docs/reference/ignore-rules.md", ignore_page.render()
    by_hand = (REPOSITORY / FILE_FORMAT_PATH).read_text(encoding="utf-8")
    yield FILE_FORMAT_PATH, file_format_page.render(by_hand)
    yield "docs/reference/requirements.md", requirements_page.render()


def stale_pages() -> list[tuple[str, str]]:
    """Those that differ from what the generator gives, with their new text."""
    stale = []
    for path, text in generated_pages():
        file = REPOSITORY / path
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            stale.append((path, text))
    return stale


def main(arguments: list[str] | None = None) -> int:
    """Name the stale pages and exit with 1 if there are any; with `--write` renew them."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.generate", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew the stale pages")
    is_writing = parser.parse_args(arguments).write
    stale = stale_pages()
    for path, text in stale:
        if is_writing:
            (REPOSITORY / path).write_text(text, encoding="utf-8")
        print(f"{'wrote' if is_writing else 'stale:'} {path}", file=sys.stderr)
    return 1 if stale and not is_writing else 0


if __name__ == "__main__":
    sys.exit(main())
