"""Chunking: a parsed document becomes retrievable units, as exact spans into its text."""
