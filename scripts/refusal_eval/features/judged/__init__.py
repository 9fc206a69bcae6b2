"""Prompts chosen by what a judge says of a model's answers to them."""

ROW_SOURCES = {"judged": "judged_rows:JudgedRows"}
CHECKS = {"judged": "judged_mistakes:judged_mistakes"}
