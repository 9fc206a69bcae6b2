"""Rates: how often models refuse, and what their answers are (docs/statistics.md)."""
