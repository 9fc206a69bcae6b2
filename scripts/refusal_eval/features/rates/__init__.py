"""Rates: how often models refuse, and what their answers are (docs/reference/statistics.md)."""

TABLES = {
    "refusal": "rate_tables:RefusalTable",
    "judge_errors": "judge_error_tables:JudgeErrorsTable",
    "judge_errors_differences": "judge_error_tables:JudgeErrorsDifferencesTable",
    "categories": "category_tables:CategoriesTable",
    "kinds": "kind_tables:KindsTable",
    "scores": "rate_tables:ScoresTable",
    "states": "rate_tables:StatesTable",
    "answers": "rate_tables:AnswersTable",
    "votes": "rate_tables:VotesTable",
}
