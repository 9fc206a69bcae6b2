"""The files of steering: activations, directions and what is measured of both, and interventions."""

from refusal_eval.study.files import File, captured, with_endings

ACTIVATIONS = File(
    ("activations/{positions}/{model}/{split}.safetensors",),
    ("activations",),
    captured,
    of_report=True,
    after="gold_answers",
)
DIRECTIONS = File(
    with_endings("directions/{direction}", "safetensors", "json"),
    ("direction",),
    lambda study: [(direction,) for direction in study.directions],
    of_report=True,
    shown=True,
    after="activations",
)
INTERVENTIONS = File(
    with_endings("interventions/{model}", "json", "safetensors"),
    ("intervention",),
    lambda study: [(model,) for model in study.steered_models],
    after="directions",
)
COSINES = File(
    ("directions/cosines.csv",),
    ("direction_cosines",),
    lambda study: [()] if len(study.directions) > 1 else [],
    of_report=True,
    shown=True,
    after="cards",
)
SEPARATION = File(
    ("separation/{separation}.csv",),
    ("separation",),
    lambda study: [(entry.name,) for entry in study.settings.separation],
    of_report=True,
    shown=True,
    after="cosines",
)
AQI = File(
    ("separation/aqi/{separation}.csv",),
    ("aqi",),
    lambda study: [(entry.name,) for entry in study.settings.separation if entry.aqi is not None],
    "separation/aqi",
    of_report=True,
    shown=True,
    after="separation",
)
