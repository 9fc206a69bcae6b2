"""Rates pooled over splits of one expectation, each split with the same weight, and how they move together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.estimates.intervals import pooled_wilson, resamples_for
from refusal_eval.stats.tradeoff.draws import by_cluster, components, numbered, totals
from refusal_eval.stats.tradeoff.split_rates import SplitRates

# Of a difference of two rates. Both have intervals of their own.
DIFFERENCE_METHOD = "variances recovered from the intervals of both rates, correlation from clusters in both"
_NO_VARIANCE = 1e-24


class Part(NamedTuple):
    """A rate or a difference with the ends of its interval, None where the data say nothing about them."""

    value: float
    low: float | None
    high: float | None


def pooled_part(splits: Sequence[SplitRates], model: int, level: float) -> Part | None:
    """Return one model's mean over splits of its rate on each, with its interval; None if a split has no rate of it."""
    rates: list[float] = []
    clusters: list[str] = []
    names: list[str] = []
    draws: list[int] = []
    means = []
    for split in splits:
        known = ~np.isnan(split.rates[model])
        values = split.rates[model][known].tolist()
        if not values:
            return None
        means.append(math.fsum(values) / len(values))
        rates += values
        clusters += split.clusters[known].tolist()
        names += [split.split] * len(values)
        draws += split.draws[model][known].tolist()
    found = pooled_wilson(rates, clusters, names, level, draws)
    return Part(math.fsum(means) / len(means), found.low, found.high)


def difference_part(first: Part, second: Part, correlation: float) -> Part:
    """Return first - second with its interval.

    low = d - sqrt(a^2 - 2 r a b + b^2), a from the first value to its lower end and b from the second to its upper one,
    r the correlation; alike for high (Newcombe 1998, Statistics in Medicine 17:873; Zou & Donner 2008, the same
    27:1693). It has a width where a rate is 0 or 1, which a bootstrap has not.
    """
    value = first.value - second.value
    if None in (first.low, first.high, second.low, second.high):
        return Part(value, None, None)
    a, b = first.value - float(first.low or 0.0), float(second.high or 0.0) - second.value
    c, d = float(first.high or 0.0) - first.value, second.value - float(second.low or 0.0)
    low = math.sqrt(max(0.0, a * a - 2 * correlation * a * b + b * b))
    high = math.sqrt(max(0.0, c * c - 2 * correlation * c * d + d * d))
    return Part(value, max(-1.0, value - low), min(1.0, value + high))


def resampled_rates(splits: Sequence[SplitRates]) -> NDArray[np.float64]:
    """Return every model's rate on every split in each resample: splits x resamples x models.

    The draws depend on the clusters only, so all models and judges are resampled alike.
    """
    resamples = resamples_for(numbered([rates.clusters.tolist() for rates in splits])[1])
    by_name = {rates.split: i for i, rates in enumerate(splits)}
    models = splits[0].rates.shape[0]
    result = np.empty((len(splits), resamples, models))
    for members in components({rates.split: rates.clusters.tolist() for rates in splits}):
        own = [splits[by_name[split]] for split in members]
        codes, groups = numbered([rates.clusters.tolist() for rates in own])
        known = [~np.isnan(rates.rates) for rates in own]
        columns = [
            by_cluster(part, code, groups)
            for rates, mask, code in zip(own, known, codes, strict=True)
            for part in (np.where(mask, rates.rates, 0.0), mask.astype(float))
        ]
        drawn = totals(np.concatenate(columns, axis=1), "trade-off", *members, resamples=resamples)
        drawn = drawn.reshape(resamples, len(own), 2, models)
        for i, split in enumerate(members):
            above, below = drawn[:, i, 0], drawn[:, i, 1]
            total = np.maximum(known[i].sum(axis=1), 1)
            whole = np.where(known[i], own[i].rates, 0.0).sum(axis=1) / total
            # A resample without any prompt of a small split says nothing about it.
            result[by_name[split]] = np.where(below > 0, above / np.where(below > 0, below, 1.0), whole)
    return result


def correlations(first: Sequence[SplitRates], second: Sequence[SplitRates]) -> NDArray[np.float64]:
    """Return how the errors of each model's two pooled rates move together, from -1 to 1.

    With u_c and v_c what cluster c adds to the errors of the two (over the splits of each, the sum of the deviations of
    its prompts' rates from the mean of the split, divided by the number of the split's prompts and by that of splits),
    it is sum of u_c v_c / sqrt(sum of u_c^2 * sum of v_c^2): what resamples of clusters tend to, without their noise.
    So it is 0 where no cluster is in both, and where one of the two rates has no errors to go by.
    """
    splits = [*first, *second]
    codes, groups = numbered([rates.clusters.tolist() for rates in splits])
    errors = [np.zeros((groups, splits[0].rates.shape[0])) for _ in range(2)]
    for i, (rates, code) in enumerate(zip(splits, codes, strict=True)):
        known = ~np.isnan(rates.rates)
        counts = np.maximum(known.sum(axis=1, keepdims=True), 1)
        filled = np.where(known, rates.rates, 0.0)
        deviations = np.where(known, filled - filled.sum(axis=1, keepdims=True) / counts, 0.0) / counts
        side = 0 if i < len(first) else 1
        errors[side] += by_cluster(deviations / len((first, second)[side]), code, groups)
    u, v = errors
    spread = np.sqrt((u**2).sum(axis=0) * (v**2).sum(axis=0))
    # Equal rates differ by rounding only.
    moves = spread > _NO_VARIANCE
    found = np.where(moves, (u * v).sum(axis=0) / np.where(moves, spread, 1.0), 0.0)
    return np.asarray(np.clip(found, -1.0, 1.0))
