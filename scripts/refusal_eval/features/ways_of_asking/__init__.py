"""Ways of asking: what it changes how the same turns are asked, as one conversation or each in one of its own.

See docs/reference/comparisons.md.
"""

STUDY_KEYS = {"ways_of_asking": "ways_keys:WaysKeys"}
CHECKS = {"ways_of_asking": "ways_mistakes:ways_mistakes"}
ANALYSES = {"ways_of_asking": "ways_analysis:WaysAnalysis"}
TABLES = {"ways_of_asking": "ways_table:WaysTable"}
