"""The keys `intervention` and `sweep` of a model's entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.features.steering.intervention_entry import AnyIntervention
from refusal_eval.features.steering.sweep import Sweep, curves, swept, swept_first


class SteeringKeys(FeatureKeys):
    """What a model's entry says of how it is steered."""

    makes_several: ClassVar[str | None] = "sweep"

    intervention: AnyIntervention | None = Field(
        None,
        description="Change of the residual stream while it runs: steering (docs/how-to/steering.md). In the request "
        "key: the SHA-256 of the compiled intervention. The model has engine loads of its own. Not with `lora`.",
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
        return entry | {"intervention": swept_first(entry["sweep"]) | said}

    @model_validator(mode="after")
    def _something_to_sweep(self) -> SteeringKeys:
        if self.sweep is not None and self.intervention is None:
            raise ValueError("`sweep` changes an `intervention`, and this model has none")
        return self
