"""What a study needs to measure separations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from refusal_eval.study.activation_use import ActivationUse, Capture

if TYPE_CHECKING:
    from refusal_eval.study.study import Study


class SeparationUse(ActivationUse):
    """How far apart two groups of prompts lie, by layer."""

    name: ClassVar[str] = "separation"
    made: ClassVar[tuple[str, ...]] = ("separation", "aqi")
    alone: ClassVar[str] = "Groups were only separated on"

    def captures(self, study: Study) -> list[Capture]:
        """Return the activations of both groups of each separation, of each of its models."""
        return [
            Capture(self.name, entry.name, model, entry.positions, entry.layers, entry.sides)
            for entry in study.settings.separation
            for model in entry.models
        ]

    def layers_named(self, study: Study, model: str) -> Iterable[int]:
        """Return the layers of AQI's composites."""
        composites = [entry.aqi.layer for entry in study.settings.separation if entry.aqi and model in entry.models]
        return [layer for layer in composites if layer is not None]
