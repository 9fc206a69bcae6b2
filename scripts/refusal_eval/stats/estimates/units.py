"""The scored prompts of one cell as columns of numbers; of dialogues, the scored turns of prompts."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.estimates.clusters import names_apart
from refusal_eval.stats.estimates.scores import MIXED_SERVING, SCORE_COLUMNS, cell_flags, score_flags

Cell = tuple[str, str, str]  # judge, model, split
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
        flags: of the whole cell (`scores.score_flags`), for the numbers that are made of it.
        max_tokens: the limit of its answers, None without one.
    """

    prompt_ids: tuple[str, ...]
    turns: Ints
    categories: tuple[str, ...]
    clusters: tuple[str, ...]
    counts: dict[str, Ints]
    c: Floats
    bands: tuple[str, ...]
    flags: tuple[str, ...]
    max_tokens: int | None

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

    def own_flags(self, n_clusters: int) -> tuple[str, ...]:
        """Return the flags of a rate of these rows alone, as of a category: by their answers, on so many clusters."""
        answers, unjudged, truncated = (int(self.counts[f"n_{n}"].sum()) for n in ("samples", "unjudged", "truncated"))
        own = cell_flags(answers, unjudged, truncated, self.max_tokens, n_clusters)
        return (*own, *({MIXED_SERVING} & set(self.flags)))

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
            self.flags,
            self.max_tokens,
        )


def read_units(text: str, score: Mapping[str, Any]) -> Units:
    """Return the rows of a score CSV.

    Args:
        text: of the CSV.
        score: the cell's summary (`scores.cell_score`).

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
        score_flags(score),
        score["max_tokens"],
    )


def dialogue_splits(units: Mapping[Cell, Units]) -> list[str]:
    """Return the splits in which a prompt has several scored turns, so that their numbers are not over prompts."""
    return sorted({split for (_, _, split), own in units.items() if len(set(own.prompt_ids)) < len(own)})


def clusters_apart(units: Mapping[Cell, Units], sources: Mapping[str, str]) -> dict[Cell, Units]:
    """Return the same cells with clusters that mean the same in each of them, see `clusters.names_apart`.

    Args:
        units: by (judge, model, split).
        sources: a word for the source of each split.
    """
    found: dict[str, set[str]] = {}
    for (_, _, split), own in units.items():
        found.setdefault(split, set()).update(own.clusters)
    names = names_apart(found, sources)
    return {
        cell: replace(own, clusters=tuple(names[cell[2]][name] for name in own.clusters)) for cell, own in units.items()
    }


def independent_within(clusters: Sequence[str], prompts: Sequence[str]) -> list[str]:
    """Return what varies independently within a category: its clusters, or its prompts where they are all one cluster.

    What makes prompts of that one cluster alike is the category's own effect, and the question is about this very one.

    Args:
        clusters: of each prompt of the category.
        prompts: their ids.
    """
    return list(prompts if len(set(clusters)) == 1 else clusters)
