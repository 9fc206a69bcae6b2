"""The intervention of a model's entry: what is done along a direction while the model runs. A mode is one class.

What a mode does is arithmetic: when it is compiled (intervention.py beside this file), and after a layer of the
model (engines/vllm_worker/steered_stream.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from refusal_eval.config.shapes import Entry, Number, Slug, Whole, kinds_of
from refusal_eval.features.steering.layers_left import layers_left

# What the plain form of every mode has, in this order, as cards of finished studies do: a card with other bytes would
# make requests and activations again. A key that comes is in the plain form of its own modes only.
PLAIN: dict[str, Any] = dict.fromkeys(("direction", "mode", "layers", "scale", "gate"))
PLAIN |= {"offset": "none", "towards": "negative"}


def _each_once(layers: list[int]) -> list[int]:
    twice = next((layer for layer in layers if layers.count(layer) > 1), None)
    if twice is not None:
        raise ValueError(f"names layer {twice} twice")
    return layers


def _named_once(names: list[str]) -> list[str]:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"names `{twice}` twice")
    return names


Names = Annotated[list[Slug], Field(min_length=1), AfterValidator(_named_once)]
LayerNumber = Annotated[Whole, Field(ge=0)]
Layers = Annotated[list[LayerNumber], Field(min_length=1), AfterValidator(_each_once)]
DIRECTION = Field(description="Name of a direction of the catalogue.")
FACTOR = Field(
    description="Factor of the direction, in units of the difference of means, such as `-0.5`: negative ones lead to "
    "the negative side. Or `{alpha: -0.5, by: quantile}`."
)
SHARE = Field(description="Share of the way, such as `0.3`.")
SIMILARITY = "The cosine similarity with {} that a token must exceed, such as `{}`."


class BestLayers(Entry):
    """The layers that tell the direction's two sides apart best, on prompts that it was not fitted on."""

    best: Whole = Field(ge=1, description="How many.")
    by: Literal["area", "correlation"] = Field(
        "area",
        description="`area`: by the area under the ROC curve of the projections of held-out prompts. `correlation`: by "
        "their correlation r with c(x) minus the RMSE, as in Refusal Steering; the direction needs `neutral` prompts.",
    )
    drop_deepest: Number | None = Field(
        None,
        gt=0,
        lt=1,
        description="Leave out the deepest layers, of L those from round(L (1 - this)) - 1 on; `0.05` in Refusal "
        "Steering. Default: none.",
    )

    @model_serializer(mode="wrap")
    def _plain(self, own: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Without what says nothing, as in cards of finished studies (see `PLAIN`).
        fields = type(self).model_fields
        return {key: value for key, value in own(self).items() if value != fields[key].default}

    def left_of(self, depth: int) -> int:
        """Return how many of a model's layers take part, from the first one on."""
        return layers_left(depth, self.drop_deepest)


class Alpha(Entry):
    """The step of Refusal Steering (arXiv 2512.16602): h + alpha s u, with u the vector at length 1.

    s is a ratio of quantiles of the projections and of c(x) of held-out prompts (docs/reference/steering.md).
    """

    alpha: Number = Field(description="Factor of the step, such as `-0.5`.")
    by: Literal["quantile"] = Field(description="What 1 is: a ratio of quantiles, at each layer and for each sign.")

    @model_validator(mode="before")
    @classmethod
    def _unit_said(cls, written: Any) -> Any:
        if isinstance(written, dict) and written.get("by") is None and "alpha" in written:
            raise ValueError(
                "`alpha` alone has no unit: write `{alpha: -0.5, by: quantile}` for the step of Refusal Steering, or a "
                "plain number for a step in units of the difference of means"
            )
        return written


class Intervention(Entry):
    """What is done to the residual stream along a direction while the model runs (docs/how-to/steering.md).

    Attributes:
        signed: whether a random direction has a sign: what it moves tokens towards lies on one side.
        unit: what scale 1 is, in captions.
        plain_at_0: whether scale 0 leaves the model as it is.
        control: what the mode does with a random direction, in the methods section; nothing where it does the same.
    """

    KIND_KEY: ClassVar[str] = "mode"
    signed: ClassVar[bool] = False
    unit: ClassVar[str]
    plain_at_0: ClassVar[bool] = True
    control: ClassVar[str] = ""

    direction: Slug | Names
    mode: str
    layers: Layers | BestLayers = Field(
        description="Decoder layers after which it is done, counted from 0, such as `[15, 16]`, or `{best: 4}`: those "
        "that the direction ranks first; of several directions by the sum of their places.",
    )
    scale: Number | Alpha | None
    allow_overlap: bool = Field(
        False,
        description="Evaluate the model on prompts that made its direction too, as some published results were. Every "
        "number of the model then has the mark \u00b6.",
    )
    other_weights: bool = Field(
        False,
        description="Take a direction of other weights than the model's, such as those of its base model. They must "
        "agree in architecture, depth and width.",
    )

    @model_validator(mode="before")
    @classmethod
    def _said(cls, written: Any) -> Any:
        """Leave out what says nothing.

        An entry that is `like` one of another mode cannot take a key away; it gives the key no value.
        """
        if not isinstance(written, dict):
            return written
        if "alpha" in written:
            raise ValueError(
                "`alpha` is a part of `scale`: write `scale: {alpha: -0.5, by: quantile}` for the step of Refusal "
                "Steering, or `scale: -0.5` for a step in units of the difference of means"
            )
        foreign = {key: value for key, value in PLAIN.items() if key not in cls.model_fields}
        return {
            key: value
            for key, value in written.items()
            if value is not None and not (key in foreign and value == foreign[key])
        }

    @model_serializer(mode="wrap")
    def _plain(self, own: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {**PLAIN, **own(self)}

    @staticmethod
    def of_plain(plain: Mapping[str, Any]) -> Intervention:
        """Return the intervention of a validated entry from its plain form."""
        return MODES[plain["mode"]].model_validate(plain)

    def key(self, without: Collection[str]) -> dict[str, Any]:
        """Return what it does, but for these keys; the order of layers and of directions says nothing."""
        layers = sorted(self.layers) if isinstance(self.layers, list) else self.layers
        said = dict(self) | {"layers": layers, "direction": sorted(self.directions)}
        return {key: value for key, value in said.items() if key not in without}

    @property
    def directions(self) -> list[str]:
        """The names of its directions: one, of a constellation one for each task."""
        return [self.direction] if isinstance(self.direction, str) else self.direction

    @property
    def factor(self) -> float:
        """Its scale or its alpha, that of `ablate` also where the entry leaves it open."""
        if isinstance(self.scale, Alpha):
            return self.scale.alpha
        return 1.0 if self.scale is None else self.scale

    @property
    def in_alpha(self) -> bool:
        """Whether the unit of its factor is that of Refusal Steering."""
        return isinstance(self.scale, Alpha)

    @property
    def needs_neutral(self) -> str:
        """What of it needs the direction's neutral prompts; nothing where it does without them."""
        if self.in_alpha:
            return "`alpha`"
        return "`by: correlation`" if isinstance(self.layers, BestLayers) and self.layers.by == "correlation" else ""

    @property
    def way(self) -> str:
        """What it does and along what, in the methods section."""
        return f"{self.mode} along the direction {self.direction}"

    @property
    def own_words(self) -> str:
        """What else its keys say, likewise."""
        return ""


class Add(Intervention):
    """`mode: add`. The direction is added to all tokens."""

    unit: ClassVar[str] = "1: as far as the two sides' means lie apart"

    direction: Slug = DIRECTION
    mode: Literal["add"]
    scale: Number | Alpha = FACTOR


class Ablate(Intervention):
    """`mode: ablate`. The component along the direction is removed from all tokens."""

    signed: ClassVar[bool] = True
    unit: ClassVar[str] = "1: the whole component along the direction"

    direction: Slug = DIRECTION
    mode: Literal["ablate"]
    scale: Number | None = Field(None, description="Share of the component that is removed. Default: 1.")
    offset: Literal["none", "midpoint"] = Field(
        "none", description="Where the component is removed to: 0, or that of the midpoint between both means."
    )

    @property
    def own_words(self) -> str:
        return "" if self.offset == "none" else f"offset at the {self.offset} of both means"


class Gated(Intervention):
    """`mode: gated`. The direction is added to tokens that are similar to it."""

    unit: ClassVar[str] = "1: as far as the two sides' means lie apart, for tokens that are similar to the direction"
    control: ClassVar[str] = "it is added to tokens that are similar to the direction that it controls"

    direction: Slug = DIRECTION
    mode: Literal["gated"]
    scale: Number | Alpha = FACTOR
    gate: Number = Field(ge=-1, le=1, description=SIMILARITY.format("the direction", "0.1"))

    @property
    def own_words(self) -> str:
        return f"gate {self.gate:g}"


class Reposition(Intervention):
    """`mode: reposition`. The component along the direction is set to that of neutral prompts, and a step is added."""

    unit: ClassVar[str] = "1: as far from the mean of neutral prompts as the two sides' means lie apart"
    plain_at_0: ClassVar[bool] = False

    direction: Slug = DIRECTION
    mode: Literal["reposition"]
    scale: Number | Alpha = FACTOR

    @property
    def needs_neutral(self) -> str:
        return "`mode: reposition`"

    @property
    def way(self) -> str:
        return f"the component along the direction {self.direction} is set to that of neutral prompts plus the step"


class Pull(Intervention):
    """`mode: pull`. All tokens are moved towards the mean of one side."""

    signed: ClassVar[bool] = True
    unit: ClassVar[str] = (
        "1: the whole way to the mean of one side (of a control, to a point as far from the middle of both)"
    )
    control: ClassVar[str] = (
        "it moves tokens towards a point equally far from the middle of both means, in a random direction"
    )

    direction: Slug = DIRECTION
    mode: Literal["pull"]
    scale: Number = SHARE
    towards: Literal["negative", "positive"] = Field("negative", description="Whose mean.")

    @property
    def way(self) -> str:
        return f"{self.mode} towards the mean of the {self.towards} side along the direction {self.direction}"


class Constellation(Intervention):
    """`mode: constellation`. Each token that is similar to the mean of a task moves towards the negative side of it."""

    signed: ClassVar[bool] = True
    unit: ClassVar[str] = "1: the whole way to the mean of a task's negative side, for tokens that are similar to it"
    control: ClassVar[str] = (
        "it moves tokens towards a point equally far from the middle of their task's two means, in a random direction"
    )

    direction: Names = Field(description="Names of directions of the catalogue, one for each task, such as `[mood]`.")
    mode: Literal["constellation"]
    scale: Number = SHARE
    gate: Number = Field(ge=-1, le=1, description=SIMILARITY.format("the mean of its task", "0.85"))

    @property
    def way(self) -> str:
        *first, last = self.direction
        names = f"directions {', '.join(first)} and {last}" if first else f"direction {last}"
        return f"{self.mode}: each token moves towards the most similar of the means of the negative sides of {names}"

    @property
    def own_words(self) -> str:
        return f"gate {self.gate:g}"

    @field_validator("direction", mode="before")
    @classmethod
    def _one_for_each_task(cls, said: Any) -> Any:
        if isinstance(said, str):
            raise ValueError(
                f"must be a list of directions, one for each task: write [{said}], and name those of other tasks in it "
                "too"
            )
        return said


_ALL: tuple[type[Intervention], ...] = (Add, Gated, Pull, Ablate, Constellation, Reposition)
MODES: dict[str, type[Intervention]] = {kinds_of(mode)[0]: mode for mode in _ALL}


def intervention_of(model: Any) -> Intervention | None:
    """Return the intervention of a model's entry, if it is along a direction."""
    asked = getattr(model, "intervention", None)
    return asked if isinstance(asked, Intervention) else None
