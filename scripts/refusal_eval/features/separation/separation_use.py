"""What a study needs to measure separations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.activation_use import ActivationUse, Capture, CheckedUse
from refusal_eval.config.shapes import KeyPath
from refusal_eval.features.separation.separation_entry import Separation
from refusal_eval.features.separation.separation_keys import SeparationKeys

if TYPE_CHECKING:
    from refusal_eval.config.checked_study import CheckedStudy
    from refusal_eval.study.study import Study


class SeparationUse(ActivationUse):
    """How far apart two groups of prompts lie, by layer."""

    name: ClassVar[str] = "separation"
    made: ClassVar[tuple[str, ...]] = ("separation", "aqi")
    of_changed: ClassVar[bool] = True
    alone: ClassVar[str] = "Groups were only separated on"

    def checked(self, study: CheckedStudy) -> Iterator[CheckedUse]:
        for place, entry in study.valid_items("separation", Separation).items():
            models: dict[KeyPath, str] = {("models", index): model for index, model in enumerate(entry.models)}
            yield CheckedUse(("separation", place), models, entry.sides)

    def captures(self, study: Study) -> list[Capture]:
        return [
            Capture(self.name, entry.name, model, entry.positions, entry.layers, entry.sides)
            for entry in SeparationKeys.of(study.settings).separation
            for model in entry.models
        ]

    def layers_named(self, study: Study, model: str) -> Iterable[int]:
        """Return the layers of AQI's composites."""
        entries = SeparationKeys.of(study.settings).separation
        composites = [entry.aqi.layer for entry in entries if entry.aqi and model in entry.models]
        return [layer for layer in composites if layer is not None]

    def written(self, config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return config.get("separation") or []
