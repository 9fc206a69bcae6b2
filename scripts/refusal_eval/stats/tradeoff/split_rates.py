"""The scores of a judge on one split, for all models at once, as arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    rates: NDArray[np.float64]
    draws: NDArray[np.int64]
    flags: tuple[tuple[str, ...], ...]

    def only(self, rows: NDArray[Any]) -> SplitRates:
        """Return the same with these rows only (a mask or numbers)."""
        parts = {name: getattr(self, name)[rows] for name in ("prompts", "clusters", "categories")}
        return dataclasses.replace(self, **parts, rates=self.rates[:, rows], draws=self.draws[:, rows])


def split_rates(models: Sequence[Units], split: str, expectation: str, reading: str) -> SplitRates:
    """Return a split's rates out of the scores of each model, in their order.

    Raises:
        ValueError: if the models were not scored on the same prompts.
    """
    first = models[0]
    for units in models[1:]:
        if units.prompt_ids != first.prompt_ids or (units.turns != first.turns).any():
            raise ValueError(f"the scores of split {split} are not all on the same prompts")
    return SplitRates(
        split=split,
        expectation=expectation,
        reading=reading,
        prompts=np.array(first.prompt_ids, dtype=object),
        clusters=np.array(first.clusters, dtype=object),
        categories=np.array(first.categories, dtype=object),
        rates=np.stack([units.rates(reading) for units in models]),
        draws=np.stack([units.counting for units in models]),
        flags=tuple(units.flags for units in models),
    )


def counted_once(splits: Iterable[SplitRates], left_out: Collection[Place]) -> list[SplitRates]:
    """Return the splits without the prompts that pooled numbers leave out, and without a split of which none is left.

    Args:
        splits: that are pooled.
        left_out: near-duplicates of prompts that count, see `estimates.near_duplicates.left_out`.
    """
    kept = []
    for rates in splits:
        counts = np.array([Place(rates.split, prompt) not in left_out for prompt in rates.prompts], dtype=bool)
        kept += [rates.only(counts)] if counts.any() else []
    return kept
