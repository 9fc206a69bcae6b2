"""Sensitivity and specificity of a judge on answers of a model that it was not measured on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from refusal_eval.stats.agreement.compared import compared
from refusal_eval.stats.agreement.weighting import effective_rows
from refusal_eval.stats.calibration.applied import Calibration, calibrated_row
from refusal_eval.stats.calibration.calibrated_card import OUT_OF_FOLD
from refusal_eval.stats.calibration.calibration_fit import cross_fits
from refusal_eval.stats.estimates.estimands import REFUSES, Row
from refusal_eval.stats.estimates.intervals import Codes, Floats
from refusal_eval.stats.estimates.resampling import blocks, cluster_codes

RESAMPLES = (2_000, 20_000)  # at least and at most
MIN_ROWS = 10  # of each class, for an answering model's own sensitivity and specificity
_DRAWN = 10_000_000  # weights of rows that are drawn in all, where that is between the two
_JEFFREYS = 0.5


@dataclasses.dataclass(frozen=True)
class ErrorRates:
    """What gold of other models says of a judge's errors.

    Attributes:
        sensitivity: share of people's refusals that the judge finds.
        specificity: share of the rest that it leaves alone.
        drawn: 2 x resamples, both for a new answering model.
        spread: standard deviations of both between answering models, beyond chance; None with less than two models.
        by_model: each answering model with at least ten rows of both classes: its name, counts, both shares.
        n: rows.
        n_clusters: their clusters.
    """

    sensitivity: float
    specificity: float
    drawn: Floats
    spread: tuple[float, float] | None
    by_model: tuple[dict[str, Any], ...]
    n: int
    n_clusters: int


def judged_gold(
    gold_rows: Sequence[Row], verdicts: Sequence[Row], gold: str, calibrate: str | Calibration | None = None
) -> pd.DataFrame:
    """Return the gold rows that the judge labelled, see `compared.compared`.

    Args:
        gold_rows: rows that people labelled.
        verdicts: the judge's verdicts on them, as it gave them.
        gold: name of the gold set.
        calibrate: None for a judge with a threshold of its own; the calibration of one that is calibrated on another
            gold set; `out_of_fold` for one that is calibrated on this one: the labels are those of the judge's card,
            from the headline scheme of `calibration_fit.cross_fits`. Where there is none there are no rows.
    """
    if calibrate == OUT_OF_FOLD:
        fits = cross_fits(compared(gold_rows, verdicts, gold))
        fitted = fits.of[fits.headline] or {} if fits.headline else {}
        verdicts = [calibrated_row(v, fitted[v["prompt_id"]]) for v in verdicts if v["prompt_id"] in fitted]
    elif calibrate is not None:
        assert not isinstance(calibrate, str)
        verdicts = [calibrated_row(verdict, calibrate) for verdict in verdicts]
    rows = compared(gold_rows, verdicts, gold)
    return rows[rows["machine"].notna()]


def error_rates(gold: pd.DataFrame, reading: str, seed: int, resamples: int | None = None) -> ErrorRates | None:
    """Return sensitivity and specificity with their uncertainty; None where people labelled no row of a class.

    Three things make them uncertain for a new model. Prompts and answering models are resampled together (Bayesian
    bootstrap: clusters and models have exponential weights, a row the product of its two, Owen 2007, Annals of Applied
    Statistics 1:386), with half a cluster of right and half a cluster of wrong rows of each class put in (Jeffreys'
    prior: a bootstrap cannot draw errors that the gold set happens to lack, and what it draws is clusters; with half a
    row a judge without an error on 10 clusters of 25 rows would be as certain as on 250 clusters). And a new model
    differs from the mean of models: to each resample comes a deviation with the covariance that answering models have
    beyond chance (method of moments), of a t distribution with as many degrees of freedom as there are models less one.

    Args:
        gold: rows that the judge labelled, of `judged_gold`.
        reading: `strict` or `broad`.
        seed: of the resamples.
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
    drawn = np.concatenate(list(_drawn(rows, rng, resamples)), axis=1)
    spread = None
    if covariance is not None:
        df = len(by_model) - 1
        deviations = rng.standard_normal((resamples, 2)) @ _root(covariance).T
        deviations *= np.sqrt(df / rng.chisquare(df, size=(resamples, 1)))
        drawn = np.clip(drawn + deviations.T, 0.0, 1.0)
        spread = (math.sqrt(covariance[0, 0]), math.sqrt(covariance[1, 1]))
    se, sp = (_share(rows, of_class) for of_class in rows.classes)
    return ErrorRates(se, sp, drawn, spread, tuple(by_model), len(gold), gold["cluster"].nunique())


class _Rows(NamedTuple):
    classes: tuple[NDArray[np.bool_], NDArray[np.bool_]]  # refusals of people, and the others
    right: NDArray[np.bool_]
    clusters: Codes
    models: NDArray[Any]
    weights: Floats


def _share(rows: _Rows, mask: NDArray[np.bool_]) -> float:
    """Share of some rows that the judge reads as people do."""
    return math.fsum(rows.weights[rows.right & mask]) / math.fsum(rows.weights[mask])


def _by_model(rows: _Rows) -> list[dict[str, Any]]:
    found = []
    for name in np.unique(rows.models).tolist():
        masks = [(rows.models == name) & of_class for of_class in rows.classes]
        counts = [int(mask.sum()) for mask in masks]
        if min(counts) >= MIN_ROWS:
            numbers = (*(_share(rows, mask) for mask in masks), *counts)
            names = ("sensitivity", "specificity", "n_positive", "n_negative")
            found.append({"answering_model": name, **dict(zip(names, numbers, strict=True))})
    return found


def _between(rows: _Rows, models: list[dict[str, Any]]) -> Floats | None:
    """Covariance of sensitivity and specificity between models, less what chance adds to it; None of one model.

    Chance is that of as many rows as the weights are worth, (sum of w)^2 / sum of w^2.
    """
    if len(models) < 2:
        return None
    shares = np.array([[model["sensitivity"], model["specificity"]] for model in models])
    own = [rows.models == model["answering_model"] for model in models]
    counts = np.array([[effective_rows(rows.weights[mask & c].tolist()) for c in rows.classes] for mask in own])
    means = shares.mean(axis=0)
    chance = (means * (1 - means) / counts).mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(shares.T) - np.diag(chance))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _drawn(rows: _Rows, rng: np.random.Generator, resamples: int) -> Iterator[Floats]:
    """Yield sensitivity and specificity of resamples in blocks of 2 x resamples."""
    groups, (names, models) = int(rows.clusters.max()) + 1, np.unique(rows.models, return_inverse=True)
    columns = np.stack([part for own in rows.classes for part in (rows.right & own, own)], axis=1).astype(float)
    # Mean weight of the rows of a class in a cluster that has any.
    sizes = [math.fsum(rows.weights[own]) / len(np.unique(rows.clusters[own])) for own in rows.classes]
    for size in blocks(resamples, len(models)):
        weights = rng.standard_exponential((size, groups))[:, rows.clusters] * rows.weights
        if len(names) > 1:
            weights *= rng.standard_exponential((size, len(names)))[:, models]
        total = weights @ columns
        extra = rng.gamma(_JEFFREYS, size=(2, 2, size)) * np.array(sizes)[:, None, None]
        yield np.stack([(total[:, 2 * i] + extra[i, 0]) / (total[:, 2 * i + 1] + extra[i].sum(axis=0)) for i in (0, 1)])
