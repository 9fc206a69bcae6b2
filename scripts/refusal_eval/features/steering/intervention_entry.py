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

from refusal_eval.config.shapes import Entry, Number, Slug, Whole, kinds_of, leaves

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
    "the negative side."
)
SHARE = Field(description="Share of the way, such as `0.3`.")
SIMILARITY = "The cosine similarity with {} that a token must exceed, such as `{}`."


class BestLayers(Entry):
    """The layers that tell the direction's two sides apart best, on prompts that it was not fitted on."""

    best: Whole = Field(ge=1, description="How many.")


class Intervention(Entry):
    """What is done to the residual stream along a direction while the model runs (docs/how-to/steering.md).

    Attributes:
        signed: whether a random direction has a sign: what it moves tokens towards lies on one side.
        unit: what scale 1 is, in captions.
        control: what the mode does with a random direction, in the methods section; nothing where it does the same.
    """

    KIND_KEY: ClassVar[str] = "mode"
    signed: ClassVar[bool] = False
    unit: ClassVar[str]
    control: ClassVar[str] = ""

    direction: Slug | Names
    mode: str
    layers: Layers | BestLayers = Field(
        description="Decoder layers after which it is done, counted from 0, such as `[15, 16]`, or `{best: 4}`: those "
        "that the direction ranks first; of several directions by the sum of their places.",
    )
    scale: Number | None
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
        """Its scale, that of `ablate` also where the entry leaves it open."""
        return 1.0 if self.scale is None else self.scale

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
    scale: Number = FACTOR


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
    scale: Number = FACTOR
    gate: Number = Field(ge=-1, le=1, description=SIMILARITY.format("the direction", "0.1"))

    @property
    def own_words(self) -> str:
        return f"gate {self.gate:g}"


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


AnyIntervention = Annotated[Add | Gated | Pull | Ablate | Constellation, Field(discriminator="mode")]
MODES: dict[str, type[Intervention]] = {kinds_of(mode)[0]: mode for mode, _ in leaves(AnyIntervention)}


def intervention_of(model: Any) -> Intervention | None:
    """Return the intervention of a model's entry."""
    asked: Intervention | None = getattr(model, "intervention", None)
    return asked
