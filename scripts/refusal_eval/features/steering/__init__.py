"""Steering: models with an intervention on the residual stream (docs/interventions.md)."""

RULES = ["interventions"]
FILES = {
    "activations": "steering_files:ACTIVATIONS",
    "directions": "steering_files:DIRECTIONS",
    "interventions": "steering_files:INTERVENTIONS",
    "cosines": "steering_files:COSINES",
    "separation": "steering_files:SEPARATION",
    "aqi": "steering_files:AQI",
}
CHANGES = {"intervention": "steering_change:SteeringChange"}
