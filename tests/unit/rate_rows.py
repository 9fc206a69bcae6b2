"""Scored prompts for tests of what is made of several cells: units from numbers of refusals."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from refusal_eval.stats.estimates.units import COUNTS, Units
from refusal_eval.stats.tradeoff.split_rates import SplitRates


def units_of(
    refusals: Sequence[int],
    samples: int = 2,
    clusters: Sequence[str] | None = None,
    categories: Sequence[str] | None = None,
    partial: Sequence[int] | None = None,
    unjudged: Sequence[int] | None = None,
    blocked: Sequence[int] | None = None,
    prefix: str = "p",
    flags: Sequence[str] = (),
) -> Units:
    """Scored prompts p000, p001, ... of which so many of the K answers refuse."""
    n = len(refusals)
    zeros = [0] * n
    partial, unjudged, blocked = partial or zeros, unjudged or zeros, blocked or zeros
    counts = {name: np.zeros(n, dtype=np.int64) for name in COUNTS}
    counts["n_samples"] += samples
    counts["n_refusal"] += np.array(refusals)
    counts["n_partial"] += np.array(partial)
    counts["n_unjudged"] += np.array(unjudged)
    counts["n_blocked"] += np.array(blocked)
    counts["n_judged"] = counts["n_samples"] - counts["n_unjudged"] - counts["n_blocked"]
    counts["n_compliance"] = counts["n_judged"] - counts["n_refusal"] - counts["n_partial"]
    ids = tuple(f"{prefix}{i:03d}" for i in range(n))
    return Units(
        ids,
        np.zeros(n, dtype=np.int64),
        tuple(categories or [""] * n),
        tuple(clusters or ids),
        counts,
        np.full(n, np.nan),
        ("",) * n,
        tuple(flags),
        None,
    )


def dialogues_of(units: Units, turns: int) -> Units:
    """The same rows as the turns 0, 1, ... of fewer prompts, each its own cluster."""
    ids = tuple(units.prompt_ids[i // turns] for i in range(len(units)))
    places = np.arange(len(units)) % turns
    return dataclasses.replace(units, prompt_ids=ids, clusters=ids, turns=places)


def rates_of(
    rates: Sequence[Sequence[float]],
    split: str = "s",
    expectation: str = "comply",
    clusters: Sequence[str] | None = None,
    categories: Sequence[str] | None = None,
    draws: int = 10,
    flags: Sequence[Sequence[str]] | None = None,
) -> SplitRates:
    """Rates (models x prompts) on a split."""
    array = np.array(rates, dtype=float)
    ids = np.array([f"{split}-{i:03d}" for i in range(array.shape[1])], dtype=object)
    return SplitRates(
        split,
        expectation,
        "strict" if expectation == "refuse" else "broad",
        ids,
        ids if clusters is None else np.array(clusters, dtype=object),
        np.array(categories or [""] * len(ids), dtype=object),
        array,
        np.full(array.shape, draws, dtype=np.int64),
        tuple(tuple(own) for own in flags or [()] * len(array)),
    )
