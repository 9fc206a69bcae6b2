"""Differences of headline rates on the same prompts, with test, interval and worst-case bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from refusal_eval.stats.comparisons.comparison_resampling import drawn_counts
from refusal_eval.stats.comparisons.halves import Ends, counted_ends, drawn_ends
from refusal_eval.stats.comparisons.score_panel import Floats, Panel
from refusal_eval.stats.comparisons.sign_flips import sign_flip_p
from refusal_eval.stats.estimates.intervals import resamples_for, seed_of

WIDER = "paired bootstrap over clusters (expanded percentile) or means over halves of them, whichever is wider"
ALL_EQUAL = "exact over clusters (all differences equal)"
SOME_EQUAL = f"{WIDER}; for splits whose differences are all equal exact over clusters"
ONE_CLUSTER = "none (a split has one cluster)"
_NINE_DIGITS = 10**9
_MOST_EXACT = 10**15  # whole numbers up to here are exact as floats too


@dataclass(frozen=True)
class Paired:
    """A difference, first less second, over the prompts (of dialogues scored turns) for which both have a rate.

    Attributes:
        rate_first: rate of the first over these prompts; of several splits the mean of theirs.
        rate_second: the same of the second.
        difference: rate_first - rate_second, None where a split has no such prompt.
        low: lower end of its interval.
        high: upper end.
        method: how the interval was made.
        p: two-sided p value of the sign flips.
        test: `exact`, or `N draws`.
        bound_low: the difference over all prompts at its lowest: every unjudged answer of the first a compliance and of
            the second a refusal; what one lacks altogether counts as unjudged.
        bound_high: the same at its highest.
        n: prompts with both rates.
        n_all: all prompts.
        n_clusters: clusters of those with both rates.
        fewest_clusters: the same of the split that has the fewest.
        n_differ: clusters in which the two differ.
    """

    rate_first: float | None
    rate_second: float | None
    difference: float | None
    low: float | None
    high: float | None
    method: str | None
    p: float | None
    test: str | None
    bound_low: float | None
    bound_high: float | None
    n: int
    n_all: int
    n_clusters: int
    fewest_clusters: int
    n_differ: int


def paired_differences(
    panel: Panel, pairs: Sequence[tuple[int, int]], names: Sequence[str], level: float, resamples: int | None = None
) -> list[Paired]:
    """Return the difference of each pair of columns of a panel; each split has the same weight.

    Clusters keep their prompts together, also across splits. In the bootstrap the splits are strata: clusters are drawn
    among those that lie in the same splits, matched or not. Each pair's numbers are the same whatever other pairs are
    asked.

    Args:
        panel: the rates.
        pairs: (first, second) numbers of columns.
        names: what the seeds depend on: the scope of the panel, then a name for each of its columns.
        level: of the intervals.
        resamples: of the bootstrap, and random halves; None: as many as `intervals.resamples_for` says.
    """
    scope, *columns = names
    if not len(panel.units):
        return [_without_rates(None, None, 0, 0) for _ in pairs]
    first, second = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    differences = panel.rates[:, first] - panel.rates[:, second]
    matched = np.isfinite(differences)
    whole = np.rint(np.where(matched, differences, 0.0) * panel.unit)
    sums, sizes = _sums(panel, whole), _sums(panel, matched.astype(float))  # splits x clusters x pairs
    inside = _sums(panel, np.ones((len(whole), 1)))[:, :, 0] > 0
    resamples = resamples_for(sums.shape[1]) if resamples is None else resamples
    drawn = _resampled(sums, sizes, inside, seed_of("paired bootstrap", scope), resamples) / panel.unit
    halves = _halves(sums, sizes, panel, seed_of("paired halves", scope), resamples, 1 - level)
    found = []
    for i, (one, other) in enumerate(pairs):
        n_by_split = sizes[:, :, i].sum(axis=1)
        both = matched[:, i]
        bounds = (
            _by_split(panel, panel.lows[:, one] - panel.highs[:, other]),
            _by_split(panel, panel.highs[:, one] - panel.lows[:, other]),
        )
        if not n_by_split.all():
            found.append(_without_rates(*bounds, int(both.sum()), len(panel.units)))
            continue
        weights = 1 / (len(n_by_split) * n_by_split)
        rates = [float(math.fsum(panel.rates[both, c] * weights[panel.splits[both]])) for c in (one, other)]
        value = float(math.fsum((sums[:, :, i].sum(axis=1) * weights).tolist())) / panel.unit
        totals, slack = _cluster_totals(sums[:, :, i], n_by_split, panel)
        p, test = sign_flip_p(totals, seed_of("sign flips", scope, columns[one], columns[other]), slack)
        of_splits = sums[:, :, i].sum(axis=1) / n_by_split / panel.unit
        equal = np.array([np.ptp(whole[both & (panel.splits == s), i]) == 0 for s in range(len(n_by_split))])
        low, high, method = _interval(of_splits, equal, drawn[:, i], halves[i], sizes[:, :, i], level)
        if low is not None and high is not None and p > 1 - level:
            low, high = min(low, 0.0), max(high, 0.0)  # what the exact test cannot tell from 0, the interval holds
        found.append(
            Paired(
                rate_first=rates[0],
                rate_second=rates[1],
                difference=value,
                low=low,
                high=high,
                method=method,
                p=p,
                test=test,
                bound_low=bounds[0],
                bound_high=bounds[1],
                n=int(both.sum()),
                n_all=len(panel.units),
                n_clusters=int((sizes[:, :, i].sum(axis=0) > 0).sum()),
                fewest_clusters=int((sizes[:, :, i] > 0).sum(axis=1).min()),
                n_differ=int((totals != 0).sum()),
            )
        )
    return found


def _without_rates(bound_low: float | None, bound_high: float | None, n: int, n_all: int) -> Paired:
    """What can be told where a split has no prompt with both rates."""
    return Paired(None, None, None, None, None, None, None, None, bound_low, bound_high, n, n_all, 0, 0, 0)


def _sums(panel: Panel, values: Floats) -> Floats:
    """Sums of `values` (rows x pairs) as splits x clusters x pairs."""
    n_splits, n_clusters = int(panel.splits.max()) + 1, int(panel.clusters.max()) + 1
    places = panel.splits * n_clusters + panel.clusters
    rows = np.arange(len(values))
    gather = sparse.csr_array((np.ones(len(values)), (places, rows)), shape=(n_splits * n_clusters, len(values)))
    return np.asarray(gather @ values).reshape(n_splits, n_clusters, values.shape[1])


def _resampled(sums: Floats, sizes: Floats, inside: NDArray[np.bool_], seed: int, resamples: int) -> Floats:
    """The difference in each bootstrap sample: resamples x pairs, in the unit of `sums`; NaN where a split is empty.

    `inside` tells which clusters lie in which splits (splits x clusters), with or without rates.
    """
    found = []
    for counts in drawn_counts(inside, seed, resamples):
        with np.errstate(divide="ignore", invalid="ignore"):
            found.append(np.mean([(counts @ s) / (counts @ n) for s, n in zip(sums, sizes, strict=True)], axis=0))
    return np.concatenate(found)


def _halves(
    sums: Floats, sizes: Floats, panel: Panel, seed: int, resamples: int, alpha: float
) -> list[tuple[float, float] | None]:
    """The differences that the test does not reject (`halves`) of each pair: counted where that is cheap, else drawn.

    None where a split has no rates.
    """
    pairs = range(sums.shape[2])
    found: list[Ends | None] = [_counted(sums[:, :, i], sizes[:, :, i], panel, alpha) for i in pairs]
    left = [i for i in pairs if found[i] is None and sizes[:, :, i].sum(axis=1).all()]
    if left:
        weights = 1 / (len(sizes) * sizes[:, :, left].sum(axis=1, keepdims=True))
        totals, shares = ((x[:, :, left] * weights).sum(axis=0) for x in (sums / panel.unit, sizes))
        for i, ends in zip(left, drawn_ends(totals, shares, seed, resamples, alpha), strict=True):
            found[i] = ends
    return found


def _counted(sums: Floats, sizes: Floats, panel: Panel, alpha: float) -> Ends | None:
    """Ends over all halves; None where these are too many, for rounded rates, and where a split has no rates."""
    n_by_split = sizes.sum(axis=1)
    if not n_by_split.all():
        return None
    totals, slack = _cluster_totals(sums, n_by_split, panel)
    if slack or len(sums) * math.lcm(*(int(n) for n in n_by_split)) * panel.unit > _MOST_EXACT:
        return None
    ends = counted_ends(totals, _in_common(sizes.astype(np.int64), n_by_split), alpha)
    return None if ends is None else (ends[0] / panel.unit, ends[1] / panel.unit)


def _in_common(values: NDArray[np.int64], n_by_split: Floats) -> NDArray[np.int64]:
    """Sums over splits (splits x clusters), each with the weight of the split in the difference, as whole numbers."""
    common = math.lcm(*(int(n) for n in n_by_split))
    shares = np.array([common // int(n) for n in n_by_split])
    return np.asarray((values * shares[:, None]).sum(axis=0))


def _interval(
    of_splits: Floats, equal: NDArray[np.bool_], drawn: Floats, halves: Ends | None, sizes: Floats, level: float
) -> tuple[float | None, float | None, str]:
    """The wider of two intervals: the bootstrap's, as `intervals.cluster_bootstrap_mean` describes it (with strata, G
    less their number is free), and that of halves of the clusters.

    Where the differences of a split are all equal neither of them moves, though the split is not known exactly. It gets
    the interval that unseen clusters at -1 or 1 would allow, and its part is added to that of the other splits as
    `intervals.pooled_wilson` adds them.

    Args:
        of_splits: the difference on each split.
        equal: of each split, whether its differences are all equal.
        drawn: the pooled difference in each bootstrap sample.
        halves: the ends that `halves` gives; None where a split has no rates.
        sizes: splits x clusters, the number of prompts.
        level: of the interval.
    """
    by_split = (sizes > 0).sum(axis=1)
    if by_split.min() < 2 or halves is None:
        return None, None, ONE_CLUSTER
    alpha, value, below, above = 1 - level, math.fsum(of_splits) / len(of_splits), 0.0, 0.0
    if not equal.all():
        moving = sizes[~equal] > 0
        strata = len(moving)
        free = max(1, int(moving.any(axis=0).sum()) - strata)
        tail = float(stats.norm.cdf(math.sqrt((free + strata) / free) * stats.t.ppf(alpha / 2, free)))
        ends = np.array([np.nanquantile(drawn, [tail, 1 - tail]), halves])
        below, above = max(0.0, value - float(ends[:, 0].min())), max(0.0, float(ends[:, 1].max()) - value)
    if equal.any():
        unseen = (1 - (alpha / 2) ** (1 / by_split[equal])) / len(of_splits)
        # Splits with the same clusters have not seen the same ones; rounded, as all products of matrices here.
        shares = sizes[equal] / np.sqrt((sizes[equal] ** 2).sum(axis=1, keepdims=True))
        together = np.round(shares @ shares.T, 9)
        low, high = unseen * (of_splits[equal] + 1), unseen * (1 - of_splits[equal])
        below, above = math.sqrt(below**2 + low @ together @ low), math.sqrt(above**2 + high @ together @ high)
    method = ALL_EQUAL if equal.all() else SOME_EQUAL if equal.any() else WIDER
    return max(-1.0, value - below), min(1.0, value + above), method


def _cluster_totals(sums: Floats, n_by_split: Floats, panel: Panel) -> tuple[NDArray[np.int64], int]:
    """What each cluster adds to the difference, in whole units, and how much rounding may have moved their total."""
    common = math.lcm(*(int(n) for n in n_by_split))
    if len(n_by_split) * common * panel.unit <= _MOST_EXACT:
        return _in_common(sums.astype(np.int64), n_by_split), 0 if panel.exact else len(n_by_split) * common
    totals = np.rint((sums / panel.unit / n_by_split[:, None]).sum(axis=0) * _NINE_DIGITS).astype(np.int64)
    return totals, len(totals)


def _by_split(panel: Panel, values: Floats) -> float:
    """Mean over splits of the mean over all their rows."""
    n_by_split = np.bincount(panel.splits)
    return float(math.fsum(values / (len(n_by_split) * n_by_split[panel.splits])))
