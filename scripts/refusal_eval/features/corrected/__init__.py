"""Rates corrected for the judge's errors, by gold and by labels on a study's own answers.

See docs/reference/corrected_rates.md.
"""

STUDY_KEYS = {"corrected": "corrected_keys:CorrectedKeys"}
ANALYSES = {"corrected": "corrected_analysis:CorrectedAnalysis"}
TABLES = {"corrected": "corrected_table:CorrectedTable"}
