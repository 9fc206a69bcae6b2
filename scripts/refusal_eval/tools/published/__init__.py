"""The published library: its configs taken in, finished studies given out in its layout."""
