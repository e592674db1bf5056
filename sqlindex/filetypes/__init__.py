"""File types: the only authority on which extensions are indexed, and how."""
