"""Answers out of other tools' logs and tables, one neutral row each (docs/how-to/judge_answers.md)."""

LOG_READERS = {
    "rows": "neutral_reader:NeutralReader",
}
