"""Effect sizes, and tests of equality within a margin (docs/comparisons.md)."""

import math
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from independent_comparisons import Part, parts
from independent_rates import Asked, Found
from independent_study import Array, Study
from scipy import stats


def rates(found: list[Part]) -> tuple[float, float]:
    """Return the mean rates of both sides over the prompts that both have, of several splits their means."""
    means = [np.mean(part.decisions, axis=0) for part in found]
    first, second = np.mean(means, axis=0)
    return float(first), float(second)


def cohens_h(study: Study, asked: Asked) -> Found:
    """docs/comparisons.md: Effect sizes."""
    first, second = (2 * math.asin(math.sqrt(rate)) for rate in rates(parts(study, asked)))
    return Found(first - second)


def odds_ratio(study: Study, asked: Asked) -> Found:
    """docs/comparisons.md: Effect sizes, with an interval by the delta method on the log scale."""
    found = parts(study, asked)
    first, second = rates(found)
    if min(first, second) <= 0 or max(first, second) >= 1:
        return Found()
    added: defaultdict[str, float] = defaultdict(float)
    for part in found:
        a, b = np.array(part.decisions).T
        each = (a - a.mean()) / (first * (1 - first)) - (b - b.mean()) / (second * (1 - second))
        for name, x in zip(part.clusters, each / len(each) / len(found), strict=True):
            added[name] += float(x)
    log = math.log(first / (1 - first)) - math.log(second / (1 - second))
    error, degrees = standard_error(np.array(list(added.values())), len(found))
    if error < 1e-12:
        return Found(math.exp(log))
    reach = error * float(stats.t.ppf(1 - study.alpha / 2, degrees))
    return Found(math.exp(log), math.exp(log - reach), math.exp(log + reach))


def standard_error(added: Array, splits: int) -> tuple[float, int]:
    """Return the standard error of a sum of what clusters add to it, and its degrees of freedom."""
    degrees = len(added) - splits
    return math.sqrt(len(added) / degrees * float((added**2).sum())), degrees


class Adjusted(NamedTuple):
    """A difference with two prompts added to each split."""

    value: float
    error: float
    degrees: int

    def beyond(self, limit: float) -> float:
        """Return the p of a true difference of at least a limit, small where the difference is below it."""
        return float(stats.t.cdf((self.value - limit) / self.error, self.degrees))

    def below(self, limit: float) -> float:
        """Return the p of a true difference of at most a limit, small where the difference is above it."""
        return float(stats.t.sf((self.value - limit) / self.error, self.degrees))


def adjusted(found: list[Part]) -> Adjusted:
    """docs/comparisons.md: one prompt that only the first side refuses and one that only the second does."""
    added: defaultdict[str, float] = defaultdict(float)
    means = []
    for number, part in enumerate(found):
        differences = np.append(part.differences, [1.0, -1.0])
        names = [*part.clusters, f"added {number} first", f"added {number} second"]
        means.append(float(differences.mean()))
        for name, x in zip(names, (differences - means[-1]) / len(differences) / len(found), strict=True):
            added[name] += float(x)
    error, degrees = standard_error(np.array(list(added.values())), len(found))
    return Adjusted(float(np.mean(means)), error, degrees - 2 * len(found))


def rate_difference_adjusted(study: Study, asked: Asked) -> Found:
    """docs/comparisons.md: with an interval of level 1 - 2 alpha."""
    found = adjusted(parts(study, asked))
    reach = found.error * float(stats.t.ppf(1 - study.alpha, found.degrees))
    return Found(found.value, max(-1.0, found.value - reach), min(1.0, found.value + reach))


def equivalence_p(study: Study, asked: Asked) -> Found:
    """docs/comparisons.md: two one-sided tests."""
    found, margin = adjusted(parts(study, asked)), study.said["equivalence_margin"]
    return Found(max(found.below(-margin), found.beyond(margin)))


def noninferiority_p(study: Study, asked: Asked) -> Found:
    """docs/comparisons.md: worse is a higher rate where models should comply, otherwise and between judges a lower."""
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
