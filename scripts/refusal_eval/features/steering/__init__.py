"""Steering: models with an intervention on the residual stream (docs/interventions.md)."""

RULES = ["interventions"]
CHANGES = {"intervention": "steering_change:SteeringChange"}
