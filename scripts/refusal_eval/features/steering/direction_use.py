"""What a study needs for its directions, and what its manifest says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.intervention_entry import intervention_of
from refusal_eval.core.files import read_json
from refusal_eval.study.activation_use import ActivationUse, Capture

if TYPE_CHECKING:
    from refusal_eval.study.study import Study


class DirectionUse(ActivationUse):
    """Directions, along which models are steered."""

    name: ClassVar[str] = "directions"
    made: ClassVar[tuple[str, ...]] = ("directions", "cosines")
    done: ClassVar[str] = "fitted"
    alone: ClassVar[str] = "Only directions were fitted on"

    def captures(self, study: Study) -> list[Capture]:
        """Return the activations of the sides of each direction."""
        return [
            Capture(self.name, name, entry.model, entry.positions, entry.layers, entry.sides)
            for name, entry in study.directions.items()
        ]

    def layers_named(self, study: Study, model: str) -> Iterable[int]:
        """Return the layers of interventions along directions of the model."""
        for entry in study.models.values():
            asked = intervention_of(entry)
            if asked is not None and any(study.directions[name].model == model for name in asked.directions):
                yield from asked.layers if isinstance(asked.layers, list) else ()

    def in_manifest(self, files: Sequence[Path]) -> dict[str, Any]:
        """Return what is said of directions that few prompts are behind, if there are any."""
        cards = [read_json(path) for path in files if path.suffix == ".json"]
        few = {card["direction"]: card["few"] for card in cards if card.get("few")}
        return {"few_prompts": few} if few else {}
