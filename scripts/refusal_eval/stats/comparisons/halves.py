"""The differences that a sign-flip test would not reject: where the means over random halves of the clusters lie.

Clusters c have totals T_c of differences and sizes S_c, and d = sum of T_c / sum of S_c is seen. Were the true
difference e < d, the signs of T_c - e S_c would be as likely the other way round, and as large a sum would come from
those patterns whose half H of pluses has sum over H of (T_c - e S_c) <= 0, and from their opposites. So the test's p
value is twice the share of the halves, the empty one among them, whose mean sum T_c / sum S_c is at most e (Hartigan
1969, Journal of the American Statistical Association 64:1303, typical values). The lower end of the interval is the
smallest mean that more than alpha / 2 of the halves do not exceed, and so the interval holds 0 just where p > alpha;
the upper end likewise. A bootstrap alone is too narrow where few clusters differ.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.comparisons.comparison_resampling import drawn_halves

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Ends = tuple[float, float]

MOST_STEPS = 3_000_000  # additions that counting all halves may take: some hundredths of a second
_NINE_DIGITS = 10**9


def counted_ends(totals: Whole, sizes: Whole, alpha: float) -> Ends | None:
    """Return both ends over all halves, in units of `totals` to a unit of `sizes`; None where counting takes too long.

    How many halves have each sum of totals and of sizes follows cluster by cluster, as a convolution.

    Args:
        totals: of each cluster, whole numbers.
        sizes: of each cluster, whole numbers of 0 or more, not all 0.
        alpha: 1 less the level of the interval.
    """
    known = sizes > 0
    totals, sizes = totals[known], sizes[known]
    of_totals, of_sizes = (max(1, int(np.gcd.reduce(part))) for part in (totals, sizes))
    totals, sizes = totals // of_totals, sizes // of_sizes
    down, up, size = int(-totals[totals < 0].sum()), int(totals[totals > 0].sum()), int(sizes.sum())
    if max(1, int((totals != 0).sum())) * (down + up + 1) * (size + 1) > MOST_STEPS:
        return None
    shares = np.zeros((down + up + 1, size + 1))  # at [t + down, s]
    low = high = down
    shares[down, 0], top = 1.0, 0
    for i in np.argsort(np.abs(totals), kind="stable").tolist():  # first those that move nothing but the size
        t, s = int(totals[i]), int(sizes[i])
        half = shares[low : high + 1, : top + 1] / 2
        shares[low : high + 1, : top + 1] = half
        shares[low + t : high + t + 1, s : s + top + 1] += half
        low, high, top = min(low, low + t), max(high, high + t), top + s
    empty = float(shares[down, 0])
    shares[down, 0] = 0.0
    rows, columns = np.nonzero(shares)
    means = (rows - down) / columns
    order = np.argsort(means, kind="stable")
    means, found = means[order], shares[rows[order], columns[order]]
    lower = means[_first(found, empty, alpha / 2)]
    upper = means[::-1][_first(found[::-1], empty, alpha / 2)]
    return float(lower) * of_totals / of_sizes, float(upper) * of_totals / of_sizes


def drawn_ends(totals: Floats, sizes: Floats, seed: int, draws: int, alpha: float) -> list[Ends]:
    """Return both ends over so many random halves and what each leaves over, of each column.

    Args:
        totals: clusters x columns.
        sizes: clusters x columns, no column all 0.
        seed: of the halves.
        draws: number of halves.
        alpha: 1 less the level of the interval.
    """
    # Whole numbers have the same sum in any order, and so the same digits on every machine.
    totals, sizes = np.rint(totals * _NINE_DIGITS), np.rint(sizes * _NINE_DIGITS)
    parts = [(half @ totals, half @ sizes) for half in drawn_halves(len(totals), seed, draws)]
    above, below = (np.concatenate(blocks) for blocks in zip(*parts, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = (totals.sum(axis=0) - above) / (sizes.sum(axis=0) - below)
        means = np.sort(np.concatenate([above / below, rest]), axis=0)  # NaN, of empty halves, come last
    found = []
    for column in means.T:
        defined = column[~np.isnan(column)]
        empty = len(column) - len(defined)
        place = max(0, math.floor(alpha / 2 * len(column)) - empty)
        found.append((float(defined[place]), float(defined[len(defined) - 1 - place])))
    return found


def _first(shares: Floats, empty: float, enough: float) -> int:
    """Number of the first place where the shares so far, with that of the empty half, exceed `enough`."""
    return int(np.argmax(empty + np.cumsum(shares) > enough))
