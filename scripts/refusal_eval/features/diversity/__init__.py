"""Diversity of prompts: how much those of a split repeat each other (docs/reference/diversity.md)."""

STUDY_KEYS = {"diversity": "diversity_keys:DiversityKeys"}
CHECKS = {"diversity": "diversity_mistakes:diversity_mistakes"}
ANALYSES = {"diversity": "diversity_analysis:DiversityAnalysis"}
TABLES = {"diversity": "diversity_table:DiversityTable"}
