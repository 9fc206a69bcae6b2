"""Effect sizes of a paired difference, and tests of whether it is smaller than a margin.

All rest on clusters: each adds a residual to a linearized estimate, and the standard error is that of their sum
(`intervals.error_variance`). Student's t has the effective number of clusters less the splits as degrees of freedom,
or fewer where a few clusters carry the estimate.

Two one-sided tests (Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15:657) show equivalence: that
the difference is above -margin and below +margin. Shifted sign flips would be wrong here: where few prompts differ, the
differences less the margin are nearly all of one sign. So is a plain t test, as the few seen to differ make the
standard error too small. To each split are added a prompt that only the first side refuses and one that only the second
does (Bonett and Price 2012, Journal of Educational and Behavioral Statistics 37:479), each a cluster of its own.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from refusal_eval.stats.comparisons.paired import PairedPanel
from refusal_eval.stats.estimates.estimate import p_value
from refusal_eval.stats.estimates.flags import MIN_RARER
from refusal_eval.stats.estimates.intervals import (
    Codes,
    Floats,
    degrees_of_freedom,
    effective_in_splits,
    error_variance,
)


@dataclass(frozen=True)
class Effects:
    """Effect sizes of a pair besides its difference; None for what the data cannot give."""

    odds_ratio: float | None = None  # odds of a refusal of the first over those of the second; None at rates of 0 or 1
    odds_ratio_low: float | None = None
    odds_ratio_high: float | None = None
    cohens_h: float | None = None  # difference of the arcsine-transformed rates, in radians
    adjusted_difference: float | None = None  # the difference with the two added prompts in each split
    adjusted_low: float | None = None  # lower end of its interval, whose level is twice that of others less 1
    adjusted_high: float | None = None
    not_lower_p: float | None = None  # one-sided p value of the difference being at most -margin
    not_higher_p: float | None = None  # the same of its being at least +margin
    equivalence_p: float | None = None  # the larger of both
    few: bool = False  # whether all above rest on few clusters with the rarer outcome of a side


def effects(panel: PairedPanel, one: int, other: int, level: float, margin: float | None = None) -> Effects:
    """Return the effect sizes of two columns of a panel, over the prompts for which both have a rate.

    Args:
        panel: the rates; each split has the same weight.
        one: number of the first column.
        other: number of the column that is subtracted.
        level: level of the odds ratio's interval.
        margin: difference of rates, a share above 0, that does not matter any more; None tests none.
    """
    both = np.isfinite(panel.rates[:, one] - panel.rates[:, other])
    n_splits = int(panel.splits.max()) + 1
    sides, clusters, splits = panel.rates[both][:, [one, other]].T, panel.clusters[both], panel.splits[both]
    in_split = [np.unique(clusters[splits == split]) for split in range(n_splits)]
    if not all(len(numbers) for numbers in in_split):
        return Effects()
    clusters = np.unique(clusters, return_inverse=True)[1].astype(np.intp)
    n_clusters = int(clusters.max()) + 1
    enough = min(len(numbers) for numbers in in_split) > 1 and n_clusters > n_splits
    most = max(1.0, effective_in_splits(clusters, splits) - n_splits)
    rates = [_rate(side, splits) for side in sides]
    h = 2 * math.asin(math.sqrt(min(1.0, rates[0]))) - 2 * math.asin(math.sqrt(min(1.0, rates[1])))
    found: dict[str, Any] = {"cohens_h": h, "few": _few(sides, clusters, splits)}
    if all(0 < rate < 1 for rate in rates):
        logit = math.log(rates[0] / (1 - rates[0])) - math.log(rates[1] / (1 - rates[1]))
        found["odds_ratio"] = math.exp(logit)
        one_, two = (_residuals(side, splits) / (r * (1 - r)) for side, r in zip(sides, rates, strict=True))
        reach = 0.0
        if enough:
            error, free = _error(one_ - two, clusters, splits, most)
            reach = error * _quantile(free, level)
        if 0 < reach < 700 - abs(logit):  # beyond, e to its power is no number that a computer holds
            found |= {"odds_ratio_low": math.exp(logit - reach), "odds_ratio_high": math.exp(logit + reach)}
    if margin is not None and enough:
        found |= _against(sides[0] - sides[1], clusters, splits, most, level, margin)
    return Effects(**found)


def _against(
    differences: Floats, clusters: Codes, splits: Codes, most: float, level: float, margin: float
) -> dict[str, float]:
    n_splits = int(splits.max()) + 1
    differences = np.concatenate([differences, np.repeat([1.0, -1.0], n_splits)])
    clusters = np.concatenate([clusters, int(clusters.max()) + 1 + np.arange(2 * n_splits)])
    splits = np.concatenate([splits, np.tile(np.arange(n_splits), 2)])
    value, (error, free) = _rate(differences, splits), _error(_residuals(differences, splits), clusters, splits, most)
    lower, higher = (p_value(float(scipy.special.stdtr(free, -(margin + side * value) / error))) for side in (1, -1))
    reach = error * _quantile(free, 2 * level - 1)
    found = {"adjusted_difference": value, "adjusted_low": max(-1.0, value - reach)}
    found |= {"adjusted_high": min(1.0, value + reach)}
    return found | {"not_lower_p": lower, "not_higher_p": higher, "equivalence_p": max(lower, higher)}


def _few(sides: Floats, clusters: Codes, splits: Codes) -> bool:
    """Whether one side shows one of the outcomes in fewer than ten clusters of a split whose prompts share some."""
    for split in range(int(splits.max()) + 1):
        own = clusters[splits == split]
        if len(np.unique(own)) == len(own):
            continue
        for side in sides:
            rates = side[splits == split]
            if min(len(np.unique(own[rates > 0])), len(np.unique(own[rates < 1]))) < MIN_RARER:
                return True
    return False


def _rate(values: Floats, splits: Codes) -> float:
    """Mean over splits of the mean over prompts; exactly 1 where all is 1."""
    numbers = range(int(splits.max()) + 1)
    return math.fsum(math.fsum(values[splits == s]) / int((splits == s).sum()) for s in numbers) / len(numbers)


def _residuals(values: Floats, splits: Codes) -> Floats:
    """What each prompt adds to the error of `_rate`; sums are exact, so that turned sides only turn its sign."""
    numbers = np.arange(int(splits.max()) + 1)
    means = np.array([math.fsum(values[splits == s]) / int((splits == s).sum()) for s in numbers])
    return np.asarray((values - means[splits]) / (len(numbers) * np.bincount(splits)[splits]))


def _error(residuals: Floats, clusters: Codes, splits: Codes, most: float) -> tuple[float, float]:
    """Return the standard error of a sum of residuals, and its degrees of freedom, `most` at most."""
    variance, parts = error_variance(residuals, clusters, splits)
    return math.sqrt(variance), degrees_of_freedom(parts, most)


def _quantile(free: float, level: float) -> float:
    return float(scipy.special.stdtrit(free, (1 + level) / 2))
