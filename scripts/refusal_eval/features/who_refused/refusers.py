"""Who can refuse, and what readers see for each; this module reads no data."""

REFUSED_BY = "refused_by"
DECLARED, UNFILTERED = "declared_called_refusal", "unfiltered_answers"
# Each as the parameter of `refused_by`, and in words; in the order of tables and figures.
REFUSERS = {
    "model": "model's text",
    "declared": "declared by the model",
    "classifier": "classifier",
    "policy": "policy",
    "filter_prompt": "filter on the prompt",
    "filter_answer": "filter on the answer",
    "filter": "filter, not said where",
    "gateway": "gateway",
    "guardrail": "guardrail",
    "nobody": "nobody said",
    "earlier_turn": "earlier turn blocked",
}
