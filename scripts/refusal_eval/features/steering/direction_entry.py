"""Directions of the catalogue."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from refusal_eval.config.capture_entry import Positions, Side, Sides, refuse_wrong_layers
from refusal_eval.config.shapes import Entry, Number, Slug, Whole
from refusal_eval.core.side_names import groups_of

Method = Literal["md", "wmd", "rmd", "wrmd", "random"]
Fitted = Literal["md", "wmd", "rmd", "wrmd"]  # methods whose vectors are made from the prompts
WEIGHTED: tuple[Method, ...] = ("wmd", "wrmd")  # they weight each prompt by |c(x)|
RIDGE: tuple[Method, ...] = ("rmd", "wrmd")  # they need the covariance of the negative side
LEAST_NEGATIVE = 10  # prompts that such a covariance is estimated from, unless the entry allows fewer


class Ridge(Entry):
    """What is added to the diagonal of the covariance before it is inverted."""

    value: Number = Field(0.01, gt=0, description="The ridge.")
    relative: bool = Field(False, description="Multiply it by the mean of the covariance's diagonal.")


class Direction(Entry):
    """A vector per layer, from the negative to the positive prompts of a model's activations.

    See docs/reference/steering.md.
    """

    label: str | None = Field(None, description="Name in tables and figures. Default: the entry's name.")
    model: Slug = Field(description="Model of the study whose activations are used.")
    positive: Sides = Field(
        description="Prompts that the vector points to, such as those that are refused: a group, or a list of groups."
    )
    negative: Sides = Field(description="Prompts that the vector points away from.")
    neutral: Sides | None = Field(
        None,
        description="Prompts that are neither, such as those with c(x) `within` 0.15: their mean is the point from "
        "which projections count, for an `alpha`, for `reposition` and for layers `by: correlation`.",
    )
    method: Method = Field(
        "md",
        description="`md` difference of means, `wmd` weighted by |c(x)|, `rmd` and `wrmd` the same after the inverse "
        "covariance of the negative side, `random` the vectors of `of`, turned together into a random place, for "
        "control.",
    )
    of: Fitted = Field(
        "md",
        description="For `random`: the method that it is the control of. It keeps the lengths of its vectors, their "
        "angles between layers, and its ranking of the layers.",
    )
    draw: Whole = Field(0, ge=0, description="For `random`: which of the random places; another number is another one.")
    ridge: Ridge = Field(Ridge(), description="For `rmd` and `wrmd`, and for a `random` of them.")
    positions: Positions = Field(
        "last_prompt_token",
        description="`last_prompt_token`: the last token of the prompt. `prompt_token-5`: the fifth token from the end "
        "of the prompt as it is sent, and so on, such as those of the chat template behind the question. "
        "`answer_mean`: the mean over the tokens of the model's own answers.",
    )
    layers: list[Whole] | None = Field(
        None, min_length=1, description="Decoder layers, the first is 0. Default: all layers of the model."
    )
    hold_out: Number = Field(
        0.25,
        gt=0,
        lt=1,
        description="Share of the clusters of prompts that the vector never sees and that rank the layers; at "
        "least one of each side.",
    )
    seed: Whole = Field(0, ge=0, description="Decides which prompts are held out.")
    allow_few: bool = Field(
        False,
        description="For `rmd` and `wrmd`, and for a `random` of them: fit the covariance of fewer than ten negative "
        "prompts. The card and the methods section say so.",
    )

    @model_validator(mode="after")
    def _what_belongs_together(self) -> Direction:
        refuse_wrong_layers(self.layers)
        for key, said in (("of", self.of != "md"), ("draw", self.draw != 0)):
            if said and self.method != "random":
                raise ValueError(f"`{key}` is for `random` only, and `method` is `{self.method}`; leave it out")
        parts = [part for side in (self.positive, self.negative) for part in groups_of(side)]
        if (fitted := self.fitted) in WEIGHTED and any(part.judge is None for part in parts):
            raise ValueError(f"`{fitted}` weights prompts by |c(x)|, so each side needs a `judge`")
        if self.neutral is not None and any(part.judge is None for part in parts):
            raise ValueError(
                "with `neutral`, projections are compared with c(x), so each group of `positive` and `negative` needs "
                "a `judge`"
            )
        return self

    @property
    def fitted(self) -> Method:
        """The method whose vectors are fitted: of a control that of the direction that it controls."""
        return self.of if self.method == "random" else self.method

    @property
    def sides(self) -> dict[str, Side | list[Side]]:
        """Its groups of prompts, by the keys that they have in the entry."""
        sides = {"positive": self.positive, "negative": self.negative}
        return sides if self.neutral is None else sides | {"neutral": self.neutral}
