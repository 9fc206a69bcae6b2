"""Checks of a machine before a run: readers of facts, and pure functions that judge them."""
