"""Prompts made of prompts: each with one word or sentence left out."""

ROW_SOURCES = {"occluded": "occluded_rows:OccludedRows"}
CHECKS = {"occluded": "occluded_mistakes:occluded_mistakes"}
