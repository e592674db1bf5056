"""Retrieval quality on every judged set: what is kept between runs, and the saved values of each query."""
