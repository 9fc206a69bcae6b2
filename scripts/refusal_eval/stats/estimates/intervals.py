"""Intervals for means over prompts that may share a cluster (a subject, a scenario, a contrast pair).

The unit that varies independently is the cluster: prompts of one cluster resemble each other, and the K samples of
one prompt even more. So no interval here is ever computed on n * K answers.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# Rounding of equal rates leaves a variance of 1e-32 or so; one answer of a hundred in a million prompts makes 1e-16.
NO_VARIANCE = 1e-24

# What the intervals here are called, wherever one is named: in rows of the results table, notes, captions, the data
# dictionary and the methods section.
RATE_INTERVAL, LIMIT_INTERVAL = "Wilson", "Clopper-Pearson"  # of a rate, and of one that is 0 or 1 throughout
CLUSTER_SIZE = "cluster-robust effective size"
WILSON_METHOD = f"{RATE_INTERVAL}, {CLUSTER_SIZE}"
LIMIT_METHOD = f"{LIMIT_INTERVAL} over clusters"
POOLED_METHOD = f"recovered from the {RATE_INTERVAL} intervals of the splits"
ONE_CLUSTER_METHOD = "no information (one cluster)"
T_METHOD = "t, cluster-robust variance"


class Interval(NamedTuple):
    """Ends of an interval, in the unit of the values; an end is None where the data say nothing about it."""

    low: float | None
    high: float | None
    n_eff: float | None
    n_clusters: int
    method: str


def cluster_wilson(
    values: Sequence[float], clusters: Sequence[Hashable], level: float = 0.95, draws: int | None = None
) -> Interval:
    """Interval for the mean of `values`, rates of prompts in [0, 1], where prompts of one cluster are not independent.

    Wilson's interval with an effective sample size and a t quantile (Korn & Graubard 1998, Survey Methodology 24:193;
    Dean & Pagano 2015, J. Survey Statistics and Methodology 3:484):

        n_eff = p (1 - p) / V,   V of `_variance` (for G clusters of one size G / (G - 1) * sum of u_c^2,
                                 with u_c = sum over the prompts of cluster c of (r_i - p) / n)

    t has G* - 1 degrees of freedom, with G* of `effective_number`, which is G for clusters of one size. Where a few
    clusters hold most of what V is made of, n_eff is held back, and the degrees of freedom are fewer (`_held_back`,
    `_degrees_of_freedom`).

    Several samples of a prompt, or prompts of a cluster, may count as more than one. So that a first refusal does not
    lower the upper end, it is at least that of no refusal in G* clusters, or in n / 2 where clusters have more than two
    prompts on average; the lower end is at most that of nothing but refusals there. In simulations this lifted 13
    clusters of 20 prompts (rate .02, K = 5, intra-cluster correlation .4) from .87 to .98, and no mean width by more
    than a fifth.

    Where every value is 0 or 1, V is 0 and says nothing: Clopper-Pearson on G* clusters. Where the clusters agree to
    the last digit at another rate: n_eff = G*. With one cluster: [0, 1].

    `draws` is the number of answers behind the values. n_eff is capped there: V of a handful of clusters is sometimes
    nearly 0 by chance, and even independent answers can't tell more than `draws` of them. In simulations the cap
    lifted the coverage of 5 clusters of 20 prompts (rate .02, K = 5) from .86 to .90 and never lowered any. A cap at
    the number of prompts was tried and rejected: where prompts are alike it covers 1.00 with intervals twice as wide.

    Returns the interval with n_eff (None with one cluster) and G.

    Raises:
        ValueError: for no values, values outside [0, 1], lists of different lengths or a level outside (0, 1).
    """
    rates, codes = check_values(values, clusters, level)
    if rates.min() < 0 or rates.max() > 1:
        raise ValueError("rates must lie between 0 and 1")
    n, sizes, alpha = len(rates), np.bincount(codes).astype(float), 1 - level
    if len(sizes) == 1:
        return Interval(0.0, 1.0, None, 1, ONE_CLUSTER_METHOD)
    p = math.fsum(rates) / n
    if rates.max() == 0 or rates.min() == 1:
        return _all_alike(p, sizes, alpha)
    sums = np.bincount(codes, weights=rates - p)
    within = math.fsum((rates - p - (sums / sizes)[codes]) ** 2)
    return _from_clusters(p, _Clusters(sums / n, sizes, within), n, draws, alpha)


def cluster_wilson_of_counts(hits: Floats, sizes: Floats, prompts: int, level: float = 0.95) -> Interval:
    """Return `cluster_wilson` for a share of yes-or-no answers, from the counts of each cluster.

    Where every prompt has as many answers it is that of the prompts' rates, with the answers as draws; where clusters
    differ in size it may be wider or narrower by a hundredth, as what varies within them is then that of answers.

    Args:
        hits: the number of answers in each cluster that are yes.
        sizes: the number of answers in each cluster; clusters without any do not count.
        prompts: to how many prompts these are the answers.

    Raises:
        ValueError: without answers.
    """
    known = sizes > 0
    hits, sizes = hits[known].astype(float), sizes[known].astype(float)
    answers, alpha = int(sizes.sum()), 1 - level
    if not answers:
        raise ValueError("no values")
    if len(sizes) == 1:
        return Interval(0.0, 1.0, None, 1, ONE_CLUSTER_METHOD)
    p = float(hits.sum()) / answers
    if p in (0, 1):
        return _all_alike(p, sizes, alpha)
    within = math.fsum(hits * (1 - hits / sizes))
    return _from_clusters(p, _Clusters((hits - p * sizes) / answers, sizes, within), prompts, answers, alpha)


def cluster_wilson_between(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    limits: tuple[float, float],
    level: float = 0.95,
    draws: int | None = None,
) -> Interval:
    """Interval for the mean of values between two limits: that of `cluster_wilson` for how far they are between them.

    Values between 0 and 1 vary at most as much around their mean as yes and no do, so that n_eff is the number of
    answers that would vary so for them, too; it may be more than there are, where values lie in the middle (partial
    refusals). A percentile bootstrap is too narrow near the limits (docs/reference/statistics.md).

    Raises:
        ValueError: for values outside the limits, and as `cluster_wilson` does.
    """
    low, high = limits
    data = np.asarray(values, dtype=float)
    if len(data) and not (data.min() >= low and data.max() <= high):
        raise ValueError(f"values must lie between {low} and {high}")
    found = cluster_wilson(((data - low) / (high - low)).tolist(), clusters, level, draws)
    assert found.low is not None and found.high is not None  # values always have both
    return found._replace(low=low + (high - low) * found.low, high=low + (high - low) * found.high)


def cluster_t(values: Sequence[float], clusters: Sequence[Hashable], level: float = 0.95) -> Interval:
    """Return an interval for the mean of unbounded values, such as lengths: mean +- t sqrt(V), V of `_variance`.

    t has G* - 1 degrees of freedom, G* from `effective_number`, at least one. With one cluster or equal values there
    are no ends: nothing shows the variation.

    Raises:
        ValueError: for no values, lists of different lengths or a level outside (0, 1).
    """
    data, codes = check_values(values, clusters, level)
    n, sizes = len(data), np.bincount(codes).astype(float)
    if len(sizes) == 1 or data.min() == data.max():
        return Interval(None, None, None, len(sizes), "no information (one cluster, or equal values)")
    mean = math.fsum(data) / n
    sums = np.bincount(codes, weights=data - mean)
    within = math.fsum((data - mean - (sums / sizes)[codes]) ** 2)
    variance, _ = _variance(_Clusters(sums / n, sizes, within))
    t = float(scipy.special.stdtrit(max(1.0, effective_number(sizes) - 1), (1 + level) / 2))
    half = t * math.sqrt(variance)
    return Interval(mean - half, mean + half, None, len(sizes), T_METHOD)


def pooled_rate(
    parts: Mapping[str, tuple[Floats, Sequence[Hashable], Sequence[int]]], level: float
) -> tuple[float, Interval]:
    """Return the mean over splits of the mean rate in each, and its interval.

    A cluster may have prompts in several splits. The interval is recovered from the splits' own (Zou & Donner 2008,
    Statistics in Medicine 27:1693). With S splits of rates p_s and ends l_s and h_s by `cluster_wilson`:

        low = p - sqrt(sum over s, t of r_st a_s a_t),    a_s = (p_s - l_s) / S,
        high = p + sqrt(sum over s, t of r_st b_s b_t),   b_s = (h_s - p_s) / S

    So a split whose prompts all agree is not taken for known exactly, a split of one cluster brings its [0, 1], and
    what differs between splits, which are fixed, adds nothing. r_st is the correlation of the errors of p_s and p_t
    that comes from clusters with prompts in both (`_correlations`). With one split it is `cluster_wilson`; only then it
    has n_eff.

    Args:
        parts: by split its rates, the cluster of each, and the number of answers behind each.

    Raises:
        ValueError: as `cluster_wilson` does.
    """
    names = sorted({name for _, clusters, _ in parts.values() for name in clusters}, key=str)
    places, strata, groups = {name: i for i, name in enumerate(names)}, len(parts), len(names)
    ends, means, errors, sizes = [], np.empty(strata), np.empty((strata, groups)), np.empty((strata, groups))
    for s, (_, (rates, clusters, draws)) in enumerate(sorted(parts.items())):
        ends.append(cluster_wilson(rates.tolist(), clusters, level, sum(draws)))
        codes = np.array([places[name] for name in clusters], dtype=np.intp)
        means[s] = math.fsum(rates) / len(rates)
        order = np.lexsort((rates, codes))  # sums must not depend on the input's order
        errors[s] = np.bincount(codes[order], weights=rates[order] - means[s], minlength=groups) / len(rates)
        sizes[s] = np.bincount(codes, minlength=groups) / len(rates)
    mean = math.fsum(means) / strata
    if strata == 1:
        return mean, ends[0]
    together = _correlations(errors, sizes)
    below = (means - np.array([part.low for part in ends])) / strata
    above = (np.array([part.high for part in ends]) - means) / strata
    low, high = (math.sqrt(max(0.0, float(part @ together @ part))) for part in (below, above))
    return mean, Interval(max(0.0, mean - low), min(1.0, mean + high), None, groups, POOLED_METHOD)


def effective_number(sizes: ArrayLike) -> float:
    """Return how many clusters of one size vary as much as clusters of these sizes: (sum of n_c)^2 / sum of n_c^2.

    It is their number where they have one size, and near 1 where one of them has nearly all prompts; 0 of none (Kish
    1965, Survey Sampling, section 11.7). So many rows of equal weight tell as much as rows of these weights, too.
    """
    numbers = np.asarray(sizes, dtype=float)
    squares = math.fsum(numbers**2)
    return math.fsum(numbers) ** 2 / squares if squares else 0.0


def effective_of(names: Iterable[Hashable]) -> float:
    """Return `effective_number` of rows, given each row's cluster."""
    return effective_number(list(Counter(map(str, names)).values()))


class _Clusters(NamedTuple):
    """What clusters say of the error of a mean."""

    sums: Floats  # of each, what it adds to the error of the mean
    sizes: Floats  # of each, its number of values
    within: float  # sum of the squared deviations of values from the mean of their cluster


def _all_alike(p: float, sizes: Floats, alpha: float) -> Interval:
    """Interval where every value is 0, or every value is 1: Clopper-Pearson on the clusters."""
    effective = effective_number(sizes)
    edge = (alpha / 2) ** (1 / effective)
    low, high = (0.0, 1 - edge) if p == 0 else (edge, 1.0)
    return Interval(low, high, effective, len(sizes), LIMIT_METHOD)


def _from_clusters(p: float, clusters: _Clusters, n: int, draws: int | None, alpha: float) -> Interval:
    """Interval of `cluster_wilson` for the mean p of n values."""

    effective = effective_number(clusters.sizes)
    variance, sums = _variance(clusters)
    n_eff = p * (1 - p) / variance if variance > NO_VARIANCE else effective
    if draws is not None:
        n_eff = min(n_eff, float(draws))
    n_eff = _hold_back(n_eff, sums, float(n))
    freedom = _degrees_of_freedom(sums, p, n_eff, max(1.0, effective - 1))
    low, high = wilson_ends(p, n_eff, float(scipy.special.stdtrit(freedom, 1 - alpha / 2)))
    edge = (alpha / 2) ** (1 / max(effective, n / 2))
    return Interval(min(low, edge), max(high, 1 - edge), n_eff, len(sums), WILSON_METHOD)


def _variance(clusters: _Clusters) -> tuple[float, Floats]:
    """Return the variance V of the mean, and what each cluster adds to its error.

    With h_c = n_c / n the share of cluster c in the values, u_c is divided by 1 - h_c, as the mean moves towards a
    large cluster (the jackknife; Bell & McCaffrey 2002, Survey Methodology 28:169), and

        V_1 = (G - 1) / G * sum of (u_c / (1 - h_c))^2

    Of clusters of unequal size V_1 is too small where the large ones happen to be alike: so a tenth is added of what a
    second estimate, which takes the large ones to be as the small ones are, lies above it:

        V_2 = sum of h_c^2 (b + w / n_c),    V = V_1 + max(0, V_2 - V_1) / 10

    with w the variance of values within clusters and b = sum of (mean of c - p)^2 / (G - 1) - w * mean of 1 / n_c that
    between them. For clusters of one size V_1 = V_2 = G / (G - 1) * sum of u_c^2. In simulations
    (docs/reference/statistics.md) V lifted 300 clusters of log-normal sizes (rate .02, intra-cluster correlation .8)
    from .88 to .96, and widened intervals by a twentieth.
    """
    sums, sizes, within = clusters
    groups, n = len(sums), float(sizes.sum())
    shares = sizes / n
    moved = sums / (1 - shares)
    first = (groups - 1) / groups * math.fsum(moved**2)
    if sizes.min() == sizes.max():
        return first, moved
    inside = within / max(1.0, n - groups)
    between = math.fsum((sums / shares) ** 2) / (groups - 1) - inside * math.fsum(1 / sizes) / groups
    second = math.fsum(shares**2 * (between + inside / sizes))
    return first + max(0.0, second - first) / 10, moved


def error_variance(rows: Floats, clusters: Codes, splits: Codes, weights: Floats | None = None) -> tuple[float, Floats]:
    """Return the variance of an estimate from each row's and each cluster's contribution to its error.

    For one split it is V of `_variance`, with the rows' contributions to the mean. For several splits a cluster's
    contributions are summed, u / (1 - h) times sqrt((G - 1) / G) of each split, and the tenths of V_2 are those of the
    splits. In a split with one cluster h counts as 0.

    Args:
        rows: of each row, so that those of a split add up to 0, or nearly.
        clusters: number of each row's cluster, from 0 on; a cluster may lie in several splits.
        splits: number of each row's split, from 0 on.
        weights: of each row in its split, above 0, with mean 1; without them all count alike.
    """
    parts, above = np.zeros(int(clusters.max()) + 1), []
    for split in np.unique(splits):
        here = splits == split
        own, (numbers, codes) = rows[here], np.unique(clusters[here], return_inverse=True)
        counts: Floats = np.ones(len(own)) if weights is None else weights[here]
        sizes = np.asarray(np.bincount(codes, weights=counts), dtype=float)
        sums = np.asarray(np.bincount(codes, weights=own), dtype=float)
        groups, n = len(sizes), len(own)
        if groups == 1:
            parts[numbers] += sums
            continue
        within = n**2 * math.fsum((own - counts * (sums / sizes)[codes]) ** 2 / counts)
        variance, moved = _variance(_Clusters(sums, sizes, within))
        parts[numbers] += math.sqrt((groups - 1) / groups) * moved
        above.append(variance - (groups - 1) / groups * math.fsum(moved**2))
    return math.fsum([*(parts**2), *above]), parts


def effective_in_splits(clusters: Codes, splits: Codes) -> float:
    """Return `effective_number` of clusters, weighted by their share in an unweighted mean over splits."""
    return effective_number(np.bincount(clusters, weights=1 / np.bincount(splits)[splits]))


def _correlations(errors: Floats, sizes: Floats) -> Floats:
    """Correlation of the rates of splits, splits x splits, that clusters with prompts in several of them bring about.

    It is sum of u_sc u_tc / sqrt(sum of u_sc^2 * sum of u_tc^2) over clusters c. Where a split's clusters all agree it
    has no errors to go by: with another such split the shares of the prompts take their place, with others it has none.

    Args:
        errors: u_sc, splits x clusters, what each cluster adds to the error of the split's rate.
        sizes: splits x clusters, the share of the split's prompts that the cluster has.
    """
    agree = (errors**2).sum(axis=1) <= NO_VARIANCE
    found = np.where(agree[:, None], sizes, errors)
    found = found / np.sqrt((found**2).sum(axis=1, keepdims=True))
    # Rounded: the last digits of a product of matrices differ between machines.
    return np.where(agree[:, None] == agree, np.round(found @ found.T, 9), 0.0)


def _hold_back(n_eff: float, sums: Floats, prompts: float) -> float:
    """n_eff where it is above the number of prompts, held back as far as it rests on few clusters.

    Several samples of a prompt can be worth more than one observation, but when two prompts of a hundred refuse once in
    five, nothing shows that they are. With m the effective number of clusters behind V, (sum of u^2)^2 / sum of u^4,
    1 / n_eff becomes (m / n_eff + 1 / prompts) / (m + 1): as if one more cluster had spoken for the prompts only.
    Without it, 100 prompts of rate .02 with K = 5 were covered .92, with it .97.
    """
    if n_eff <= prompts:
        return n_eff
    m = _behind(sums)
    return (m + 1) / (m / n_eff + 1 / prompts)


def _degrees_of_freedom(sums: Floats, p: float, n_eff: float, most: float) -> float:
    """Degrees of freedom of t, from 1 to `most`; `sums` are the clusters' parts of the error of p.

    Wilson's interval allows for the skewness that n_eff independent answers have. Where a few clusters refuse and the
    others do not, the clusters' sums have heavier tails, and p and V are small together. So with G clusters

        nu = 1 / (sum of u^4 / (sum of u^2)^2  -  1 / G  -  (1 - 4 p (1 - p)) / (n_eff p (1 - p)))

    if that is below `most`: Satterthwaite's (1946, Biometrics Bulletin 2:110) for the variance of V, from the kurtosis
    in excess of independent answers, and half of it, because the error of p and that of V go together. Independent
    prompts with one answer have no excess, and keep `most`. It lifted 100 clusters of 20 prompts (rate .02,
    intra-cluster correlation .4) from .89 to .94.
    """
    return degrees_of_freedom(sums, most, (1 - 4 * p * (1 - p)) / (n_eff * p * (1 - p)))


def degrees_of_freedom(sums: Floats, most: float, allowed: float = 0.0) -> float:
    """Return the degrees of freedom of t with a variance that is the sum of the squares of `sums`, `most` at most.

    With m the effective number of clusters behind the variance, as in `_held_back`, they are 1 / (1 / m - 1 / G -
    `allowed`), with `allowed` for the kurtosis that the interval reckons with already.
    """
    excess = 1 / _behind(sums) - 1 / len(sums) - allowed
    return most if excess * most <= 1 else max(1.0, 1 / excess)


def _behind(sums: Floats) -> float:
    """Effective number of clusters behind the sum of squares, at most all; all where the sums are but rounding."""
    squares = sums**2
    total = math.fsum(squares)
    return total**2 / math.fsum(squares**2) if total > NO_VARIANCE else float(len(sums))


def wilson_ends(p: float, n_eff: float, t: float) -> tuple[float, float]:
    """Return Wilson's interval for a rate p of n_eff independent answers, with the quantile t."""
    centre = (p + t**2 / (2 * n_eff)) / (1 + t**2 / n_eff)
    half = t / (1 + t**2 / n_eff) * math.sqrt(p * (1 - p) / n_eff + t**2 / (4 * n_eff**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def seed_of(*names: str) -> int:
    """Seed in [0, 2^63) that depends on the names only, so a cell draws the same numbers in every study."""
    digest = hashlib.sha256("\0".join(names).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def check_values(values: Sequence[float], clusters: Sequence[Hashable], level: float) -> tuple[Floats, Codes]:
    """Return values and cluster numbers, by cluster name and value: sums must not depend on the input's order."""
    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} values but {len(clusters)} clusters")
    if len(values) == 0:
        raise ValueError("no values")
    if not 0 < level < 1:
        raise ValueError("level must lie between 0 and 1")
    data = np.asarray(values, dtype=float)
    if not np.isfinite(data).all():
        raise ValueError("values must be finite numbers")
    numbers = {name: i for i, name in enumerate(sorted(set(clusters), key=str))}
    codes = np.array([numbers[c] for c in clusters], dtype=np.intp)
    order = np.lexsort((data, codes))
    return data[order], codes[order]
