"""Refusals in the categories of a split where they are over-refusals (docs/reference/statistics.md)."""

SPLIT_KEYS = {"over_refusals": "over_refusals_keys:OverRefusalsKeys"}
ANALYSES = {"over_refusals": "over_refusals_analysis:OverRefusalsAnalysis"}
TABLES = {"over_refusals": "over_refusals_table:OverRefusalsTable"}
