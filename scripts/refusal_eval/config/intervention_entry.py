"""The intervention of a model's entry: what is done along a direction while the model runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from refusal_eval.config.shapes import Entry, Number, Slug, Whole

LAYERS_KEY, TEXT_PARTS = "num_hidden_layers", ("text_config", "llm_config", "language_config")


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
Layer = Annotated[Whole, Field(ge=0)]
Layers = Annotated[list[Layer], Field(min_length=1), AfterValidator(_each_once)]


class BestLayers(Entry):
    """The layers that tell the direction's two sides apart best, on prompts that it was not fitted on."""

    best: Whole = Field(ge=1, description="How many.")


class Intervention(Entry):
    """What is done to the residual stream along a direction while the model runs (docs/interventions.md)."""

    direction: Slug | Names = Field(
        description="Name of a direction of the catalogue; for `constellation` a list of names, one for each task."
    )
    mode: Literal["add", "ablate", "gated", "pull", "constellation"] = Field(
        description="`add` the direction; `ablate`: remove the component along it; `gated`: add it to tokens that are "
        "similar to it; `pull` towards the mean of one side; `constellation`: pull each token towards the mean of the "
        "negative side of its task."
    )
    layers: Layers | BestLayers | None = Field(
        None,
        description="Decoder layers after which it is done, counted from 0, or `{best: 4}`: those that the direction "
        "ranks first; of several directions by the sum of their places. Only a `sweep` of layers goes without.",
    )
    scale: Number | None = Field(
        None,
        description="Factor of the direction, in units of the difference of means; negative ones lead to the negative "
        "side. Of `pull`, `constellation` and `ablate` the share of the way. Default: none; 1 for `ablate`.",
    )
    gate: Number | None = Field(
        None,
        ge=-1,
        le=1,
        description="For `gated` and `constellation`: the cosine similarity that a token must exceed, with the "
        "direction or with the mean of its task.",
    )
    offset: Literal["none", "midpoint"] = Field(
        "none",
        description="For `ablate`: where the component is removed to, 0 or that of the midpoint between both means.",
    )
    towards: Literal["negative", "positive"] = Field("negative", description="For `pull`: whose mean.")
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

    def key(self, without: Collection[str]) -> dict[str, Any]:
        """Return what it does, but for these keys; the order of layers and of directions says nothing."""
        layers = sorted(self.layers) if isinstance(self.layers, list) else self.layers
        said = {**self.model_dump(exclude=set(without)), "layers": layers}
        return {**said, "direction": sorted(self.directions)} if "direction" in said else said

    @property
    def directions(self) -> list[str]:
        """The names of its directions: one, of a constellation one for each task."""
        names = [self.direction] if isinstance(self.direction, str) else self.direction
        return names or []  # none where the entry has mistakes

    @property
    def strength(self) -> float:
        """How far it goes, whatever the way."""
        return 1.0 if self.scale is None else abs(self.scale)


def intervention_of(model: Any) -> Intervention | None:
    """Return the intervention of a model's entry."""
    asked: Intervention | None = getattr(model, "intervention", None)
    return asked


def of_text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a model's config.json that is about its decoder: of a model with other parts, the text's."""
    return next((config[part] for part in TEXT_PARTS if isinstance(config.get(part), Mapping)), config)
