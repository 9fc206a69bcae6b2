"""The store's content, and the part that no study uses."""
