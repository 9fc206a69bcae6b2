"""Comparisons of models, and of judges, on the same prompts (docs/reference/comparisons.md)."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from independent_intervals import DRAWS, SEED, Span, by_name, correlation, draws, expanded, resamples, spread
from independent_rates import NAN, Asked, Found, bounds
from independent_study import Array, Study
from scipy import stats

GRID = 60_000_000  # the largest number of steps of a count of all sign patterns
FEW = 14  # clusters, whose halves are all listed
COUNTED = 3_000_000  # of halves: docs/reference/comparisons.md


class Part(NamedTuple):
    """The differences of one split's prompts that both sides have, their clusters, and the worst cases over all."""

    differences: Array
    clusters: list[str]
    bounds: tuple[float, float]
    decisions: list[tuple[float, float]]
    prompts: int = 1  # a number that is divided by those whose mean a difference is


def sides(asked: Asked) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return judge and model of both sides."""
    other = asked.parameter.removeprefix("minus ")
    if other.startswith("judge "):
        return (asked.judge, asked.model), (other.removeprefix("judge "), asked.model)
    return (asked.judge, asked.model), (asked.judge, other)


def parts(study: Study, asked: Asked) -> list[Part]:
    """Return the splits of a comparison; in a pool prompts that occur in several count once."""
    first, second = sides(asked)
    return _parts(study, first, second, tuple(study.pool(asked.pool)) if asked.pool else (asked.split,))


@cache
def _parts(study: Study, first: tuple[str, str], second: tuple[str, str], splits: tuple[str, ...]) -> list[Part]:
    counts = study.without_copies(splits)
    found = []
    for split in splits:
        reading = study.headline(split)
        cells = [study.cell(*side, split) for side in (first, second)]
        cells = [cell.only([prompt in counts[split] for prompt, _ in cell.places]) for cell in cells]
        a, b = ({place: x for place, x in zip(cell.places, cell.rates(reading), strict=True)} for cell in cells)
        places = [(place, cluster) for place, cluster in zip(cells[0].places, cells[0].clusters, strict=True)]
        both = [(place, cluster) for place, cluster in places if a[place] == a[place] and b[place] == b[place]]
        (least_a, most_a), (least_b, most_b) = (bounds(cell, reading) for cell in cells)
        found.append(
            Part(
                np.array([a[place] - b[place] for place, _ in both]),
                [cluster for _, cluster in both],
                (least_a - most_b, most_a - least_b),
                [(a[place], b[place]) for place, _ in both],
            )
        )
    return found


def value(found: list[Part]) -> float:
    """Return the mean over splits of the mean difference."""
    return float(np.mean([part.differences.mean() for part in found]))


class Whole(NamedTuple):
    """T and S of each cluster as whole numbers, and what T / S of these is to be multiplied with."""

    t: list[int]
    s: list[int]
    scale: float


def whole(study: Study, found: list[Part]) -> Whole:
    """Return the sums of each cluster as whole numbers, each split's divided by its number of prompts."""
    unit = math.lcm(*range(1, study.samples + 1)) * math.lcm(*(part.prompts for part in found))
    sizes = [len(part.differences) for part in found]
    common = math.lcm(*sizes)
    t: Counter[str] = Counter()
    s: Counter[str] = Counter()
    for part, size in zip(found, sizes, strict=True):
        for difference, cluster in zip(part.differences, part.clusters, strict=True):
            t[cluster] += round(float(difference) * unit) * (common // size)
            s[cluster] += common // size
    names = sorted(s)
    by_t = math.gcd(*(t[name] for name in names)) or 1
    by_s = math.gcd(*(s[name] for name in names))
    return Whole([t[name] // by_t for name in names], [s[name] // by_s for name in names], by_t / by_s / unit)


def p_value(study: Study, found: list[Part]) -> float:
    """docs/reference/comparisons.md, Test: all sign patterns of the clusters' sums, counted by convolution."""
    own = whole(study, found).t
    sums = [abs(t) for t in own if t]
    reach, total = sum(sums), abs(sum(own))
    if reach * len(sums) > GRID:
        return NAN
    chances = np.zeros(2 * reach + 1)
    chances[reach] = 1.0
    for t in sums:
        moved = np.zeros_like(chances)
        moved[t:] += chances[: len(chances) - t] / 2
        moved[: len(chances) - t] += chances[t:] / 2
        chances = moved
    return float(chances[np.abs(np.arange(-reach, reach + 1)) >= total].sum())


def halves(study: Study, found: list[Part]) -> tuple[Span, Span]:
    """Hartigan's typical values, all counted, or as many random halves as may be.

    See docs/reference/comparisons.md, Interval.
    """
    own = whole(study, found)
    t, s, scale = np.array(own.t), np.array(own.s), own.scale
    below, above = int(-t[t < 0].sum()), int(t[t > 0].sum())
    if len(found) == 1 and (below + above + 1) * (int(s.sum()) + 1) * len(t) <= COUNTED:
        counts = np.zeros((below + above + 1, int(s.sum()) + 1))
        counts[below, 0] = 1.0
        for x, y in zip(t.tolist(), s.tolist(), strict=True):
            moved = np.zeros_like(counts)
            to, of = (slice(x, None), slice(None, len(counts) - x)) if x >= 0 else (slice(None, x), slice(-x, None))
            moved[to, y:] = counts[of, : counts.shape[1] - y]
            counts = (counts + moved) / 2
        at = np.argwhere(counts[:, 1:] > 0)
        means, weights = (at[:, 0] - below) / (at[:, 1] + 1), counts[at[:, 0], at[:, 1] + 1]
        empty = 0.5 ** len(t)
        low = _smallest(means, weights, empty, study.alpha / 2) * scale
        high = -_smallest(-means, weights, empty, study.alpha / 2) * scale
        return Span(low, low, low), Span(high, high, high)
    if len(t) <= FEW:  # each half by itself, but the empty one, which is the lowest
        all_of_them = (np.arange(1, 2 ** len(t))[:, None] >> np.arange(len(t))) & 1
        means, empty = (all_of_them @ t) / (all_of_them @ s), 0.5 ** len(t)
        weights = np.full(len(means), empty)
        low = _smallest(np.round(means, 12), weights, empty, study.alpha / 2) * scale
        high = -_smallest(np.round(-means, 12), weights, empty, study.alpha / 2) * scale
        return Span(low, low, low), Span(high, high, high)
    taken = np.random.default_rng([SEED, len(t)]).integers(0, 2, size=(DRAWS, len(t)))
    taken = np.concatenate([taken, 1 - taken])
    with np.errstate(invalid="ignore"):
        drawn = np.nan_to_num((taken @ t) / (taken @ s), nan=0.0) * scale
    count = resamples(len(t))
    return spread(drawn, study.alpha / 2, count), spread(drawn, 1 - study.alpha / 2, count)


def _smallest(means: Array, weights: Array, empty: float, share: float) -> float:
    """Return the smallest mean that more than a share of all halves, the empty one lowest, do not exceed."""
    order = np.argsort(means, kind="stable")
    values, sums = means[order], empty + np.cumsum(weights[order])
    last = np.append(values[1:] != values[:-1], True)
    return float(values[last][np.argmax(sums[last] > share * (1 + 1e-12))])


def resampled(study: Study, found: list[Part], moving: list[Part]) -> tuple[Span, Span]:
    """docs/reference/comparisons.md, Interval: clusters drawn among those in the same splits, for both sides at once.

    The percentiles are those of the splits that `moving` names, whose differences are not all equal.
    """
    columns = []
    for part in found:
        columns += [by_name(part.differences, part.clusters), by_name(np.ones(len(part.clusters)), part.clusters)]
    names = sorted(set().union(*columns))
    table = np.array([[column.get(name, 0.0) for column in columns] for name in names])
    sums = np.zeros((DRAWS, table.shape[1]))
    for number, members in enumerate(strata(table[:, 1::2] > 0)):
        sums += draws(len(members), DRAWS, number) @ table[members]
    drawn = (sums[:, 0::2] / sums[:, 1::2]).mean(axis=1)
    count, clusters = resamples(len(names)), len(set().union(*(part.clusters for part in moving)))
    free = max(1, clusters - len(moving))
    low, high = expanded(free + len(moving), study.alpha, free)
    return spread(drawn, low, count), spread(drawn, high, count)


def strata(inside: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Return which clusters lie in the same splits; one that is alone joins those of a split of its own."""
    found: dict[tuple[bool, ...], list[int]] = {}
    for i, row in enumerate(inside):
        found.setdefault(tuple(row.tolist()), []).append(i)
    for pattern in [pattern for pattern, members in found.items() if len(members) == 1]:
        alone = [tuple(i == split for i in range(len(pattern))) for split, lies in enumerate(pattern) if lies]
        home = next((other for other in alone if other != pattern and other in found), None)
        if home:
            found[home] += found.pop(pattern)
    return list(found.values())


def rate_difference(study: Study, asked: Asked) -> Found:
    """docs/reference/comparisons.md, Interval."""
    return paired(study, parts(study, asked))


def paired(study: Study, found: list[Part]) -> Found:
    """At each end the wider of bootstrap and halves, and what unseen clusters add to either."""
    mean, moving = value(found), [part for part in found if np.ptp(part.differences) > 0]
    below = above = Span(0.0, 0.0, 0.0)
    if moving:
        (low, high), (least, most) = resampled(study, found, moving), halves(study, found)
        below = Span(*(max(0.0, mean - min(*ends)) for ends in zip(low, least, strict=True)))
        above = Span(*(max(0.0, max(*ends) - mean) for ends in zip(high, most, strict=True)))
    down, up = unseen(study, found)
    lows = Span(*(max(-1.0, mean - math.hypot(x, down)) for x in below))
    highs = Span(*(min(1.0, mean + math.hypot(x, up)) for x in above))
    if p_value(study, found) > study.alpha:
        lows, highs = Span(*(min(x, 0.0) for x in lows)), Span(*(max(x, 0.0) for x in highs))
    return Found(mean, lows, highs)


def unseen(study: Study, found: list[Part]) -> tuple[float, float]:
    """How far clusters that were not seen can move splits of equal differences.

    See docs/reference/comparisons.md, Interval.
    """
    equal = [part for part in found if np.ptp(part.differences) == 0]
    if not equal:
        return 0.0, 0.0
    sizes = [by_name(np.ones(len(part.clusters)), part.clusters) for part in equal]
    effective = np.array([sum(size.values()) ** 2 / sum(n * n for n in size.values()) for size in sizes])
    share = (1 - (study.alpha / 2) ** (1 / effective)) / len(found)
    d = np.array([part.differences[0] for part in equal])
    together = np.array([[correlation(a, b) for b in sizes] for a in sizes])
    down, up = share * (d + 1), share * (1 - d)
    return float(np.sqrt(down @ together @ down)), float(np.sqrt(up @ together @ up))


def rate_bounds(study: Study, asked: Asked) -> Found:
    """docs/reference/comparisons.md: Worst cases."""
    low, high = np.mean([part.bounds for part in parts(study, asked)], axis=0)
    return Found(NAN, float(low), float(high))


def tipping_point(study: Study, asked: Asked) -> Found:
    """The data dictionary: difference / (difference - worst case), the one against the difference."""
    found = parts(study, asked)
    difference, (low, high) = value(found), np.mean([part.bounds for part in found], axis=0)
    worst = low if difference > 0 else high
    if abs(difference) < 1e-12 or worst * np.sign(difference) > 1e-12 or abs(difference - worst) < 1e-12:
        return Found(NAN)
    return Found(float(difference / (difference - worst)))


def rate_difference_p(study: Study, asked: Asked) -> Found | None:
    """docs/reference/comparisons.md: Test."""
    p = p_value(study, parts(study, asked))
    return None if math.isnan(p) else Found(p)


def families(study: Study) -> list[list[Asked]] | None:
    """Return the comparisons of each family, None where a study names other families than all pairs."""
    said = study.said["comparisons"]
    said = [{"pairs": "all", "scope": "both"}] if said is None else said
    if any(family.get(name) for family in said for name in ("against", "models", "splits", "judge")):
        return None
    if any(family["scope"] != "both" or "all" not in (family.get("pairs"), family.get("judges")) for family in said):
        return None
    return [list(_family(study, judges=family.get("judges") == "all")) for family in said]


def _family(study: Study, judges: bool) -> Iterator[Asked]:
    pools = [pool for pool in ("comply", "refuse", "varies") if len(study.pool(pool)) > 1]
    scopes = [(split, "") for split in study.said["splits"]] + [("", pool) for pool in pools]
    primary = study.said["primary_judge"]
    pairs = (
        [(a, model, f"minus judge {b}") for a, b in combinations(sorted(study.judges), 2) for model in study.models]
        if judges
        else [(primary, a, f"minus {b}") for a, b in combinations(sorted(study.models), 2)]
    )
    for judge, model, other in pairs:
        for split, pool in scopes:
            yield Asked("rate_difference_p", judge, model, split, pool, "", "", other)


@cache
def _adjusted(study: Study) -> dict[Asked, float] | None:
    found: dict[Asked, float] = {}
    for family in families(study) or []:
        ps = sorted((p_value(study, parts(study, asked)), asked) for asked in family)
        largest = 0.0
        for i, (p, asked) in enumerate(ps):
            largest = max(largest, min(1.0, p * (len(ps) - i)))
            found[asked] = max(found.get(asked, 0.0), largest)
    return found or None


def rate_difference_p_holm(study: Study, asked: Asked) -> Found | None:
    """docs/reference/comparisons.md: Correction."""
    adjusted = _adjusted(study)
    key = asked._replace(estimand="rate_difference_p", reading="")
    return None if adjusted is None or math.isnan(adjusted[key]) else Found(adjusted[key])


def side_rate(study: Study, asked: Asked) -> Found:
    """The data dictionary: the rate of one side over the prompts on which both have one."""
    side = ("rate_difference_first", "rate_difference_second").index(asked.estimand)
    found = [[rates[side] for rates in part.decisions] for part in parts(study, asked)]
    return Found(float(np.mean([np.mean(rates) for rates in found])) if all(found) else NAN)


def differing_clusters(study: Study, asked: Asked) -> Found:
    """The data dictionary: clusters over whose prompts the differences do not add up to 0."""
    return Found(float(sum(t != 0 for t in whole(study, parts(study, asked)).t)))


def mcnemar_p(study: Study, asked: Asked) -> Found:
    """docs/reference/comparisons.md: McNemar's test, exact, of the majority of the samples."""
    only_a, only_b = only_one(study, asked)
    return Found(float(stats.binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0)


def mcnemar_side(study: Study, asked: Asked) -> Found:
    """The data dictionary: prompts that only one side refuses."""
    return Found(float(only_one(study, asked)[("mcnemar_first", "mcnemar_second").index(asked.estimand)]))


def only_one(study: Study, asked: Asked) -> tuple[int, int]:
    """Return on how many prompts only one side refuses, by the majority of the samples; ties are no decision."""
    (part,) = parts(study, asked)
    decided = [(a > 0.5, b > 0.5) for a, b in part.decisions if a != 0.5 and b != 0.5]
    return sum(a and not b for a, b in decided), sum(b and not a for a, b in decided)


KNOWN: dict[str, Callable[[Study, Asked], Found | None]] = {
    "rate_difference": rate_difference,
    "rate_bounds": rate_bounds,
    "rate_difference_tipping_point": tipping_point,
    "rate_difference_p": rate_difference_p,
    "rate_difference_p_holm": rate_difference_p_holm,
    "mcnemar_p": mcnemar_p,
    **dict.fromkeys(("mcnemar_first", "mcnemar_second"), mcnemar_side),
    **dict.fromkeys(("rate_difference_first", "rate_difference_second"), side_rate),
    "rate_difference_clusters": differing_clusters,
}
