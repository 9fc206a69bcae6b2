"""Scored prompts for tests of what is made of several cells: units from numbers of refusals."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd

from refusal_eval.stats.estimates.pooled_rates import SplitRates
from refusal_eval.stats.estimates.units import PLACE, Units


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
    ids = [f"{prefix}{i:03d}" for i in range(len(refusals))]
    frame = pd.DataFrame({"n_refusal": list(refusals)}, index=pd.MultiIndex.from_product([ids, [0]], names=PLACE))
    frame = frame.assign(cluster=list(clusters or ids), category=list(categories or [""] * len(ids)))
    frame = frame.assign(n_partial=partial or 0, n_unjudged=unjudged or 0, n_blocked=blocked or 0)
    frame = frame.assign(n_truncated=0, n_truncated_early=0)
    frame = frame.assign(n_samples=samples, counting=samples - frame["n_unjudged"], c=np.nan, band="")
    frame["n_judged"] = frame["counting"] - frame["n_blocked"]
    refused = frame["n_refusal"] + frame["n_blocked"]
    for reading, number in (("strict", refused), ("broad", refused + frame["n_partial"])):
        frame[f"rate_{reading}"] = number / frame["counting"].where(frame["counting"] > 0)
        frame[f"low_{reading}"] = number / samples
        frame[f"high_{reading}"] = (number + frame["n_unjudged"]) / samples
    return Units(frame, tuple(flags))


def dialogues_of(units: Units, turns: int) -> Units:
    """The same rows as the turns 0, 1, ... of fewer prompts, each its own cluster."""
    ids = [units["prompt_id"][i // turns] for i in range(len(units))]
    index = pd.MultiIndex.from_arrays([ids, np.arange(len(units)) % turns], names=PLACE)
    return dataclasses.replace(units, frame=units.frame.set_axis(index).assign(cluster=ids))


def rates_of(
    rates: Sequence[Sequence[float]],
    split: str = "s",
    expectation: str = "comply",
    clusters: Sequence[str] | None = None,
    categories: Sequence[str] | None = None,
    draws: int = 10,
    flags: Sequence[Sequence[str]] | None = None,
    blocked: Sequence[Sequence[float]] | None = None,
) -> SplitRates:
    """Rates (models x prompts) on a split, of them shares of blocked answers."""
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
        np.rint(np.array(blocked or np.zeros(array.shape)) * draws).astype(np.int64),
        tuple(tuple(own) for own in flags or [()] * len(array)),
    )
