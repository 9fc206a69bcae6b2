"""The keys `intervention` and `sweep` of a model's entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.intervention_entry import Intervention
from refusal_eval.config.sweep import Sweep, swept


class SteeringKeys(FeatureKeys):
    """What a model's entry says of how it is steered."""

    makes_several: ClassVar[str | None] = "sweep"

    intervention: Intervention | None = Field(
        None,
        description="Change of the residual stream while it runs: steering (docs/interventions.md). In the request "
        "key: the SHA-256 of the compiled intervention. The model has engine loads of its own. Not with `lora`.",
    )
    sweep: Sweep | None = Field(
        None,
        description="Makes this entry stand for several models, whose interventions differ in these keys. A study that "
        "names it has them all (docs/interventions.md).",
    )

    def several(self, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield from swept(name, self) if self.sweep is not None else ()

    @model_validator(mode="after")
    def _something_to_sweep(self) -> SteeringKeys:
        if self.sweep is not None and self.intervention is None:
            raise ValueError("`sweep` changes an `intervention`, and this model has none")
        swept = self.sweep is not None and self.sweep.layers is not None
        if self.intervention is not None and self.intervention.layers is None and not swept:
            raise ValueError("`intervention.layers` is missing: the decoder layers, such as `[15, 16]` or `{best: 4}`")
        return self
