"""The key `separation` of a study file."""

from typing import ClassVar

from pydantic import Field

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.features.separation.separation_entry import Separation


class SeparationKeys(FeatureKeys):
    """What a study separates."""

    in_methods: ClassVar[tuple[str, ...]] = ("separation",)

    separation: list[Separation] = Field(
        [],
        description="How far apart two groups of prompts lie in the activations of models, layer by layer "
        "(docs/reference/steering.md).",
    )
