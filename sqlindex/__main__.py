"""`python -m sqlindex` is the command line."""

from sqlindex.cli.main import main

if __name__ == "__main__":
    main()
