"""Choices: the model of several that removes most refusals at the least change, chosen on one half of the prompts.

See docs/how-to/steering.md.
"""

STUDY_KEYS = {"choices": "choices_keys:ChoicesKeys"}
CHECKS = {"choices": "choice_mistakes:choice_mistakes"}
ANALYSES = {"choices": "choices_analysis:ChoicesAnalysis"}
TABLES = {"choices": "choices_table:ChoicesTable"}
