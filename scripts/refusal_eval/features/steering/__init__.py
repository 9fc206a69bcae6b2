"""Steering: models with an intervention on the residual stream (docs/interventions.md)."""

MODEL_KEYS = {"steering": "steering_keys:SteeringKeys"}
RULES = ["interventions"]
CHANGES = {"intervention": "steering_change:SteeringChange"}
