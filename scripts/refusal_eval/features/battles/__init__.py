"""Battles: what refusals cost where people choose between two answers (docs/reference/battles.md)."""

CATALOGUE = ["datasets/chatbot_arena.yaml"]
SPLIT_KEYS = {"battles": "battles_keys:BattlesKeys"}
ROW_READERS = {"battles": "battle_reader:BattleReader"}
CHECKS = {"battles": "battles_mistakes:battles_mistakes"}
ANALYSES = {"battles": "battles_analysis:BattlesAnalysis"}
TABLES = {"battles": "battles_table:BattlesTable"}
FIGURES = {"battles": "battles_figure:BattlesFigure"}
