"""Who refused: the model in its text, or who blocked prompt or answer (docs/reference/who_refused.md)."""

ANALYSES = {"who_refused": "who_refused_analysis:WhoRefusedAnalysis"}
TABLES = {"who_refused": "who_refused_table:WhoRefusedTable"}
FIGURES = {"who_refused": "who_refused_figure:WhoRefusedFigure"}
