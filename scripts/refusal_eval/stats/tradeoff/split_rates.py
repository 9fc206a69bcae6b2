"""The scores of a judge on one split, for all models at once, as arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.estimates.intervals import Floats
from refusal_eval.stats.estimates.near_duplicates import Place
from refusal_eval.stats.estimates.units import Units


@dataclasses.dataclass(frozen=True)
class SplitRates:
    """Refusal rates of all models on one split; a row is a prompt, of dialogues a scored turn.

    Attributes:
        split: its name.
        expectation: `refuse`, `comply` or `varies`.
        reading: of the rates, `strict` or `broad`.
        prompts: id of the prompt of each row.
        clusters: name of the cluster of each row.
        categories: category of each row, empty without one.
        rates: models x rows, between 0 and 1; NaN where no sample counts.
        draws: models x rows, the number of samples that count.
        flags: of each model's cell (`scores.score_flags`).
    """

    split: str
    expectation: str
    reading: str
    prompts: NDArray[Any]
    clusters: NDArray[Any]
    categories: NDArray[Any]
    rates: Floats
    draws: NDArray[np.int64]
    flags: tuple[tuple[str, ...], ...]

    def only(self, rows: NDArray[np.bool_]) -> SplitRates:
        """Return the same with these rows only."""
        parts = {name: getattr(self, name)[rows] for name in ("prompts", "clusters", "categories")}
        return dataclasses.replace(self, **parts, rates=self.rates[:, rows], draws=self.draws[:, rows])

    def known(self, model: int) -> tuple[Floats, list[str], list[int]]:
        """Return a model's rates, without those it lacks, and the cluster of each and the answers behind it."""
        there = ~np.isnan(self.rates[model])
        return self.rates[model][there], self.clusters[there].tolist(), self.draws[model][there].tolist()


def split_rates(models: Sequence[Units], split: str, expectation: str, reading: str) -> SplitRates:
    """Return a split's rates out of the scores of each model, in their order.

    Raises:
        ValueError: if the models were not scored on the same prompts.
    """
    first = models[0]
    if not all(units.frame.index.equals(first.frame.index) for units in models):
        raise ValueError(f"the scores of split {split} are not all on the same prompts")
    return SplitRates(
        split=split,
        expectation=expectation,
        reading=reading,
        prompts=first["prompt_id"],
        clusters=first["cluster"],
        categories=first["category"],
        rates=np.stack([units[f"rate_{reading}"] for units in models]),
        draws=np.stack([units["counting"] for units in models]),
        flags=tuple(units.flags for units in models),
    )


def counted_once(splits: Iterable[SplitRates], left_out: Collection[Place]) -> list[SplitRates]:
    """Return splits that are pooled without the prompts of `near_duplicates.left_out`, and without a split of none."""
    kept = []
    for rates in splits:
        counts = np.array([Place(rates.split, prompt) not in left_out for prompt in rates.prompts], dtype=bool)
        kept += [rates.only(counts)] if counts.any() else []
    return kept


def filled(rates: SplitRates) -> Floats:
    """Return rates, 0 where there is none, and whether there is one: rows x 2 x models."""
    known = ~np.isnan(rates.rates.T)
    return np.stack([np.where(known, rates.rates.T, 0.0), known], axis=1)
