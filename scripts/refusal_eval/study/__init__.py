"""A validated study: its batches, paths, sources, dialogues and comparisons."""
