"""Comparisons of models, judges and studies on the same prompts."""
