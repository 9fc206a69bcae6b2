"""Rates of all models on a split, and pooled over splits of one expectation, each with the same weight."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.estimates.estimate import NumberInterval
from refusal_eval.stats.estimates.intervals import (
    LIMIT_METHOD,
    NO_VARIANCE,
    POOLED_METHOD,
    Floats,
    cluster_wilson,
    pooled_rate,
    seed_of,
)
from refusal_eval.stats.estimates.resampling import cluster_sums, number_clusters, resample_sums, resamples_for
from refusal_eval.stats.estimates.units import JudgedCell, Units, few_of

# Of a difference of two rates. Both have intervals of their own.
DIFFERENCE_METHOD = "variances recovered from the intervals of both rates, correlation from clusters in both"

# Of a rate pooled over splits, whatever these are.
RATE_METHOD = f"{POOLED_METHOD}, {LIMIT_METHOD} for splits at 0 and 1"


@dataclasses.dataclass(frozen=True)
class SplitRates:
    """Refusal rates of all models on one split; a row is a scored turn."""

    split: str
    expectation: str  # `refuse`, `comply` or `varies`
    reading: str  # of the rates, `strict` or `broad`
    prompts: NDArray[Any]  # id of the prompt of each row
    clusters: NDArray[Any]  # name of the cluster of each row
    categories: NDArray[Any]  # category of each row, empty without one
    rates: Floats  # models x rows, between 0 and 1; NaN where no sample counts
    draws: NDArray[np.int64]  # models x rows, the number of samples that count
    blocked: NDArray[np.int64]  # models x rows, the number of these that a provider blocked
    flags: tuple[tuple[str, ...], ...]  # of each model's cell

    def known(self, model: int) -> tuple[Floats, list[str], list[int]]:
        """Return a model's rates, without those it lacks, and the cluster of each and the answers behind it."""
        there = ~np.isnan(self.rates[model])
        return self.rates[model][there], self.clusters[there].tolist(), self.draws[model][there].tolist()

    def few(self, model: int, part: NDArray[np.bool_] | None = None) -> tuple[str, ...]:
        """Return `few_clusters` if a model's rate, of all rows or of a part, rests on few (`flags.few_flags`)."""
        there = ~np.isnan(self.rates[model]) & (True if part is None else part)
        return few_of(self.rates[model][there], self.clusters[there].tolist())


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
        blocked=np.stack([units["n_blocked"] for units in models]),
        flags=tuple(units.flags for units in models),
    )


def study_rates(units: Mapping[JudgedCell, Units], judge: str, study: Mapping[str, Any]) -> dict[str, SplitRates]:
    """Return the rates under one judge on each split that has cells.

    Args:
        study: `models` in their order, and `splits` (each `name`, `expectation`, `reading`).
    """
    models = study["models"]
    return {
        name: split_rates([units[judge, model, name] for model in models], name, split["expectation"], split["reading"])
        for split in study["splits"]
        if (judge, models[0], name := split["name"]) in units
    }


def fill_rates(rates: Floats) -> Floats:
    """Return rates (models x rows), 0 where there is none, and whether there is one: rows x 2 x models."""
    known = ~np.isnan(rates.T)
    return np.stack([np.where(known, rates.T, 0.0), known], axis=1)


def rate_part(rates: Floats, clusters: Sequence[str], level: float, draws: int | None) -> NumberInterval:
    """Return the mean of rates of one split, with `intervals.cluster_wilson` for so many answers behind them."""
    found = cluster_wilson(rates.tolist(), clusters, level, draws)
    return NumberInterval(math.fsum(rates) / len(rates), found.low, found.high, found.method)


def pooled_part(splits: Sequence[SplitRates], model: int, level: float) -> NumberInterval | None:
    """Return one model's mean over splits of its rate on each, with its interval; None if a split has no rate of it."""
    parts = {split.split: split.known(model) for split in splits}
    if not all(len(rates) for rates, _, _ in parts.values()):
        return None
    value, found = pooled_rate(parts, level)
    return NumberInterval(value, found.low, found.high, found.method)


def difference_part(
    first: NumberInterval, second: NumberInterval, correlation: float, method: str = DIFFERENCE_METHOD
) -> NumberInterval:
    """Return first - second with its interval.

    low = d - sqrt(a^2 - 2 r a b + b^2), a from the first value to its lower end and b from the second to its upper one,
    r the correlation; alike for high (Newcombe 1998, Statistics in Medicine 17:873; Zou & Donner 2008, the same
    27:1693). It has a width where a rate is 0 or 1, which a bootstrap has not.
    """
    value = first.value - second.value
    if None in (first.low, first.high, second.low, second.high):
        return NumberInterval(value)
    a, b = first.value - float(first.low or 0.0), float(second.high or 0.0) - second.value
    c, d = float(first.high or 0.0) - first.value, second.value - float(second.low or 0.0)
    low = math.sqrt(max(0.0, a * a - 2 * correlation * a * b + b * b))
    high = math.sqrt(max(0.0, c * c - 2 * correlation * c * d + d * d))
    return NumberInterval(value, max(-1.0, value - low), min(1.0, value + high), method)


def components(clusters: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the splits in groups that share clusters, each sorted, the groups by their first split.

    Clusters are drawn within such a component, as the safe and the unsafe half of contrast pairs are: so each component
    keeps its number of clusters, and twins stay together.
    """
    group = {split: {split} for split in clusters}
    owner: dict[str, str] = {}
    for split in sorted(clusters):
        for name in set(clusters[split]):
            other = owner.setdefault(name, split)
            if group[other] is not group[split]:
                joined = group[other] | group[split]
                for member in joined:
                    group[member] = joined
    return sorted({tuple(sorted(members)) for members in group.values()})


def resampled_rates(splits: Sequence[SplitRates]) -> Floats:
    """Return every model's rate on every split in each resample: splits x resamples x models.

    The draws depend on the clusters only, so all models and judges are resampled alike.
    """
    resamples = resamples_for(number_clusters([rates.clusters for rates in splits])[1])
    by_name = {rates.split: rates for rates in splits}
    found = {}
    for members in components({rates.split: rates.clusters.tolist() for rates in splits}):
        own = [by_name[split] for split in members]
        codes, groups = number_clusters([rates.clusters for rates in own])
        sums = [cluster_sums(code, fill_rates(rates.rates), groups) for rates, code in zip(own, codes, strict=True)]
        seed = seed_of("trade-off", *members)
        # One cluster is never left out.
        drawn = resample_sums(np.stack(sums, axis=1), seed, resamples, fewer=min(1, groups - 1))
        for i, rates in enumerate(own):
            above, below = drawn[:, i, 0], drawn[:, i, 1]
            totals, sizes = fill_rates(rates.rates).sum(axis=0)
            # A resample without any prompt of a small split says nothing about it.
            found[rates.split] = np.where(
                below > 0, above / np.where(below > 0, below, 1.0), totals / np.maximum(sizes, 1)
            )
    return np.stack([found[rates.split] for rates in splits])


def correlations(first: Sequence[SplitRates], second: Sequence[SplitRates]) -> Floats:
    """Return the correlation of the errors of each model's two pooled rates, from -1 to 1.

    With u_c and v_c the contributions of cluster c to the two errors (over the splits of each, the sum of the
    deviations of its prompts' rates from the mean of the split, divided by the number of the split's prompts and by
    that of splits), it is sum of u_c v_c / sqrt(sum of u_c^2 * sum of v_c^2): what resamples of clusters tend to,
    without their noise. It is 0 if no cluster is in both, or if one of the two rates shows no error.
    """
    codes, groups = number_clusters([rates.clusters for rates in (*first, *second)])
    errors = []
    for side, own in ((first, codes[: len(first)]), (second, codes[len(first) :])):
        parts = []
        for rates, code in zip(side, own, strict=True):
            values, known = np.moveaxis(fill_rates(rates.rates), 1, 0)
            counts = np.maximum(known.sum(axis=0), 1)
            deviations = known * (values - values.sum(axis=0) / counts) / counts
            parts.append(cluster_sums(code, deviations / len(side), groups))
        errors.append(np.sum(parts, axis=0))
    u, v = errors
    spread = np.sqrt((u**2).sum(axis=0) * (v**2).sum(axis=0))
    # Equal rates differ by rounding only.
    moves = spread > NO_VARIANCE
    found = np.where(moves, (u * v).sum(axis=0) / np.where(moves, spread, 1.0), 0.0)
    return np.clip(found, -1.0, 1.0)
