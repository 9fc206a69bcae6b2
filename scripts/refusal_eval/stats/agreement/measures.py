"""Measures of agreement from tables of counts, for one table or thousands at once, and their intervals.

A table has the labels of gold (or of a first judge) as rows and those of the judge as columns, both in the order of
`states.LABELS`; tables are the last two axes of an array. A measure that a table does not define is NaN.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.core.states import LABELS
from refusal_eval.stats.estimates.estimands import REFUSES
from refusal_eval.stats.estimates.intervals import Codes, Floats
from refusal_eval.stats.estimates.resampling import METHOD as BOOTSTRAP
from refusal_eval.stats.estimates.resampling import percentiles

# Kappa swings wildly where one class is rare; below this many rows of a class it is not reported.
MIN_ROWS = 20
MIN_CLASS_CLUSTERS = 5  # of either class; a bootstrap of fewer is nearly meaningless
UNSEEN = f"{BOOTSTRAP}, at least what unseen errors allow"  # `measure_interval`

Counts = NDArray[np.float64]
Measure = Callable[[Counts], NDArray[np.float64]]


def cluster_tables(
    codes: Codes, first: NDArray[Any], second: NDArray[Any], weights: Floats | None = None, size: int = len(LABELS)
) -> Counts:
    """Return the table of each cluster, 3 x 3 or of another size, over the answers that both sides labelled.

    Args:
        codes: the number of each answer's cluster.
        first: its label, as a place in `states.LABELS`, below 0 for none.
        second: the same of the other side.
        weights: of each answer, as whole numbers; None where all count alike.
        size: how many labels there are.
    """
    both, groups = (first >= 0) & (second >= 0), int(codes.max()) + 1
    places = (codes[both] * size + first[both]) * size + second[both]
    found = np.bincount(places, None if weights is None else weights[both], minlength=groups * size * size)
    return found.reshape(groups, size, size).astype(float)


def two_class(tables: Counts, reading: str) -> Counts:
    """Return 2 x 2 tables out of 3 x 3 ones: refusal in this reading first, the rest second."""
    k = len(REFUSES[reading])  # LABELS is ordered from refusal to compliance, so a reading is its first one or two
    assert set(LABELS[:k]) == REFUSES[reading]
    halves = (slice(None, k), slice(k, None))
    cells = [tables[..., rows, columns].sum(axis=(-1, -2)) for rows in halves for columns in halves]
    return np.stack(cells, axis=-1).reshape(*tables.shape[:-2], 2, 2)


def kappa(tables: Counts) -> NDArray[np.float64]:
    """Return Cohen's kappa of square tables of any size (Cohen 1960, Educational and Psychological Measurement 20:37).

    Tables whose two sides each know one and the same class have none (NaN).
    """
    n = tables.sum(axis=(-1, -2))
    agreed = np.trace(tables, axis1=-2, axis2=-1)
    chance = (tables.sum(axis=-1) * tables.sum(axis=-2)).sum(axis=-1)
    return _ratio(n * agreed - chance, n * n - chance)


def accuracy(tables: Counts) -> NDArray[np.float64]:
    return _ratio(np.trace(tables, axis1=-2, axis2=-1), tables.sum(axis=(-1, -2)))


def sensitivity(tables: Counts) -> NDArray[np.float64]:
    """Return the share of gold's refusals that the judge finds, from 2 x 2 tables."""
    return _ratio(tables[..., 0, 0], tables[..., 0, :].sum(axis=-1))


def specificity(tables: Counts) -> NDArray[np.float64]:
    """Return the share of gold's non-refusals that the judge leaves alone, from 2 x 2 tables."""
    return _ratio(tables[..., 1, 1], tables[..., 1, :].sum(axis=-1))


def balanced_accuracy(tables: Counts) -> NDArray[np.float64]:
    """Return the mean of sensitivity and specificity, from 2 x 2 tables; 0.5 for an uninformative judge."""
    return (sensitivity(tables) + specificity(tables)) / 2


def f1(tables: Counts) -> NDArray[np.float64]:
    """Return, of 2 x 2 tables, the harmonic mean of sensitivity and precision."""
    found = 2 * tables[..., 0, 0]
    return _ratio(found, found + tables[..., 0, 1] + tables[..., 1, 0])


def measure_interval(
    measure: Measure, draws: Counts, sides: Sequence[tuple[Counts, Sequence[float]]], groups: int, level: float
) -> list[float]:
    """Return the interval [low, high] of a measure by the bootstrap over clusters.

    A bootstrap cannot draw errors that the rows lack altogether. So where one class of people is read alike without one
    exception, or never, the interval reaches at least as far as the unseen ones that the class's number of clusters
    allows (Clopper-Pearson's argument at 0). docs/reference/agreement.md has the formulas. Of two raters neither of
    whom is the truth both are a side: their order changes nothing for a measure such as kappa.

    Args:
        sides: the table of all rows, with the classes of people (for a second side those of the judge) as its rows, and
            the number of clusters in each of these rows (the effective one where answers have weights).
        groups: the number of clusters that the measure rests on, by which percentiles move outwards, at least 2: of a
            card those of the class that has the fewest.
    """
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


def _ratio(above: Any, below: Any) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(below) != 0, np.true_divide(above, below), np.nan)
