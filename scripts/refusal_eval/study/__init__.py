"""A validated study: its batches, paths, sources, turns and comparisons."""
