"""Steering: models with an intervention on the residual stream (docs/interventions.md)."""

CHANGES = {"intervention": "steering_change:SteeringChange"}
