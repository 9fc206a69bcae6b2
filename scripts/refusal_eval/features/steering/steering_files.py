"""The files of steering: directions, their cosines, and interventions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refusal_eval.features.steering.intervention_entry import intervention_of
from refusal_eval.study.files import File, with_endings

if TYPE_CHECKING:
    from refusal_eval.study.study import Study


def steered_models(study: Study) -> list[str]:
    """Return the models with an intervention."""
    return [name for name, model in study.every_model.items() if intervention_of(model) is not None]


DIRECTIONS = File(
    with_endings("directions/{direction}", "safetensors", "json"),
    ("direction",),
    lambda study: [(direction,) for direction in study.listed("directions")],
    of_report=True,
    shown=True,
    after="activations",
)
INTERVENTIONS = File(
    with_endings("interventions/{model}", "json", "safetensors"),
    ("intervention",),
    lambda study: [(name,) for name in steered_models(study)],
    after="directions",
)
COSINES = File(
    ("directions/cosines.csv",),
    ("direction_cosines",),
    lambda study: [()] if len(study.listed("directions")) > 1 else [],
    of_report=True,
    shown=True,
    after="cards",
)
