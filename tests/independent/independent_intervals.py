"""The intervals that docs/reference/statistics.md, agreement.md and tradeoff.md describe, from their formulas."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from independent_study import Array
from scipy import stats

Numbers = npt.NDArray[np.intp]
SEED = 20_240_607  # any other than the project's
DRAWS = 20_000
SURE = 4  # standard errors
DIGITS = 1e-20  # squares of what clusters that agree differ by


class Ends(NamedTuple):
    """An interval, and how many independent answers it is worth (nan with one cluster)."""

    low: float
    high: float
    worth: float = float("nan")


class Span(NamedTuple):
    """The end of an interval that rests on random draws: where other draws may put it, and where these do."""

    least: float
    at: float
    most: float


def spread(found: Array, q: float, theirs: int) -> Span:
    """Return a quantile of draws, and those `SURE` standard errors of its level around it, of these and `theirs`."""
    error = SURE * np.sqrt(q * (1 - q) * (1 / len(found) + 1 / theirs))
    least, at, most = np.quantile(found, np.clip([q - error, q, q + error], 0, 1))
    return Span(float(least), float(at), float(most))


def codes(names: Sequence[str]) -> tuple[Numbers, int]:
    """Return a number for each name, and how many names there are."""
    found, numbers = np.unique(np.asarray(names, dtype=object).astype(str), return_inverse=True)
    return numbers.astype(np.intp), len(found)


def per_cluster(values: Array, names: Sequence[str]) -> Array:
    """Return the sums of values in each cluster."""
    numbers, count = codes(names)
    return np.bincount(numbers, weights=values, minlength=count).astype(float)


def wilson(values: Array, names: Sequence[str], answers: float, alpha: float, prompts: int = 0) -> Ends:
    """Return Wilson's interval with clusters (docs/reference/statistics.md). `answers` is N, infinite for mean c(x).

    `prompts`: how many there are, where the values are of answers (docs/reference/agreement.md, Same label).
    """
    n, p = prompts or len(values), float(values.mean())
    numbers, clusters = codes(names)
    if clusters < 2:
        return Ends(0.0, 1.0)
    sizes = np.bincount(numbers).astype(float)
    effective = float(sizes.sum() ** 2 / (sizes**2).sum())
    exact = (alpha / 2) ** (1 / effective)
    if not values.any():
        return Ends(0.0, 1 - exact, effective)
    if (values == 1).all():
        return Ends(exact, 1.0, effective)
    sums = np.bincount(numbers, weights=values - p) / len(values)
    variance, behind = _variance(values, numbers, sizes, sums)
    worth = min(p * (1 - p) / variance, answers) if variance > DIGITS else effective
    if worth > n:
        worth = (behind + 1) / (behind / worth + 1 / n)
    low, high = wilson_ends(p, worth, _degrees(p, behind, clusters, effective, worth), alpha)
    least = (alpha / 2) ** (1 / max(effective, n / 2))
    return Ends(min(low, least), max(high, 1 - least), worth)


def student(values: Array, names: Sequence[str], alpha: float) -> Ends:
    """Return the interval of a mean without limits (docs/reference/statistics.md, Intervals), or nan twice."""
    numbers, clusters = codes(names)
    if clusters < 2 or np.ptp(values) == 0:
        return Ends(float("nan"), float("nan"))
    sizes = np.bincount(numbers).astype(float)
    mean, effective = float(values.mean()), float(sizes.sum() ** 2 / (sizes**2).sum())
    variance, _ = _variance(values, numbers, sizes, np.bincount(numbers, weights=values - mean) / len(values))
    half = float(stats.t.ppf(1 - alpha / 2, max(effective - 1, 1))) * np.sqrt(variance)
    return Ends(mean - half, mean + half)


def _variance(values: Array, numbers: Numbers, sizes: Array, sums: Array) -> tuple[float, float]:
    """Return V and m: the variance of the mean, and the effective number of clusters behind it."""
    n, clusters = len(values), len(sizes)
    shares = sizes / n
    moved = sums / (1 - shares)
    jackknife = (clusters - 1) / clusters * (moved**2).sum()
    means = np.bincount(numbers, weights=values) / sizes
    within = ((values - means[numbers]) ** 2).sum() / max(n - clusters, 1)
    between = ((sums / shares) ** 2).sum() / (clusters - 1) - within * (1 / sizes).mean()
    alike = (shares**2 * (between + within / sizes)).sum()
    behind = (moved**2).sum() ** 2 / (moved**4).sum() if moved.any() else float("nan")
    return float(jackknife + max(0.0, alike - jackknife) / 10), float(behind)


def variance_in_splits(splits: Sequence[tuple[Array, Sequence[str]]]) -> tuple[float, dict[str, float]]:
    """Return V and v_c of what prompts add to an error, by split.

    See docs/reference/comparisons.md, The error of an effect size.
    """
    together: dict[str, float] = {}
    above = 0.0
    for added, names in splits:
        numbers, clusters = codes(names)
        sizes, sums = np.bincount(numbers).astype(float), np.bincount(numbers, weights=added)
        n, shares = len(added), np.bincount(numbers) / len(added)
        if clusters == 1:
            v = sums
        else:
            v = np.sqrt((clusters - 1) / clusters) * sums / (1 - shares)
            means = n * sums / sizes
            within = ((n * added - means[numbers]) ** 2).sum() / max(n - clusters, 1)
            between = (means**2).sum() / (clusters - 1) - within * (1 / sizes).mean()
            above += max(0.0, (shares**2 * (between + within / sizes)).sum() - (v**2).sum()) / 10
        for name, own in zip(np.unique(np.asarray(names, dtype=object).astype(str)), v, strict=True):
            together[name] = together.get(name, 0.0) + float(own)
    return sum(own**2 for own in together.values()) + above, together


def effective_in_splits(splits: Sequence[Sequence[str]]) -> float:
    """Return G* of clusters by their share of the mean over splits."""
    shares: dict[str, float] = {}
    for names in splits:
        for name in names:
            shares[name] = shares.get(name, 0.0) + 1 / len(names)
    return sum(shares.values()) ** 2 / sum(own**2 for own in shares.values())


def degrees_behind(together: dict[str, float], most: float) -> float:
    """Return nu of docs/reference/comparisons.md, The error of an effect size."""
    squares = np.array(list(together.values())) ** 2
    if squares.sum() == 0:
        return most
    behind = squares.sum() ** 2 / (squares**2).sum()
    divisor = 1 / behind - 1 / len(squares)
    return float(min(most, max(1.0, 1 / divisor))) if divisor > 0 else most


def _degrees(p: float, behind: float, clusters: int, effective: float, worth: float) -> float:
    most = max(effective - 1, 1.0)
    divisor = 1 / behind - 1 / clusters - (1 - 4 * p * (1 - p)) / (worth * p * (1 - p))
    return min(max(1 / divisor, 1.0), most) if divisor > 0 else most


def wilson_ends(p: float, worth: float, degrees: float, alpha: float) -> tuple[float, float]:
    """Return the ends of Wilson's interval with a t quantile."""
    t2 = float(stats.t.ppf(1 - alpha / 2, degrees)) ** 2
    half = np.sqrt(t2 * (p * (1 - p) / worth + t2 / (4 * worth**2)))
    return (p + t2 / (2 * worth) - half) / (1 + t2 / worth), (p + t2 / (2 * worth) + half) / (1 + t2 / worth)


def correlation(a: dict[str, float], b: dict[str, float]) -> float:
    """Return the correlation of two sums over clusters, 0 if one of them does not vary."""
    squares = sum(x * x for x in a.values()) * sum(x * x for x in b.values())
    shared = sum(a[name] * b[name] for name in a.keys() & b.keys())
    return shared / np.sqrt(squares) if squares > 0 else 0.0


def pooled(parts: Sequence[tuple[Array, Sequence[str], Ends]]) -> Ends:
    """Return the interval of a mean over splits, recovered from the splits' own (docs/reference/statistics.md)."""
    count = len(parts)
    means = [float(values.mean()) for values, _, _ in parts]
    low = np.array([(p - ends.low) / count for p, (_, _, ends) in zip(means, parts, strict=True)])
    high = np.array([(ends.high - p) / count for p, (_, _, ends) in zip(means, parts, strict=True)])
    together = np.array([[_together(a, b) if a is not b else 1.0 for b in parts] for a in parts])
    mean = float(np.mean(means))
    return Ends(mean - np.sqrt(low @ together @ low), mean + np.sqrt(high @ together @ high))


def _together(a: tuple[Array, Sequence[str], Ends], b: tuple[Array, Sequence[str], Ends]) -> float:
    (x, of_x, _), (y, of_y, _) = a, b
    u, v = by_name(x - x.mean(), of_x), by_name(y - y.mean(), of_y)
    agree = [sum(own**2 for own in sums.values()) < DIGITS for sums in (u, v)]
    if all(agree):
        return correlation(by_name(np.ones(len(x)), of_x), by_name(np.ones(len(y)), of_y))
    return 0.0 if any(agree) else correlation(u, v)


def by_name(values: Array, names: Sequence[str]) -> dict[str, float]:
    """Return the sum of values under each name."""
    sums: dict[str, float] = {}
    for value, name in zip(values.tolist(), names, strict=True):
        sums[name] = sums.get(name, 0.0) + value
    return sums


def difference(a: float, of_a: Ends, b: float, of_b: Ends, r: float = 0.0) -> Ends:
    """Return the interval of a - b, recovered from both intervals (docs/reference/tradeoff.md, Youden's J)."""
    below, above = (a - of_a.low, of_b.high - b), (of_a.high - a, b - of_b.low)
    halves = [np.sqrt(max(0.0, x * x - 2 * r * x * y + y * y)) for x, y in (below, above)]
    return Ends(a - b - halves[0], a - b + halves[1])


def expanded(clusters: int, alpha: float, degrees: int | None = None) -> tuple[float, float]:
    """Return the percentiles of a bootstrap over clusters (Hesterberg 2015)."""
    free = clusters - 1 if degrees is None else degrees
    q = float(stats.norm.cdf(np.sqrt(clusters / free) * stats.t.ppf(alpha / 2, free)))
    return q, 1 - q


def resamples(clusters: int) -> int:
    """Return how many resamples the docs promise for so many clusters."""
    return int(min(20_000, max(2_000, 2_000_000 // clusters)))


@cache
def draws(clusters: int, count: int, stratum: int = 0) -> Array:
    """Return how often each of the clusters is drawn in each resample."""
    rng = np.random.default_rng([SEED, clusters, count, stratum])
    return rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=count).astype(float)


def bootstrap(
    sums: Array, statistic: Callable[[Array], Array], alpha: float, theirs: int = 0, behind: int = 0
) -> tuple[Span, Span]:
    """Return the interval of a statistic of sums over clusters (a row each); resamples without it are left out.

    `theirs` is how often the docs draw, `behind` how many clusters move the percentiles, both by default of all.
    """
    found = statistic(draws(len(sums), DRAWS) @ sums)
    return percentiles(found, behind or len(sums), alpha, theirs or resamples(len(sums)))


def percentiles(found: Array, clusters: int, alpha: float, theirs: int = 0) -> tuple[Span, Span]:
    """Return the interval of resampled values; `theirs` is how often the docs draw, by default of so many clusters."""
    found, count = found[np.isfinite(found)], theirs or resamples(clusters)
    low, high = expanded(clusters, alpha)
    return spread(found, low, count), spread(found, high, count)
