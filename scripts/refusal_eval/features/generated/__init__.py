"""What comes of prompts that are made step by step (docs/how-to/generate_falsereject_prompts.md)."""

STUDY_KEYS = {"generated": "generated_keys:GeneratedKeys"}
CHECKS = {"generated": "generated_mistakes:generated_mistakes"}
ANALYSES = {"generated": "generated_analysis:GeneratedAnalysis"}
TABLES = {"generated": "generated_table:GeneratedTable"}
FIGURES = {"generated": "generated_figure:GeneratedFigure"}
