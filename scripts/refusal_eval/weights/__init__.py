"""Weights and tokenizers: fetched at a locked revision, converted if need be, and identified."""
