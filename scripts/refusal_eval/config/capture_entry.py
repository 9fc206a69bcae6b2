"""What entries say of the activations that something is made from: two groups of prompts, positions and layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from refusal_eval.config.shapes import POSITIONS, Entry, KeyPath, Number, Slug, Text

Positions = Annotated[str, StringConstraints(pattern=POSITIONS)]


class Side(Entry):
    """A group of prompts that is compared with another: a split, a category of it, or its prompts by c(x)."""

    split: Slug = Field(description="Name of a split of the catalogue. The study need not evaluate it.")
    category: Text | None = Field(None, description="Only its prompts of this category. Default: all.")
    without: list[Slug] | None = Field(
        None,
        min_length=1,
        description="Splits whose prompts are left out, by their content: those that are evaluated, where they are a "
        "part of this one.",
    )
    judge: Slug | None = Field(
        None, description="Judge of the study whose refusal score c(x) chooses prompts. Needs `above` or `below`."
    )
    above: Number | None = Field(None, ge=-1, lt=1, description="Only prompts with c(x) above this, such as `0.15`.")
    below: Number | None = Field(None, gt=-1, le=1, description="Only prompts with c(x) below this, such as `-0.15`.")
    within: Number | None = Field(
        None, ge=0, lt=1, description="Only prompts with c(x) from minus this to this, such as `0.15`: neutral ones."
    )

    @model_validator(mode="after")
    def _a_judge_and_one_bound(self) -> Side:
        bounds = [bound for bound in (self.above, self.below, self.within) if bound is not None]
        if self.judge is None and bounds:
            raise ValueError("`above`, `below` and `within` are bounds of c(x), so `judge` must say whose")
        if self.judge is not None and len(bounds) != 1:
            raise ValueError(
                "`judge` needs exactly one of `above`, `below` and `within`: which prompts are on this side"
            )
        return self


# One group of prompts, or several that are one side together.
Sides = Side | Annotated[list[Side], Field(min_length=1)]


def parts_with_places(sides: Mapping[str, Side | list[Side]]) -> Iterator[tuple[KeyPath, Side]]:
    """Yield each part of each side, with its place in the entry: the side's key, and in a list its number there."""
    for key, side in sides.items():
        if isinstance(side, list):
            yield from (((key, number), part) for number, part in enumerate(side))
        else:
            yield (key,), side


def refuse_wrong_layers(layers: list[int] | None) -> None:
    """Raise `ValueError` for layers that no model has, or that are named twice."""
    named = layers or []
    if any(layer < 0 for layer in named) or len(set(named)) < len(named):
        raise ValueError("`layers` are different whole numbers from 0 on")
