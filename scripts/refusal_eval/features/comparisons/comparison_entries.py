"""Families of comparisons in a study file, and what they need of the study around them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from refusal_eval.config.shapes import Entry, Slug, Text


def _two(names: list[str]) -> list[str]:
    if len(names) != 2:
        raise ValueError(f"a pair is two names, `[first, second]`, not {len(names)}")
    if names[0] == names[1]:
        raise ValueError(f"`{names[0]}` cannot be compared with itself")
    return names


Pair = Annotated[list[Slug], AfterValidator(_two)]


class ComparisonFamily(Entry):
    """Comparisons on the same prompts whose tests are corrected together (Holm). `pairs`, `against` or `judges` says
    what is compared.
    """

    label: Text | None = Field(None, description="Name of the family under the table. Default: what it compares.")
    pairs: Literal["all"] | list[Pair] | None = Field(
        None, description="Pairs of models, each `[first, second]`: first minus second. Or `all` pairs."
    )
    against: Slug | None = Field(None, description="Compare every other model with this one: the other minus this.")
    judges: Literal["all"] | list[Pair] | None = Field(
        None, description="Pairs of judges, compared on the answers of each model, or `all` pairs of them."
    )
    models: list[Slug] | None = Field(
        None, min_length=1, description="Models that count. Default: all of the study. Not with a list of `pairs`."
    )
    splits: list[Slug] | None = Field(None, min_length=1, description="Splits that count. Default: all of the study.")
    judge: Slug | None = Field(None, description="Judge under whom models are compared. Default: the primary judge.")
    scope: Literal["splits", "pooled", "both"] = Field(
        "both",
        description="Compare on each of the `splits`, on all splits of one expectation `pooled` (each with the same "
        "weight), or `both`, which pools where there are at least two. Each is one more test of the family.",
    )

    @model_validator(mode="after")
    def _one_choice(self) -> ComparisonFamily:
        if sum(choice is not None for choice in (self.pairs, self.against, self.judges)) != 1:
            raise ValueError("name exactly one of `pairs`, `against` and `judges`")
        for key, names in (("models", self.models or []), ("splits", self.splits or [])):
            again = next((name for name in names if names.count(name) > 1), None)
            if again is not None:  # each would be one more test of the family
                raise ValueError(f"`{key}` names `{again}` twice")
        for name, pairs in (("pairs", self.pairs), ("judges", self.judges)):
            if pairs == []:
                raise ValueError(f"`{name}` must not be empty")
            found = [frozenset(pair) for pair in pairs] if isinstance(pairs, list) else []
            twice = next((sorted(pair) for pair in found if found.count(pair) > 1), None)
            if twice:
                raise ValueError(f"`{name}` names {twice[0]} and {twice[1]} twice")
        if self.judges is not None and self.judge is not None:
            raise ValueError("`judge` is for comparisons of models; `judges` names those that are compared")
        if isinstance(self.pairs, list) and self.models is not None:
            raise ValueError("`pairs` names its models itself; leave `models` out")
        return self
