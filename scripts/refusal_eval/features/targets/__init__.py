"""Published figures beside a study's own numbers, in one table (docs/reference/tables.md)."""

STUDY_KEYS = {"targets": "targets_keys:TargetsKeys"}
CHECKS = {"targets": "targets_mistakes:targets_mistakes"}
TABLES = {"targets": "targets_table:TargetsTable"}
