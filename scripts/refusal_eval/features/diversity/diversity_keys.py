"""The key `diversity` of a study file."""

from __future__ import annotations

from pydantic import Field, field_validator

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import Slug


class DiversityKeys(FeatureKeys):
    """Which splits of a study are measured for how much their prompts repeat each other."""

    diversity: list[Slug] = Field(
        [],
        description="Splits of the study whose prompts are compared with each other: Self-BLEU and the share of "
        "distinct pairs of words, of each split, of its categories, and at one number of prompts for all "
        "(docs/reference/diversity.md).",
    )

    @field_validator("diversity")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        again = next((name for name in value if value.count(name) > 1), None)
        if again is not None:
            raise ValueError(f"names `{again}` twice")
        return value
