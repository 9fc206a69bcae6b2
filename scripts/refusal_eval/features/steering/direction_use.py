"""What a study needs for its directions, and what its manifest says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.activation_use import ActivationUse, Capture, CheckedUse
from refusal_eval.core.files import read_json
from refusal_eval.features.steering.intervention_entry import intervention_of

if TYPE_CHECKING:
    from refusal_eval.config.checked_study import CheckedStudy
    from refusal_eval.study.study import Study


class DirectionUse(ActivationUse):
    """Directions, along which models are steered."""

    name: ClassVar[str] = "directions"
    made: ClassVar[tuple[str, ...]] = ("directions", "cosines")
    done: ClassVar[str] = "fitted"
    alone: ClassVar[str] = "Only directions were fitted on"

    def checked(self, study: CheckedStudy) -> Iterator[CheckedUse]:
        for name, entry in study.entries("directions").items():
            yield CheckedUse(("directions", name), {("model",): entry.model}, entry.sides)

    def captures(self, study: Study) -> list[Capture]:
        return [
            Capture(self.name, name, entry.model, entry.positions, entry.layers, entry.sides)
            for name, entry in study.listed("directions").items()
        ]

    def layers_named(self, study: Study, model: str) -> Iterable[int]:
        """Return the layers of interventions along directions of the model."""
        directions = study.listed("directions")
        for entry in study.every_model.values():
            asked = intervention_of(entry)
            if asked is not None and any(directions[name].model == model for name in asked.directions):
                yield from asked.layers if isinstance(asked.layers, list) else ()

    def written(self, config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return [config["direction_entries"][name] for name in config.get("directions") or ()]

    def in_manifest(self, files: Sequence[Path]) -> dict[str, Any]:
        """Return what is said of directions that few prompts are behind, if there are any."""
        cards = [read_json(path) for path in files if path.suffix == ".json"]
        few = {card["direction"]: card["few"] for card in cards if card.get("few")}
        return {"few_prompts": few} if few else {}
