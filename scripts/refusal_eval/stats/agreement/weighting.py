"""Weights of gold rows that represent different numbers of answers, and their effect on intervals.

A gold set that was sampled from a study with unequal probabilities (the labelling kit's) has a weight for each row, 1 /
its probability. Shares, tables and resamples then count weights instead of rows. With equal weights every number equals
the unweighted one, to the last digit.
"""

import math
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import scipy

from refusal_eval.stats.estimates.intervals import (
    NO_VARIANCE,
    Floats,
    cluster_wilson,
    degrees_of_freedom,
    effective_number,
    error_variance,
    wilson_ends,
)
from refusal_eval.stats.estimates.resampling import cluster_codes

_DIGITS = 10  # sums of the whole numbers of `units` are exact for up to 900,000 rows


def normalise(weights: Sequence[float]) -> list[float]:
    """Return weights with mean 1, to ten digits and none of them 0; exactly 1 if all are equal.

    Raises:
        ValueError: for a weight that is not a positive number.
    """
    if any(isinstance(w, bool) or not isinstance(w, int | float) or not 0 < w < math.inf for w in weights):
        raise ValueError("a weight must be a number above 0")
    if not weights or min(weights) == max(weights):
        return [1.0] * len(weights)
    scale = len(weights) / math.fsum(weights)
    return [max(round(w * scale, _DIGITS), 10**-_DIGITS) for w in weights]


def are_weighted(weights: Iterable[float]) -> bool:
    return any(weight != 1 for weight in weights)


def units(weights: Sequence[float]) -> Floats:
    """Return normalised weights as whole numbers, whose sums are exact in any order: all 1, or parts of a row of size
    10^-10.
    """
    if not are_weighted(weights):
        return np.ones(len(weights))
    return np.asarray(np.rint(np.asarray(weights, dtype=float) * 10**_DIGITS))


def whole_weights(weights: Sequence[float]) -> Floats:
    """Return weights as proportional whole numbers (see `normalised` and `units`)."""
    return units(normalise(weights))


def effective(weights: Sequence[float], clusters: Sequence[Hashable]) -> float:
    """Return the number of clusters, less what unequal weights lose: G n_eff / n, with `intervals.effective_number`."""
    if not weights:
        return 0.0
    return len(set(clusters)) * effective_number(weights) / len(weights)


def weighted_share(
    values: Sequence[float], weights: Sequence[float], clusters: Sequence[Hashable], level: float
) -> tuple[float, list[float | None]]:
    """Return the weighted mean p of values in [0, 1], at least one, and its interval [low, high].

    Without weights `intervals.cluster_wilson`, in which n rows carry at most the information of n independent ones: if
    twins err in turns, the variance between pairs is small by chance. With weights the same with w_i (v_i - p) / sum of
    w for what a row adds, and sums of weights for the sizes of clusters (`intervals.error_variance`), and without such
    a cap, as a sample with unequal probabilities may tell more than as many rows drawn alike. Where every value is 0 or
    1: Clopper-Pearson on the effective number of clusters.
    """
    if not are_weighted(weights):
        interval = cluster_wilson(values, clusters, level, draws=len(values))
        return math.fsum(values) / len(values), [interval.low, interval.high]
    total = math.fsum(weights)
    p = math.fsum(w * v for w, v in zip(weights, values, strict=True)) / total
    codes, counts = cluster_codes(clusters), np.asarray(weights, dtype=float)
    if not codes.any():
        return p, [0.0, 1.0]
    errors = counts * (np.asarray(values, dtype=float) - p) / total
    order = np.lexsort((errors, counts, codes))  # sums must not depend on the input's order
    errors, counts, codes = errors[order], counts[order], codes[order]
    some = effective_number(np.bincount(codes, weights=counts))
    if p in (0, 1):
        return p, [*share_ends(p, 0.0, some, 1.0, level)]
    variance, parts = error_variance(errors, codes, np.zeros_like(codes), counts)
    free = degrees_of_freedom(parts, max(1.0, some - 1), (1 - 4 * p * (1 - p)) * variance / (p * (1 - p)) ** 2)
    return p, [*share_ends(p, variance, some, free, level)]


def share_ends(
    value: float, variance: float, some: float, free: float, level: float, most: float = math.inf
) -> tuple[float, float]:
    """Return Wilson's interval of a share with a variance; at 0 and 1 Clopper-Pearson's on `some` clusters.

    Args:
        some: effective number of clusters, which is that of answers, too, where there is no variance.
        free: degrees of freedom of the t quantile.
        most: effective answers at most.
    """
    tail = (1 - level) / 2
    if value in (0, 1):
        edge = tail ** (1 / some)
        return (edge, 1.0) if value else (0.0, 1 - edge)
    n_eff = min(value * (1 - value) / variance if variance > NO_VARIANCE else some, most)
    return wilson_ends(value, n_eff, float(scipy.special.stdtrit(free, 1 - tail)))
