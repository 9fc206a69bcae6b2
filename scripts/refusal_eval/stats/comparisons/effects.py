"""Effect sizes of a paired difference, and tests of whether it is smaller than a margin.

All rest on clusters: each adds a residual to a linearized estimate, and the standard error is that of their sum, with
Student's t of the clusters less the splits as degrees of freedom.

Two one-sided tests (Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15:657) show equivalence: that
the difference is above -margin and below +margin. Shifted sign flips would be wrong here: where few prompts differ, the
differences less the margin are nearly all of one sign. So is a plain t test, as the few seen to differ make the
standard error too small. To each split are added a prompt that only the first side refuses and one that only the second
does (Bonett and Price 2012, Journal of Educational and Behavioral Statistics 37:479), each a cluster of its own.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from refusal_eval.stats.comparisons.paired import Panel, by_split_and_cluster
from refusal_eval.stats.estimates.intervals import Floats


@dataclass(frozen=True)
class Effects:
    """What is said of a pair beside its difference; None for what the data cannot give."""

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


def effects(panel: Panel, one: int, other: int, level: float, margin: float | None = None) -> Effects:
    """Return the effect sizes of two columns of a panel, over the prompts for which both have a rate.

    Args:
        panel: the rates; each split has the same weight.
        one: number of the first column.
        other: number of the column that is subtracted.
        level: level of the odds ratio's interval.
        margin: difference of rates, a share above 0, that does not matter any more; None tests none.
    """
    both = np.isfinite(panel.rates[:, one] - panel.rates[:, other])
    columns = np.where(both[:, None], panel.rates[:, [one, other]], 0.0)
    first, second, sizes = np.moveaxis(by_split_and_cluster(panel, np.column_stack([columns, both])), 2, 0)
    known = sizes.any(axis=0)
    first, second, sizes = first[:, known], second[:, known], sizes[:, known]
    clusters = (sizes > 0).sum(axis=1)
    if not clusters.all():
        return Effects()
    rates = [_rate(sums, sizes) for sums in (first, second)]
    h = 2 * math.asin(math.sqrt(min(1.0, rates[0]))) - 2 * math.asin(math.sqrt(min(1.0, rates[1])))
    free = sizes.shape[1] - len(sizes)
    enough = clusters.min() > 1 and free > 0
    found = {"cohens_h": h}
    if all(0 < rate < 1 for rate in rates):
        logit = math.log(rates[0] / (1 - rates[0])) - math.log(rates[1] / (1 - rates[1]))
        found["odds_ratio"] = math.exp(logit)
        one_, two = (_residuals(s, sizes) / (r * (1 - r)) for s, r in zip((first, second), rates, strict=True))
        reach = _error(one_ - two, len(sizes)) * _quantile(free, level) if enough else 0.0
        if 0 < reach < 700 - abs(logit):  # beyond, e to its power is no number that a computer holds
            found |= {"odds_ratio_low": math.exp(logit - reach), "odds_ratio_high": math.exp(logit + reach)}
    if margin is not None and enough:
        found |= _against(first - second, sizes, free, level, margin)
    return Effects(**found)


def _against(sums: Floats, sizes: Floats, free: int, level: float, margin: float) -> dict[str, float]:
    added = np.eye(len(sizes))
    sums, sizes = np.hstack([sums, added, -added]), np.hstack([sizes, added, added])
    value, error = _rate(sums, sizes), _error(_residuals(sums, sizes), len(sizes))
    lower, higher = (float(scipy.special.stdtr(free, -(margin + side * value) / error)) for side in (1, -1))
    reach = error * _quantile(free, 2 * level - 1)
    found = {"adjusted_difference": value, "adjusted_low": max(-1.0, value - reach)}
    found |= {"adjusted_high": min(1.0, value + reach)}
    return found | {"not_lower_p": lower, "not_higher_p": higher, "equivalence_p": max(lower, higher)}


def _rate(sums: Floats, sizes: Floats) -> float:
    """Mean over splits of the mean over prompts, of splits x clusters; exactly 1 where all is 1."""
    return math.fsum(math.fsum(own) / n for own, n in zip(sums, sizes.sum(axis=1), strict=True)) / len(sizes)


def _residuals(sums: Floats, sizes: Floats) -> Floats:
    """What each cluster adds to the error of `_rate`; sums are exact, so that turned sides only turn its sign."""
    n = sizes.sum(axis=1, keepdims=True)
    totals = np.array([[math.fsum(own)] for own in sums])
    return np.asarray(((sums - totals / n * sizes) / (len(sizes) * n)).sum(axis=0))


def _error(residuals: Floats, splits: int) -> float:
    return math.sqrt(len(residuals) / (len(residuals) - splits) * math.fsum(residuals**2))


def _quantile(free: int, level: float) -> float:
    return float(scipy.special.stdtrit(free, (1 + level) / 2))
