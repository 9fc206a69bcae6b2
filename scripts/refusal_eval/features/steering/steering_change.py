"""What a model's intervention changes of its requests, its load, and its study's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.activations.sides import contents_of
from refusal_eval.config.change import Change
from refusal_eval.core.errors import UserError

if TYPE_CHECKING:
    from refusal_eval.study.paths import Paths


class SteeringChange(Change):
    """An intervention on the residual stream. A model with one has engine loads of its own."""

    name: ClassVar[str] = "intervention"
    words: ClassVar[str] = "an intervention"
    own_load: ClassVar[bool] = True
    captured: ClassVar[bool] = True
    may_spoil: ClassVar[bool] = True
    load_code: ClassVar[str] = "refusal_eval.features.steering.loaded_intervention:loaded_intervention"
    made_up_code: ClassVar[str] = "refusal_eval.features.steering.made_up_intervention:made_up_intervention"
    words_code: ClassVar[str] = "refusal_eval.features.steering.steering_words:intervention_words"

    def takes(self, value: Any) -> bool:
        """Tell whether an intervention is along a direction: these have a mode."""
        return (value.get("mode") if isinstance(value, Mapping) else getattr(value, "mode", None)) is not None

    def not_captured(self, value: Any) -> str | None:
        if value.allow_overlap:
            return "sets `allow_overlap`, which a separation cannot mark; name a model without it"
        return None

    def made_from(self, value: Any) -> list[tuple[str, str]]:
        return [("directions", name) for name in value.directions]

    def fitted_prompts(self, value: Any) -> bool:
        return bool(value.allow_overlap)

    def identity_files(self, paths: Paths, model: str) -> list[str]:
        """Return the card of a model's compiled intervention."""
        return [paths.of("interventions", model=model)]

    def request_params(self, entry: Mapping[str, Any], evaluated: bool) -> dict[str, Any]:
        """Return whether prompts that made its directions may be asked, and whether the cell is evaluated."""
        allowed = {"allow_overlap": True} if entry[self.name].get("allow_overlap") else {}
        return super().request_params(entry, evaluated) | allowed | ({} if evaluated else {"evaluated": False})

    def check_prompts(
        self, rows: Sequence[Mapping[str, Any]], described: Mapping[str, Any], request: Mapping[str, Any]
    ) -> None:
        """Raise `UserError` for prompts that made one of its directions, unless that is allowed."""
        if not request.get("allow_overlap"):
            refuse_fitted(rows, described, request.get("evaluated", True))

    def identity(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return the SHA-256 of its content, and the version of what modes mean."""
        return {key: described[key] for key in ("sha256", "version")}

    def in_manifest(self, described: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the card of each model, if there is one."""
        return {"interventions": {card["model"]: card for card in described}} if described else {}


def refuse_fitted(rows: Sequence[Mapping[str, Any]], intervention: Mapping[str, Any], evaluated: bool = True) -> None:
    """Raise `UserError` if a steered model is to be evaluated on prompts that one of its directions was made from.

    A prompt is one of them if any turn of its user is. What is not `evaluated` is captured for a separation, which
    has no mark for such prompts.
    """
    for direction in intervention["directions"]:
        made_from = set(direction["prompts"])
        if shared := [row["id"] for row in rows if contents_of(row) & made_from]:
            raise UserError(
                f"{len(shared)} of these {len(rows)} prompts made the direction `{direction['direction']}` (the first: "
                f"{shared[0]}), and what it does to them says little of others: evaluate `{intervention['model']}` on "
                "prompts that are in no split of the direction"
                + (
                    ", or say `allow_overlap: true` in its `intervention`, which marks all its numbers"
                    if evaluated
                    else "; a split of a separation must have no such prompt, also where a category leaves it out"
                )
            )
