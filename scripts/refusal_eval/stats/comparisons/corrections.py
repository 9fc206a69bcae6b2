"""How the p values of a family are corrected for their number, and what the result is called.

Holm's method (1979, Scandinavian Journal of Statistics 6:65) bounds the chance of any false alarm in a family. The
false discovery rate is the share of false alarms to be expected among what is found. Benjamini and Hochberg (1995,
Journal of the Royal Statistical Society B 57:289) bound it where tests are independent or positively dependent,
Benjamini and Yekutieli (2001, Annals of Statistics 29:1165) under any dependence. Comparisons that share a model are
dependent, and not always positively.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy


class Correction(NamedTuple):
    """A correction under its names."""

    column: str  # in the CSV and in rows of comparisons
    head: str  # of the column that readers see
    words: str  # what was done, in a note


CORRECTIONS: dict[str, Correction] = {
    "holm": Correction("p_holm", "p (Holm)", "corrected"),
    "fdr_bh": Correction("q_bh", "q (BH)", "false discovery rate of Benjamini and Hochberg"),
    "fdr_by": Correction("q_by", "q (BY)", "false discovery rate of Benjamini and Yekutieli"),
}
# as the results table calls them
ESTIMANDS = {name: f"rate_difference_{correction.column}" for name, correction in CORRECTIONS.items()}


def correct_p_values(values: Sequence[float | None], method: str) -> list[float | None]:
    """Return p values corrected for all tests of a family; of the false discovery rate, q values.

    A test that the data could not give (None) stays one of the family: what a family is, was decided before.
    """
    if method == "holm" or not values:
        return holm(values)

    found = scipy.stats.false_discovery_control(
        [1.0 if p is None else p for p in values], method=method.removeprefix("fdr_")
    )
    return [None if p is None else float(q) for p, q in zip(values, found, strict=True)]


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected by Holm's method; see `corrected`."""
    known = np.array([1.0 if p is None else p for p in values])
    order = np.argsort(known, kind="stable")
    found = np.empty(len(known))
    found[order] = np.maximum.accumulate(np.minimum(1.0, known[order] * np.arange(len(known), 0, -1)))
    return [None if p is None else float(own) for p, own in zip(values, found, strict=True)]
