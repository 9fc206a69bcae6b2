"""Rates corrected by labels of people on this study's own answers: prediction-powered inference with known weights.

The judge reads all answers, people read a sample of them, each answer with a known probability. The estimate is

    lambda * (mean of the judge over all answers) + weighted mean over the labelled ones of (people - lambda * judge)

with weights 1 / probability, normalised (Hajek). It is right whatever a judge does that has not learned from these
labels, as the second part removes its error; lambda, between 0 (labels alone) and 1, is what makes its variance
smallest ("PPI++", Angelopoulos, Duchi & Zrnic 2023, arXiv 2311.01453; with sampling weights it is the difference
estimator of survey statistics, Saerndal, Swensson & Wretman 1992, chapter 6). What the judge could not read counts as 0
of the judge in both parts.
"""

import dataclasses
import math
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from refusal_eval.stats.estimates.estimate import p_value
from refusal_eval.stats.estimates.intervals import (
    RATE_INTERVAL,
    Codes,
    Floats,
    effective_number,
    error_variance,
    wilson_ends,
)
from refusal_eval.stats.estimates.resampling import cluster_codes

MIN_LABELS = 20  # texts that people read
FEW_OF_A_CLASS = 10  # texts of the rarer class; below it the interval holds that of the labels alone, too
METHOD = (
    f"PPI++ with sampling weights; {RATE_INTERVAL} with the cluster-robust variance of both samples, t quantile with "
    f"the effective number of labels; with fewer than 10 labels of a class, at least {RATE_INTERVAL} of the labels "
    "alone"
)


DIFFERENCE_METHOD = (
    "difference of two PPI++ rates; t interval with the cluster-robust variance of the paired difference, both "
    "samples of labels included; with fewer than 10 labels of a class, at least that of the labels alone"
)
TEST = "t test of the difference of two PPI++ rates, cluster-robust, both samples of labels included"


@dataclasses.dataclass(frozen=True)
class JudgedAnswers:
    """What the judge says of all answers; a row is a scored turn."""

    rates: Floats  # share of the answers of a row that count which the judge calls refusals, or a provider blocked
    counting: Floats  # how many count: people could read them, or a provider blocked them
    blocked: Floats  # how many were blocked, which are refusals without a need for labels
    clusters: Codes  # number of each row's cluster, from 0
    splits: Codes  # number of each row's split, from 0; splits have the same weight
    # the judge's rate of what it read, NaN where it read nothing of a row; None where it read all answers
    read: Floats | None = None
    names: Sequence[Hashable] | None = None  # of the clusters, by number; only a difference needs them
    places: Sequence[Hashable] | None = None  # name of each row within its split; None where it is its number


@dataclasses.dataclass(frozen=True)
class LabelledAnswers:
    """What people and the judge say of the labelled answers."""

    rows: Codes  # the row of `JudgedAnswers` that each belongs to
    people: Floats  # 1 where people call it a refusal, else 0
    judge: Floats  # the same of the judge; 0 where it could not read the answer
    probability: Floats  # with which it came into the sample
    # number of the text that each answer has, which people read once; None where each has a text of its own
    texts: Codes | None = None

    def count(self, chosen: NDArray[np.bool_] | None = None) -> int:
        """Return how many texts people read, among all labels or the `chosen`."""
        numbers = self._numbers()
        return len(np.unique(numbers if chosen is None else numbers[chosen]))

    def of_texts(self, weights: Floats) -> Floats:
        """Return each text's weight: the sum over its answers."""
        return np.asarray(np.bincount(self._numbers(), weights=weights), dtype=float)

    def _numbers(self) -> Codes:
        return np.arange(len(self.rows)) if self.texts is None else self.texts


@dataclasses.dataclass(frozen=True)
class CorrectedEstimate:
    """A corrected rate."""

    value: float  # the rate, between 0 and 1
    low: float  # lower end of its interval
    high: float  # upper end
    weight: float  # lambda, how much of the judge is used
    observed: float | None  # the judge's own rate, of what it read; None where it read nothing of a split
    n_labels: int  # texts that people labelled
    n_label_clusters: int  # clusters they come from
    n_clusters: int  # clusters of all answers
    df: float  # degrees of freedom of the t quantile


@dataclasses.dataclass(frozen=True)
class CorrectedDifference:
    """The corrected rate of one model minus that of another."""

    value: float  # between -1 and 1
    low: float  # lower end of its interval
    high: float  # upper end
    p: float  # that both models refuse alike
    n_clusters: int  # clusters of the answers of either
    df: float  # degrees of freedom of the t quantile


@dataclasses.dataclass(frozen=True)
class _Estimated:
    """A corrected rate before its interval."""

    value: float
    weight: float  # lambda
    rows: Floats  # what each row adds to the error of the estimate, with its labels
    one: float  # share of one typical text in the rate
    people: float  # weighted mean of the labels
    omega: Floats  # weight of each text
    open_share: float  # of what is not blocked
    label_clusters: int
    effective: float  # effective number of the clusters with labels, by their number of labels

    @property
    def unseen(self) -> float:
        """The variance if the judge erred half an answer more in each direction."""
        return 2 * (self.one / 2) ** 2

    @property
    def free(self) -> float:
        """The largest number of degrees of freedom that the labels allow."""
        return max(1.0, self.effective - 1)

    def alone(self, level: float) -> tuple[float, float]:
        """Return Wilson's interval of the rate from people's labels alone, of as many texts as these are worth."""
        size = min(1 / math.fsum(self.omega**2), self.effective)
        t = float(scipy.special.stdtrit(self.free, (1 + level) / 2))
        low, high = (self.of_all(end) for end in wilson_ends(min(1.0, self.people), size, t))
        return low, high

    def of_all(self, rate: float) -> float:
        """Return the rate among all answers, blocked ones included, given the rate among readable ones."""
        return 1 - self.open_share + self.open_share * rate


def corrected_rate(answers: JudgedAnswers, labels: LabelledAnswers, level: float) -> CorrectedEstimate | None:
    """Return the corrected rate; None with less than 20 labels, or labels of less than two clusters.

    Equal answers that people read once are one label, with the weight of them all.

    The variance is that of independent clusters, each with all it adds to either part (its answers and its labels), so
    it holds for prompts as a sample of prompts; it is that of plain rates (`intervals.error_variance`), stratified by
    split. To it comes that of half an error of the judge more in each direction: a few labels without any error do not
    show that it makes none. The degrees of freedom lie between the effective number of labelled clusters and the number
    that carry the variance (their geometric mean).
    All three were chosen by simulation (benchmarks/corrected_rates.py): without the half errors a rate of .02 is
    covered in 70 to 85 % with 100 labels, with whole ones rates of .1 to .9 in 98 %.

    Where people labelled fewer than ten answers as one class, the judge's reading of all answers can look better or
    worse by luck than it is: the interval then reaches at least as far as that of the labels alone
    (`_Estimated.alone`). In simulations with 40 to 100 labels that were drawn alike (rates .02 to .95) this lifted the
    lowest coverage from .78 to .95.
    """
    found = _estimate(answers, labels)
    if found is None:
        return None
    variance, df = _variance(found.rows, answers.clusters, answers.splits, [found])
    low, high = wilson(found.value, variance, df, level, min(0.5, found.one))
    if few_of_a_class(labels):
        alone = found.alone(level)
        low, high = min(low, alone[0]), max(high, alone[1])
    inside = min(1.0, max(0.0, found.value))
    sizes = (labels.count(), found.label_clusters, len(np.unique(answers.clusters)))
    return CorrectedEstimate(
        inside, min(low, inside), max(high, inside), found.weight, _observed_rate(answers), *sizes, df
    )


def corrected_difference(
    first: tuple[JudgedAnswers, LabelledAnswers], second: tuple[JudgedAnswers, LabelledAnswers], level: float
) -> CorrectedDifference | None:
    """Return the corrected rate of one model minus that of another; None if one of them has none.

    Clusters that both answered are paired by name: contributions of a cluster to both rates cancel, so the judge's
    errors matter only as far as the labels leave them uncertain. Variance and degrees of freedom are those of
    `corrected_rate`, of the paired difference, with the half errors of both. If people labelled fewer than ten answers
    of either model as one class, the interval reaches at least as far as that of the labels alone, and p is the larger
    of both. Simulated at equal true rates and unequal errors of the judge in benchmarks/corrected_rates.py.
    """
    estimates = [_estimate(answers, labels) for answers, labels in (first, second)]
    one, other = estimates
    if one is None or other is None:
        return None
    rows: dict[tuple[int, Hashable, Hashable], float] = {}
    for sign, (answers, _), found in zip((1, -1), (first, second), (one, other), strict=True):
        for key, part in zip(_keys(answers), found.rows, strict=True):
            rows[key] = rows.get(key, 0.0) + sign * float(part)
    splits = np.array([split for split, _, _ in rows])
    clusters = cluster_codes([str(cluster) for _, cluster, _ in rows])
    variance, df = _variance(np.array(list(rows.values())), clusters, splits, (one, other))
    value, error = one.value - other.value, math.sqrt(variance)
    p = p_value(2 * float(scipy.special.stdtr(df, -abs(value) / error)))
    reach = error * float(scipy.special.stdtrit(df, (1 + level) / 2))
    low, high = value - reach, value + reach
    if few_of_a_class(first[1]) or few_of_a_class(second[1]):
        alone = _difference_alone(one, other, level)
        low, high, p = min(low, alone[0]), max(high, alone[1]), max(p, _p_alone(one, other, value))
    value, low, high = (min(1.0, max(-1.0, end)) for end in (value, low, high))
    return CorrectedDifference(value, low, high, p, len(np.unique(clusters)), df)


def few_of_a_class(labels: LabelledAnswers) -> bool:
    """Tell whether too few texts of one class were labelled, so that the labels alone limit the precision."""
    return min(labels.count(labels.people == side) for side in (0, 1)) < FEW_OF_A_CLASS


def _keys(answers: JudgedAnswers) -> Iterator[tuple[int, Hashable, Hashable]]:
    """Yield split, cluster and place of each row, by which those of two models are paired."""
    assert answers.names is not None
    places = range(len(answers.rates)) if answers.places is None else answers.places
    for split, cluster, place in zip(answers.splits.tolist(), answers.clusters.tolist(), places, strict=True):
        yield split, answers.names[cluster], place


def _difference_alone(one: _Estimated, other: _Estimated, level: float) -> tuple[float, float]:
    """Interval of the difference from people's labels alone, recovered from those of both rates (Newcombe 1998)."""
    sides = [(found.of_all(found.people), *found.alone(level)) for found in (one, other)]
    (p, low, high), (q, least, most) = sides
    return p - q - math.hypot(p - low, most - q), p - q + math.hypot(high - p, q - least)


def _p_alone(one: _Estimated, other: _Estimated, value: float) -> float:
    """Return 1 - level of the interval that reaches from `value` over those of the labels alone and ends at 0."""
    apart = one.of_all(one.people) - other.of_all(other.people)
    if value * apart <= 0:
        return 1.0
    if value < 0:
        one, other = other, one
    least, most = 0.0, 1.0
    for _ in range(60):
        p = (least + most) / 2
        least, most = (p, most) if _difference_alone(one, other, 1 - p)[0] <= 0 else (least, p)
    return most


def _estimate(answers: JudgedAnswers, labels: LabelledAnswers) -> _Estimated | None:
    label_clusters = len(np.unique(answers.clusters[labels.rows]))
    if labels.count() < MIN_LABELS or label_clusters < 2:
        return None
    share = _row_weights(answers.splits)
    blocked = answers.blocked / answers.counting
    omega = share[labels.rows] / answers.counting[labels.rows] / labels.probability
    omega = omega / math.fsum(omega)
    people, judge = math.fsum(omega * labels.people), math.fsum(omega * labels.judge)
    open_share = math.fsum(share * (1 - blocked))  # what is not blocked, and so the labels are about
    # Each row's part of the estimate, less its expectation: `fixed` + lambda * `moving`.
    fixed, moving = np.zeros(len(share)), np.zeros(len(share))
    for part, of_rows, of_labels in (
        (fixed, blocked + (1 - blocked) * people, labels.people - people),
        (moving, answers.rates - blocked - (1 - blocked) * judge, -(labels.judge - judge)),
    ):
        means = np.bincount(answers.splits, weights=of_rows) / np.bincount(answers.splits)
        centred = of_rows - means[answers.splits]
        part += share * centred
        np.add.at(part, labels.rows, open_share * omega * of_labels)
    still, moved = (np.bincount(answers.clusters, weights=part) for part in (fixed, moving))
    below = math.fsum(moved**2)
    weight = min(1.0, max(0.0, -math.fsum(still * moved) / below)) if below > 0 else 0.0
    judged = math.fsum(share * (answers.rates - blocked))
    value = math.fsum(share * blocked) + weight * judged + open_share * (people - weight * judge)
    rows = fixed + weight * moving
    of_texts = labels.of_texts(omega)
    one = open_share * math.fsum(of_texts**2)  # the share of one typical text in the weighted mean
    effective = effective_number(np.bincount(answers.clusters[labels.rows]))
    return _Estimated(value, weight, rows, one, people, of_texts, open_share, label_clusters, effective)


def _variance(rows: Floats, clusters: Codes, splits: Codes, estimates: Sequence[_Estimated]) -> tuple[float, float]:
    """Return the variance of what rows add up to, with half an error more per estimate, and its degrees of freedom."""
    variance, parts = error_variance(rows, clusters, splits)
    unseen = [found.unseen for found in estimates]
    variance += math.fsum(unseen)
    most = min(found.free for found in estimates)
    own = [u**2 / found.free for u, found in zip(unseen, estimates, strict=True)]
    carried = variance**2 / math.fsum([*parts**4, *own])
    return variance, math.sqrt(min(carried, most) * most)


def unlabelled_splits(answers: JudgedAnswers, labels: LabelledAnswers) -> list[int]:
    """Return the numbers of the splits without a label though there are answers that people could read.

    The weighted mean of the other splits' labels would stand for them, with nothing to show for it.
    """
    read = set(answers.splits[answers.counting > answers.blocked].tolist())
    return sorted(read - set(answers.splits[labels.rows].tolist()))


def wilson(value: float, variance: float, df: float, level: float, least: float = 0.0) -> tuple[float, float]:
    """Return Wilson's interval for a rate with a variance: that of as many answers as would have that variance.

    The number of answers is computed at a rate of at least `least` and at most 1 - `least`, as at 0 and 1 no number of
    answers has a variance.
    """
    t = float(scipy.special.stdtrit(df, (1 + level) / 2))
    p = min(1 - least, max(least, value))
    return wilson_ends(min(1.0, max(0.0, value)), p * (1 - p) / variance, t)


def _observed_rate(answers: JudgedAnswers) -> float | None:
    rates = answers.rates if answers.read is None else answers.read
    known = ~np.isnan(rates)
    if set(answers.splits[known].tolist()) != set(answers.splits.tolist()):
        return None
    return math.fsum(_row_weights(answers.splits[known]) * rates[known])


def _row_weights(splits: Codes) -> Floats:
    """The share of each row in a mean of splits with the same weight."""
    sizes = np.bincount(splits)
    return np.asarray(1 / (len(sizes) * sizes[splits]), dtype=float)
