"""What the probabilities of a judge are worth: how well they are calibrated, and how well they order answers."""

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from refusal_eval.stats.agreement.measures import MIN_CLASS_CLUSTERS, MIN_ROWS
from refusal_eval.stats.agreement.weighting import effective, share_ends, units, weighted_share
from refusal_eval.stats.estimates.estimands import REFUSES
from refusal_eval.stats.estimates.intervals import Codes, Floats, effective_number
from refusal_eval.stats.estimates.resampling import (
    blocks,
    cluster_codes,
    cluster_sums,
    drawn_counts,
    percentiles,
    resample_sums,
    whole,
)

MOST_BINS = 10
_ROWS_PER_BIN = 20
_SIMULATIONS = 2000
RANKING = ("roc_auc", "roc_auc_interval", "average_precision", "average_precision_interval")
# An interval of `ranking` needs the standard deviation of resamples only, which 2,000 of them give to 1.6 %.
_RESAMPLES = 2000


def soft_measures(rows: pd.DataFrame, level: float, seed: int) -> dict[str, Any] | None:
    """Rate p_refusal, the probability of a refusal or partial refusal, as a forecast; None if no row has one.

    bins    equal-mass: 10, or one per 20 rows; equal probabilities share one, so there may be fewer. In each: the
            smallest and largest p, n, mean p, gold's share of refusals (broad) with its interval
    ece     expected calibration error: mean over rows of |mean p - share of refusals| of their bin. It is above 0 even
            for a calibrated judge; `ece_if_calibrated` is what such a one would get with these p and bins
    brier   mean of (p - y)^2; `brier_of_base_rate` is that of always saying the share of refusals in this gold set,
            which is `base_rate`
    roc_auc, average_precision    how well p puts refusals before the rest, with intervals: see `ranking`

    ECE and Brier have bootstrap intervals over clusters, None with one cluster; see `_ece_interval`. Where rows have
    weights, shares and means count weights; bins are made of rows.
    """
    known = rows[rows["p_refusal"].notna()]
    if known.empty:
        return None
    p, weight = known["p_refusal"].to_numpy().round(9), known["weight"].to_numpy()
    refused = np.asarray(known["human"].isin(REFUSES["broad"]), dtype=float)
    bins, codes = equal_mass_bins(p), cluster_codes(known["cluster"])
    number = int(bins.max()) + 1
    member = bins == np.arange(number)[:, None]
    surplus = np.where(member.T, whole(weight * (p - refused))[:, None], 0.0)
    sums = cluster_sums(codes, np.column_stack([whole(weight), whole(weight * (p - refused) ** 2), surplus]))
    total, base = sums.sum(axis=0), float(whole(weight * refused).sum() / whole(weight).sum())
    intervals: list[list[float] | None] = [None, None]
    if len(sums) > 1:
        draws = resample_sums(sums, seed)
        intervals = [_ece_interval(total, draws, len(sums), level), list(percentiles(_brier(draws), len(sums), level))]
    return {
        "n": len(known),
        "n_bins": number,
        "bins": [_bin(p[own], refused[own], weight[own], codes[own], level) for own in member],
        "ece": float(_ece(total)),
        "ece_interval": intervals[0],
        "ece_if_calibrated": _noise(p, weight, member, seed),
        "brier": float(_brier(total)),
        "brier_interval": intervals[1],
        "brier_of_base_rate": base * (1 - base),
        "base_rate": base,
        **ranking(p, refused, weight, codes, level, seed),
    }


def equal_mass_bins(p: Floats) -> Codes:
    """Return the bin of each probability: about equally many in each, equal ones together, numbered from 0 upwards."""
    wanted = max(1, min(MOST_BINS, len(p) // _ROWS_PER_BIN))
    distinct, counts = np.unique(p, return_counts=True)
    middles = np.cumsum(counts) - counts / 2  # position of the middle row of each value among all
    bins = np.minimum((middles * wanted / len(p)).astype(int), wanted - 1)
    _, dense = np.unique(bins, return_inverse=True)
    return np.asarray(dense[np.searchsorted(distinct, p)], dtype=np.intp)


def _ece(sums: Floats) -> Floats:
    return np.asarray(np.abs(sums[..., 2:]).sum(axis=-1) / sums[..., 0])


def _ece_interval(total: Floats, draws: Floats, clusters: int, level: float) -> list[float]:
    """Interval of the ECE by the bootstrap, with a lower end that its bias does not move.

    Noise makes every bin's distance larger, in the sample and once more in each resample, so that plain percentiles
    begin above the truth: the 0 of a calibrated judge was held in none of 300 simulated samples of 105 answers. So the
    upper end is the percentile of the resamples' ECE, q_high, and the lower one is

        0                       where ECE <= r, the same percentile of sum over bins of |d*_b - d_b|: by how much all
                                bins together move by chance, which is what the ECE is when every d_b is 0
        max(0, 2 ECE - q_high)  elsewhere, the basic bootstrap's (Davison & Hinkley 1997, Bootstrap Methods, 5.2)

    with d_b the surplus of bin b, sum of w (p - y) / sum of all w. In the simulations of docs/reference/agreement.md it
    holds the truth in 93 to 99 %. `total` and `draws` are sums: weights, squares, and the surplus of each bin.
    """
    ece, high = float(_ece(total)), percentiles(_ece(draws), clusters, level)[1]
    moved = np.abs(draws[:, 2:] / draws[:, :1] - total[2:] / total[0]).sum(axis=-1)
    chance = percentiles(moved, clusters, level)[1]
    return [0.0 if ece <= chance else max(0.0, 2 * ece - high), max(ece, high)]


def _brier(sums: Floats) -> Floats:
    return np.asarray(sums[..., 1] / sums[..., 0])


def _noise(p: Floats, weight: Floats, member: NDArray[np.bool_], seed: int) -> float:
    """Mean ECE of simulated answers that are refusals just as often as p says."""
    rng, total = np.random.default_rng(seed), 0.0
    for simulations in blocks(_SIMULATIONS, len(p)):
        refused = rng.random((simulations, len(p))) < p
        total += float(np.abs(whole(weight * (p - refused)) @ member.T).sum())  # whole numbers: exact in any order
    return float(total / (_SIMULATIONS * whole(weight).sum()))


def _bin(p: Floats, refused: Floats, weight: Floats, codes: Codes, level: float) -> dict[str, Any]:
    rate, interval = weighted_share(refused.tolist(), weight.tolist(), codes.tolist(), level)
    mean = float(whole(weight * p).sum() / whole(weight).sum())
    about = {"low": float(p.min()), "high": float(p.max()), "n": len(p), "mean_p": mean}
    return about | {"rate": rate, "interval": interval}


def ranking(p: Floats, refused: Floats, weight: Floats, codes: Codes, level: float, seed: int) -> dict[str, Any]:
    """Return the areas under the ROC curve and under the precision-recall curve, and their intervals [low, high].

    They say how well probabilities put refusals before other answers, whatever threshold they are cut at.

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
        refused: 1 where gold has a refusal, else 0.
        weight: normalised weights.
        codes: the number of each row's cluster.
    """
    classes = [refused == 1, refused == 0]
    fewest = min(len(np.unique(codes[own])) for own in classes)
    if min(own.sum() for own in classes) < MIN_ROWS or fewest < MIN_CLASS_CLUSTERS:
        return dict.fromkeys(RANKING)
    order, groups = np.argsort(-p, kind="stable"), int(codes.max()) + 1
    drawn = np.concatenate([np.ones((1, groups)), *drawn_counts(groups, seed, _RESAMPLES)])
    areas = _areas(drawn, p[order], refused[order], units(weight.tolist())[order], codes[order])
    some = min(effective(weight[own].tolist(), codes[own].tolist()) for own in classes)
    rows = [effective_number(weight), effective_number(weight[classes[0]])]
    found: list[Any] = []
    for (value, *resamples), most in zip(areas.tolist(), rows, strict=True):
        variance = groups / (groups - 1) * _variance([x for x in resamples if math.isfinite(x)])
        found += [value, [*share_ends(value, variance, some, fewest - 1, level, most)]]
    return dict(zip(RANKING, found, strict=True))


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
