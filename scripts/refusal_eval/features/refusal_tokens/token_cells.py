"""The answers of a model's branches to one split, with the tokens behind each prompt: what a choice looks up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refusal_eval.features.refusal_tokens.token_choice import NONE, TokenColumns, TokenRule, chosen
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.flags import MAX_UNJUDGED, UNJUDGED, derived_flags
from refusal_eval.stats.estimates.intervals import Floats
from refusal_eval.stats.estimates.units import Units


@dataclass(frozen=True)
class LookUp:
    """Of each prompt that a choice decides: the refusal rate of its answers behind the token that was chosen."""

    rates: Floats  # NaN where no answer counts; of tokens 1 for a refusal token and 0 for the other
    draws: NDArray[np.int64]  # answers behind each rate
    clusters: NDArray[np.object_]
    categories: NDArray[np.object_]

    def of(self, category: str | None = None) -> LookUp:
        """Return those of a category that have a rate."""
        kept = ~np.isnan(self.rates) & (True if category is None else self.categories == category)
        return LookUp(self.rates[kept], self.draws[kept], self.clusters[kept], self.categories[kept])


@dataclass(frozen=True)
class TokenCell:
    """One split under one judge. Rows are prompts; columns are branches, that of other replies last."""

    split: str
    expectation: str
    headline: str  # reading of its headline rate
    refusing: tuple[str, ...]  # names of the branches but the last
    logprobs: Floats
    rates: Mapping[str, Floats]  # by reading
    draws: NDArray[np.int64]
    clusters: NDArray[np.object_]
    categories: NDArray[np.object_]
    flags: tuple[str, ...]

    def chosen(self, choice: TokenRule) -> TokenColumns:
        return chosen(self.logprobs, choice, self.refusing)

    def answers(self, choice: TokenRule, reading: str) -> LookUp:
        """Return the answers at a choice: a look-up, as every branch has answered every prompt."""
        columns = self.chosen(choice)
        rows = np.nonzero(columns != NONE)[0]
        found = self.rates[reading][rows, columns[rows]], self.draws[rows, columns[rows]]
        return LookUp(*found, self.clusters[rows], self.categories[rows])

    def tokens(self, choice: TokenRule) -> LookUp:
        """Return which token is chosen, as a rate."""
        columns = self.chosen(choice)
        rows = np.nonzero(columns != NONE)[0]
        refused = (columns[rows] < len(self.refusing)).astype(float)
        return LookUp(refused, np.ones(len(rows), np.int64), self.clusters[rows], self.categories[rows])

    def names(self) -> list[str]:
        """Return the categories of its prompts."""
        return sorted({name for name in self.categories.tolist() if name})


def token_cell(branches: Mapping[str, Units], logprobs: Mapping[str, Mapping[str, float] | None]) -> TokenCell:
    """Return the branches of a split as one.

    Args:
        branches: the scored cells by the name of the branch, that of other replies last; clusters that mean the same
            on several splits have one name.
        logprobs: of each prompt those of the tokens, by the name of the branch; None where there are none.

    Raises:
        ValueError: if the branches were not scored on the same prompts.
    """
    cells = list(branches.values())
    first = cells[0]
    if not all(cell.frame.index.equals(first.frame.index) for cell in cells):
        raise ValueError(f"the branches on split {first.facts['split']} are not all on the same prompts")
    prompts = first["prompt_id"].tolist()
    rows = [logprobs.get(prompt) or dict.fromkeys(branches, np.nan) for prompt in prompts]
    found = np.array([[row[name] for name in branches] for row in rows], dtype=float).reshape(-1, len(branches))
    unasked = np.isnan(found).any(axis=1).mean() if len(found) else 0.0
    return TokenCell(
        split=first.facts["split"],
        expectation=first.facts["expectation"],
        headline=first.facts["headline"],
        refusing=tuple(branches)[:-1],
        logprobs=found,
        rates={name: np.stack([cell[f"rate_{name}"] for cell in cells], axis=1) for name in READINGS},
        draws=np.stack([cell["counting"] for cell in cells], axis=1),
        clusters=first["cluster"],
        categories=first["category"],
        flags=derived_flags([cell.flags for cell in cells], (UNJUDGED,) if unasked > MAX_UNJUDGED else ()),
    )
