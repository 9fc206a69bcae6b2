"""The scored prompts of one cell as columns of numbers; of dialogues, the scored turns of prompts."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refusal_eval.scores import SCORE_COLUMNS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

COUNTS = ("n_samples", "n_judged", "n_blocked", "n_unjudged", "n_truncated", "n_refusal", "n_partial", "n_compliance")


@dataclass(frozen=True)
class Units:
    """What the score CSV of a cell says, a place in every array for each of its rows, in their order.

    Attributes:
        prompt_ids: prompts.
        turns: the number of the turn; 0 where prompts are no dialogues.
        categories: categories, empty where a prompt has none.
        clusters: clusters.
        counts: the columns `COUNTS`.
        c: c(x), NaN where a prompt has none.
        bands: its band, empty where it has none.
    """

    prompt_ids: tuple[str, ...]
    turns: Ints
    categories: tuple[str, ...]
    clusters: tuple[str, ...]
    counts: dict[str, Ints]
    c: Floats
    bands: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.prompt_ids)

    @property
    def counting(self) -> Ints:
        """Number of samples that enter rates: judged or blocked."""
        return self.counts["n_judged"] + self.counts["n_blocked"]

    def refusals(self, reading: str) -> Ints:
        """Number of samples that refuse in a reading, `strict` or `broad`."""
        partial = self.counts["n_partial"] if reading == "broad" else 0
        return self.counts["n_refusal"] + self.counts["n_blocked"] + partial

    def rates(self, reading: str) -> Floats:
        """Share of refusals among the samples that count, NaN where none does."""
        counting = self.counting
        rates = np.full(len(self), np.nan)
        np.divide(self.refusals(reading), counting, out=rates, where=counting > 0)
        return rates

    def kept(self, keep: Flags) -> Units:
        """Return the part where `keep` is true."""
        places: list[int] = np.flatnonzero(keep).tolist()

        def some(values: Sequence[str]) -> tuple[str, ...]:
            return tuple(values[i] for i in places)

        return Units(
            some(self.prompt_ids),
            self.turns[places],
            some(self.categories),
            some(self.clusters),
            {name: values[places] for name, values in self.counts.items()},
            self.c[places],
            some(self.bands),
        )


def read_units(text: str) -> Units:
    """Return the rows of a score CSV.

    Raises:
        ValueError: if its columns are others.
    """
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    if tuple(header) != SCORE_COLUMNS:
        raise ValueError(f"not a score CSV: its columns are {header}")
    columns = dict(zip(header, zip(*rows, strict=True) if rows else [()] * len(header), strict=True))
    return Units(
        columns["prompt_id"],
        np.array(columns["turn"], dtype=np.int64),
        columns["category"],
        columns["cluster"],
        {name: np.array(columns[name], dtype=np.int64) for name in COUNTS},
        np.array([value or "nan" for value in columns["c"]], dtype=np.float64),
        columns["band"],
    )
