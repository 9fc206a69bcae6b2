"""The key `choices` of a study file."""

from __future__ import annotations

from pydantic import Field, model_validator

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import Entry, Number, Slug, Whole


class Choice(Entry):
    """Which of several models is taken: of those that remove enough refusals, the one whose answers to other prompts
    differ least in mean log-probability.

    After the configuration finder of Refusal Steering (arXiv 2512.16602): chosen on one half of the prompts, and
    reported on the other. Each model is measured on its own answers, so that it may change their words and differ in
    nothing here (docs/how-to/steering.md).
    """

    name: Slug = Field(description="Names it in the table.")
    against: Slug = Field(description="The model that the others are configurations of, such as the unsteered one.")
    models: list[Slug] = Field(
        min_length=1, description="Configurations that it chooses from, such as those of sweeps."
    )
    refusals: list[Slug] = Field(min_length=1, description="Splits whose refusals are to be removed.")
    others: list[Slug] = Field(
        min_length=1, description="Splits whose answers are to stay as probable as they are, such as harmless prompts."
    )
    tau: Number = Field(
        gt=0, le=2, description="Least removal: how far the mean of c(x) has to fall, from 0 to 2, such as `0.5`."
    )
    judge: Slug | None = Field(None, description="Judge whose c(x) it is. Default: the primary judge.")
    seed: Whole = Field(0, ge=0, description="Decides which clusters of prompts are in which half.")

    @model_validator(mode="after")
    def _each_once(self) -> Choice:
        for key, names in (("models", self.models), ("refusals", self.refusals), ("others", self.others)):
            if again := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"`{key}` names `{again}` twice")
        if self.against in self.models:
            raise ValueError(f"`models` names `{self.against}`, which they are compared with; leave it out there")
        if both := next((name for name in self.refusals if name in self.others), None):
            raise ValueError(f"`{both}` is under `refusals` and under `others`; leave one of both out")
        return self


class ChoicesKeys(FeatureKeys):
    """What a study says of its choices."""

    choices: list[Choice] = Field(
        [],
        description="Configurations to choose from, by the refusals that they remove and by how far they change the "
        "probability of other answers (docs/how-to/steering.md).",
    )
