"""Judge cards: how well each judge agrees with gold (docs/reference/agreement.md)."""

TABLES = {
    "judges": "judge_cards_table:JudgesTable",
    "judge_cards": "judge_cards_table:JudgeCardsTable",
    "judge_tasks": "judge_tasks_table:JudgeTasksTable",
}
FIGURES = {"calibration": "calibration_figure:CalibrationFigure"}
