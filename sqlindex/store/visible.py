"""Which versions a generation shows, as SQL."""

LIVE = "d.born <= :generation AND (d.died IS NULL OR d.died > :generation)"
"""A condition on the version d; write `d.born IS NOT NULL` beside it where an index shall serve."""
