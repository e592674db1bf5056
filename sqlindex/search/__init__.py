"""The read side: head, candidates, channels, fusion, hits."""
