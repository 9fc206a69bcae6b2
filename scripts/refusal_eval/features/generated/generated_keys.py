"""The key `generated` of a study file."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import Entry, Slug


class GeneratedPrompts(Entry):
    """A split at the end of a chain of splits that are made of each other, and the one at its beginning."""

    split: Slug = Field(description="The split with what is kept at the end; one of the study's.")
    seeds: Slug = Field(description="The split that it is made from, in one step or several; one of the study's.")

    @model_validator(mode="after")
    def _two_splits(self) -> GeneratedPrompts:
        if self.split == self.seeds:
            raise ValueError(f"`{self.split}` cannot be its own seeds")
        return self


class GeneratedKeys(FeatureKeys):
    """Which splits of a study are followed from their seeds on."""

    generated: list[GeneratedPrompts] = Field(
        [],
        description="Splits that are made step by step of other splits, each with its `seeds`. Gives the rows of each "
        "step and what became of them, and how much more often each model refuses a prompt than its seed "
        "(docs/how-to/generate_falsereject_prompts.md#what-is-reported).",
    )

    @field_validator("generated")
    @classmethod
    def _each_once(cls, value: list[GeneratedPrompts]) -> list[GeneratedPrompts]:
        names = [entry.split for entry in value]
        again = next((name for name in names if names.count(name) > 1), None)
        if again is not None:
            raise ValueError(f"names the split `{again}` twice")
        return value
