"""Steering: directions in activations, and models with an intervention along them (docs/reference/steering.md)."""

RULES = ["directions", "interventions"]
FILES = {
    "directions": "steering_files:DIRECTIONS",
    "interventions": "steering_files:INTERVENTIONS",
    "cosines": "steering_files:COSINES",
}
SECTIONS = {"directions": "direction_entry:Direction"}
STUDY_KEYS = {"directions": "direction_keys:DirectionKeys"}
CONFIG_KEYS = {"directions": "direction_keys:DirectionEntries"}
MODEL_KEYS = {"steering": "steering_keys:SteeringKeys"}
CHECKS = {
    "steering": "steering_mistakes:steering_mistakes",
    "directions": "direction_mistakes:direction_mistakes",
}
ACTIVATION_USES = {"directions": "direction_use:DirectionUse"}
LOAD_CHECKS = {
    "steering_by_0": "steering_checks:steering_by_0",
    "steering_of_every_token": "steering_checks:steering_of_every_token",
}
INTERVENTIONS = {
    "add": "intervention_entry:Add",
    "gated": "intervention_entry:Gated",
    "pull": "intervention_entry:Pull",
    "ablate": "intervention_entry:Ablate",
    "constellation": "intervention_entry:Constellation",
    "reposition": "intervention_entry:Reposition",
}
CHANGES = {"intervention": "steering_change:SteeringChange"}
FIGURES = {"dose_response": "dose_response_figure:DoseResponseFigure"}
