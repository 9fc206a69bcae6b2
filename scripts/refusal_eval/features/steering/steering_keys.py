"""The keys `intervention` and `sweep` of a model's entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.features.steering.intervention_entry import Intervention
from refusal_eval.features.steering.intervention_kinds import AnyIntervention
from refusal_eval.features.steering.sweep import Sweep, curves, swept, swept_first


class SteeringKeys(FeatureKeys):
    """What a model's entry says of how it is steered."""

    makes_several: ClassVar[str | None] = "sweep"

    intervention: AnyIntervention | None = Field(
        None,
        description="Change of what it computes while it runs. With a `mode`: of the residual stream along a direction "
        "(docs/how-to/steering.md); in the request key is the SHA-256 of the compiled intervention, and the model has "
        "engine loads of its own. Or of another `kind`. Not with `lora`.",
    )
    sweep: Sweep | None = Field(
        None,
        description="Makes several models of this entry, whose interventions differ in these keys. A study that "
        "names it has them all (docs/how-to/steering.md).",
    )

    @classmethod
    def curves(cls, models: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
        return curves(models, entries.get("directions", {}))

    def several(self, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield from swept(name, self) if self.sweep is not None else ()

    @model_validator(mode="before")
    @classmethod
    def _whole_intervention(cls, entry: Any) -> Any:
        """Give the intervention of a sweep what it leaves to the sweep, as that of each of its models has it."""
        if not (
            isinstance(entry, dict) and entry.get("sweep") is not None and isinstance(entry.get("intervention"), dict)
        ):
            return entry
        said = {key: value for key, value in entry["intervention"].items() if value is not None}
        if "kind" in said:
            return entry
        return entry | {"intervention": swept_first(entry["sweep"]) | said}

    @model_validator(mode="after")
    def _something_to_sweep(self) -> SteeringKeys:
        if self.sweep is not None and self.intervention is None:
            raise ValueError("`sweep` changes an `intervention`, and this model has none")
        if self.sweep is not None and not isinstance(self.intervention, Intervention):
            raise ValueError("`sweep` is for interventions along a direction; write a model for each value instead")
        return self
