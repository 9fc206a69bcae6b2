"""The test of a paired difference: whether the signs of the clusters' differences could as well be the other way round.

Two models that answer alike could swap their names in any cluster of prompts. So every pattern of signs of the
clusters' sums of differences is as likely as the one that was seen, and the p value is the share of patterns with a
total at least as far from zero (Fisher's randomisation test; for cluster totals Gail et al. 1996, Statistics in
Medicine 15:1069). Clusters without a difference do not matter. Sums are whole numbers, so that ties are ties.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

EXACT = "exact"
DRAWS = (9_999, 99_999)  # sign patterns drawn at first, and in all where fewer than FEW of the first are as extreme
FEW = 20
MOST_PATTERNS = 14  # so many clusters have 2^14 patterns, which are gone through one by one
MOST_STEPS = 100_000_000  # additions that counting all patterns may take: a second
_BITS_AT_ONCE = 8_000_000

Whole = NDArray[np.int64]


def sign_flip_p(sums: Whole, seed: int, slack: int = 0) -> tuple[float, str]:
    """Return the two-sided p value of the sum of `sums` being zero, and how it was found: `exact` or `N draws`.

    All patterns are counted where their totals take few enough values or where there are at most 2^14 of them. Else
    patterns are drawn, and p is (b + 1) / (N + 1) with b of N as extreme as the sum itself: 9,999 of them, and where
    fewer than 20 are as extreme 99,999, which keeps p valid: a p value that needs the second stage is at most 20/10,000
    in the first.

    Args:
        sums: the sum of the differences of each cluster, in whole units.
        seed: of the draws.
        slack: how much rounding may have moved a total, in the same units; 0 for numbers that are exact.
    """
    sizes = np.abs(sums[sums != 0]).astype(np.int64)
    observed = abs(int(sums.sum()))
    if not len(sizes) or observed <= slack:
        return 1.0, EXACT
    unit = int(np.gcd.reduce(sizes))
    if slack == 0 and len(sizes) * int(sizes.sum()) // unit <= MOST_STEPS:
        return counted_p(sizes // unit, observed // unit), EXACT
    if len(sizes) <= MOST_PATTERNS:
        signs = 1 - 2 * ((np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes))) & 1)
        return float(np.mean(np.abs(signs @ sizes) >= observed - slack)), EXACT
    return _drawn_p(np.sort(sizes), observed - slack, seed)


def counted_p(sizes: Whole, observed: int) -> float:
    """Return the share of all 2^n sign patterns whose total is at least `observed` > 0 away from zero.

    The total of a pattern is twice the sum of the sizes with a plus, less the sum of all. How many patterns give each
    such sum follows size by size, as a convolution, so that n may be large.

    Args:
        sizes: absolute values, positive whole numbers.
        observed: the total that was seen, without its sign.
    """
    total = int(sizes.sum())
    shares = np.zeros(total + 1)
    shares[0], top = 1.0, 0
    for size in np.sort(sizes).tolist():
        half = shares[: top + 1] / 2
        shares[: top + 1] = half
        shares[size : size + top + 1] += half
        top += size
    tail = math.fsum(shares[(total + observed + 1) // 2 :])
    # Far out in the tail of a thousand clusters the share is smaller than any number that a computer holds.
    return min(1.0, max(2 * tail, 5e-324))


def _drawn_p(sizes: Whole, threshold: int, seed: int) -> tuple[float, str]:
    extreme, drawn = 0, 0
    rng = np.random.default_rng(seed)
    for wanted in DRAWS:
        for count in _blocks(wanted - drawn, len(sizes)):
            plus = rng.integers(0, 2, size=(count, len(sizes)), dtype=np.int8).astype(np.float64)
            totals = 2 * (plus @ sizes.astype(np.float64)) - float(sizes.sum())
            extreme += int((np.abs(totals) >= threshold).sum())
        drawn = wanted
        if extreme >= FEW:
            break
    return (extreme + 1) / (drawn + 1), f"{drawn} draws"


def _blocks(rows: int, columns: int) -> Iterator[int]:
    """Yield numbers of rows that fit into memory and add up to `rows`."""
    block = max(1, _BITS_AT_ONCE // columns)
    for start in range(0, rows, block):
        yield min(block, rows - start)
