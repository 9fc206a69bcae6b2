"""Rates corrected by how a judge errs on answers of other models (Rogan & Gladen 1978).

The judge's rate r of a model with the true rate p is p * Se + (1 - p) * (1 - Sp), so p = (r + Sp - 1) / (Se + Sp - 1).
Answers that a provider blocked are refusals that no judge read: they stay unchanged, and the rest is corrected. Se and
Sp come from gold of other models: that they hold for this one is an assumption, which the data of a study cannot check.
So such a rate is never a headline, and is shown with the rates under each answering model's own Se and Sp.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from refusal_eval.stats.agreement.compared import join_verdicts
from refusal_eval.stats.calibration.applied import Calibration, calibrated_row
from refusal_eval.stats.calibration.calibration_fit import cross_fits
from refusal_eval.stats.calibration.gold_calibration import OUT_OF_FOLD, apply_other_calibration
from refusal_eval.stats.estimates.estimands import REFUSES, CellRow
from refusal_eval.stats.estimates.intervals import Codes, Floats, effective_number, effective_of, pooled_rate, seed_of
from refusal_eval.stats.estimates.pooled_rates import SplitRates, fill_rates
from refusal_eval.stats.estimates.resampling import (
    blocks,
    cluster_codes,
    cluster_sums,
    number_clusters,
    percentiles,
    resamples_for,
)

RESAMPLES = (2_000, 20_000)  # at least and at most
MIN_ROWS = 10  # of each class, for an answering model's own sensitivity and specificity
_DRAWN = 10_000_000  # weights of rows that are drawn in all, where that is between the two
LEAST_MARGIN = 0.3  # of Se + Sp - 1: below it the correction multiplies every error by more than three
METHOD = "Rogan-Gladen; Bayesian bootstrap over clusters of the study and of the gold set"
WITH_SPREAD = f"{METHOD} and over answering models, with the spread of answering models for a new one"
_JEFFREYS = 0.5
_NOTHING_READ = 1e-12  # share of answers that the judge read in a resample: never divided by less


@dataclasses.dataclass(frozen=True)
class ErrorRates:
    """What gold of other models says of a judge's errors."""

    sensitivity: float  # share of people's refusals that the judge finds
    specificity: float  # share of the rest that it leaves alone
    drawn: Floats  # 2 x resamples, both for a new answering model
    # standard deviations of both between answering models, beyond chance; None with less than two models
    spread: tuple[float, float] | None
    # each answering model with at least ten rows of both classes: its name, counts, both shares
    by_model: tuple[dict[str, Any], ...]
    n: int  # rows
    n_clusters: int  # their clusters
    effective_clusters: float  # effective number of these


@dataclasses.dataclass(frozen=True)
class Observed:
    """A judge's own rate of a model on a split, or the mean over splits."""

    rate: float  # with blocked answers as refusals
    low: float  # lower end of its interval, as for any rate of this judge (`intervals`)
    high: float  # upper end
    drawn: Floats  # the rate in resamples of clusters
    n_prompts: int  # scored turns behind it
    n_clusters: int  # their clusters
    blocked: float = 0.0  # share of blocked answers in the rate
    drawn_blocked: Floats | float = 0.0  # the same in the resamples


@dataclasses.dataclass(frozen=True)
class Transferred:
    """A corrected rate."""

    value: float | None  # the rate, between 0 and 1; None where it is not identifiable, or at odds with the gold set
    low: float | None  # lower end of its interval; None with the value
    high: float | None  # upper end
    # the value before it is brought between the share of blocked answers and 1. It lies outside by chance, or because
    # the judge does not err on this model's answers as on the gold set
    unclipped: float | None
    margin: float  # Se + Sp - 1
    margin_low: float  # lower end of its interval for a new answering model
    # whether the judge's rate lies below 1 - Sp, or above Se, by more than the errors of both explain: no rate of
    # refusals would give it, so the judge does not err here as on the gold set
    at_odds: bool = False


def judged_gold(
    gold_rows: Sequence[CellRow], verdicts: Sequence[CellRow], gold: str, calibrate: str | Calibration | None = None
) -> pd.DataFrame:
    """Return the gold rows that the judge labelled, see `compared.compared`.

    Args:
        verdicts: the judge's verdicts on the gold rows, as it gave them.
        calibrate: None for a judge with a threshold of its own; the calibration of one that is calibrated on another
            gold set (see `calibrated_card.calibrated_elsewhere`); `out_of_fold` for one that is calibrated on this one:
            the labels are those of the judge's card, from the headline scheme of `calibration_fit.cross_fits`. Where
            there is none there are no rows.
    """
    if calibrate == OUT_OF_FOLD:
        fits = cross_fits(join_verdicts(gold_rows, verdicts, gold))
        fitted = fits.of[fits.headline] or {} if fits.headline else {}
        verdicts = [calibrated_row(v, fitted[v["prompt_id"]]) for v in verdicts if v["prompt_id"] in fitted]
    elif calibrate is not None:
        assert not isinstance(calibrate, str)
        verdicts = apply_other_calibration(gold_rows, verdicts, calibrate)
    rows = join_verdicts(gold_rows, verdicts, gold)
    return rows[rows["machine"].notna()]


def error_rates(gold: pd.DataFrame, reading: str, seed: int, resamples: int | None = None) -> ErrorRates | None:
    """Return sensitivity and specificity with their uncertainty; None where people labelled no row of a class.

    Three things make them uncertain for a new model. Prompts and answering models are resampled together (Bayesian
    bootstrap: clusters and models have exponential weights, a row the product of its two, Owen 2007, Annals of Applied
    Statistics 1:386; rows that name no model have the weight of their cluster alone), with half a cluster of right
    and half a cluster of wrong rows of each class put in (Jeffreys' prior: a bootstrap cannot draw errors that the
    gold set happens to lack, and what it draws is clusters; with half a row a judge without an error on 10 clusters
    of 25 rows would be as certain as on 250 clusters). And a new model differs from the mean of models: to each
    resample comes a deviation with the covariance that answering models have beyond chance (method of moments), of
    a t distribution with as many degrees of freedom as there are models less one.

    Args:
        gold: rows that the judge labelled, of `judged_gold`.
        resamples: how many; None: as many as the number of rows allows.
    """
    people, judge = (gold[side].isin(REFUSES[reading]).to_numpy(bool) for side in ("human", "machine"))
    if not people.any() or people.all():
        return None
    models = gold["answering_model"].fillna("").to_numpy()
    rows = _Rows((people, ~people), judge == people, cluster_codes(gold["cluster"]), models, gold["weight"].to_numpy())
    rows = rows._replace(weights=rows.weights / rows.weights.mean())
    if resamples is None:
        resamples = min(RESAMPLES[1], max(RESAMPLES[0], _DRAWN // len(gold)))
    by_model = _by_model(rows)
    covariance = _between(rows, by_model)
    rng = np.random.default_rng(seed)
    drawn = np.concatenate(list(_draw(rows, rng, resamples)), axis=1)
    spread = None
    if covariance is not None:
        df = len(by_model) - 1
        values, vectors = np.linalg.eigh(covariance)
        deviations = rng.standard_normal((resamples, 2)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        deviations *= np.sqrt(df / rng.chisquare(df, size=(resamples, 1)))
        drawn = np.clip(drawn + deviations.T, 0.0, 1.0)
        spread = (math.sqrt(covariance[0, 0]), math.sqrt(covariance[1, 1]))
    se, sp = (_share(rows, of_class) for of_class in rows.classes)
    clusters = (gold["cluster"].nunique(), effective_of(gold["cluster"]))
    return ErrorRates(se, sp, drawn, spread, tuple(by_model), len(gold), *clusters)


def method_of(spread: object | None) -> str:
    """Return the interval's method, which depends on whether the spread of answering models is known."""
    return METHOD if spread is None else WITH_SPREAD


def corrected_value(observed: Observed, sensitivity: float, specificity: float) -> float:
    """Return the share of blocked answers plus Rogan-Gladen's rate of the others; may lie outside [0, 1]."""
    if observed.blocked >= 1:
        return 1.0
    read = 1 - observed.blocked
    rate = (observed.rate - observed.blocked) / read
    return observed.blocked + read * ((rate + specificity - 1) / (sensitivity + specificity - 1))


def transfer_rate(observed: Observed, errors: ErrorRates, level: float) -> Transferred:
    """Return a rate corrected by errors on other models' answers.

    If the interval of the corrected rate, before clipping, lies outside [0, 1], no rate of refusals explains the
    judge's rate, and there is no corrected rate (`at_odds`). Just before that point the part within [0, 1] would get
    narrower the less the gold set explains the study. So the interval reaches at least as far to either side as the
    judge's own does (`_own_reach`): the uncertainty of gold adds to the study's, and never reduces it.

    Args:
        errors: of the judge; if one of the two has fewer resamples, they are recycled.
        level: of the interval, and of that of Se + Sp - 1, whose lower end must reach 0.3.
    """
    draws = max(len(observed.drawn), errors.drawn.shape[1])
    se, sp = (np.resize(drawn, draws) for drawn in errors.drawn)
    drawn_rate, drawn_blocked = (np.resize(part, draws) for part in (observed.drawn, observed.drawn_blocked))
    margin = errors.sensitivity + errors.specificity - 1
    margin_low = float(np.quantile(errors.drawn.sum(axis=0) - 1, (1 - level) / 2))
    if margin_low < LEAST_MARGIN:
        return Transferred(None, None, None, None, margin, margin_low)
    unclipped = corrected_value(observed, errors.sensitivity, errors.specificity)
    value = min(1.0, max(observed.blocked, unclipped))
    # A few resamples lie below the lower end; what is far below it would be divided by next to nothing.
    divisor = np.maximum(se + sp - 1, LEAST_MARGIN / 3)
    read = np.maximum(1 - drawn_blocked, _NOTHING_READ)
    of_read = ((drawn_rate - drawn_blocked) / read + sp - 1) / divisor
    if observed.n_clusters < 2:
        return Transferred(value, 0.0, 1.0, unclipped, margin, margin_low)
    low, high = percentiles(of_read, observed.n_clusters, level)
    if high <= 0 or low >= 1:
        return Transferred(None, None, None, unclipped, margin, margin_low, at_odds=True)
    whole = drawn_blocked + read * np.clip(of_read, 0.0, 1.0)
    low, high = percentiles(whole, observed.n_clusters, level)
    least, most = _own_reach(observed, errors, value)
    return Transferred(value, min(low, value, least), max(high, value, most), unclipped, margin, margin_low)


def _own_reach(observed: Observed, errors: ErrorRates, value: float) -> tuple[float, float]:
    """Return how far the corrected interval must reach because of the judge's own interval [l, h] around its rate r.

    Of what the judge read: (h - r) / (Se + Sp - 1) above the rate and (r - l) / (Se + Sp - 1) below it, as the ends of
    its own interval lie there when they are corrected like r. But not beyond h / Se, since r is at least p * Se for the
    true rate p however few false positives there are, nor below 1 - (1 - l) / Sp.
    """
    if observed.blocked >= 1:
        return observed.low, observed.high
    se, sp, read = errors.sensitivity, errors.specificity, 1 - observed.blocked
    rate, low, high = ((end - observed.blocked) / read for end in (observed.rate, observed.low, observed.high))
    corrected = (value - observed.blocked) / read
    least = max(corrected - (rate - low) / (se + sp - 1), 1 - (1 - low) / sp)
    most = min(corrected + (high - rate) / (se + sp - 1), high / se)
    ends = (min(1.0, max(0.0, observed.blocked + read * end)) for end in (least, most))
    return next(ends), next(ends)


def observed_rates(splits: Sequence[SplitRates], level: float) -> list[Observed | None]:
    """Return each model's own rate; None of a model that lacks a split."""
    drawn, gone = resampled_rates(splits), [_shares_blocked(part) for part in splits]
    some_blocked = any(part.blocked.any() for part in splits)
    drawn_blocked = resampled_rates(splits, blocked=True) if some_blocked else np.zeros_like(drawn)
    found: list[Observed | None] = []
    for model in range(len(splits[0].rates)):
        parts = {part.split: part.known(model) for part in splits}
        if not all(len(rates) for rates, _, _ in parts.values()):
            found.append(None)
            continue
        rate, ends = pooled_rate(parts, level)
        assert ends.low is not None and ends.high is not None  # rates always have both
        share = float(np.mean([own[model][~np.isnan(own[model])].mean() for own in gone])) if some_blocked else 0.0
        size = sum(len(rates) for rates, _, _ in parts.values())
        own = (drawn[:, model], size, ends.n_clusters, share, drawn_blocked[:, model])
        found.append(Observed(rate, ends.low, ends.high, *own))
    return found


def resampled_rates(splits: Sequence[SplitRates], blocked: bool = False) -> Floats:
    """Return the mean over splits of each model's rate in resamples of clusters: resamples x models.

    Clusters have exponential weights (Bayesian bootstrap), the same for all models, and each split gets half a cluster
    of refusals and half a cluster of compliance (Jeffreys' prior), so that a rate of 0 is not certain. With `blocked`
    it is the share of blocked answers: the added halves do not count as blocked, and the draws are the same.
    """
    codes, groups = number_clusters([rates.clusters for rates in splits])
    values = [fill_rates(_shares_blocked(rates) if blocked else rates.rates) for rates in splits]
    sums = np.stack([cluster_sums(c, own, groups) for own, c in zip(values, codes, strict=True)], axis=1)
    sizes = np.array([len(code) / len(np.unique(code)) for code in codes])
    rng, found = np.random.default_rng(seed_of("corrected", *(rates.split for rates in splits))), []
    for rows in blocks(resamples_for(groups), groups):
        total = (rng.standard_exponential((rows, groups)) @ sums.reshape(groups, -1)).reshape(rows, *sums.shape[1:])
        extra = rng.gamma(_JEFFREYS, size=(2, rows, len(splits), 1)) * sizes[:, None]
        found.append(((total[:, :, 0] + (not blocked) * extra[0]) / (total[:, :, 1] + extra.sum(axis=0))).mean(axis=1))
    return np.concatenate(found)


def _shares_blocked(rates: SplitRates) -> Floats:
    """The share of blocked answers in each rate, NaN where there is none: models x rows."""
    with np.errstate(invalid="ignore"):
        return np.asarray(rates.blocked / rates.draws)


class _Rows(NamedTuple):
    classes: tuple[NDArray[np.bool_], NDArray[np.bool_]]  # refusals of people, and the others
    right: NDArray[np.bool_]
    clusters: Codes
    models: NDArray[Any]
    weights: Floats


def _share(rows: _Rows, mask: NDArray[np.bool_]) -> float:
    """Return the weighted share of rows that the judge reads as people do."""
    return math.fsum(rows.weights[rows.right & mask]) / math.fsum(rows.weights[mask])


def _names(rows: _Rows) -> list[str]:
    """Return the known answering models, sorted; unnamed rows may come from many."""
    return [str(name) for name in np.unique(rows.models) if name]


def _by_model(rows: _Rows) -> list[dict[str, Any]]:
    found = []
    for name in _names(rows):
        masks = [(rows.models == name) & of_class for of_class in rows.classes]
        counts = [int(mask.sum()) for mask in masks]
        if min(counts) >= MIN_ROWS:
            numbers = (*(_share(rows, mask) for mask in masks), *counts)
            names = ("sensitivity", "specificity", "n_positive", "n_negative")
            found.append({"answering_model": name, **dict(zip(names, numbers, strict=True))})
    return found


def _between(rows: _Rows, models: list[dict[str, Any]]) -> Floats | None:
    """Return the covariance of sensitivity and specificity between models, minus chance; None for one model.

    Chance is computed for the effective number of rows, (sum of w)^2 / sum of w^2.
    """
    if len(models) < 2:
        return None
    shares = np.array([[model["sensitivity"], model["specificity"]] for model in models])
    own = [rows.models == model["answering_model"] for model in models]
    counts = np.array([[effective_number(rows.weights[mask & c]) for c in rows.classes] for mask in own])
    means = shares.mean(axis=0)
    chance = (means * (1 - means) / counts).mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(shares.T) - np.diag(chance))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _draw(rows: _Rows, rng: np.random.Generator, resamples: int) -> Iterator[Floats]:
    """Yield sensitivity and specificity of resamples in blocks of 2 x resamples."""
    groups, names = int(rows.clusters.max()) + 1, _names(rows)
    named = rows.models != ""
    models = np.unique(rows.models[named], return_inverse=True)[1]
    columns = np.stack([part for own in rows.classes for part in (rows.right & own, own)], axis=1).astype(float)
    # Mean weight of the rows of a class in a cluster that has any.
    sizes = [math.fsum(rows.weights[own]) / len(np.unique(rows.clusters[own])) for own in rows.classes]
    for size in blocks(resamples, len(rows.models)):
        weights = rng.standard_exponential((size, groups))[:, rows.clusters] * rows.weights
        if len(names) > 1:
            weights[:, named] *= rng.standard_exponential((size, len(names)))[:, models]
        total = weights @ columns
        extra = rng.gamma(_JEFFREYS, size=(2, 2, size)) * np.array(sizes)[:, None, None]
        yield np.stack([(total[:, 2 * i] + extra[i, 0]) / (total[:, 2 * i + 1] + extra[i].sum(axis=0)) for i in (0, 1)])
