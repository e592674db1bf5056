"""The command line: `python -m sqlindex`, and the program `sqlindex`."""

from typing import NoReturn

from sqlindex.cli.interrupts import take_signals


def main() -> NoReturn:
    """Run it and exit; signals are handled before the rest is imported, which takes a moment."""
    take_signals()
    from sqlindex.cli.main import main as run_and_exit

    run_and_exit()


if __name__ == "__main__":
    main()
