"""Attention steering: a model pays less attention to a word of its prompts (docs/how-to/steer_attention.md)."""

INTERVENTIONS = {"attention": "attention_entry:AttentionIntervention"}
CHANGES = {"attention": "attention_change:AttentionChange"}
CHECKS = {"attention": "attention_mistakes:attention_mistakes"}
ANALYSES = {"attention": "attention_analysis:AttentionAnalysis"}
TABLES = {"attention": "attention_table:AttentionTable"}
MODEL_CHECKS = {"attention_steering": "attention_check:attention_steering"}
