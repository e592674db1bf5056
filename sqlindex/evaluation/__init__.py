"""Measure retrieval on judged collections: corpus, queries, graded qrels."""
