"""Families of comparisons in a study file, and what they need of the study around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Entry, KeyPath, Slug, Text
from refusal_eval.core.hints import nearest


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


def family_mistakes(family: ComparisonFamily, names: Mapping[str, Sequence[str]]) -> Iterator[Mistake]:
    """Yield names in a family that are not the study's, and what has nothing to be compared with.

    Args:
        names: the study's `models`, `splits` and `judges`; a list that has mistakes of its own is left out.
    """
    for path, name, section in _named(family):
        known = names.get(section)
        if known is not None and name not in known:
            yield path, f"`{name}` is not one of `{section}` of the study" + nearest(name, known)
    models = set(family.models or names.get("models", ()))
    if family.pairs == "all" and len(models) == 1:
        yield ("pairs",), "there is one model only: nothing to compare it with"
    if family.against is not None and models == {family.against}:
        yield ("against",), f"there is no other model to compare with `{family.against}`"
    if family.judges == "all" and len(names.get("judges", ())) == 1:
        yield ("judges",), "there is one judge only: nothing to compare it with"


def _named(family: ComparisonFamily) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield each name in a family with its place and the list of the study that it must be in."""
    places: list[tuple[KeyPath, str | None, str]] = [
        (("against",), family.against, "models"),
        (("judge",), family.judge, "judges"),
        *((("models", i), name, "models") for i, name in enumerate(family.models or ())),
        *((("splits", i), name, "splits") for i, name in enumerate(family.splits or ())),
    ]
    for key, section, pairs in (("pairs", "models", family.pairs), ("judges", "judges", family.judges)):
        for i, pair in enumerate(pairs if isinstance(pairs, list) else ()):
            places += [((key, i, j), name, section) for j, name in enumerate(pair)]
    yield from ((path, name, section) for path, name, section in places if name is not None)
