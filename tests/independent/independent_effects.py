"""Effect sizes, and tests of equality within a margin (docs/reference/comparisons.md)."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from independent_comparisons import Part, parts
from independent_intervals import degrees_behind, effective_in_splits, variance_in_splits
from independent_rates import Asked, Found
from independent_study import Array, Study
from scipy import stats


def rates(found: list[Part]) -> tuple[float, float]:
    """Return the mean rates of both sides over the prompts that both have, of several splits their means."""
    means = [np.mean(part.decisions, axis=0) for part in found]
    first, second = np.mean(means, axis=0)
    return float(first), float(second)


def cohens_h(study: Study, asked: Asked) -> Found:
    """docs/reference/comparisons.md: Effect sizes."""
    first, second = (2 * math.asin(math.sqrt(rate)) for rate in rates(parts(study, asked)))
    return Found(first - second)


def odds_ratio(study: Study, asked: Asked) -> Found:
    """docs/reference/comparisons.md: Effect sizes, with an interval by the delta method on the log scale."""
    found = parts(study, asked)
    first, second = rates(found)
    if min(first, second) <= 0 or max(first, second) >= 1:
        return Found()
    added = []
    for part in found:
        a, b = np.array(part.decisions).T
        each = (a - a.mean()) / (first * (1 - first)) - (b - b.mean()) / (second * (1 - second))
        added.append((each / len(each) / len(found), part.clusters))
    log = math.log(first / (1 - first)) - math.log(second / (1 - second))
    error, degrees = standard_error(added, most_degrees(found))
    in_split = [set(part.clusters) for part in found]
    if error < 1e-12 or min(map(len, in_split)) < 2 or len(set().union(*in_split)) <= len(found):
        return Found(math.exp(log))
    reach = error * float(stats.t.ppf(1 - study.alpha / 2, degrees))
    return Found(math.exp(log), math.exp(log - reach), math.exp(log + reach))


def most_degrees(found: list[Part]) -> float:
    """Return G* less the number of splits, 1 at least."""
    return max(1.0, effective_in_splits([part.clusters for part in found]) - len(found))


def standard_error(added: Sequence[tuple[Array, Sequence[str]]], most: float) -> tuple[float, float]:
    """Return the standard error of a sum of what prompts add to it, by split, and its degrees of freedom."""
    variance, together = variance_in_splits(added)
    return math.sqrt(variance), degrees_behind(together, most)


class Adjusted(NamedTuple):
    """A difference with two prompts added to each split."""

    value: float
    error: float
    degrees: float

    def beyond(self, limit: float) -> float:
        """Return the p of a true difference of at least a limit, small where the difference is below it."""
        return float(stats.t.cdf((self.value - limit) / self.error, self.degrees))

    def below(self, limit: float) -> float:
        """Return the p of a true difference of at most a limit, small where the difference is above it."""
        return float(stats.t.sf((self.value - limit) / self.error, self.degrees))


def adjusted(found: list[Part]) -> Adjusted:
    """docs/reference/comparisons.md: one prompt that only the first side refuses and one that only the second does."""
    added, means = [], []
    for number, part in enumerate(found):
        differences = np.append(part.differences, [1.0, -1.0])
        names = [*part.clusters, f"added {number} first", f"added {number} second"]
        means.append(float(differences.mean()))
        added.append(((differences - means[-1]) / len(differences) / len(found), names))
    return Adjusted(float(np.mean(means)), *standard_error(added, most_degrees(found)))


def rate_difference_adjusted(study: Study, asked: Asked) -> Found:
    """docs/reference/comparisons.md: with an interval of level 1 - 2 alpha."""
    found = adjusted(parts(study, asked))
    reach = found.error * float(stats.t.ppf(1 - study.alpha, found.degrees))
    return Found(found.value, max(-1.0, found.value - reach), min(1.0, found.value + reach))


def equivalence_p(study: Study, asked: Asked) -> Found:
    """docs/reference/comparisons.md: two one-sided tests."""
    found, margin = adjusted(parts(study, asked)), study.said["equivalence_margin"]
    return Found(max(found.below(-margin), found.beyond(margin)))


def noninferiority_p(study: Study, asked: Asked) -> Found:
    """Worse is a higher rate where models should comply, otherwise and between judges a lower.

    See docs/reference/comparisons.md.
    """
    found, margin = adjusted(parts(study, asked)), study.said["equivalence_margin"]
    expectation = asked.pool or study.expectation(asked.split)
    between_models = not asked.parameter.startswith("minus judge ")
    return Found(found.beyond(margin) if between_models and expectation == "comply" else found.below(-margin))


KNOWN: dict[str, Callable[[Study, Asked], Found | None]] = {
    "cohens_h": cohens_h,
    "odds_ratio": odds_ratio,
    "rate_difference_adjusted": rate_difference_adjusted,
    "rate_difference_equivalence_p": equivalence_p,
    "rate_difference_noninferiority_p": noninferiority_p,
}
