"""Analysis: text and queries become the terms that the lexical tables hold."""
