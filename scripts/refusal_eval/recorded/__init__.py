"""Answers and verdicts that were recorded elsewhere, read out of folders in the published library's layout."""
