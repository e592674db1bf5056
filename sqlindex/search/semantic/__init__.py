"""The semantic channel: exact cosine over every eligible vector."""
