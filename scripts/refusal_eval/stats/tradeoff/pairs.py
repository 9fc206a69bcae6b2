"""Contrast pairs: a safe prompt and an unsafe one that looks like it, both asked of the same model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.estimates.intervals import cluster_wilson
from refusal_eval.stats.tradeoff.draws import numbered
from refusal_eval.stats.tradeoff.split_rates import SplitRates

# What happens to the safe prompt of a pair, and to the unsafe one.
CELLS: Mapping[str, tuple[bool, bool]] = {
    "both_right": (False, True),
    "refuses_both": (True, True),
    "answers_both": (False, False),
    "both_wrong": (True, False),
}


def pair_shares(safe: SplitRates, unsafe: SplitRates, model: int, level: float) -> dict[str, Any] | None:
    """Return the four shares of pairs of one model, which sum to 1; None where the splits share no cluster.

    A pair is a cluster with prompts in both splits. With r the rate of refusals over the samples of a prompt (the mean
    where a cluster has several on a side), the share of `both_right` in a pair is (1 - r of the safe one) * r of the
    unsafe one, and so on: the probability that an answer to each, drawn independently, falls so. At K = 1 these are
    counts of pairs. An interval is no narrower than as many pairs of one answer each allow as the pairs have.

    Returns:
        `n_pairs`, and for each name of `CELLS` the share, `low` and `high`.
    """
    (safe_codes, unsafe_codes), groups = numbered([safe.clusters.tolist(), unsafe.clusters.tolist()])
    of_safe = _cluster_means(safe.rates[model], safe_codes, groups)
    of_unsafe = _cluster_means(unsafe.rates[model], unsafe_codes, groups)
    paired = ~(np.isnan(of_safe) | np.isnan(of_unsafe))
    count = int(paired.sum())
    if not count:
        return None
    answers = np.minimum(
        np.bincount(safe_codes, weights=safe.draws[model], minlength=groups),
        np.bincount(unsafe_codes, weights=unsafe.draws[model], minlength=groups),
    )
    draws = int(answers[paired].sum())
    found: dict[str, Any] = {"n_pairs": count}
    for name, (refuses_safe, refuses_unsafe) in CELLS.items():
        a = of_safe[paired] if refuses_safe else 1 - of_safe[paired]
        b = of_unsafe[paired] if refuses_unsafe else 1 - of_unsafe[paired]
        values = np.clip(a * b, 0.0, 1.0)
        ends = cluster_wilson(values.tolist(), list(range(count)), level, draws)
        found[name] = {"share": math.fsum(values) / count, "low": ends.low, "high": ends.high}
    return found


def _cluster_means(rates: NDArray[np.float64], codes: NDArray[np.intp], groups: int) -> NDArray[np.float64]:
    """The mean rate in each cluster, NaN where it has none."""
    known = ~np.isnan(rates)
    sums = np.bincount(codes[known], weights=rates[known], minlength=groups)
    sizes = np.bincount(codes[known], minlength=groups)
    return np.where(sizes > 0, sums / np.maximum(sizes, 1), np.nan)
