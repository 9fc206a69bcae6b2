"""Entries about activations: directions of the catalogue, and what a study says of separation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from refusal_eval.config.shapes import POSITIONS, Entry, Number, Slug, Text, Whole

Method = Literal["md", "wmd", "rmd", "wrmd", "random"]
Fitted = Literal["md", "wmd", "rmd", "wrmd"]  # methods whose vectors are made from the prompts
Positions = Annotated[str, StringConstraints(pattern=POSITIONS)]
WEIGHTED: tuple[Method, ...] = ("wmd", "wrmd")  # they weight each prompt by |c(x)|
RIDGE: tuple[Method, ...] = ("rmd", "wrmd")  # they need the covariance of the negative side
LEAST_NEGATIVE = 10  # prompts that such a covariance is estimated from, unless the entry allows fewer


class Side(Entry):
    """One of the two groups of prompts behind a direction: a split, a category of it, or its prompts by c(x)."""

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

    @model_validator(mode="after")
    def _a_judge_and_one_bound(self) -> Side:
        bounds = [bound for bound in (self.above, self.below) if bound is not None]
        if self.judge is None and bounds:
            raise ValueError("`above` and `below` are bounds of c(x), so `judge` must say whose")
        if self.judge is not None and len(bounds) != 1:
            raise ValueError("`judge` needs exactly one of `above` and `below`: which prompts are on this side")
        return self


class Aqi(Entry):
    """Composites of AQI as its code computes them, for comparison with its tables (docs/steering.md)."""

    gamma: Number = Field(0.5, ge=0, le=1, description="Weight of the first of a composite's two indices.")
    perplexity: Number | None = Field(
        None, ge=5, description="Of t-SNE. Default: as in AQI's code, 30, and 50 for `overall` of `aqi_xb_chi`."
    )
    layer: Whole | None = Field(
        None, ge=0, description="Decoder layer, the first is 0. Default: the last of the separation's layers."
    )
    seed: Whole = Field(42, ge=0, le=2**32 - 1, description="Seed of t-SNE.")


class Separation(Entry):
    """How far apart two groups of prompts lie in the activations of models, layer by layer (docs/steering.md)."""

    name: Slug = Field(description="Names its file, `separation/NAME.csv`.")
    models: list[Slug] = Field(min_length=1, description="Models of the study, such as a base and its fine-tune.")
    positive: Side = Field(description="One group of prompts.")
    negative: Side = Field(description="The other group.")
    positions: Positions = Field("last_prompt_token", description="As in a direction.")
    layers: list[Whole] | None = Field(
        None, min_length=1, description="Decoder layers, the first is 0. Default: all layers of the models."
    )
    draws: Whole = Field(200, ge=20, le=10000, description="Draws of the bootstrap, and permutations of the labels.")
    seed: Whole = Field(0, ge=0, description="Seed of these draws.")
    aqi: Aqi | None = Field(
        None,
        description="Also AQI's composites, `separation/aqi/NAME.csv`; `{}` for the settings of AQI's code. Default: "
        "none.",
    )

    @model_validator(mode="after")
    def _different_layers(self) -> Separation:
        refuse_wrong_layers(self.layers)
        if self.aqi and self.layers and self.aqi.layer is not None and self.aqi.layer not in self.layers:
            raise ValueError(f"`aqi.layer` is {self.aqi.layer}, which is not one of `layers`; add it there")
        return self

    @property
    def sides(self) -> dict[str, Side]:
        """Both groups, by the keys that they have in the entry."""
        return {"positive": self.positive, "negative": self.negative}


def refuse_wrong_layers(layers: list[int] | None) -> None:
    """Raise `ValueError` for layers that no model has, or that are named twice."""
    named = layers or []
    if any(layer < 0 for layer in named) or len(set(named)) < len(named):
        raise ValueError("`layers` are different whole numbers from 0 on")


class Ridge(Entry):
    """What is added to the diagonal of the covariance before it is inverted."""

    value: Number = Field(0.01, gt=0, description="The ridge.")
    relative: bool = Field(False, description="Multiply it by the mean of the covariance's diagonal.")


class Direction(Entry):
    """A vector per layer, from the negative to the positive prompts of a model's activations (docs/steering.md)."""

    label: str | None = Field(None, description="Name in tables and figures. Default: the entry's name.")
    model: Slug = Field(description="Model of the study whose activations are used.")
    positive: Side = Field(description="Prompts that the vector points to, such as those that are refused.")
    negative: Side = Field(description="Prompts that the vector points away from.")
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
        if (fitted := self.fitted) in WEIGHTED and None in (self.positive.judge, self.negative.judge):
            raise ValueError(f"`{fitted}` weights prompts by |c(x)|, so each side needs a `judge`")
        return self

    @property
    def fitted(self) -> Method:
        """The method whose vectors are fitted: of a control that of the direction that it controls."""
        return self.of if self.method == "random" else self.method

    @property
    def sides(self) -> dict[str, Side]:
        """Both sides, by the keys that they have in the entry."""
        return {"positive": self.positive, "negative": self.negative}
