"""Steering: directions in activations, and models with an intervention along them (docs/steering.md)."""

RULES = ["directions", "interventions"]
CHANGES = {"intervention": "steering_change:SteeringChange"}
FIGURES = {"dose_response": "dose_response_figure:DoseResponseFigure"}
ACTIVATION_USES = {"directions": "direction_use:DirectionUse"}
