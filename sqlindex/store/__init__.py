"""The index file: the only package that opens it and holds its SQL."""
