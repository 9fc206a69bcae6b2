"""Models on servers of other parties, spoken to over HTTP, and what they cost (docs/how-to/hosted.md)."""

RULES = ["hosted"]
CATALOGUE = ["engines/hosted.yaml", "models/hosted.yaml"]
ENGINES = {
    "openai": "openai_engine:OpenAIEngine",
    "anthropic": "anthropic_engine:AnthropicEngine",
}
STUDY_KEYS = {"budget": "budget_keys:BudgetKeys"}
CHECKS = {"hosted": "hosted_mistakes:hosted_mistakes"}
ANALYSES = {"spending": "spending_analysis:SpendingAnalysis"}
PLAN_PARTS = {"money": "money_parts:money_to_come"}
STATUS_PARTS = {"money": "money_parts:money_so_far"}
