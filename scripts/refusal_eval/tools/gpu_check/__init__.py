"""A check of one model on one machine through the real path: what it asks, what must come out, and the report."""
