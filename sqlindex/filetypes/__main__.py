"""`python -m sqlindex.filetypes`: print the reference page of file types, or write it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sqlindex.filetypes.builtin import BUILTIN_REGISTRY
from sqlindex.filetypes.reference import REFERENCE_PATH, render_reference


def main(arguments: list[str] | None = None) -> int:
    """Print the page, or with `--write` replace the file and say so on stderr."""
    parser = argparse.ArgumentParser(prog="python -m sqlindex.filetypes", description=__doc__)
    parser.add_argument(
        "--write", nargs="?", const=REFERENCE_PATH, metavar="PATH", help="default: %(const)s"
    )
    target = parser.parse_args(arguments).write
    page = render_reference(BUILTIN_REGISTRY)
    if target is None:
        sys.stdout.write(page)
    else:
        Path(target).write_text(page, encoding="utf-8")
        print(f"wrote {target}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
