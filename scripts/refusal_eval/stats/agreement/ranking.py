"""How well the probabilities of a judge put refusals before other answers, whatever threshold they are cut at."""

import math
from typing import Any

import numpy as np

from refusal_eval.stats.agreement.measures import MIN_CLASS_CLUSTERS, MIN_ROWS
from refusal_eval.stats.agreement.weighting import effective, effective_rows, share_ends, units
from refusal_eval.stats.estimates.intervals import Codes, Floats
from refusal_eval.stats.estimates.resampling import blocks, drawn_counts

# An interval needs the standard deviation of resamples only, which 2,000 of them give to 1.6 %.
_RESAMPLES = 2000


def ranking(p: Floats, refused: Floats, weight: Floats, codes: Codes, level: float, seed: int) -> dict[str, Any]:
    """Return the areas under the ROC curve and under the precision-recall curve, and their intervals [low, high].

    roc_auc             the probability that a random refusal has a larger p than a random other answer; ties are half
                        (Hanley & McNeil 1982, Radiology 143:29). 0.5 for a judge that knows nothing
    average_precision   sum over thresholds of (recall_k - recall_k-1) * precision_k, without interpolation, as
                        scikit-learn has it. The share of refusals for a judge that knows nothing

    Both are None unless each class has at least 20 rows and 5 clusters. Intervals are Wilson's with an effective sample
    size, as those of shares, and V from a bootstrap over the G clusters (a class has at least g of them):

        n_eff = min(A (1 - A) / V, n),  V = G / (G - 1) * variance of resamples,  t with g - 1 degrees of freedom

    n is the number of rows; for average precision, which is a mean over refusals, that of refusals (both less what
    unequal weights lose). Where no error is seen (A is 1), or nothing else (0): Clopper-Pearson over g. Percentiles of
    resamples held the truth in 79 to 96 % of simulated gold sets of 100 rows: they hardly know of unseen errors.

    Args:
        p: the probabilities.
        refused: 1 where people see a refusal, else 0.
        weight: normalised weights.
        codes: the number of each row's cluster.
        level: of the intervals.
        seed: of the resamples.
    """
    classes = [refused == 1, refused == 0]
    if min(own.sum() for own in classes) < MIN_ROWS:
        return _shown((None, None), (None, None))
    fewest = min(len(np.unique(codes[own])) for own in classes)
    if fewest < MIN_CLASS_CLUSTERS:
        return _shown((None, None), (None, None))
    order, groups = np.argsort(-p, kind="stable"), int(codes.max()) + 1
    drawn = np.concatenate([np.ones((1, groups)), *drawn_counts(groups, seed, _RESAMPLES)])
    areas = _areas(drawn, p[order], refused[order], units(weight.tolist())[order], codes[order])
    some = min(effective(weight[own].tolist(), codes[own].tolist()) for own in classes)
    rows = [effective_rows(weight.tolist()), effective_rows(weight[classes[0]].tolist())]
    found = []
    for (value, *resamples), most in zip(areas.tolist(), rows, strict=True):
        variance = groups / (groups - 1) * _variance([x for x in resamples if math.isfinite(x)])
        found.append((value, [*share_ends(value, variance, some, fewest - 1, level, most)]))
    return _shown(*found)


def _shown(area: Any, precision: Any) -> dict[str, Any]:
    (roc_auc, roc_auc_interval), (average_precision, average_precision_interval) = area, precision
    return {
        "roc_auc": roc_auc,
        "roc_auc_interval": roc_auc_interval,
        "average_precision": average_precision,
        "average_precision_interval": average_precision_interval,
    }


def _areas(drawn: Floats, p: Floats, refused: Floats, weight: Floats, codes: Codes) -> Floats:
    """ROC area and average precision (2 x resamples) of rows sorted by falling p; NaN where a class was not drawn.

    Weights are whole numbers and sums run in order, so that the digits are the same everywhere. A row `drawn` says how
    often each cluster counts.
    """
    last = np.append(np.flatnonzero(np.diff(p)), len(p) - 1)  # of the rows that share a p
    found, start = [], 0
    for size in blocks(len(drawn), len(p)):
        counts = drawn[start : start + size, codes] * weight
        hits, alarms = (np.cumsum(counts * own, axis=1)[:, last] for own in (refused, 1 - refused))
        new_hits, new_alarms = (np.diff(sums, axis=1, prepend=0.0) for sums in (hits, alarms))
        with np.errstate(divide="ignore", invalid="ignore"):
            below = (hits - new_hits / 2) / hits[:, -1:]  # recall; half of the hits that are tied with an alarm
            area = np.cumsum(new_alarms * below, axis=1)[:, -1] / alarms[:, -1]
            precision = np.cumsum(new_hits * (hits / np.maximum(hits + alarms, 1)), axis=1)[:, -1] / hits[:, -1]
        neither = (hits[:, -1] == 0) | (alarms[:, -1] == 0)
        found.append(np.where(neither, np.nan, np.stack([area, precision])))
        start += size
    return np.concatenate(found, axis=1)


def _variance(values: list[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)
