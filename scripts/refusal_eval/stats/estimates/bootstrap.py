"""Bootstrap over clusters of many numbers at once: clusters are drawn once for all of them.

Whole clusters are drawn, so a prompt keeps its samples and turns. Values are brought to whole billionths: sums of whole
numbers are exact in any order, so that the same rows give the same digits on every machine.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from refusal_eval.stats.estimates.intervals import resamples_for
from refusal_eval.stats.estimates.units import Floats

METHOD = "cluster bootstrap, expanded percentile"
EXACT = "exact over clusters (all values equal)"
_DRAWS_AT_ONCE = 4_000_000  # bounds the memory to some 100 MB for any number of clusters
_WHOLE = 1e9


class Bounds(NamedTuple):
    """Ends of an interval and how it was made; None where the data say nothing."""

    low: float | None
    high: float | None
    method: str | None


class Draws(NamedTuple):
    """Totals over clusters: of all rows (columns), and of each resample (resamples x columns).

    `squared` are the same of columns that count with the square of how often their cluster was drawn.
    """

    totals: Floats
    resampled: Floats
    squared_totals: Floats
    squared: Floats
    clusters: int


def cluster_codes(clusters: Sequence[str]) -> NDArray[np.intp]:
    """Return the number of each row's cluster, counted in the order of the clusters' names."""
    return np.asarray(np.unique(np.asarray(clusters, dtype=str), return_inverse=True)[1], dtype=np.intp)


def cluster_totals(codes: NDArray[np.intp], values: Floats) -> Floats:
    """Return the sums of `values` (rows x columns) in each cluster (clusters x columns), in whole billionths."""
    whole = np.rint(values * _WHOLE)
    groups = int(codes.max()) + 1
    columns = [np.bincount(codes, weights=whole[:, i], minlength=groups) for i in range(whole.shape[1])]
    return np.stack(columns, axis=1) if columns else np.zeros((groups, 0))


def draw(sums: Floats, seed: int, squared: Floats | None = None, resamples: int | None = None) -> Draws:
    """Draw clusters many times.

    Args:
        sums: clusters x columns, of `cluster_totals`.
        seed: of the random numbers.
        squared: clusters x columns that count with the square of how often a cluster is drawn.
        resamples: number of resamples; None: as many as `intervals.resamples_for` says.
    """
    resamples = resamples_for(len(sums)) if resamples is None else resamples
    other = np.zeros((len(sums), 0)) if squared is None else np.rint(squared)
    blocks = [(counts @ sums, counts**2 @ other) for counts in _drawn(len(sums), seed, resamples)]
    first, second = (np.concatenate(parts) / _WHOLE for parts in zip(*blocks, strict=True))
    return Draws(sums.sum(axis=0) / _WHOLE, first, other.sum(axis=0) / _WHOLE, second, len(sums))


def percentiles(values: Floats, clusters: int, level: float) -> Bounds:
    """Return the expanded percentile interval of resampled values, as `intervals.cluster_bootstrap_mean` describes it.

    Resamples that do not define the number (NaN) are left out. There is no interval with less than two clusters, which
    say nothing about how clusters vary, and where the resamples are all alike.
    """
    defined = values[np.isfinite(values)]
    if clusters < 2 or not len(defined) or defined.min() == defined.max():
        return Bounds(None, None, None)
    t = special.stdtrit(clusters - 1, (1 - level) / 2)
    tail = float(special.ndtr(math.sqrt(clusters / (clusters - 1)) * t))
    low, high = np.quantile(defined, [tail, 1 - tail])
    return Bounds(float(low), float(high), METHOD)


def mean_bounds(
    columns: Sequence[Floats],
    clusters: Sequence[str],
    seed: int,
    level: float,
    limits: tuple[float, float],
    resamples: int | None = None,
) -> list[Bounds]:
    """Return the interval for the mean of each column; a column's NaN take no part.

    Values that are all equal have the interval that `intervals.cluster_bootstrap_mean` gives them.

    Args:
        columns: values, each of the length of `clusters`.
        clusters: the cluster of each row.
        seed: of the random numbers, common to all columns.
        level: of the intervals.
        limits: smallest and largest possible value.
        resamples: number of resamples; None: as many as `intervals.resamples_for` says.
    """
    if not len(clusters) or not columns:
        return [Bounds(None, None, None)] * len(columns)
    codes = cluster_codes(clusters)
    values = np.stack(columns, axis=1)
    present = np.isfinite(values)
    filled = np.where(present, values, 0.0)
    draws = draw(cluster_totals(codes, np.concatenate([filled, present], axis=1)), seed, resamples=resamples)
    found = []
    for i in range(len(columns)):
        own, groups = values[present[:, i], i], len(np.unique(codes[present[:, i]]))
        if len(own) and own.min() == own.max():
            found.append(_of_equal(float(own[0]), groups, level, limits))
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            means = draws.resampled[:, i] / draws.resampled[:, len(columns) + i]
        found.append(percentiles(means, groups, level))
    return found


def _of_equal(value: float, groups: int, level: float, limits: tuple[float, float]) -> Bounds:
    if groups < 2:
        return Bounds(None, None, None)
    unseen = 1 - ((1 - level) / 2) ** (1 / groups)
    return Bounds(value - unseen * (value - limits[0]), value + unseen * (limits[1] - value), EXACT)


def _drawn(clusters: int, seed: int, resamples: int) -> Iterator[Floats]:
    """Yield how often each cluster is drawn, in blocks of resamples x clusters."""
    if clusters * resamples <= _DRAWS_AT_ONCE:
        yield _drawn_at_once(clusters, seed, resamples)
        return
    rng = np.random.default_rng(seed)
    block = max(1, _DRAWS_AT_ONCE // clusters)
    for start in range(0, resamples, block):
        yield _counts(rng, clusters, min(block, resamples - start))


# All numbers of a cell are resampled alike, and drawing takes longer than all sums over what is drawn.
@functools.lru_cache(maxsize=2)
def _drawn_at_once(clusters: int, seed: int, resamples: int) -> Floats:
    return _counts(np.random.default_rng(seed), clusters, resamples)


def _counts(rng: np.random.Generator, clusters: int, resamples: int) -> Floats:
    drawn = rng.integers(clusters, size=(resamples, clusters)) + np.arange(resamples)[:, None] * clusters
    return np.bincount(drawn.ravel(), minlength=resamples * clusters).reshape(resamples, clusters).astype(float)
