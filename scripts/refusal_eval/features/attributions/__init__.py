"""Attributions: how much each word of a prompt contributes to a refusal (docs/how-to/attributions.md)."""

RULES = ["attributions"]
FILES = {
    "attribution_requests": "attribution_files:ATTRIBUTION_REQUESTS",
    "gradient_items": "attribution_files:GRADIENT_ITEMS",
    "gradients": "attribution_files:GRADIENTS",
    "attribution_values": "attribution_files:ATTRIBUTION_VALUES",
}
ATTRIBUTION_METHODS = {
    "leave_one_out": "attribution_methods:LeaveOneOut",
    "gradient": "attribution_methods:Gradient",
    "integrated_gradient": "attribution_methods:IntegratedGradient",
}
ATTRIBUTION_SCORES = {
    "refusal_start": "attribution_scores:RefusalStart",
    "reply": "attribution_scores:OwnReply",
    "direction": "attribution_scores:OnDirection",
}
STUDY_KEYS = {"attributions": "attribution_keys:AttributionKeys"}
PROGRAM_LOADS = {"attributions": "attribution_loads:attribution_loads"}
CHECKS = {"attributions": "attribution_mistakes:attribution_mistakes"}
ANALYSES = {"attributions": "attributions_analysis:AttributionsAnalysis"}
TABLES = {"attributions": "attributions_table:AttributionsTable"}
FIGURES = {"attributions": "attributions_figure:AttributionsFigure"}
