"""Differences of headline rates on the same prompts, with test, interval and worst-case bounds.

A panel holds the scores of several cells: a row per scored turn, a column per cell.
"""

import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from refusal_eval.core.cluster_names import names_apart
from refusal_eval.stats.comparisons.sign_flips import Bounds, Integers, counted_ends, drawn_ends, sign_flip_p
from refusal_eval.stats.estimates.intervals import Codes, Floats, effective_number, seed_of
from refusal_eval.stats.estimates.near_duplicates import PromptPlace, copies
from refusal_eval.stats.estimates.resampling import (
    WHOLE,
    cluster_codes,
    cluster_sums,
    drawn_counts,
    expanded_tail,
    resamples_for,
    whole,
)
from refusal_eval.stats.estimates.units import PLACE

WIDER = "paired bootstrap over clusters (expanded percentile) or means over halves of them, whichever is wider"
ALL_EQUAL = "exact over clusters (all differences equal)"
SOME_EQUAL = f"{WIDER}; for splits whose differences are all equal exact over clusters"
ONE_CLUSTER = "none (a split has one cluster)"
_DIGITS = 12  # of worst-case bounds: what lies behind is rounding, and a bound of 0 is 0
_ROUNDED = int(WHOLE)  # rates whose common denominator is larger are kept to nine digits
_MOST_EXACT = 10**15  # whole numbers up to here are exact as floats too


@dataclass(frozen=True, eq=False)
class PairedPanel:
    """Rates of the same prompts in several columns."""

    units: pd.MultiIndex  # index (split, prompt_id, turn) of the rows
    clusters: Codes  # number of each row's cluster, from 0 on; a cluster may lie in several splits
    splits: Codes  # number of each row's split, from 0 on
    rates: Floats  # rows x columns, NaN where no sample counts or the column lacks the prompt
    lows: Floats  # the rates if every unjudged sample complied, 0 for what a column lacks
    highs: Floats  # the rates if every unjudged sample refused, 1 for what a column lacks
    votes: Floats  # majority of the samples, 1 refuses, 0 complies, NaN for a tie or none
    denominators: tuple[int, ...]  # a common denominator of the rates of each column


class PairedUnit(NamedTuple):
    """A share in whose multiples differences are kept."""

    parts: int  # so many are 1: a common denominator of the rates of both columns where `exact`
    exact: bool  # whether it is one


@dataclass(frozen=True)
class Paired:
    """A difference, first less second, over the scored turns for which both have a rate."""

    rate_first: float | None = None  # rate of the first over these prompts; of several splits the mean of theirs
    rate_second: float | None = None  # the same of the second
    difference: float | None = None  # rate_first - rate_second, None where a split has no such prompt
    low: float | None = None  # lower end of its interval
    high: float | None = None  # upper end
    method: str | None = None  # how the interval was made
    p: float | None = None  # two-sided p value of the sign flips
    test: str | None = None  # `exact`, `mid-p`, or `N draws`
    # the difference over all prompts at its lowest: every unjudged answer of the first a compliance and of the second a
    # refusal; what one lacks altogether counts as unjudged
    bound_low: float | None = None
    bound_high: float | None = None  # the same at its highest
    n: int = 0  # prompts with both rates
    n_all: int = 0  # all prompts
    n_clusters: int = 0  # clusters of those with both rates
    effective_clusters: float = 0.0  # effective number of those, of the split that has the fewest
    n_differ: int = 0  # clusters in which the two differ


def panel_of(
    cells: Mapping[str, Sequence[pd.DataFrame]],
    readings: Mapping[str, str],
    left_out: Collection[tuple[str, str]] = (),
    sources: Mapping[str, str] | None = None,
) -> PairedPanel:
    """Return the panel of some splits, without splits whose prompts are all left out.

    Args:
        cells: for each split the frames (`units.Units`) of its columns, as many for each split.
        readings: `strict` or `broad`, by split.
        left_out: (split, prompt id) of prompts that do not count.
        sources: a word for the source of each split (see `cluster_names.names_apart`); None if all share one.
    """
    parts = {
        split: _part(cells[split], readings[split], {p for s, p in left_out if s == split}) for split in sorted(cells)
    }
    parts = {split: part for split, part in parts.items() if part["clusters"]} or parts
    names = {split: part["clusters"] for split, part in parts.items()}
    if sources is not None:
        apart = names_apart(names, sources)
        names = {split: [apart[split][name] for name in own] for split, own in names.items()}
    return PairedPanel(
        units=pd.concat([part["rates"] for part in parts.values()], keys=list(parts)).index,
        clusters=cluster_codes([name for own in names.values() for name in own]),
        splits=np.repeat(np.arange(len(parts)), [len(own) for own in names.values()]),
        **{n: np.concatenate([part[n] for part in parts.values()]) for n in ("rates", "lows", "highs", "votes")},
        denominators=tuple(
            math.lcm(*own) for own in zip(*(part["denominators"] for part in parts.values()), strict=True)
        ),
    )


def repeated_prompts(pairs: Iterable[Sequence[Mapping[str, Any]]], splits: Collection[str]) -> set[PromptPlace]:
    """Return the prompts of some splits that repeat a prompt of another one of these and are not to be counted again.

    `pairs` are near-duplicates as in estimates/duplicates.json, each two prompts with `split` and `prompt_id`.
    """
    places = ((PromptPlace(**first), PromptPlace(**second)) for first, second in pairs)
    return set(copies(pair for pair in places if all(place.split in splits for place in pair)))


def paired_differences(
    panel: PairedPanel,
    pairs: Sequence[tuple[int, int]],
    names: Sequence[str],
    level: float,
    resamples: int | None = None,
    mid: bool = False,
) -> list[Paired]:
    """Return the difference of each pair of columns of a panel; splits have equal weight.

    Clusters keep their prompts together, also across splits. In the bootstrap the splits are strata: clusters are drawn
    among those that lie in the same splits, matched or not. Each pair's numbers do not depend on the other pairs.

    Args:
        pairs: (first, second) numbers of columns.
        names: what the seeds depend on: the scope of the panel, then a name for each of its columns.
        resamples: of the bootstrap, and random halves; None: as many as `resampling.resamples_for` says.
        mid: whether p values that count all patterns are mid-p.
    """
    scope, *columns = names
    if not len(panel.units):
        return [Paired() for _ in pairs]
    first, second = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    differences = panel.rates[:, first] - panel.rates[:, second]
    matched = np.isfinite(differences)
    units = [_unit(panel, *pair) for pair in pairs]
    in_one = np.array([float(unit.parts) for unit in units])
    in_units = np.rint(np.where(matched, differences, 0.0) * in_one)
    sums, sizes = (
        by_split_and_cluster(panel, in_units),
        by_split_and_cluster(panel, matched.astype(float)),
    )  # splits x clusters x pairs
    inside = by_split_and_cluster(panel, np.ones((len(in_units), 1)))[:, :, 0] > 0
    resamples = resamples_for(sums.shape[1]) if resamples is None else resamples
    drawn = _resample(sums, sizes, inside, seed_of("paired bootstrap", scope), resamples) / in_one
    halves = _halves(sums, sizes, units, seed_of("paired halves", scope), resamples, 1 - level)
    found = []
    for i, (one, other) in enumerate(pairs):
        n_by_split = sizes[:, :, i].sum(axis=1)
        both = matched[:, i]
        about = Paired(
            bound_low=round(_by_split(panel, panel.lows[:, one] - panel.highs[:, other]), _DIGITS) + 0.0,
            bound_high=round(_by_split(panel, panel.highs[:, one] - panel.lows[:, other]), _DIGITS) + 0.0,
            n=int(both.sum()),
            n_all=len(panel.units),
        )
        if not n_by_split.all():
            found.append(about)
            continue
        weights = 1 / (len(n_by_split) * n_by_split)
        rates = [float(math.fsum(panel.rates[both, c] * weights[panel.splits[both]])) for c in (one, other)]
        value = float(math.fsum((sums[:, :, i].sum(axis=1) * weights).tolist())) / units[i].parts
        value = 0.0 if abs(value) < 10**-_DIGITS else value
        totals, slack = _cluster_totals(sums[:, :, i], n_by_split, units[i])
        p, test = sign_flip_p(totals, seed_of("sign flips", scope, columns[one], columns[other]), slack, mid)
        of_splits = sums[:, :, i].sum(axis=1) / n_by_split / units[i].parts
        equal = np.array([np.ptp(in_units[both & (panel.splits == s), i]) == 0 for s in range(len(n_by_split))])
        low, high, method = _interval(of_splits, equal, drawn[:, i], halves[i], sizes[:, :, i], level)
        if low is not None and high is not None and p > 1 - level:
            low, high = (
                min(low, 0.0),
                max(high, 0.0),
            )  # the interval covers what the exact test cannot distinguish from 0
        found.append(
            replace(
                about,
                rate_first=rates[0],
                rate_second=rates[1],
                difference=value,
                low=low,
                high=high,
                method=method,
                p=p,
                test=test,
                n_differ=int((totals != 0).sum()),
                n_clusters=int((sizes[:, :, i].sum(axis=0) > 0).sum()),
                effective_clusters=min(effective_number(own) for own in sizes[:, :, i]),
            )
        )
    return found


def by_split_and_cluster(panel: PairedPanel, values: Floats) -> Floats:
    """Return the sums of `values` (rows x anything) as splits x clusters x that."""
    n_splits, n_clusters = int(panel.splits.max()) + 1, int(panel.clusters.max()) + 1
    sums = cluster_sums(panel.splits * n_clusters + panel.clusters, values, n_splits * n_clusters)
    return sums.reshape(n_splits, n_clusters, -1)


def strata_of(inside: NDArray[np.bool_]) -> list[Codes]:
    """Return the strata of the bootstrap, as numbers of clusters: those that lie in the same splits.

    A cluster alone in its stratum would be drawn in every resample; such clusters join those of the split they lie in.
    A cluster in no split is in no stratum.

    Args:
        inside: splits x clusters, whether a cluster lies in a split.
    """
    patterns, kinds = np.unique(inside, axis=1, return_inverse=True)
    kinds = kinds.astype(np.intp).reshape(-1)
    sizes = np.bincount(kinds)
    # A stratum of one split is a home for lonely clusters of that split.
    home = {int(np.flatnonzero(p)[0]): kind for kind, p in enumerate(patterns.T) if p.sum() == 1}
    for kind, pattern in enumerate(patterns.T):
        others = [home[split] for split in np.flatnonzero(pattern).tolist() if home.get(split, kind) != kind]
        if sizes[kind] == 1 and others:
            kinds[kinds == kind] = others[0]
        if not pattern.any():
            kinds[kinds == kind] = -1
    return [np.flatnonzero(kinds == kind) for kind in np.unique(kinds[kinds >= 0])]


def _unit(panel: PairedPanel, one: int, other: int) -> PairedUnit:
    """The unit of the difference of two columns, which other columns do not change."""
    common = math.lcm(panel.denominators[one], panel.denominators[other])
    return PairedUnit(min(common, _ROUNDED), common <= _ROUNDED)


def _resample(sums: Floats, sizes: Floats, inside: NDArray[np.bool_], seed: int, resamples: int) -> Floats:
    """The difference in each bootstrap sample: resamples x pairs, in units of `sums`; NaN where a split is empty."""
    found = []
    for counts in drawn_counts(sums.shape[1], seed, resamples, strata_of(inside)):
        with np.errstate(divide="ignore", invalid="ignore"):
            found.append(np.mean([(counts @ s) / (counts @ n) for s, n in zip(sums, sizes, strict=True)], axis=0))
    return np.concatenate(found)


def _halves(
    sums: Floats, sizes: Floats, units: Sequence[PairedUnit], seed: int, resamples: int, alpha: float
) -> list[Bounds | None]:
    """The differences that the test does not reject of each pair: counted where that is cheap, else drawn.

    None where a split has no rates.
    """
    pairs = range(sums.shape[2])
    found: list[Bounds | None] = [_count_halves(sums[:, :, i], sizes[:, :, i], units[i], alpha) for i in pairs]
    left = [i for i in pairs if found[i] is None and sizes[:, :, i].sum(axis=1).all()]
    if left:
        weights = 1 / (len(sizes) * sizes[:, :, left].sum(axis=1, keepdims=True))
        of_one = sums / np.array([float(unit.parts) for unit in units])
        totals, shares = ((x[:, :, left] * weights).sum(axis=0) for x in (of_one, sizes))
        for i, ends in zip(left, drawn_ends(totals, shares, seed, resamples, alpha), strict=True):
            found[i] = ends
    return found


def _count_halves(sums: Floats, sizes: Floats, unit: PairedUnit, alpha: float) -> Bounds | None:
    """Ends over all halves; None where these are too many, for rounded rates, and where a split has no rates."""
    n_by_split = sizes.sum(axis=1)
    if not n_by_split.all():
        return None
    totals, slack = _cluster_totals(sums, n_by_split, unit)
    if slack or len(sums) * math.lcm(*(int(n) for n in n_by_split)) * unit.parts > _MOST_EXACT:
        return None
    ends = counted_ends(totals, _in_common(sizes.astype(np.int64), n_by_split), alpha)
    return None if ends is None else (ends[0] / unit.parts, ends[1] / unit.parts)


def _in_common(values: Integers, n_by_split: Floats) -> Integers:
    """Sums over splits (splits x clusters), each with the weight of the split in the difference, as whole numbers."""
    common = math.lcm(*(int(n) for n in n_by_split))
    shares = np.array([common // int(n) for n in n_by_split])
    return np.asarray((values * shares[:, None]).sum(axis=0))


def _interval(
    of_splits: Floats, equal: NDArray[np.bool_], drawn: Floats, halves: Bounds | None, sizes: Floats, level: float
) -> tuple[float | None, float | None, str]:
    """Return the wider of two intervals: the expanded percentiles of the bootstrap, and that of halves of the clusters.

    If all differences of a split are `equal`, neither interval has a width, though the split is not known exactly. It
    then gets the interval that unseen clusters at -1 or 1 would allow, by their effective number, and its part is added
    to the other splits' as in `intervals.pooled_rate`.
    """
    by_split = (sizes > 0).sum(axis=1)
    if by_split.min() < 2 or halves is None:
        return None, None, ONE_CLUSTER
    alpha, value, below, above = 1 - level, math.fsum(of_splits) / len(of_splits), 0.0, 0.0
    if not equal.all():
        moving = sizes[~equal] > 0
        tail = expanded_tail(level, max(1, int(moving.any(axis=0).sum()) - len(moving)), len(moving))
        ends = np.array([np.nanquantile(drawn, [tail, 1 - tail]), halves])
        below, above = max(0.0, value - float(ends[:, 0].min())), max(0.0, float(ends[:, 1].max()) - value)
    if equal.any():
        effective = np.array([effective_number(own) for own in sizes[equal]])
        unseen = (1 - (alpha / 2) ** (1 / effective)) / len(of_splits)
        # Splits with the same clusters have not seen the same ones; rounded, as all products of matrices here.
        shares = sizes[equal] / np.sqrt((sizes[equal] ** 2).sum(axis=1, keepdims=True))
        together = np.round(shares @ shares.T, 9)
        low, high = unseen * (of_splits[equal] + 1), unseen * (1 - of_splits[equal])
        below, above = math.sqrt(below**2 + low @ together @ low), math.sqrt(above**2 + high @ together @ high)
    method = ALL_EQUAL if equal.all() else SOME_EQUAL if equal.any() else WIDER
    return max(-1.0, value - below), min(1.0, value + above), method


def _cluster_totals(sums: Floats, n_by_split: Floats, unit: PairedUnit) -> tuple[Integers, int]:
    """What each cluster adds to the difference, in whole units, and how much rounding may have moved their total."""
    common = math.lcm(*(int(n) for n in n_by_split))
    if len(n_by_split) * common * unit.parts <= _MOST_EXACT:
        return _in_common(sums.astype(np.int64), n_by_split), 0 if unit.exact else len(n_by_split) * common
    totals = whole((sums / unit.parts / n_by_split[:, None]).sum(axis=0)).astype(np.int64)
    return totals, len(totals)


def _by_split(panel: PairedPanel, values: Floats) -> float:
    """Mean over splits of the mean over all their rows."""
    n_by_split = np.bincount(panel.splits)
    return float(math.fsum(values / (len(n_by_split) * n_by_split[panel.splits])))


def _part(frames: Sequence[pd.DataFrame], reading: str, left_out: Collection[str]) -> dict[str, Any]:
    """What `panel_of` puts together, of one split without some prompts."""
    index = functools.reduce(lambda one, two: one if one.equals(two) else one.union(two), (f.index for f in frames))
    index = index.sort_values()
    index = index[~index.get_level_values(PLACE[0]).isin(list(left_out))]
    aligned = [frame.reindex(index) for frame in frames]
    clusters = functools.reduce(lambda one, two: one.fillna(two), (frame["cluster"] for frame in aligned))
    counts = [[int(n) for n in np.unique(frame["counting"]) if n > 0] for frame in frames]

    def columns(name: str) -> pd.DataFrame:
        return pd.concat([frame[f"{name}_{reading}"] for frame in aligned], axis=1, keys=range(len(aligned)))

    return {
        "clusters": clusters.tolist(),
        "rates": columns("rate"),
        "lows": columns("low").fillna(0.0),
        "highs": columns("high").fillna(1.0),
        "votes": columns("majority"),
        "denominators": [math.lcm(*own) for own in counts],
    }
