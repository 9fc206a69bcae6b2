"""Bootstrap over clusters of anything that is a function of sums over rows.

Whole clusters are drawn. Sums of whole numbers are exact in any order, so that the same rows give the same digits on
every machine; fractions are brought to whole numbers by `whole`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from refusal_eval.stats.agreement.measures import Counts, Measure

RESAMPLES = 10_000  # an end then varies between seeds by some 3 % of the standard error
_DRAWS_AT_ONCE = 4_000_000  # bounds the memory to some 100 MB for any number of clusters
WHOLE = 1e9  # probabilities are kept to nine digits


def cluster_codes(clusters: Sequence[Hashable]) -> NDArray[np.intp]:
    """Return the number of each row's cluster, counted in the order of the clusters' names."""
    numbers = {name: i for i, name in enumerate(sorted(set(clusters), key=str))}
    return np.array([numbers[cluster] for cluster in clusters], dtype=np.intp)


def cluster_sums(codes: NDArray[np.intp], values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sums of `values` (rows x anything) in each cluster: clusters x anything."""
    sums = np.zeros((int(codes.max()) + 1, *values.shape[1:]))
    np.add.at(sums, codes, values)
    return sums


def whole(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values in units of a billionth, as whole numbers."""
    return np.rint(values * WHOLE)


def resampled(sums: NDArray[np.float64], seed: int, resamples: int = RESAMPLES) -> NDArray[np.float64]:
    """Return the total of `sums` (clusters x anything) in each resample of clusters: resamples x anything."""
    flat = sums.reshape(len(sums), -1)
    totals = [drawn @ flat for drawn in _drawn(len(sums), seed, resamples)]
    return np.concatenate(totals).reshape(resamples, *sums.shape[1:])


def percentiles(values: NDArray[np.float64], clusters: int, level: float) -> tuple[float, float]:
    """Return the ends of the expanded percentile interval, as `intervals.cluster_bootstrap_mean` describes it.

    Resamples that do not define the measure (NaN) are left out.

    Raises:
        ValueError: with less than two clusters, which say nothing about how clusters vary.
    """
    if clusters < 2:
        raise ValueError("a bootstrap over clusters needs at least two")
    t = stats.t.ppf((1 - level) / 2, clusters - 1)
    tail = float(stats.norm.cdf(math.sqrt(clusters / (clusters - 1)) * t))
    low, high = np.nanquantile(values, [tail, 1 - tail])
    return float(low), float(high)


def bootstrap_interval(
    measure: Measure, table: Counts, draws: Counts, clusters: Sequence[float], groups: int, level: float
) -> list[float]:
    """Return the interval [low, high] of a measure of a judge against people, from tables of counts.

    A bootstrap cannot draw errors that the rows lack altogether. So where one class of people is read alike without one
    exception, or never, the interval reaches at least as far as the unseen ones that the class's number of clusters
    allows (Clopper-Pearson's argument at 0). docs/agreement.md has the formulas.

    Args:
        measure: to be computed; see `judge_card.measures`.
        table: of all rows.
        draws: the tables of the resamples.
        clusters: the number of clusters in each row of the table (the effective one where rows have weights).
        groups: the number of clusters that were resampled, at least 2.
        level: of the interval.
    """
    return _reaching(measure, draws, [(table, clusters)], groups, level)


def symmetric_interval(
    measure: Measure,
    table: Counts,
    draws: Counts,
    clusters: tuple[Sequence[float], Sequence[float]],
    groups: int,
    level: float,
) -> list[float]:
    """Return the same for two sides of which neither is the truth: what their order is changes nothing.

    It reaches as far as the unseen exceptions of either side's classes allow.

    Args:
        measure: one that is the same when the sides change places, such as kappa.
        table: of all rows.
        draws: the tables of the resamples.
        clusters: the number of clusters in each row of the table, and in each column.
        groups: the number of clusters that were resampled, at least 2.
        level: of the interval.
    """
    return _reaching(measure, draws, [(table, clusters[0]), (table.T, clusters[1])], groups, level)


def _reaching(
    measure: Measure, draws: Counts, sides: Sequence[tuple[Counts, Sequence[float]]], groups: int, level: float
) -> list[float]:
    """Percentiles, and what the classes of each side (table with these as rows, their clusters) allow beyond them."""
    low, high = percentiles(measure(draws), groups, level)
    for table, clusters in sides:
        worse, better = _unseen(table, clusters, level)
        low, high = min(low, float(measure(worse))), max(high, float(measure(better)))
    return [low, high]


def _unseen(table: Counts, clusters: Sequence[float], level: float) -> tuple[Counts, Counts]:
    """The table with as many exceptions as may be unseen in rows without one, and in rows of nothing else."""
    worse, better = table.astype(float), table.astype(float)
    for i, number in enumerate(clusters):
        total, right = table[i].sum(), table[i, i]
        if not number or not total:
            continue
        share = 1 - ((1 - level) / 2) ** (1 / number)
        others = [j for j in range(len(table)) if j != i]
        if right == total:
            worse[i, i] -= share * total
            worse[i, others] += share * total / len(others)
        if right == 0:
            better[i] *= 1 - share
            better[i, i] = share * total
    return worse, better


def _drawn(clusters: int, seed: int, resamples: int) -> Iterator[NDArray[np.float64]]:
    """Yield how often each cluster is drawn, in blocks of resamples x clusters."""
    rng = np.random.default_rng(seed)
    block = max(1, _DRAWS_AT_ONCE // clusters)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = rng.integers(clusters, size=(rows, clusters)) + np.arange(rows)[:, None] * clusters
        yield np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters).astype(float)
