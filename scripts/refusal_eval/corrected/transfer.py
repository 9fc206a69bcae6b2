"""Rates corrected by how a judge errs on answers of other models (Rogan & Gladen 1978).

The judge's rate r of a model with the true rate p is p * Se + (1 - p) * (1 - Sp), so p = (r + Sp - 1) / (Se + Sp - 1).
Se and Sp come from gold of other models: that they hold for this one is an assumption, which the data of a study cannot
check. So such a rate is never a headline, and stands beside what each answering model's own Se and Sp would give.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.corrected.error_rates import RESAMPLES, ErrorRates
from refusal_eval.intervals import seed_of
from refusal_eval.judge_card.resampling import percentiles
from refusal_eval.tradeoff.draws import by_cluster, numbered
from refusal_eval.tradeoff.rows import SplitRates

Floats = NDArray[np.float64]
LEAST_MARGIN = 0.3  # of Se + Sp - 1: below it the correction multiplies every error by more than three
METHOD = (
    "Rogan-Gladen; Bayesian bootstrap over clusters of the study and of the gold set and over answering models, with "
    "the spread of answering models for a new one"
)
_AT_ONCE = 4_000_000
_JEFFREYS = 0.5


@dataclasses.dataclass(frozen=True)
class Transferred:
    """A corrected rate.

    Attributes:
        value: the rate, between 0 and 1; None where it is not identifiable.
        low: lower end of its interval; None with the value, and where all of the interval lies outside [0, 1].
        high: upper end.
        unclipped: the value before it is brought into [0, 1]; outside, the gold set's errors do not fit this model.
        margin: Se + Sp - 1.
        margin_low: lower end of its interval for a new answering model.
    """

    value: float | None
    low: float | None
    high: float | None
    unclipped: float | None
    margin: float
    margin_low: float

    @property
    def identifiable(self) -> bool:
        """Whether the judge tells refusals from other answers well enough."""
        return self.value is not None


def rogan_gladen(rate: Any, sensitivity: Any, specificity: Any) -> Any:
    """Return (rate + specificity - 1) / (sensitivity + specificity - 1), of numbers or arrays."""
    return (rate + specificity - 1) / (sensitivity + specificity - 1)


def transferred(rate: float, drawn: Floats, errors: ErrorRates, clusters: int, level: float) -> Transferred:
    """Return a rate corrected by errors on other models' answers.

    Args:
        rate: the judge's own.
        drawn: the same in each resample of `resampled_rates`.
        errors: of the judge, with as many resamples.
        clusters: number of clusters behind the rate.
        level: of the interval, and of that of Se + Sp - 1, whose lower end must reach 0.3.
    """
    se, sp = errors.drawn
    margin, margin_low = errors.sensitivity + errors.specificity - 1, float(np.quantile(se + sp - 1, (1 - level) / 2))
    if margin_low < LEAST_MARGIN:
        return Transferred(None, None, None, None, margin, margin_low)
    unclipped = float(rogan_gladen(rate, errors.sensitivity, errors.specificity))
    value = min(1.0, max(0.0, unclipped))
    # A few resamples lie below the lower end; what is far below it would be divided by next to nothing.
    divisor = np.maximum(se + sp - 1, LEAST_MARGIN / 3)
    found = np.clip((drawn + sp - 1) / divisor, 0.0, 1.0)
    low, high = percentiles(found, clusters, level) if clusters > 1 else (0.0, 1.0)
    if high <= 0 or low >= 1:  # what is left of it, a point, would look certain
        return Transferred(value, None, None, unclipped, margin, margin_low)
    return Transferred(value, min(low, value), max(high, value), unclipped, margin, margin_low)


def resampled_rates(splits: Sequence[SplitRates], resamples: int = RESAMPLES) -> Floats:
    """Return the mean over splits of each model's rate in resamples of clusters: resamples x models.

    Clusters have exponential weights (Bayesian bootstrap), the same for all models, and half a cluster of refusals and
    half one of compliance are put into each split (Jeffreys' prior), so that a rate of 0 is not certain.
    """
    codes, groups = numbered([rates.clusters.tolist() for rates in splits])
    columns, sizes = [], []
    for rates, code in zip(splits, codes, strict=True):
        known = ~np.isnan(rates.rates)
        columns += [by_cluster(np.where(known, rates.rates, 0.0), code, groups)]
        columns += [by_cluster(known.astype(float), code, groups)]
        sizes.append(len(code) / len(np.unique(code)))
    models, names = splits[0].rates.shape[0], [rates.split for rates in splits]
    rng = np.random.default_rng(seed_of("corrected", *names))
    return np.concatenate(list(_blocks(np.concatenate(columns, axis=1), np.array(sizes), models, rng, resamples)))


def _blocks(sums: Floats, sizes: Floats, models: int, rng: np.random.Generator, resamples: int) -> Iterator[Floats]:
    groups, splits = len(sums), len(sizes)
    block = max(1, _AT_ONCE // groups)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        total = (rng.standard_exponential((rows, groups)) @ sums).reshape(rows, splits, 2, models)
        extra = rng.gamma(_JEFFREYS, size=(2, rows, splits, 1)) * sizes[:, None]
        yield ((total[:, :, 0] + extra[0]) / (total[:, :, 1] + extra.sum(axis=0))).mean(axis=1)
