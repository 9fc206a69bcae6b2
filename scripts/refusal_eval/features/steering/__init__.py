"""Steering: directions in activations, and models with an intervention along them (docs/steering.md)."""

RULES = ["directions", "interventions"]
FILES = {
    "directions": "steering_files:DIRECTIONS",
    "interventions": "steering_files:INTERVENTIONS",
    "cosines": "steering_files:COSINES",
}
MODEL_KEYS = {"steering": "steering_keys:SteeringKeys"}
ACTIVATION_USES = {"directions": "direction_use:DirectionUse"}
CHANGES = {"intervention": "steering_change:SteeringChange"}
FIGURES = {"dose_response": "dose_response_figure:DoseResponseFigure"}
