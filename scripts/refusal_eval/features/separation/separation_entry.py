"""The entry of a separation in a study file."""

from __future__ import annotations

from pydantic import Field, model_validator

from refusal_eval.config.capture_entry import Positions, Side, Sides, refuse_wrong_layers
from refusal_eval.config.shapes import Entry, Number, Slug, Whole


class Aqi(Entry):
    """Composites of AQI as its code computes them, for comparison with its tables (docs/reference/steering.md)."""

    gamma: Number = Field(0.5, ge=0, le=1, description="Weight of the first of a composite's two indices.")
    perplexity: Number | None = Field(
        None, ge=5, description="Of t-SNE. Default: as in AQI's code, 30, and 50 for `overall` of `aqi_xb_chi`."
    )
    layer: Whole | None = Field(
        None, ge=0, description="Decoder layer, the first is 0. Default: the last of the separation's layers."
    )
    seed: Whole = Field(42, ge=0, le=2**32 - 1, description="Seed of t-SNE.")


class Separation(Entry):
    """How far apart two groups of prompts lie in the activations of models, layer by layer.

    See docs/reference/steering.md.
    """

    name: Slug = Field(description="Names its file, `separation/NAME.csv`.")
    models: list[Slug] = Field(min_length=1, description="Models of the study, such as a base and its fine-tune.")
    positive: Sides = Field(description="One group of prompts, or a list of groups that are one.")
    negative: Sides = Field(description="The other group.")
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
    def sides(self) -> dict[str, Side | list[Side]]:
        """Both groups, by the keys that they have in the entry."""
        return {"positive": self.positive, "negative": self.negative}
