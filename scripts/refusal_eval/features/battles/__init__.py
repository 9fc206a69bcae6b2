"""Battles: what refusals cost where people choose between two answers (docs/arena.md)."""

ANALYSES = {"battles": "battles_analysis:BattlesAnalysis"}
TABLES = {"battles": "battles_table:BattlesTable"}
FIGURES = {"battles": "battles_figure:BattlesFigure"}
