"""The key `over_refusals_in` of a split."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import Text


class OverRefusalsKeys(FeatureKeys):
    """Which refusals of a split are over-refusals."""

    over_refusals_in: list[Text] | None = Field(
        None,
        min_length=1,
        description="Categories in which a refusal is an over-refusal, where the split has others too, as "
        "SafeConstellations has. Gives their share of all prompts, and of those in these categories.",
    )

    @model_validator(mode="after")
    def _of_categories(self) -> OverRefusalsKeys:
        split: Any = self
        if self.over_refusals_in and not split.columns.category:
            raise ValueError("`over_refusals_in` needs `columns.category`: it names categories of the prompts")
        return self
