"""Separation: how far apart two groups of prompts lie in activations, layer by layer, with AQI.

See docs/reference/steering.md.
"""

RULES = ["separation"]
FILES = {"separation": "separation_files:SEPARATION", "aqi": "separation_files:AQI"}
STUDY_KEYS = {"separation": "separation_keys:SeparationKeys"}
CHECKS = {"separation": "separation_mistakes:separation_mistakes"}
ACTIVATION_USES = {"separation": "separation_use:SeparationUse"}
ANALYSES = {"separation_differences": "differences_analysis:SeparationDifferencesAnalysis"}
TABLES = {"separation": "differences_table:SeparationTable"}
FIGURES = {"separation": "separation_figure:SeparationFigure"}
