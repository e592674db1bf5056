"""The same chunks, vectors and questions through sqlindex and its peers."""
