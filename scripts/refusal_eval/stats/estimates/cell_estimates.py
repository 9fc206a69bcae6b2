"""All estimates of one cell: one judge's reading of one model on one split."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refusal_eval.stats.estimates.bootstrap import Bounds, mean_bounds
from refusal_eval.stats.estimates.dispersion import decision_entropy, flip_rate
from refusal_eval.stats.estimates.estimands import READINGS, band_of
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.intervals import cluster_wilson, cluster_wilson_between, seed_of
from refusal_eval.stats.estimates.samples import Labels
from refusal_eval.stats.estimates.scores import C_LIMITS, C_METHOD, mean
from refusal_eval.stats.estimates.tau_sweep import c_at, taus
from refusal_eval.stats.estimates.units import Flags, Floats, Units, independent_within

BANDS = ("refusing", "mixed", "complying")
BY_TURN = "refusal_rate_turn"
ONE_CLUSTER = "prompts of the one cluster as independent"
Score = Mapping[str, Any]
Clusters = Sequence[str]


def cell_estimates(
    score: Score, units: Units, labels: Labels | None, logprobs: Floats | None, tau: float, band: float
) -> list[Estimate]:
    """Return the estimates of a cell; the docs (docs/statistics.md) say what each name means.

    Args:
        score: the cell's score (scores/*.json), which gives the overall rates and mean c(x).
        units: its scored prompts.
        labels: of `samples.Samples`; None leaves the tau sweep out.
        logprobs: of `samples.Samples`; None leaves the tau sweep out.
        tau: the study's temperature of c(x).
        band: the study's band of c(x).
    """
    level, k = score["interval"]["level"], score["samples"]
    found = [*_overall(score, units), *_votes(units, k, level), *_categories(score, units)]
    found += [*_turns(score, units), *_c(score, units, tau), *_dispersion(score, units)]
    if labels is not None and logprobs is not None:
        found += _tau_sweep(score, units, labels, logprobs, tau, band)
    known = {"judge": score["judge"], "model": score["model"], "split": score["split"], "samples": k}
    # A category's and a turn's own flags are those of their own prompts.
    return [
        dataclasses.replace(e, **known, flags=e.flags if e.category or e.estimand == BY_TURN else units.flags)
        for e in found
    ]


def _overall(score: Score, units: Units) -> list[Estimate]:
    found = []
    level, method = score["interval"]["level"], score["interval"]["method"]
    size = {"n_prompts": score["n_scored_turns"], "n_clusters": score["n_clusters"]}
    for reading in READINGS:
        own = score[reading]
        estimate = Estimate("refusal_rate", own["rate"], reading=reading, **size)
        found.append(_with_ends(estimate, own["low"], own["high"], level, method))
    return found


def _c(score: Score, units: Units, tau: float) -> list[Estimate]:
    """Mean c(x) and the shares of its bands at the study's own tau."""
    c, level = score["c"], score["interval"]["level"]
    voting = {cluster for cluster, value in zip(units.clusters, units.c, strict=True) if not np.isnan(value)}
    c_mean = Estimate("c_mean", c["mean"], n_prompts=c["n"], n_clusters=len(voting), parameter=tau)
    return [
        _with_ends(c_mean, c["low"], c["high"], level, C_METHOD),
        *_bands(units.c, units.bands, units.clusters, level, tau),
    ]


def _votes(units: Units, k: int, level: float) -> list[Estimate]:
    found, counting = [], units.counting
    present = counting > 0
    clusters = _some(units.clusters, present)
    for reading in READINGS:
        refusals = units.refusals(reading)
        votes = {
            f"majority@{k}": 2 * refusals > counting,
            f"majority@{k}_tie": 2 * refusals == counting,
            f"any@{k}": refusals > 0,
        }
        found += [_share(name, vote[present], clusters, level, reading=reading) for name, vote in votes.items()]
    return found


def _categories(score: Score, units: Units) -> list[Estimate]:
    """Rates of each category, where there are several; prompts without a category are in none."""
    names = sorted(set(units.categories) - {""})
    if len(names) < 2 and not (names and "" in units.categories):
        return []
    categories = np.array(units.categories, dtype=str)
    return [
        dataclasses.replace(estimate, category=name)
        for name in names
        for estimate in _rates("refusal_rate", score, units.kept(categories == name), category=True)
    ]


def _turns(score: Score, units: Units) -> list[Estimate]:
    """Rates of each turn, where several turns are scored; turn 0 is the first."""
    turns = np.unique(units.turns)
    return [
        dataclasses.replace(estimate, parameter=int(turn))
        for turn in (turns if len(turns) > 1 else [])
        for estimate in _rates(BY_TURN, score, units.kept(units.turns == turn))
    ]


def _rates(estimand: str, score: Score, units: Units, category: bool = False) -> list[Estimate]:
    """Rates of a part of the split; what varies within a `category` is what `independent_within` says."""
    present = units.counting > 0
    clusters, prompts = _some(units.clusters, present), _some(units.prompt_ids, present)
    varying = independent_within(clusters, prompts) if category else clusters
    draws, n_clusters, level = int(units.counting.sum()), len(set(clusters)), score["interval"]["level"]
    flags = units.own_flags(n_clusters)
    found = []
    for reading in READINGS:
        rates = units.rates(reading)[present]
        estimate = _share(estimand, rates, varying, level, reading=reading, draws=draws)
        if len(set(varying)) > n_clusters:
            estimate = dataclasses.replace(estimate, method=f"{estimate.method}, {ONE_CLUSTER}")
        found.append(dataclasses.replace(estimate, flags=flags, n_clusters=n_clusters))
    return found


def _share(
    estimand: str, values: Floats | Flags, clusters: Clusters, level: float, draws: int | None = None, **names: Any
) -> Estimate:
    """Return the mean of rates or of yes and no, with its Wilson interval; without a number for no values."""
    listed = values.astype(float).tolist()
    estimate = Estimate(estimand, mean(listed), n_prompts=len(listed), n_clusters=len(set(clusters)), **names)
    if not listed:
        return estimate
    interval = cluster_wilson(listed, clusters, level, draws=len(listed) if draws is None else draws)
    return _with_ends(estimate, interval.low, interval.high, level, interval.method)


def _bands(c: Floats, bands: Sequence[str], clusters: Clusters, level: float, parameter: str | float) -> list[Estimate]:
    """Shares of the prompts that have a c(x) in each band; `bands` holds the band of each that is not NaN."""
    present = ~np.isnan(c)
    own, names = np.array(bands, dtype=str)[present], _some(clusters, present)
    return [_share(f"c_band_{band}", own == band, names, level, parameter=parameter) for band in BANDS]


def _dispersion(score: Score, units: Units) -> list[Estimate]:
    """Decision entropy and flip rate over the K samples; nothing for K = 1."""
    level, k, counting = score["interval"]["level"], score["samples"], units.counting
    if k < 2:
        return []
    measures = {f"decision_entropy@{k}": decision_entropy, "flip_rate": flip_rate}
    columns = {(name, r): of(units.refusals(r), counting) for name, of in measures.items() for r in READINGS}
    bounds = mean_bounds(list(columns.values()), units.clusters, _seed(score), level, limits=(0.0, 1.0))
    return [
        _mean(name, values, units.clusters, ends, level, reading=reading)
        for ((name, reading), values), ends in zip(columns.items(), bounds, strict=True)
    ]


def _tau_sweep(score: Score, units: Units, labels: Labels, logprobs: Floats, own: float, band: float) -> list[Estimate]:
    """Mean c(x) and its bands at the other temperatures of the grid."""
    level, found = score["interval"]["level"], []
    for tau in taus(own):
        if tau == own:
            continue
        c = c_at(tau, labels, logprobs)
        named = tau if np.isfinite(tau) else "inf"  # JSON has no infinity; `float` reads the word
        found.append(_c_mean(c, units, level, named))
        found += _bands(c, [band_of(x, band) for x in c.tolist()], units.clusters, level, named)
    return found


def _c_mean(c: Floats, units: Units, level: float, parameter: float | str) -> Estimate:
    """Mean c(x) of the prompts that have one, with the interval that `scores` gives it at the study's own tau."""
    present = ~np.isnan(c)
    values, clusters = c[present].tolist(), _some(units.clusters, present)
    n_clusters = len(set(clusters))
    estimate = Estimate("c_mean", mean(values), parameter=parameter, n_prompts=len(values), n_clusters=n_clusters)
    if not values:
        return estimate
    interval = cluster_wilson_between(values, clusters, C_LIMITS, level)
    return _with_ends(estimate, interval.low, interval.high, level, C_METHOD)


def _seed(score: Score) -> int:
    # The same resamples of prompts for all numbers of a split, whatever the model and the judge.
    return seed_of(score["split"], "estimates")


def _mean(estimand: str, values: Floats, clusters: Clusters, ends: Bounds, level: float, **names: Any) -> Estimate:
    present = ~np.isnan(values)
    n_clusters = len(set(_some(clusters, present)))
    value = mean(values[present].tolist())
    estimate = Estimate(estimand, value, n_prompts=int(present.sum()), n_clusters=n_clusters, **names)
    return _with_ends(estimate, ends.low, ends.high, level, ends.method)


def _with_ends(estimate: Estimate, low: float | None, high: float | None, level: float, method: str | None) -> Estimate:
    """Return an estimate with its interval, or as it is where there is none."""
    if low is None:
        return estimate
    return dataclasses.replace(estimate, low=low, high=high, level=level, method=method)


def _some(values: Sequence[str], keep: Flags) -> list[str]:
    return [value for value, kept in zip(values, keep.tolist(), strict=True) if kept]
