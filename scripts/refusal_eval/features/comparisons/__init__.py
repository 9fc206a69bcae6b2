"""Comparisons of models, and of judges, on the same prompts (docs/reference/comparisons.md)."""

STUDY_KEYS = {"comparisons": "comparisons_keys:ComparisonsKeys"}
CHECKS = {"comparisons": "comparison_mistakes:comparison_mistakes"}
ANALYSES = {"comparisons": "comparisons_analysis:ComparisonsAnalysis"}
TABLES = {
    "comparisons": "comparisons_table:ComparisonsTable",
    "comparisons_matrix": "comparisons_matrix_table:ComparisonsMatrixTable",
}
