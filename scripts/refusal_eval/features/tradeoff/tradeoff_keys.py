"""The keys of the trade-off: `weighed_against` of a split, and `attacks` of a study file."""

from __future__ import annotations

from pydantic import Field, field_validator

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import Entry, Slug, Text


class WeighedKeys(FeatureKeys):
    """What the paper of a split weighs refusals of its prompts against."""

    weighed_against: Text | None = Field(
        None,
        description="What the paper of a `comply` split weighs over-refusal against, if that is no rate of refusals, "
        "such as 1 - ASR. Table and figure of the trade-off then say that theirs is another axis.",
    )


class Attacks(Entry):
    """Attacked prompts, and the judge of harm that says whether an attack succeeded (docs/reference/tradeoff.md)."""

    splits: list[Slug] = Field(
        min_length=1, description="Splits of attacked prompts, such as jailbreaks, of the study; each counts alike."
    )
    judge: Slug = Field(description="Judge of the study with `kinds` of its own, such as `answer-harm`.")
    succeeds: list[Slug] = Field(
        min_length=1, description="Its kinds that are a success of the attack, such as `[harmful]`."
    )

    @field_validator("splits", "succeeds")
    @classmethod
    def _each_once(cls, names: list[str]) -> list[str]:
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"names `{twice}` twice")
        return names


class AttacksKeys(FeatureKeys):
    """What a study says of attacked prompts."""

    attacks: Attacks | None = Field(
        None,
        description="Attacked prompts: 1 - ASR, the share of attacks that fail by a judge of harm, is then weighed "
        "against over-refusal too, in the table `tradeoff` and in figures of it with `axes: attacks`.",
    )
