"""Separation: how far apart two groups of prompts lie in activations, layer by layer, with AQI (docs/steering.md)."""

FIGURES = {"separation": "separation_figure:SeparationFigure"}
ACTIVATION_USES = {"separation": "separation_use:SeparationUse"}
RULES = ["separation"]
