"""Comparisons of models, and of judges, on the same prompts (docs/comparisons.md)."""

ANALYSES = {"comparisons": "comparisons_analysis:ComparisonsAnalysis"}
TABLES = {"comparisons": "comparisons_table:ComparisonsTable"}
