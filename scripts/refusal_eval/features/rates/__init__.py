"""Rates: how often models refuse, and what their answers are (docs/reference/statistics.md)."""

TABLES = {
    "refusal": "rate_tables:RefusalTable",
    "categories": "category_tables:CategoriesTable",
    "kinds": "kind_tables:KindsTable",
    "scores": "rate_tables:ScoresTable",
    "states": "rate_tables:StatesTable",
    "answers": "rate_tables:AnswersTable",
    "votes": "rate_tables:VotesTable",
}
