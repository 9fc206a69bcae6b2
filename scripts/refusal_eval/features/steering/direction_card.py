"""What the card of a direction says of the prompts behind it."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.activations.sides import SIDES, SidePrompts


def as_written(side: Any) -> Any:
    """Return a side of an entry without the keys that say nothing."""
    if isinstance(side, list):
        return [as_written(part) for part in side]
    return {key: value for key, value in side.items() if value is not None}


def behind_it(sides: Mapping[str, SidePrompts], held: set[str]) -> dict[str, Any]:
    """Return which prompts are held out, by their ids, and of sides with several groups how many are in each."""
    out = {
        side: [name for name, cluster in zip(own.prompts, own.group.clusters, strict=True) if cluster in held]
        for side, own in sides.items()
        if side in SIDES
    }
    several = {side: own for side, own in sides.items() if own.group.parts}
    groups = {
        side: [counted(own, number, held) for number in range(len(own.left_out_by_part))]
        for side, own in several.items()
    }
    neutral = {"n_neutral": len(sides["neutral"].prompts)} if "neutral" in sides else {}
    return {**neutral, **({"groups": groups} if groups else {}), "held_out": out}


def counted(side: SidePrompts, number: int, held: set[str]) -> dict[str, int]:
    """Return how many prompts of one group of a side there are, and what became of them."""
    own = [
        cluster in held for cluster, part in zip(side.group.clusters, side.group.parts, strict=True) if part == number
    ]
    return {
        "n": len(own),
        "n_held_out": sum(own),
        "n_left_out": side.left_out_by_part[number],
        "n_in_another_group": side.repeated_by_part[number],
    }
