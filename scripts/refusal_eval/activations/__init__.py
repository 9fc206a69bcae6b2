"""Activations: the residual stream of a model on prompts, and directions fitted on it."""
