"""The test of a paired difference: whether the signs of the clusters' differences could as well be the other way round.

Two models that answer alike could swap their names in any cluster of prompts. So every pattern of signs of the
clusters' sums of differences is as likely as the one that was seen, and the p value is the share of patterns with a
total at least as far from zero (Fisher's randomisation test; for cluster totals Gail et al. 1996, Statistics in
Medicine 15:1069). Clusters without a difference do not matter. Sums are whole numbers, so that ties are ties.

The differences that it would not reject are where the means over random halves of the clusters lie.
Clusters c have totals T_c of differences and sizes S_c, and d = sum of T_c / sum of S_c is seen. Were the true
difference e < d, the signs of T_c - e S_c would be as likely the other way round, and as large a sum would come from
those patterns whose half H of pluses has sum over H of (T_c - e S_c) <= 0, and from their opposites. So the test's p
value is twice the share of the halves, the empty one among them, whose mean sum T_c / sum S_c is at most e (Hartigan
1969, Journal of the American Statistical Association 64:1303, typical values). The lower end of the interval is the
smallest mean that more than alpha / 2 of the halves do not exceed, and so the interval holds 0 just where p > alpha;
the upper end likewise. A bootstrap alone is too narrow where few clusters differ.
"""

import math

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.estimates.estimate import p_value
from refusal_eval.stats.estimates.intervals import Floats
from refusal_eval.stats.estimates.resampling import blocks, whole

EXACT, MID = "exact", "mid-p"
DRAWS = (9_999, 99_999)  # sign patterns drawn at first, and in all where fewer than FEW of the first are as extreme
MORE_DRAWS = 999_999  # in all where even these are too few, as in a family of hundreds of comparisons
FEW = 20
MOST_PATTERNS = 14  # so many clusters have 2^14 patterns, which are gone through one by one
MOST_STEPS = 2_000_000_000  # additions that counting all patterns may take: some seconds
MOST_TOTALS = 50_000_000  # different totals in doing so: a gigabyte
_QUICK_STEPS = 100_000_000  # counted even where patterns could be gone through
_BITS_AT_ONCE = 8_000_000
_TOTALS_AT_ONCE = 100_000
_DOZEN = 12

_HALF_STEPS = 3_000_000  # additions that counting all halves may take: some hundredths of a second

Integers = NDArray[np.int64]
Bounds = tuple[float, float]


def sign_flip_p(sums: Integers, seed: int, slack: int = 0, mid: bool = False) -> tuple[float, str]:
    """Return the two-sided p value of the sum of `sums` being zero, and how: `exact`, `mid-p` or `N draws`.

    All patterns are counted where their totals take few enough values or where there are at most 2^14 of them. Else
    patterns are drawn, and p is (b + 1) / (N + 1) with b of N as extreme as the sum itself: 9,999 of them, and where
    fewer than 20 are as extreme ten times as many, up to 999,999. That keeps p valid: a p value that needs the
    second stage is at most 20/10,000 in the first, and so on.

    Args:
        sums: the sum of the differences of each cluster, in whole units.
        slack: how much rounding may have moved a total, in the same units; 0 for numbers that are exact.
        mid: whether patterns as extreme as the sum itself count half, where all patterns are counted (Lancaster 1961,
            Journal of the American Statistical Association 56:223). Drawn patterns are too many to matter.
    """
    sizes = np.abs(sums[sums != 0]).astype(np.int64)
    observed = abs(int(sums.sum()))
    test = MID if mid else EXACT
    if not len(sizes) or observed <= slack:
        return 1.0, test
    unit = int(np.gcd.reduce(sizes))
    totals = int(sizes.sum()) // unit
    steps = len(sizes) * totals
    if slack == 0 and steps <= min(MOST_STEPS, _QUICK_STEPS):
        return counted_p(sizes // unit, observed // unit, mid), test
    if len(sizes) <= MOST_PATTERNS:
        signs = 1 - 2 * ((np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes))) & 1)
        beyond = np.abs(signs @ sizes) - observed
        return float(np.mean(beyond >= -slack) - mid * np.mean(np.abs(beyond) <= slack) / 2), test
    if slack == 0 and steps <= MOST_STEPS and totals <= MOST_TOTALS:
        return counted_p(sizes // unit, observed // unit, mid), test
    return _drawn_p(np.sort(sizes), observed - slack, seed)


def counted_p(sizes: Integers, observed: int, mid: bool = False) -> float:
    """Return the share of all 2^n sign patterns whose total is at least `observed` > 0 away from zero.

    With `mid`, those with just that total count half.

    The total of a pattern is twice the sum of the sizes with a plus, less the sum of all. How many patterns give each
    such sum follows size by size (positive whole numbers), as a convolution, so that n may be large.
    """
    total = int(sizes.sum())
    shares = np.zeros(total + 1)
    shares[0], top = 1.0, 0
    for size in np.sort(sizes).tolist():
        half = shares[: top + 1] / 2
        shares[: top + 1] = half
        shares[size : size + top + 1] += half
        top += size
    first = (total + observed + 1) // 2
    tail = math.fsum(shares[first:]) - (float(shares[first]) / 2 if mid else 0.0)
    # Far out in the tail of a thousand clusters the share is smaller than any number that a computer holds.
    return p_value(2 * tail)


def _drawn_p(sizes: Integers, threshold: int, seed: int) -> tuple[float, str]:
    extreme, drawn = 0, 0
    rng = np.random.default_rng(seed)
    for wanted in DRAWS:
        for count in blocks(wanted - drawn, len(sizes), _BITS_AT_ONCE):
            plus = rng.integers(0, 2, size=(count, len(sizes)), dtype=np.int8).astype(np.float64)
            totals = 2 * (plus @ sizes.astype(np.float64)) - float(sizes.sum())
            extreme += int((np.abs(totals) >= threshold).sum())
        drawn = wanted
        if extreme >= FEW:
            break
    if extreme < FEW:
        tables = _tables(sizes)
        for count in blocks(MORE_DRAWS - drawn, 1, _TOTALS_AT_ONCE):
            drawn_totals = np.zeros(count)
            for table in tables:
                drawn_totals += table[rng.integers(0, len(table), size=count, dtype=np.uint16)]
            extreme += int((np.abs(drawn_totals) >= threshold).sum())
        drawn = MORE_DRAWS
    return (extreme + 1) / (drawn + 1), f"{drawn} draws"


def _tables(sizes: Integers) -> list[Floats]:
    """Return the totals of all sign patterns of each dozen of sizes, so that one number draws a dozen of signs."""
    tables = []
    for first in range(0, len(sizes), _DOZEN):
        table = np.zeros(1)
        for size in sizes[first : first + _DOZEN].astype(np.float64):
            table = np.concatenate([table - size, table + size])
        tables.append(table)
    return tables


def counted_ends(totals: Integers, sizes: Integers, alpha: float) -> Bounds | None:
    """Return both ends over all halves, in units of `totals` to a unit of `sizes`; None where counting takes too long.

    How many halves have each sum of totals and of sizes follows cluster by cluster, as a convolution.

    Sizes are 0 or more, not all 0; alpha is 1 less the level of the interval.
    """
    known = sizes > 0
    totals, sizes = totals[known], sizes[known]
    of_totals, of_sizes = (max(1, int(np.gcd.reduce(part))) for part in (totals, sizes))
    totals, sizes = totals // of_totals, sizes // of_sizes
    down, up, size = int(-totals[totals < 0].sum()), int(totals[totals > 0].sum()), int(sizes.sum())
    if max(1, int((totals != 0).sum())) * (down + up + 1) * (size + 1) > _HALF_STEPS:
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


def drawn_ends(totals: Floats, sizes: Floats, seed: int, draws: int, alpha: float) -> list[Bounds]:
    """Return both ends over so many random halves and what each leaves over, of each column of clusters x columns."""
    # Whole numbers have the same sum in any order, and so the same digits on every machine.
    totals, sizes, rng = whole(totals), whole(sizes), np.random.default_rng(seed)
    parts = []
    for rows in blocks(draws, len(totals)):
        half = rng.integers(0, 2, size=(rows, len(totals)), dtype=np.int8).astype(float)
        parts.append((half @ totals, half @ sizes))
    above, below = (np.concatenate(part) for part in zip(*parts, strict=True))
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
    """Return the first place at which the cumulated shares, plus that of the empty half, exceed `enough`."""
    return int(np.argmax(empty + np.cumsum(shares) > enough))
