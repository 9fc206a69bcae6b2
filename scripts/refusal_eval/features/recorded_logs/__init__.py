"""Answers out of other tools' logs and tables, one neutral row each (docs/how-to/judge_answers.md)."""

# In the order in which they are asked whether a file is theirs: a table is what no other one takes.
LOG_READERS = {
    "rows": "neutral_reader:NeutralReader",
    "inspect": "inspect_reader:InspectReader",
    "lm_eval": "lm_eval_reader:LmEvalReader",
    "table": "table_reader:TableReader",
}
ROW_SOURCES = {"recorded": "recorded_rows:RecordedRows"}
VERBS = {"judge": "judge_verb:JudgeVerb"}
