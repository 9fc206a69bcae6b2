"""Both kinds of refusal, by model, contrast pair, topic and language (docs/reference/tradeoff.md)."""

CATALOGUE = ["datasets/phtest.yaml"]
STUDY_KEYS = {"tradeoff": "tradeoff_keys:AttacksKeys"}
SPLIT_KEYS = {"tradeoff": "tradeoff_keys:WeighedKeys"}
CHECKS = {"tradeoff": "tradeoff_mistakes:tradeoff_mistakes"}
ANALYSES = {"tradeoff": "tradeoff_analysis:TradeOffAnalysis"}
TABLES = {"tradeoff": "tradeoff_table:TradeOffTable"}
FIGURES = {"tradeoff": "tradeoff_figure:TradeoffFigure"}
