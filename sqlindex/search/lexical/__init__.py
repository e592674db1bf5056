"""The lexical channel: BM25 over the head's lexical table."""
