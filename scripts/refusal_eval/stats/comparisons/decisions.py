"""McNemar's test for one decision per prompt, and Holm's correction for several tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats


class McNemar(NamedTuple):
    """Prompts on which only one side refuses, and the exact two-sided p value that both are as likely."""

    only_first: int
    only_second: int
    p: float


def mcnemar(first: NDArray[np.float64], second: NDArray[np.float64]) -> McNemar:
    """Return McNemar's exact test (binomial, not mid-p) of decisions 1 (refuses) and 0; NaN is none and is left out."""
    only_first = int(((first == 1) & (second == 0)).sum())
    only_second = int(((first == 0) & (second == 1)).sum())
    differing = only_first + only_second
    p = 2 * float(stats.binom.cdf(min(only_first, only_second), differing, 0.5)) if differing else 1.0
    return McNemar(only_first, only_second, min(1.0, p))


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected for all tests of a family (Holm 1979, Scandinavian Journal of Statistics 6:65).

    A test that the data could not give (None) stays one of the family: what a family is, was decided before.
    """
    order = sorted((p, i) for i, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, i) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(values) - rank)))
        corrected[i] = largest
    return corrected
