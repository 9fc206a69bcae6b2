"""Rates corrected by how a judge errs on answers of other models (Rogan & Gladen 1978).

The judge's rate r of a model with the true rate p is p * Se + (1 - p) * (1 - Sp), so p = (r + Sp - 1) / (Se + Sp - 1).
Answers that a provider blocked are refusals that no judge read: they stay, and the rest is corrected.
Se and Sp come from gold of other models: that they hold for this one is an assumption, which the data of a study cannot
check. So such a rate is never a headline, and stands beside what each answering model's own Se and Sp would give.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.corrected.error_rates import RESAMPLES, ErrorRates
from refusal_eval.intervals import cluster_wilson, pooled_wilson, seed_of
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
_NOTHING_READ = 1e-12  # share of answers that the judge read in a resample: never divided by less


@dataclasses.dataclass(frozen=True)
class Observed:
    """A judge's own rate of a model on a split, or the mean over splits.

    Attributes:
        rate: with blocked answers as refusals.
        low: lower end of its interval, as for any rate of this judge (`intervals`).
        high: upper end.
        drawn: the rate in resamples of clusters.
        n_prompts: prompts behind it.
        n_clusters: their clusters.
        blocked: share of blocked answers in the rate.
        drawn_blocked: the same in the resamples.
    """

    rate: float
    low: float
    high: float
    drawn: Floats
    n_prompts: int
    n_clusters: int
    blocked: float = 0.0
    drawn_blocked: Floats | float = 0.0


@dataclasses.dataclass(frozen=True)
class Transferred:
    """A corrected rate.

    Attributes:
        value: the rate, between 0 and 1; None where it is not identifiable.
        low: lower end of its interval; None with the value, and where all of the interval of what the judge read lies
            outside [0, 1].
        high: upper end.
        unclipped: the value before it is brought between the share of blocked answers and 1. It lies outside by chance,
            or because the judge does not err on this model's answers as on the gold set.
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


def corrected_value(observed: Observed, sensitivity: float, specificity: float) -> float:
    """Return blocked answers and Rogan-Gladen's rate of the others; the sum may lie outside [0, 1]."""
    if observed.blocked >= 1:
        return 1.0
    read = 1 - observed.blocked
    return observed.blocked + read * float(
        rogan_gladen((observed.rate - observed.blocked) / read, sensitivity, specificity)
    )


def transferred(observed: Observed, errors: ErrorRates, level: float) -> Transferred:
    """Return a rate corrected by errors on other models' answers.

    Its interval reaches at least as far as the judge's own does when its ends are corrected like the rate: what gold
    leaves open comes to what the study leaves open, and never makes it less.

    Args:
        observed: the judge's own rate.
        errors: of the judge, with as many resamples.
        level: of the interval, and of that of Se + Sp - 1, whose lower end must reach 0.3.
    """
    se, sp = errors.drawn
    margin, margin_low = errors.sensitivity + errors.specificity - 1, float(np.quantile(se + sp - 1, (1 - level) / 2))
    if margin_low < LEAST_MARGIN:
        return Transferred(None, None, None, None, margin, margin_low)
    unclipped = corrected_value(observed, errors.sensitivity, errors.specificity)
    value = min(1.0, max(observed.blocked, unclipped))
    # A few resamples lie below the lower end; what is far below it would be divided by next to nothing.
    divisor = np.maximum(se + sp - 1, LEAST_MARGIN / 3)
    read = np.maximum(1 - np.asarray(observed.drawn_blocked), _NOTHING_READ)
    of_read = np.clip(((observed.drawn - observed.drawn_blocked) / read + sp - 1) / divisor, 0.0, 1.0)
    if observed.n_clusters < 2:
        return Transferred(value, 0.0, 1.0, unclipped, margin, margin_low)
    low, high = percentiles(of_read, observed.n_clusters, level)
    if high <= 0 or low >= 1:  # what is left of it, a point, would look certain
        return Transferred(value, None, None, unclipped, margin, margin_low)
    low, high = percentiles(observed.drawn_blocked + read * of_read, observed.n_clusters, level)
    least, most = _own_ends(observed, errors)
    return Transferred(value, min(low, value, least), max(high, value, most), unclipped, margin, margin_low)


def _own_ends(observed: Observed, errors: ErrorRates) -> tuple[float, float]:
    """The ends of the judge's own interval, corrected.

    Where the judge found no refusal in what it read, no false positive can explain a part of them away, so Sp counts
    as 1: r is at least p * Se whatever Sp is. Where it found nothing else, Se does.
    """
    if observed.blocked >= 1:
        return observed.low, observed.high
    se = 1.0 if observed.rate >= 1 else errors.sensitivity
    sp = 1.0 if observed.rate <= observed.blocked else errors.specificity
    ends = [dataclasses.replace(observed, rate=end) for end in (observed.low, observed.high)]
    low, high = (min(1.0, max(0.0, corrected_value(end, se, sp))) for end in ends)
    return low, high


def observed_rates(
    splits: Sequence[SplitRates],
    level: float,
    blocked: Sequence[SplitRates] | None = None,
    resamples: int = RESAMPLES,
) -> list[Observed | None]:
    """Return each model's own rate; None of a model that lacks a split.

    Args:
        splits: the judge's rates.
        level: of the interval.
        blocked: shares of blocked answers in place of the rates, on the same prompts; None where there are none.
        resamples: number of draws.
    """
    drawn = resampled_rates(splits, resamples)
    gone = any((part.rates > 0).any() for part in blocked or ())
    drawn_blocked = resampled_rates(blocked, resamples, unseen=False) if blocked and gone else np.zeros_like(drawn)
    return [
        _observed(splits, blocked if gone else None, i, drawn[:, i], drawn_blocked[:, i], level)
        for i in range(len(splits[0].rates))
    ]


def _observed(
    splits: Sequence[SplitRates],
    blocked: Sequence[SplitRates] | None,
    model: int,
    drawn: Floats,
    drawn_blocked: Floats,
    level: float,
) -> Observed | None:
    known = [~np.isnan(part.rates[model]) for part in splits]
    if not all(mask.any() for mask in known):
        return None
    values = [part.rates[model][mask] for part, mask in zip(splits, known, strict=True)]
    clusters = [name for part, mask in zip(splits, known, strict=True) for name in part.clusters[mask].tolist()]
    draws = [part.draws[model][mask] for part, mask in zip(splits, known, strict=True)]
    listed = np.concatenate(values).tolist()
    if len(splits) == 1:
        ends = cluster_wilson(listed, clusters, level, int(draws[0].sum()))
    else:
        names = [part.split for part, mask in zip(splits, known, strict=True) for _ in range(int(mask.sum()))]
        ends = pooled_wilson(listed, clusters, names, level, np.concatenate(draws).tolist())
    assert ends.low is not None and ends.high is not None  # rates always have both
    share = 0.0
    if blocked is not None:
        share = _mean([part.rates[model][mask] for part, mask in zip(blocked, known, strict=True)])
    return Observed(_mean(values), ends.low, ends.high, drawn, len(listed), len(set(clusters)), share, drawn_blocked)


def _mean(values: Sequence[Floats]) -> float:
    """Mean over splits of the mean over their prompts."""
    return math.fsum(float(part.mean()) for part in values) / len(values)


def resampled_rates(splits: Sequence[SplitRates], resamples: int = RESAMPLES, unseen: bool = True) -> Floats:
    """Return the mean over splits of each model's rate in resamples of clusters: resamples x models.

    Clusters have exponential weights (Bayesian bootstrap), the same for all models, and half a cluster of refusals and
    half one of compliance are put into each split (Jeffreys' prior), so that a rate of 0 is not certain. Without
    `unseen` none of it counts as a refusal; the draws are the same else.
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
    return np.concatenate(
        list(_blocks(np.concatenate(columns, axis=1), np.array(sizes), models, rng, resamples, unseen))
    )


def _blocks(
    sums: Floats, sizes: Floats, models: int, rng: np.random.Generator, resamples: int, unseen: bool
) -> Iterator[Floats]:
    groups, splits = len(sums), len(sizes)
    block = max(1, _AT_ONCE // groups)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        total = (rng.standard_exponential((rows, groups)) @ sums).reshape(rows, splits, 2, models)
        extra = rng.gamma(_JEFFREYS, size=(2, rows, splits, 1)) * sizes[:, None]
        yield ((total[:, :, 0] + unseen * extra[0]) / (total[:, :, 1] + extra.sum(axis=0))).mean(axis=1)
