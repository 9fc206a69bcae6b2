"""Refusal tokens: a model answers behind each token, and a threshold chooses (docs/reference/refusal_tokens.md)."""

RULES = ["refusal_tokens"]
FILES = {
    "token_requests": "token_files:TOKEN_REQUESTS",
    "token_probabilities": "token_files:TOKEN_PROBABILITIES",
}
CATALOGUE = ["models/refusal_tokens.yaml"]
MODEL_KEYS = {"refusal_tokens": "token_keys:RefusalTokenKeys"}
STUDY_KEYS = {"refusal_tokens": "token_keys:TokenChoiceKeys"}
CHECKS = {"refusal_tokens": "token_mistakes:refusal_token_mistakes"}
ANALYSES = {"refusal_tokens": "refusal_tokens_analysis:RefusalTokensAnalysis"}
TABLES = {"refusal_tokens": "refusal_tokens_table:RefusalTokensTable"}
FIGURES = {"refusal_tokens": "refusal_tokens_figure:RefusalTokensFigure"}
